package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/redistest"
)

// TestInvalidationStaysBehindItsRead: the reply of one node waits for that of another. A message about it that overtook it
// would leave the client with a value that it is never told to forget.
func TestInvalidationStaysBehindItsRead(t *testing.T) {
	t.Parallel()
	servers := redistest.Cluster(t, 2, 0)
	p := clusterProxy(t, servers, "")
	slow, fast := servers.Primaries[0], servers.Primaries[1]
	key := func(at *redistest.Server) string {
		for i := 0; ; i++ {
			if name := fmt.Sprint("k", i); servers.NodeFor(name) == at {
				return name
			}
		}
	}
	first, second := key(slow), key(fast)
	writer := redistest.Dial(t, fast.Addr())
	require.Equal(t, "+OK\r\n", string(slow.Do("SET", first, "one")))
	require.Equal(t, "+OK\r\n", string(writer.Do("SET", second, "two")))
	c := hello(t, p.Addr, 3)
	require.Equal(t, "+OK\r\n", string(c.Do("CLIENT", "TRACKING", "ON")))
	c.Do("MGET", first, second) // its connections are there
	require.Equal(t, "+OK\r\n", string(writer.Do("SET", second, "three")))
	require.Equal(t, invalidation(second), string(c.ReadReply()))

	slow.Stop()
	c.Send(redistest.Command("GET", first) + redistest.Command("GET", second))
	require.Eventually(t, func() bool { return trackedKeys(fast) > 0 }, eventually, tick)
	require.Equal(t, "+OK\r\n", string(writer.Do("SET", second, "four")))
	require.Eventually(t, func() bool { return trackedKeys(fast) == 0 }, eventually, tick)
	slow.Continue()
	c.RequireReply(bulk("one"))
	c.RequireReply(bulk("three"))
	c.RequireReply(invalidation(second))
	require.Equal(t, bulk("four"), string(c.Do("GET", second)))
}

// trackedKeys is how many keys the server would tell somebody of.
func trackedKeys(server *redistest.Server) (n int) {
	_, rest, _ := strings.Cut(string(server.Do("INFO", "stats")), "tracking_total_keys:")
	_, _ = fmt.Sscan(rest, &n)
	return n
}

// TestRedirectTargetOfAnotherTenant: a client that becomes another tenant's hears no more of this one's keys, and who
// redirects to it is told as of a client that is gone.
func TestRedirectTargetOfAnotherTenant(t *testing.T) {
	t.Parallel()
	p := twoTenants(t)
	c, target, writer := login(t, p, "ann", 3), login(t, p, "bob", 3), login(t, p, "bob", 2)
	spread(t, p, c, target, writer)
	id := fmt.Sprint(clientID(t, target))
	require.Equal(t, "+OK\r\n", string(c.Do("CLIENT", "TRACKING", "ON", "REDIRECT", id)))
	c.Do("GET", "k")
	writer.Do("SET", "k", "1")
	require.Equal(t, invalidation("k"), string(target.ReadReply()))

	c.Do("GET", "k")
	require.Equal(t, "+OK\r\n", string(target.Do("AUTH", "eve", "pw")))
	for _, w := range p.Shared().Workers {
		w.Loop.Call(func() {}) // the word of it has gone from loop to loop
	}
	writer.Do("SET", "k", "2")
	require.Equal(t, ">2\r\n$21\r\ntracking-redir-broken\r\n:"+id+"\r\n", string(c.ReadReply()))
	require.Equal(t, "+PONG\r\n", string(target.Do("PING")), "nothing of the other tenant's has come")
}

// TestTrackingClientsThatBlock compares what a client hears that tracks and is blocked, on the same connections.
func TestTrackingClientsThatBlock(t *testing.T) {
	t.Parallel()
	p := startPair(t)
	play := func(addr string, server *redistest.Server) (heard string) {
		c := hello(t, addr, 3)
		c.Do("CLIENT", "TRACKING", "ON")
		heard += string(c.Do("GET", "k"))
		c.SendCommand("BLPOP", "l", "0")
		await(t, func() bool { return blockedClients(server) == "1" })
		server.Do("SET", "k", "1")
		heard += string(c.ReadReply()) // while it is blocked
		server.Do("RPUSH", "l", "a")
		heard += string(c.ReadReply()) + string(c.Do("GET", "k")) + string(c.Do("RESET"))
		server.Do("SET", "k", "2")
		heard += string(c.Do("HELLO", "3")[:1]) + string(c.Do("GET", "k")) + string(c.Do("CLIENT", "TRACKINGINFO"))

		// A client that is cut off while it is blocked takes no element along.
		c.Do("CLIENT", "TRACKING", "ON")
		c.Do("GET", "k")
		c.SendCommand("BLPOP", "l", "0")
		await(t, func() bool { return blockedClients(server) == "1" })
		abort(c)
		await(t, func() bool { return blockedClients(server) == "0" })
		heard += string(server.Do("RPUSH", "l", "b"))
		server.Do("SET", "k", "3")
		return heard + string(server.Do("LPOP", "l"))
	}
	want := play(p.direct.Addr(), p.direct)
	require.Contains(t, want, "invalidate")
	require.Equal(t, want, play(p.proxy.Addr, p.backend))
	require.Eventually(t, func() bool { return p.proxy.metric(t, "sluice_pinned_sessions") == 0 }, eventually, tick)
}
