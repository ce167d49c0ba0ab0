package e2e

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/redistest"
)

// blockedClients is what the server says of clients that wait in a blocking command.
func blockedClients(server *redistest.Server) string {
	_, rest, _ := strings.Cut(string(server.Do("INFO", "clients")), "blocked_clients:")
	number, _, _ := strings.Cut(rest, "\r\n")
	return number
}

// A session that finds all dedicated connections lent gets the next that is given back, and nobody overtakes it.
func TestDedicatedConnectionsAreWaitedForInTurn(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	p := startProxy(t, standaloneYAML(server.Addr(), "loops: 1", "dedicated: {max: 1, wait: 1h}", "clients: {idle_timeout: 1s}"))
	push := redistest.Dial(t, p.Addr)
	clients := make([]*redistest.Conn, 4)
	for i := range clients {
		clients[i] = redistest.Dial(t, p.Addr)
		clients[i].SendCommand("BLPOP", fmt.Sprint("list:", i), "0")
		await(t, func() bool {
			return blockedClients(server) == "1" && p.metric(t, "sluice_dedicated_waiting_sessions") == float64(i)
		})
	}
	clients[2].Close() // it waits no more
	await(t, func() bool { return p.metric(t, "sluice_dedicated_waiting_sessions") == 2 })
	for _, i := range []int{0, 1, 3} {
		require.Equal(t, ":1\r\n", string(push.Do("RPUSH", fmt.Sprint("list:", i), "element")))
		require.Equal(t, fmt.Sprintf("*2\r\n$6\r\nlist:%d\r\n$7\r\nelement\r\n", i), string(clients[i].ReadReply()))
		require.Equal(t, "+PONG\r\n", string(clients[i].Do("PING")))
	}
	require.Zero(t, p.metric(t, "sluice_dedicated_exhausted_total"))
}

func TestDedicatedConnectionsExhausted(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	p := startProxy(t, standaloneYAML(server.Addr(), "loops: 1", "dedicated: {max: 1, wait: 50ms}"))
	first, second := redistest.Dial(t, p.Addr), redistest.Dial(t, p.Addr)
	first.SendCommand("BLPOP", "l", "0")
	await(t, func() bool { return blockedClients(server) == "1" })
	const exhausted = "-ERR too many connections to this node are in use by blocked and watching clients; try again\r\n"
	require.Equal(t, exhausted, string(second.Do("BLPOP", "m", "0")))
	require.Equal(t, exhausted, string(second.Do("WATCH", "k")))
	require.EqualValues(t, 2, p.metric(t, "sluice_dedicated_exhausted_total"))
	require.Equal(t, "+OK\r\n", string(second.Do("SET", "k", "v")), "other commands need none")
	second.Do("RPUSH", "l", "x")
	require.Contains(t, string(first.ReadReply()), "x")
	require.Equal(t, "+OK\r\n", string(second.Do("WATCH", "k")))
}

func TestIdleDedicatedConnections(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	p := startProxy(t, standaloneYAML(server.Addr(), "loops: 1", "dedicated: {min: 2, idle_timeout: 100ms}"))
	clients := make([]*redistest.Conn, 5)
	for i := range clients {
		clients[i] = redistest.Dial(t, p.Addr)
		require.Equal(t, "+OK\r\n", string(clients[i].Do("WATCH", "k")))
	}
	require.EqualValues(t, 5, p.metric(t, "sluice_dedicated_connections"))
	for _, c := range clients {
		require.Equal(t, "+OK\r\n", string(c.Do("UNWATCH")))
	}
	await(t, func() bool { return p.metric(t, "sluice_dedicated_idle_connections") == 2 })
	require.Zero(t, p.metric(t, "sluice_dedicated_connections"))
}

// A client that ends its side before its blocking command is begun has nobody to take what would come.
func TestBlockingCommandBeforeTheEnd(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	p := startProxy(t, standaloneYAML(server.Addr()))
	for range 50 {
		c := redistest.Dial(t, p.Addr)
		c.Send("SET k v\r\nBLPOP nothing 0\r\n")
		require.NoError(t, c.NetConn().(*net.TCPConn).CloseWrite())
		_, _ = io.ReadAll(c.NetConn())
	}
	await(t, func() bool { return blockedClients(server) == "0" && p.metric(t, "sluice_dedicated_connections") == 0 })
}

