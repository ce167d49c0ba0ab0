package e2e

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/redistest"
)

// TestRefusedInTransactions: what docs/transactions.md lists is refused when it is queued, and EXEC aborts.
func TestRefusedInTransactions(t *testing.T) {
	redistest.LeakCheck(t)
	p := startPair(t)
	c, _ := p.dial(t, 2)
	refused := func(line, want string) {
		t.Helper()
		require.Equal(t, "+OK\r\n", string(c.Do("MULTI")))
		require.Regexp(t, want, string(c.Do(strings.Fields(line)...)), line)
		require.Regexp(t, "^-EXECABORT ", string(c.Do("EXEC")))
	}
	refused("CLIENT TRACKING ON", "^-ERR CLIENT TRACKING inside MULTI is not supported by this proxy")
	refused("HELLO 3 AUTH default x", "^-ERR HELLO with AUTH and another protocol version inside MULTI ")
	refused("CONFIG SET maxmemory 0", "^-NOPERM 'config\\|set' ")
	require.Equal(t, "+OK\r\n", string(c.Do("WATCH", "k")))
	require.Regexp(t, "^-ERR HELLO with another protocol version between WATCH and EXEC ", string(c.Do("HELLO", "3", "AUTH", "default", "x")))
	require.Regexp(t, "^-ERR 'client\\|tracking' between WATCH and EXEC ", string(c.Do("CLIENT", "TRACKING", "ON")))
	require.Equal(t, "+OK\r\n", string(c.Do("UNWATCH")))
	require.Equal(t, byte('%'), c.Do("HELLO", "3")[0])
	require.Equal(t, "+OK\r\n", string(c.Do("CLIENT", "TRACKING", "ON")))
	refused("HELLO 2", "^-ERR HELLO with another protocol version inside MULTI is not supported by this proxy while CLIENT TRACKING is on")
	require.Equal(t, "+OK\r\n", string(c.Do("WATCH", "k")))
	require.Regexp(t, "^-ERR HELLO with another protocol version between WATCH and EXEC ", string(c.Do("HELLO", "2")))
	require.Equal(t, "+OK\r\n", string(c.Do("MULTI")))
	require.Equal(t, "+QUEUED\r\n", string(c.Do("HELLO", "3", "SETNAME", "me")))
	require.Equal(t, "+QUEUED\r\n", string(c.Do("CLIENT", "GETNAME")))
	require.Regexp(t, `^\*2\r\n%7\r\n(?s:.*)\$2\r\nme\r\n$`, string(c.Do("EXEC")))
}
