package e2e

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/redistest"
)

// TestGoneInTheMiddleOfATransaction: of a client that leaves before EXEC nothing is run; one that has only ended its own side
// gets all replies.
func TestGoneInTheMiddleOfATransaction(t *testing.T) {
	redistest.LeakCheck(t)
	p := startPair(t)
	batch := func(lines ...string) string {
		var b strings.Builder
		for _, line := range lines {
			b.WriteString(redistest.Command(words(t, line)...))
		}
		return b.String()
	}
	for _, watch := range []string{"PING", "WATCH k"} {
		c, _ := p.dial(t, 2)
		c.Send(batch(watch, "MULTI", "SET k 1", "CLIENT SETNAME x", "SUBSCRIBE ch", "INFO", "CONFIG GET maxmemory"))
		for range 7 {
			c.ReadReply()
		}
		c.Close()
		c, _ = p.dial(t, 2)
		c.Send(batch(watch, "MULTI", "INCR n", "INFO", "CLIENT LIST", "SUBSCRIBE ch", "EXEC"))
		c.Close() // perhaps in the middle of it
		half, _ := p.dial(t, 2)
		half.Send(batch(watch, "MULTI", "SET half 1", "CLIENT LIST", "CONFIG GET appendonly", "CLIENT SETNAME x", "GET half", "EXEC", "CLIENT GETNAME"))
		require.NoError(t, half.NetConn().(interface{ CloseWrite() error }).CloseWrite())
		for range 7 {
			half.ReadReply()
		}
		require.Regexp(t, `(?s)^\*5\r\n\+OK\r\n\$.*appendonly.*\+OK\r\n\$1\r\n1\r\n$`, string(half.ReadReply()))
		require.Equal(t, "$1\r\nx\r\n", string(half.ReadReply()))
		half.RequireClosed()
	}
	c, _ := p.dial(t, 2)
	require.Equal(t, "$-1\r\n", string(c.Do("GET", "k")))
	require.Eventually(t, func() bool { return string(c.Do("PUBSUB", "NUMSUB", "ch")) == "*2\r\n$2\r\nch\r\n:0\r\n" }, eventually, tick)
	require.Eventually(t, func() bool { return p.proxy.metric(t, "sluice_pinned_sessions", `reason="watch"`) == 0 }, eventually, tick)
}
