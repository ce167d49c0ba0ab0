package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/redistest"
)

// TestLargeValuesInTransactions: a value above the stream threshold waits for EXEC like any other, also in a transaction
// that is longer than what a node takes before it answers to the first commands.
func TestLargeValuesInTransactions(t *testing.T) {
	t.Parallel()
	p := startProxy(t, standaloneYAML(redistest.Standalone(t).Addr()))
	c := redistest.Dial(t, p.Addr)
	value := strings.Repeat("v", 4<<20)
	send := func(key string, n int) {
		c.Send(fmt.Sprintf("*3\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$%d\r\n", len(key), key, n*len(value)))
		for range n {
			c.Send(value)
		}
		c.Send("\r\n")
	}
	for _, watch := range []string{"UNWATCH", "WATCH other"} {
		require.Equal(t, "+OK\r\n", string(c.Do(strings.Fields(watch)...)))
		require.Equal(t, "+OK\r\n", string(c.Do("MULTI")))
		for i := range 6 {
			send(fmt.Sprint("k", i), 1)
			c.RequireReply("+QUEUED\r\n")
		}
		require.Equal(t, ":0\r\n", string(redistest.Dial(t, p.Addr).Do("EXISTS", "k0")))
		require.Equal(t, "*6\r\n"+strings.Repeat("+OK\r\n", 6), string(c.Do("EXEC")))
		require.Equal(t, ":6\r\n", string(c.Do("DEL", "k0", "k1", "k2", "k3", "k4", "k5")))
	}

	require.Equal(t, "+OK\r\n", string(c.Do("MULTI")))
	send("k", 17)
	c.RequireReply("-ERR the transaction is longer than 64 MiB\r\n")
	require.Equal(t, "-EXECABORT Transaction discarded because of previous errors.\r\n", string(c.Do("EXEC")))
	require.Equal(t, ":0\r\n", string(c.Do("EXISTS", "k")))
}

// TestLargeValueWhileSubscribed is refused as any other command is in RESP2.
func TestLargeValueWhileSubscribed(t *testing.T) {
	t.Parallel()
	p := startProxy(t, standaloneYAML(redistest.Standalone(t).Addr()))
	c := redistest.Dial(t, p.Addr)
	c.Do("SUBSCRIBE", "ch")
	value := strings.Repeat("v", 4<<20)
	c.Send(fmt.Sprintf("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$%d\r\n", len(value)))
	c.Send(value + "\r\n")
	require.Contains(t, string(c.ReadReply()), "-ERR Can't execute 'set': only (P|S)SUBSCRIBE")
	require.Equal(t, ":0\r\n", string(redistest.Dial(t, p.Addr).Do("EXISTS", "k")))
}
