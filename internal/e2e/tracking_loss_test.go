package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/redistest"
)

const (
	invalidateAll = ">2\r\n$10\r\ninvalidate\r\n_\r\n"
	invalidateKey = ">2\r\n$10\r\ninvalidate\r\n*1\r\n$%d\r\n%s\r\n"
)

func invalidation(key string) string { return fmt.Sprintf(invalidateKey, len(key), key) }

// TestInvalidationsReachTheirSessionOnly has several clients read different keys.
func TestInvalidationsReachTheirSessionOnly(t *testing.T) {
	t.Parallel()
	p := startPair(t, "loops: 2")
	before := connectedClients(p.backend)
	var clients [8]*redistest.Conn
	for i := range clients {
		clients[i] = hello(t, p.proxy.Addr, 3)
		require.Equal(t, "+OK\r\n", string(clients[i].Do("CLIENT", "TRACKING", "ON")))
		clients[i].Do("GET", fmt.Sprint("k", i))
	}
	require.GreaterOrEqual(t, connectedClients(p.backend), before+len(clients))
	writer := redistest.Dial(t, p.proxy.Addr)
	for i := range clients {
		require.Equal(t, "+OK\r\n", string(writer.Do("SET", fmt.Sprint("k", i), "1")))
	}
	for i, c := range clients {
		require.Equal(t, invalidation(fmt.Sprint("k", i)), string(c.ReadReply()))
		require.Equal(t, "+PONG\r\n", string(c.Do("PING")))
	}
	require.EqualValues(t, 8, p.proxy.metric(t, "sluice_pinned_sessions", `reason="tracking"`))
	for i, c := range clients {
		if i%2 == 0 {
			require.Equal(t, "+OK\r\n", string(c.Do("CLIENT", "TRACKING", "OFF")))
		} else {
			c.Close()
		}
	}
	await(t, func() bool { return p.proxy.metric(t, "sluice_pinned_sessions", `reason="tracking"`) == 0 })
	await(t, func() bool { return connectedClients(p.backend) <= before+2 }) // a shared connection of each loop
}

// TestLostConnectionsFlushTheClientsCache kills the connections on which a node tracks.
func TestLostConnectionsFlushTheClientsCache(t *testing.T) {
	t.Parallel()
	backend := redistest.Standalone(t)
	p := startProxy(t, standaloneYAML(backend.Addr()))
	p.awaitReady(t)
	for _, mode := range []string{"", "BCAST", "OPTIN", "NOLOOP"} {
		t.Run(mode, func(t *testing.T) {
			c := hello(t, p.Addr, 3)
			defer c.Close()
			c.Do(strings.Fields("CLIENT TRACKING ON " + mode)...)
			read := func() {
				if mode == "OPTIN" {
					require.Equal(t, "+OK\r\n", string(c.Do("CLIENT", "CACHING", "YES")))
				}
				c.SendCommand("GET", "k")
				reply := c.ReadReply()
				for reply[0] == '>' { // a flush may come more than once
					reply = c.ReadReply()
				}
			}
			read()
			backend.Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
			require.Equal(t, invalidateAll, string(c.ReadReply()))
			if mode == "BCAST" { // again, when the node tracks again
				require.Equal(t, invalidateAll, string(c.ReadReply()))
			}
			read()
			backend.Do("SET", "k", "1")
			require.Equal(t, invalidation("k"), string(c.ReadReply()))
		})
	}
}

// TestLostConnectionsFlushTheCacheOfTheTarget kills either connection of a session that redirects.
func TestLostConnectionsFlushTheCacheOfTheTarget(t *testing.T) {
	t.Parallel()
	backend := redistest.Standalone(t)
	p := startProxy(t, standaloneYAML(backend.Addr()))
	p.awaitReady(t)
	c, target := redistest.Dial(t, p.Addr), redistest.Dial(t, p.Addr)
	id := strings.TrimSpace(string(target.Do("CLIENT", "ID")[1:]))
	target.Do("SUBSCRIBE", "__redis__:invalidate")
	require.Equal(t, "+OK\r\n", string(c.Do("CLIENT", "TRACKING", "ON", "REDIRECT", id)))
	head := "*3\r\n$7\r\nmessage\r\n$20\r\n__redis__:invalidate\r\n"
	for _, resp := range []string{"resp=2", "resp=3"} {
		c.Do("GET", "k")
		killed := 0
		for _, line := range strings.Split(string(backend.Do("CLIENT", "LIST")), "\n") {
			isTracking := resp == "resp=2" && strings.Contains(line, "flags=t") || resp == "resp=3" && strings.Contains(line, resp)
			if isTracking {
				backend.Do("CLIENT", "KILL", "ID", strings.TrimPrefix(strings.Fields(line)[0], "id="))
				killed++
			}
		}
		require.Equal(t, 1, killed)
		require.Equal(t, head+"$-1\r\n", string(target.ReadReply()))
		require.Equal(t, "$-1\r\n", string(c.Do("GET", "k")))
		backend.Do("SET", "k", "1")
		require.Equal(t, head+"*1\r\n$1\r\nk\r\n", string(target.ReadReply()))
		backend.Do("DEL", "k")
	}
}

