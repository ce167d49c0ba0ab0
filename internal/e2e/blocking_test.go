package e2e

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/redistest"
)

// connectedClients counts the server's connections, the one that asks included.
func connectedClients(server *redistest.Server) int {
	return strings.Count(string(server.Do("CLIENT", "LIST")), "\nid=") + 1
}

func TestBlockingPops(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	p := startProxy(t, standaloneYAML(server.Addr(), "clients: {idle_timeout: 1s}"))
	pushes := redistest.Dial(t, p.Addr)
	for _, hello := range []string{"2", "3"} {
		waits := redistest.Dial(t, p.Addr)
		waits.Do("HELLO", hello)
		for _, blocking := range []string{"BLPOP l 0", "BRPOP l 0", "BLMOVE l m LEFT RIGHT 0", "BRPOPLPUSH l m 0", "BLMPOP 0 1 l LEFT", "BZPOPMIN z 0", "BZMPOP 0 1 z MIN", "XREAD BLOCK 0 STREAMS x $"} {
			waits.SendCommand(strings.Fields(blocking)...)
			await(t, func() bool { return strings.Contains(string(server.Do("INFO", "clients")), "blocked_clients:1") })
			switch {
			case strings.Contains(blocking, " z "):
				pushes.Do("ZADD", "z", "1", "element")
			case strings.Contains(blocking, "XREAD"):
				pushes.Do("XADD", "x", "*", "field", "element")
			default:
				pushes.Do("RPUSH", "l", "element")
			}
			require.Contains(t, string(waits.ReadReply()), "element", blocking)
			require.Equal(t, "+PONG\r\n", string(waits.Do("PING")))
		}
		waits.Close()
	}
}

func await(t *testing.T, condition func() bool) {
	t.Helper()
	require.Eventually(t, condition, eventually, tick)
}

func TestBlockedClientThatLeavesFreesItsConnection(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	p := startProxy(t, standaloneYAML(server.Addr()))
	redistest.Dial(t, p.Addr).Do("PING")
	for range 20 {
		c := redistest.Dial(t, p.Addr)
		c.SendCommand("BLPOP", "nothing", "0")
		await(t, func() bool { return strings.Contains(string(server.Do("INFO", "clients")), "blocked_clients:1") })
		c.Close()
		await(t, func() bool { return strings.Contains(string(server.Do("INFO", "clients")), "blocked_clients:0") })
	}
	require.Equal(t, ":1\r\n", string(server.Do("RPUSH", "nothing", "kept")))
	require.Equal(t, ":1\r\n", string(server.Do("LLEN", "nothing")))
}

func TestClientUnblock(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	p := startProxy(t, standaloneYAML(server.Addr()))
	blocked, other := redistest.Dial(t, p.Addr), redistest.Dial(t, p.Addr)
	id := strings.Trim(string(blocked.Do("CLIENT", "ID")), ":\r\n")
	for how, want := range map[string]string{"TIMEOUT": "*-1\r\n", "ERROR": "-UNBLOCKED client unblocked via CLIENT UNBLOCK\r\n"} {
		blocked.SendCommand("BLPOP", "nothing", "0")
		await(t, func() bool { return string(other.Do("CLIENT", "UNBLOCK", id, how)) == ":1\r\n" })
		require.Equal(t, want, string(blocked.ReadReply()))
	}
	require.Equal(t, ":0\r\n", string(other.Do("CLIENT", "UNBLOCK", id)))
	require.Equal(t, ":0\r\n", string(other.Do("CLIENT", "UNBLOCK", "999999")))
}

func TestWaitCountsTheSessionsWrites(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	p := startProxy(t, standaloneYAML(server.Addr()))
	c := redistest.Dial(t, p.Addr)
	c.Do("SET", "k", "v")
	require.Equal(t, ":0\r\n", string(c.Do("WAIT", "0", "10")))
	require.Equal(t, ":0\r\n", string(c.Do("WAIT", "1", "10")))
}

