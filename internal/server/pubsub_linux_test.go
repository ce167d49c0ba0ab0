package server

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/session"
)

// TestSubscribersOfAllLoopsAreCounted: clients on two loops listen, and PUBLISH and PUBSUB tell their number.
func TestSubscribersOfAllLoopsAreCounted(t *testing.T) {
	redistest.LeakCheck(t)
	f := startFront(t, 0)
	publisher := redistest.Dial(t, f.addr)
	var clients []*redistest.Conn
	for i := range 6 {
		c := redistest.Dial(t, f.addr)
		clients = append(clients, c)
		c.Do("HELLO", "3")
		if i%2 == 0 {
			f.moveNewest(t, c)
		}
	}
	require.Equal(t, uint64(3), f.moved())
	for i, c := range clients {
		require.Contains(t, string(c.Do("SUBSCRIBE", "news")), "subscribe")
		require.Contains(t, string(c.Do("SSUBSCRIBE", "shard")), "subscribe")
		if i < 3 {
			require.Contains(t, string(c.Do("PSUBSCRIBE", "n*")), "subscribe")
		}
	}
	require.Equal(t, ":9\r\n", string(publisher.Do("PUBLISH", "news", "hello")), "six by the channel, three by the pattern")
	require.Equal(t, ":3\r\n", string(publisher.Do("PUBLISH", "new", "hello")))
	require.Equal(t, ":6\r\n", string(publisher.Do("SPUBLISH", "shard", "hello")))
	require.Equal(t, "*2\r\n$4\r\nnews\r\n:6\r\n", string(publisher.Do("PUBSUB", "NUMSUB", "news")))
	require.Equal(t, "*2\r\n$5\r\nshard\r\n:6\r\n", string(publisher.Do("PUBSUB", "SHARDNUMSUB", "shard")))
	require.Equal(t, ":1\r\n", string(publisher.Do("PUBSUB", "NUMPAT")))
	require.Equal(t, "*1\r\n$4\r\nnews\r\n", string(publisher.Do("PUBSUB", "CHANNELS")))
	for left := 5; left >= 0; left-- {
		clients[left].Close()
		require.Eventually(t, func() bool {
			return string(publisher.Do("PUBLISH", "news", "x")) == fmt.Sprintf(":%d\r\n", left+min(left, 3))
		}, 5*time.Second, 10*time.Millisecond)
	}
}

// moveNewest sends the client that has connected last to the other loop.
func (f *front) moveNewest(t *testing.T, c *redistest.Conn) {
	t.Helper()
	for i, w := range f.shared.Workers {
		asked := false
		w.Loop.Call(func() {
			w.Each(func(s *session.Session) {
				if !asked && w.Sessions() > 1 { // the newest is the first
					s.Move(f.shared.Workers[1-i])
					asked = true
				}
			})
		})
		if asked {
			break
		}
	}
	require.Equal(t, "+PONG\r\n", string(c.Do("PING")))
}