// TestWatchDoesNotOutliveALostConnection loses the connection between WATCH and EXEC.
func TestWatchDoesNotOutliveALostConnection(t *testing.T) {
	t.Parallel()
	backend := redistest.Standalone(t)
	p := startProxy(t, standaloneYAML(backend.Addr()))
	p.awaitReady(t)
	c := hello(t, p.Addr, 3)
	c.Do("CLIENT", "TRACKING", "ON")
	require.Equal(t, "+OK\r\n", string(c.Do("WATCH", "k")))
	backend.Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	require.Equal(t, invalidateAll, string(c.ReadReply()))
	c.Do("MULTI")
	c.Do("SET", "k", "mine")
	require.Contains(t, string(c.Do("EXEC")), "not executed")
	require.Equal(t, "$-1\r\n", string(backend.Do("GET", "k")))
	require.Equal(t, "+OK\r\n", string(c.Do("SET", "k", "2")))
}

// TestTrackingSessionsAreBounded wants more connections than a node may have.
func TestTrackingSessionsAreBounded(t *testing.T) {
	t.Parallel()
	backend := redistest.Standalone(t)
	p := startProxy(t, standaloneYAML(backend.Addr(), "loops: 1", "dedicated: {max: 2, wait: 50ms}"))
	p.awaitReady(t)
	var clients [3]*redistest.Conn
	for i := range clients {
		clients[i] = hello(t, p.Addr, 3)
	}
	for _, c := range clients[:2] {
		require.Equal(t, "+OK\r\n", string(c.Do("CLIENT", "TRACKING", "ON")))
	}
	require.Contains(t, string(clients[2].Do("CLIENT", "TRACKING", "ON")), "too many connections to this node")
	require.Equal(t, "_\r\n", string(clients[2].Do("GET", "k")), "it goes on without")
	clients[0].Close()
	await(t, func() bool { return string(clients[2].Do("CLIENT", "TRACKING", "ON")) == "+OK\r\n" })
}

// TestBroadcastsStayWithTheirTenant has two tenants share a server, which tells a broadcasting client of all databases.
func TestBroadcastsStayWithTheirTenant(t *testing.T) {
	t.Parallel()
	backend := redistest.Standalone(t)
	p := startProxy(t, fmt.Sprintf(`
listeners: [{address: "127.0.0.1:0", tenant: one}, {address: "127.0.0.1:0", tenant: two}]
admin: {address: "127.0.0.1:0"}
clusters: [{name: main, kind: standalone, addresses: ["%s"]}]
tenants: [{name: one, cluster: main, databases: [0]}, {name: two, cluster: main, databases: [1]}]
`, backend.Addr()))
	p.awaitReady(t)
	one, two := hello(t, p.Addresses()[0].String(), 3), hello(t, p.Addresses()[1].String(), 3)
	require.Contains(t, string(one.Do("CLIENT", "TRACKING", "ON", "BCAST")), "NOPERM")
	require.Equal(t, "+OK\r\n", string(one.Do("CLIENT", "TRACKING", "ON")))
	id := strings.TrimSpace(string(one.Do("CLIENT", "ID")[1:]))
	require.Contains(t, string(two.Do("CLIENT", "TRACKING", "ON", "REDIRECT", id)), "does not exist")
}

// TestLargeValuesOfATrackingClient sends and gets a value that is streamed, over the connection that tracks.
func TestLargeValuesOfATrackingClient(t *testing.T) {
	t.Parallel()
	p := startPair(t)
	value := strings.Repeat("v", 3<<20)
	play := func(addr string, writer *redistest.Server) string {
		c := hello(t, addr, 3)
		defer c.Close()
		heard := string(c.Do("CLIENT", "TRACKING", "ON", "NOLOOP"))
		heard += string(c.Do("GET", "k")) + string(c.Do("SET", "k", value)) + string(c.Do("GET", "k"))
		writer.Do("SET", "k", "1")
		heard += string(c.ReadReply())
		c.Do("CLIENT", "TRACKING", "OFF")
		heard += string(c.Do("CLIENT", "TRACKING", "ON", "OPTIN")) + string(c.Do("CLIENT", "CACHING", "YES")) + string(c.Do("SET", "k", value)) + string(c.Do("GET", "k"))
		writer.Do("DEL", "k")
		return heard + string(c.Do("PING"))
	}
	require.True(t, play(p.direct.Addr(), p.direct) == play(p.proxy.Addr, p.backend))
}