// TestTransactionsKeepConnectionsFlat runs many transactions, watching and not, from many clients.
func TestTransactionsKeepConnectionsFlat(t *testing.T) {
	server := redistest.Standalone(t)
	p := startProxy(t, standaloneYAML(server.Addr(), "loops: 1"))
	const clients, each = 10, 100
	conns := make([]*redistest.Conn, clients)
	for i := range conns {
		conns[i] = redistest.Dial(t, p.Addr)
	}
	p.awaitReady(t)
	conns[0].Do("GET", "k") // opens the shared pipe
	before := connectedClients(server)
	var running sync.WaitGroup
	failures := make(chan string, clients)
	for i, c := range conns {
		running.Go(func() {
			key := fmt.Sprint("counter", i)
			for n := range each {
				lines := []string{"WATCH " + key, "GET " + key, "MULTI", "INCR " + key, "EXEC"}
				want := fmt.Sprintf("*1\r\n:%d\r\n", n+1)
				var got []byte
				for _, line := range lines {
					var err error
					if got, err = c.TryDo(strings.Fields(line)...); err != nil {
						failures <- err.Error()
						return
					}
				}
				if string(got) != want {
					failures <- fmt.Sprintf("%s: got %q, want %q", key, got, want)
					return
				}
			}
		})
	}
	running.Wait()
	close(failures)
	for failure := range failures {
		t.Error(failure)
	}
	require.LessOrEqual(t, connectedClients(server), before+clients, "one connection for each client that watches, however many transactions")
}

func TestTransactionsOnACluster(t *testing.T) {
	t.Parallel()
	servers := redistest.Cluster(t, 3, 0)
	p := startProxy(t, clusterYAML(servers.Addrs()))
	c := redistest.Dial(t, p.Addr)
	await(t, func() bool { return string(c.Do("SET", "a", "1")) == "+OK\r\n" })
	dialogue := [][2]string{
		{"MULTI", "+OK\r\n"},
		{"SET {a}1 x", "+QUEUED\r\n"},
		{"MGET {a}1 {a}2", "+QUEUED\r\n"},
		{"EXEC", "*2\r\n+OK\r\n*2\r\n$1\r\nx\r\n$-1\r\n"},
		{"MULTI", "+OK\r\n"},
		{"SET a 1", "+QUEUED\r\n"},
		{"SET b 1", "-CROSSSLOT Keys in request don't hash to the same slot\r\n"},
		{"EXEC", "-EXECABORT Transaction discarded because of previous errors.\r\n"},
		{"WATCH b", "+OK\r\n"},
		{"MULTI", "+OK\r\n"},
		{"SET b 2", "+QUEUED\r\n"},
		{"EXEC", "*1\r\n+OK\r\n"},
		{"WATCH b", "+OK\r\n"},
		{"SET b 3", "+OK\r\n"},
		{"MULTI", "+OK\r\n"},
		{"SET b 4", "+QUEUED\r\n"},
		{"EXEC", "*-1\r\n"},
		{"GET b", "$1\r\n3\r\n"},
	}
	for _, step := range dialogue {
		require.Equal(t, step[1], string(c.Do(strings.Fields(step[0])...)), step[0])
	}
}

// TestWaitFollowsAWrite: newer servers count from the last write on the connection, so the proxy makes one that changes
// nothing.
func TestWaitFollowsAWrite(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	p := startProxy(t, standaloneYAML(server.Addr()))
	c := redistest.Dial(t, p.Addr)
	require.Equal(t, "$3\r\nlib\r\n", string(c.Do("FUNCTION", "LOAD", "#!lua name=lib\nredis.register_function('f', function(keys, args) return 1 end)")))
	before := string(server.Do("FUNCTION", "DUMP"))
	require.Equal(t, ":0\r\n", string(c.Do("WAIT", "0", "10")))
	require.Regexp(t, `cmdstat_function\|restore:calls=1,.*rejected_calls=0,failed_calls=0\r\n`, string(server.Do("INFO", "commandstats")))
	require.Equal(t, before, string(server.Do("FUNCTION", "DUMP")))
	require.Equal(t, ":1\r\n", string(c.Do("FCALL", "f", "0")))
}
