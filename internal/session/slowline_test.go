package session

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/pkg/resp"
)

func encoded(args ...string) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, arg := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(arg), arg)
	}
	return []byte(b.String())
}

func TestSlowLineShowsTheLastCommandWithoutSecrets(t *testing.T) {
	request := append(encoded("CLIENT", "CACHING", "yes"), encoded("Hello", "3", "AUTH", "me", "secret")...)
	var line slowLine
	line.shorten(appendLastArgs(nil, request))
	require.Equal(t, []string{"Hello", "3", "AUTH", redacted, redacted}, line.args())

	kept := line.clone()
	line.shorten(resp.AppendArgs(nil, encoded("SET", "k", strings.Repeat("x", 130))))
	require.Equal(t, []string{"SET", "k", strings.Repeat("x", 128) + "... (2 more bytes)"}, line.args())
	require.Equal(t, "Hello", kept.args()[0], "what was cloned stays when its place is used again")
	line.set([]string{"EXEC", ""})
	require.Equal(t, []string{"EXEC", ""}, line.args())
}

// TestSlowCommandsAllocateNothing: a slow node makes every command slow, which must not make the proxy slow.
func TestSlowCommandsAllocateNothing(t *testing.T) {
	log, request, args := &slowlog{ids: new(atomic.Int64)}, encoded("MGET", "some:key", "another:key"), [][]byte(nil)
	note := func() {
		args = appendLastArgs(args[:0], request)
		log.next(4).line.shorten(args)
		args = dropLarge(args)
	}
	for range 8 {
		note()
	}
	require.Len(t, log.entries, 4)
	require.Zero(t, testing.AllocsPerRun(100, note))
}