// A connection that is lost while it is made clean is given back all the same.
func TestDedicatedConnectionLostOnItsWayBack(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	p := startProxy(t, standaloneYAML(server.Addr()))
	c := redistest.Dial(t, p.Addr)
	require.Equal(t, "+OK\r\n", string(c.Do("WATCH", "k")))
	server.Stop()
	require.Equal(t, "+OK\r\n", string(c.Do("UNWATCH")))
	require.EqualValues(t, 1, p.metric(t, "sluice_dedicated_connections"))
	server.Kill()
	await(t, func() bool { return p.metric(t, "sluice_dedicated_connections") == 0 })
	require.Zero(t, p.metric(t, "sluice_pinned_sessions"))
}

// load is a number of commands shared out to clients that work side by side.
func load(clients, commands int, work func(client, n int)) {
	var all sync.WaitGroup
	for client := range clients {
		all.Go(func() { work(client, commands/clients) })
	}
	all.Wait()
}

// footprint is what a proxy and its backend must return to.
type footprint struct{ connections, goroutines, heap int }

func footprintOf(server *redistest.Server) footprint {
	runtime.GC()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	return footprint{connectedClients(server), runtime.NumGoroutine(), int(memory.HeapAlloc)}
}

// heapSlack is what tables and buffers may have grown by, once for ever.
const heapSlack = 4 << 20

// testConnSize is what the test's own end of a connection keeps until the test ends.
const testConnSize = 8 << 10

// requireFootprint waits until no more is in use than before.
func requireFootprint(t *testing.T, server *redistest.Server, before footprint, dialled int) {
	t.Helper()
	slack := heapSlack + dialled*testConnSize
	var now footprint
	require.Eventually(t, func() bool {
		now = footprintOf(server)
		now.goroutines-- // which this runs on
		return now.connections <= before.connections && now.goroutines <= before.goroutines && now.heap <= before.heap+slack
	}, eventually, tick, "before %+v, now %+v", before, &now)
}

// TestPinnedLoad runs transactions with and without WATCH and blocking pops by the ten thousand: the number of backend
// connections stays flat, and all of it is given back.
func TestPinnedLoad(t *testing.T) {
	redistest.LeakCheck(t)
	server := redistest.Standalone(t)
	p := startProxy(t, standaloneYAML(server.Addr(), "dedicated: {idle_timeout: 200ms}", "pipes: {idle_timeout: 1s}"))
	const clients, batch = 20, 50
	dial := func() []*redistest.Conn {
		all := make([]*redistest.Conn, clients)
		for i := range all {
			all[i] = redistest.Dial(t, p.Addr)
			all[i].Do("PING")
		}
		return all
	}
	warm := dial()
	load(clients, clients, func(client, _ int) { warm[client].Do("SET", "warm", "up") })
	before := footprintOf(server)

	t.Run("100,000 transactions", func(t *testing.T) {
		load(clients, 100_000, func(client, n int) {
			c := warm[client]
			for range n / batch {
				c.Send(strings.Repeat("MULTI\r\nINCR transactions\r\nEXEC\r\n", batch))
				for range batch {
					c.ReadReply()
					c.ReadReply()
					c.ReadReply()
				}
			}
		})
		require.Equal(t, "$6\r\n100000\r\n", string(server.Do("GET", "transactions")))
		require.LessOrEqual(t, connectedClients(server), before.connections+3, "MULTI alone needs no connection of its own")
	})
	t.Run("5,000 transactions with WATCH", func(t *testing.T) {
		load(clients, 5_000, func(client, n int) {
			c, key := warm[client], fmt.Sprint("watched:", client)
			for range n {
				c.Send("WATCH " + key + "\r\nMULTI\r\nINCR " + key + "\r\nEXEC\r\n")
				for range 4 {
					c.ReadReply()
				}
			}
		})
		for client := range clients {
			require.Equal(t, "$3\r\n250\r\n", string(server.Do("GET", fmt.Sprint("watched:", client))))
		}
		require.LessOrEqual(t, connectedClients(server), before.connections+clients+3)
	})
	t.Run("100,000 blocking pops", func(t *testing.T) {
		load(clients, 100_000, func(client, n int) {
			c, key := warm[client], fmt.Sprint("list:", client)
			for range n / batch {
				c.Send(strings.Repeat("RPUSH "+key+" x\r\nBLPOP "+key+" 0\r\n", batch))
				for range batch {
					c.ReadReply()
					if reply := string(c.ReadReply()); !strings.HasPrefix(reply, "*2") {
						t.Errorf("BLPOP: %q", reply)
						return
					}
				}
			}
		})
		require.LessOrEqual(t, connectedClients(server), before.connections+clients+3)
	})
	requireFootprint(t, server, before, 0)
	require.Zero(t, p.metric(t, "sluice_pinned_sessions"))
}

