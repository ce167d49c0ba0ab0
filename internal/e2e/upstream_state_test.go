package e2e

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/redistest"
)

// twoTenantsYAML is two tenants with a listener each on one server, with databases of their own.
func twoTenantsYAML(addr string) string {
	return fmt.Sprintf(`
listeners: [{address: "127.0.0.1:0", tenant: red}, {address: "127.0.0.1:0", tenant: blue}]
admin: {address: "127.0.0.1:0"}
loops: 2
clusters: [{name: main, kind: standalone, addresses: ["%s"]}]
tenants: [{name: red, cluster: main, databases: [0, 1, 2]}, {name: blue, cluster: main, databases: [5, 6]}]`, addr)
}

// selector is a client that goes from one of its databases to another and knows what is in each.
type selector struct {
	crowd     *crowd
	conn      *redistest.Conn
	name      string
	databases []int
	random    *rand.Rand
	large     bool
	stored    map[int]string
}

// run sends pipelines in which the database changes at any place.
func (s *selector) run() {
	s.stored = make(map[int]string)
	at := s.databases[0]
	for round := 0; round < 60 && !s.crowd.ended(); round++ {
		var packet strings.Builder
		var want []string
		for step := range 8 {
			if s.random.IntN(2) == 0 {
				at = s.databases[s.random.IntN(len(s.databases))]
				packet.WriteString(redistest.Command("SELECT", strconv.Itoa(at)))
				want = append(want, "+OK\r\n")
			}
			v := fmt.Sprintf("%s in %d, %d.%d", s.name, at, round, step)
			if s.large && s.random.IntN(20) == 0 {
				v += strings.Repeat("x", 600_000) // goes over a connection of its own, which is used again
			}
			s.stored[at] = v
			packet.WriteString(redistest.Command("SET", s.name, v) + redistest.Command("GET", s.name))
			want = append(want, "+OK\r\n", bulk(v))
		}
		if err := s.conn.TrySend(packet.String()); err != nil {
			s.crowd.wrong("cannot send: %v", err)
			return
		}
		for i, text := range want {
			reply, err := s.conn.TryRead()
			if err != nil || s.crowd.saw(reply) || string(reply) != text {
				s.crowd.wrong("%s, round %d, reply %d: %.100q, %v; want %.100q", s.name, round, i, reply, err, text)
				return
			}
		}
	}
}

// TestDatabasesOfTenantsAreKeptApart: SELECTs of many clients on two loops never lead to another database, whichever
// connections to the server are used, and no connection to the server carries a client's state.
func TestDatabasesOfTenantsAreKeptApart(t *testing.T) {
	redistest.LeakCheck(t)
	server := redistest.Standalone(t)
	p := startProxy(t, twoTenantsYAML(server.Addr()))
	p.awaitReady(t)
	clients := newCrowd(t)
	var all []*selector
	for i := range 24 {
		address, databases := p.Addresses()[0].String(), []int{0, 1, 2}
		if i%2 == 1 {
			address, databases = p.Addresses()[1].String(), []int{5, 6}
		}
		s := &selector{crowd: clients, conn: hello(t, address, 2+i/2%2), name: fmt.Sprintf("client-%d", i),
			databases: databases, random: rand.New(rand.NewPCG(1, uint64(i))), large: i < 8}
		require.Equal(t, "+OK\r\n", string(s.conn.Do("CLIENT", "SETNAME", s.name)))
		all = append(all, s)
		clients.join(s.run)
	}
	clients.wg.Wait()
	clients.requireRight()
	require.Empty(t, clients.errors())

	for _, s := range all {
		require.Equal(t, bulk(s.name), string(s.conn.Do("CLIENT", "GETNAME")))
		for _, database := range []int{0, 1, 2, 5, 6} {
			want := "$-1\r\n"
			if v, used := s.stored[database]; used {
				want = bulk(v)
			}
			direct := server.Dial()
			direct.Do("SELECT", strconv.Itoa(database))
			require.Equal(t, want, string(direct.Do("GET", s.name)), "%s in database %d", s.name, database)
			direct.Close()
		}
	}
	requireCleanConnections(t, server)
}

// requireCleanConnections waits until the server's side of the proxy's connections shows nothing of a client's.
func requireCleanConnections(t *testing.T, server *redistest.Server) {
	t.Helper()
	var unclean string
	require.Eventually(t, func() bool {
		unclean = uncleanConnection(string(server.Do("CLIENT", "LIST")))
		return unclean == ""
	}, eventually, tick)
	require.Empty(t, unclean)
}

// uncleanConnection is the first line of CLIENT LIST that shows more than a connection of the proxy, or none of it.
func uncleanConnection(list string) string {
	seen := 0
	for line := range strings.Lines(list) {
		if !strings.Contains(line, " name=sluice ") {
			if strings.Contains(line, " name=client-") || strings.Contains(line, " name=evil") {
				return line // a client's name has reached the server
			}
			continue
		}
		seen++
		for _, clean := range []string{" multi=-1 ", " flags=N ", " sub=0 psub=0 ", " user=default "} {
			if !strings.Contains(line, clean) {
				return line
			}
		}
	}
	if seen == 0 {
		return "no connection of the proxy"
	}
	return ""
}

// TestStateCommandsStayWithTheirClient sends everything that changes the state of a connection, and looks whether another
// client feels it.
func TestStateCommandsStayWithTheirClient(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	p := startProxy(t, standaloneYAML(server.Addr(), "loops: 1", "pipes: {max: 1}"))
	p.awaitReady(t)
	bad, good := hello(t, p.Addr, 2), hello(t, p.Addr, 2)
	require.Equal(t, "+OK\r\n", string(good.Do("SET", "k", "zero")))
	for _, line := range []string{
		"AUTH nobody secret", "AUTH secret", "CLIENT SETNAME evil", "CLIENT NO-EVICT ON", "CLIENT TRACKING ON", "CLIENT CACHING YES", "CLIENT REPLY SKIP",
		"SELECT 1", "MULTI", "EXEC", "WATCH k", "UNWATCH", "DISCARD", "SUBSCRIBE c", "PSUBSCRIBE *", "MONITOR", "READONLY", "ASKING", "SYNC", "WAIT 0 0",
		"SCRIPT DEBUG YES", "CLIENT PAUSE 10000", "CLIENT KILL TYPE normal", "HELLO 3", "RESET", "SELECT 2", "EVAL redis.call('SELECT',1) 0", "HELLO 3 SETNAME evil",
	} {
		bad.Send(redistest.Command(strings.Fields(line)...) + redistest.Command("GET", "k"))
		require.Equal(t, "$4\r\nzero\r\n", string(good.Do("GET", "k")), "after %s by another client", line)
		require.Equal(t, "$-1\r\n", string(good.Do("CLIENT", "GETNAME")), "after %s by another client", line)
		require.Equal(t, ":1\r\n", string(good.Do("EXISTS", "k")), "after %s by another client", line)
	}
	bad.Close()
	requireCleanConnections(t, server)
	fresh := hello(t, p.Addr, 2)
	require.Equal(t, "$4\r\nzero\r\n", string(fresh.Do("GET", "k")))
	require.Contains(t, string(fresh.Do("CLIENT", "INFO")), " db=0 ")
}
