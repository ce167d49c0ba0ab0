package upstream

import (
	"crypto/sha1" //nolint:gosec // what Redis names scripts by
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestScriptsAreBounded: whatever is learned, no more than the bound is kept, and who learns too much forgets his own.
func TestScriptsAreBounded(t *testing.T) {
	var m Scripts
	modest, greedy := m.Of("modest"), m.Of("greedy")
	kept := modest.Learn([]byte("return 'modest'"))
	modest.Learn([]byte("return 'modest too'"))
	changes := modest.Changes()
	large := strings.Repeat("-", 1<<20)
	names := make([]string, 0, 40)
	for i := range 40 {
		names = append(names, greedy.Learn(fmt.Append(nil, i, large)).SHA)
		require.LessOrEqual(t, m.Bytes(), scriptsMax)
		greedy.Find(names[0]) // used all the time
	}
	require.Same(t, kept, modest.Find(kept.SHA))
	require.Equal(t, changes, modest.Changes())
	require.NotNil(t, greedy.Find(names[0]), "what is used is kept")
	require.Nil(t, greedy.Find(names[1]))
	require.NotNil(t, greedy.Find(names[39]))
	require.NotZero(t, greedy.Changes())

	greedy.Forget()
	require.Nil(t, greedy.Find(names[39]))
	require.Less(t, m.Bytes(), 1024)
}

func TestScriptsAreEachTenantsOwn(t *testing.T) {
	var m Scripts
	body := []byte("return 1")
	sum := sha1.Sum(body) //nolint:gosec // see the import
	one, other := m.Of("one"), m.Of("other")
	s := one.Learn(body)
	require.Equal(t, hex.EncodeToString(sum[:]), s.SHA)
	require.Same(t, s, one.Learn(body))
	require.Nil(t, other.Find(s.SHA))
	other.Forget()
	require.Same(t, s, one.Find(s.SHA))

	m.Keep(func(tenant string) bool { return tenant != "one" })
	require.Nil(t, one.Find(s.SHA))
	one.Learn(body) // by a session that does not know yet
	require.Zero(t, m.Bytes())
	require.NotSame(t, one, m.Of("one"))
	require.Same(t, other, m.Of("other"))
}