// TestThousandBlockedClientsKilled cuts a thousand clients off while they are blocked: nothing of them is left, and no
// element goes to one that had left.
func TestThousandBlockedClientsKilled(t *testing.T) {
	redistest.LeakCheck(t)
	const clients = 1000
	server := redistest.Standalone(t)
	p := startProxy(t, standaloneYAML(server.Addr(), "dedicated: {idle_timeout: 200ms}", "pipes: {idle_timeout: 1s}"))
	load(16, 16, func(int, int) { redistest.Dial(t, p.Addr).Do("GET", "k") }) // a pipe for every loop
	before := footprintOf(server)
	all := make([]*redistest.Conn, clients)
	for i := range all {
		all[i] = redistest.Dial(t, p.Addr)
		all[i].SendCommand("BLPOP", "queue", "0")
	}
	await(t, func() bool { return blockedClients(server) == fmt.Sprint(clients) })
	for _, c := range all {
		abort(c)
	}
	await(t, func() bool { return blockedClients(server) == "0" })
	for i := range clients {
		require.Equal(t, fmt.Sprintf(":%d\r\n", i+1), string(server.Do("RPUSH", "queue", "element")))
	}
	requireFootprint(t, server, before, clients)
}

// TestElementsOfKilledClients cuts blocked clients off while elements come, directly and through the proxy. Each client
// that is cut off may take one element with it, because its reply was on the way; every other element is delivered once.
func TestElementsOfKilledClients(t *testing.T) {
	redistest.LeakCheck(t)
	server := redistest.Standalone(t)
	p := startProxy(t, standaloneYAML(server.Addr()))
	direct := lostToKilledClients(t, server, server.Addr())
	through := lostToKilledClients(t, server, p.Addr)
	t.Logf("elements lost with clients that were cut off: %d directly, %d through the proxy", direct, through)
}

func lostToKilledClients(t *testing.T, server *redistest.Server, addr string) (lost int) {
	t.Helper()
	const clients = 50
	rounds := full(20, 100)
	var pushed, got, killed int
	for round := range rounds {
		queue := fmt.Sprint("queue:", addr, round)
		all := make([]*redistest.Conn, clients)
		for i := range all {
			all[i] = redistest.Dial(t, addr)
			all[i].SendCommand("BLPOP", queue, "0")
		}
		await(t, func() bool { return blockedClients(server) == fmt.Sprint(clients) })
		doomed := rand.Perm(clients)[:clients/2]
		var cut sync.WaitGroup
		cut.Go(func() {
			for _, i := range doomed {
				abort(all[i])
			}
		})
		for i := range clients {
			require.NotEqual(t, byte('-'), server.Do("RPUSH", queue, fmt.Sprint(i))[0])
			pushed++
		}
		cut.Wait()
		killed += len(doomed)
		seen := make(map[string]bool)
		for i, c := range all {
			if !slices.Contains(doomed, i) {
				reply := string(c.ReadReply())
				require.False(t, seen[reply], "delivered twice: %q", reply)
				seen[reply] = true
				got++
				c.Close()
			}
		}
		await(t, func() bool { return blockedClients(server) == "0" })
		left := 0
		for reply := server.Do("LPOP", queue); string(reply) != "$-1\r\n"; reply = server.Do("LPOP", queue) {
			left++
		}
		got += left
	}
	require.LessOrEqual(t, pushed-got, killed)
	require.GreaterOrEqual(t, pushed, got)
	return pushed - got
}

// abort resets a connection, as the end of a process with unread input does.
func abort(c *redistest.Conn) {
	_ = c.NetConn().(*net.TCPConn).SetLinger(0)
	c.Close()
}
