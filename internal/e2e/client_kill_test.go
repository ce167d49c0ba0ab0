package e2e

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/session"
)

// twoTenants is a proxy of two tenants on databases of one server: ann and bob are acme's users, eve is globex's. Its
// clients are on several loops.
func twoTenants(t *testing.T, extra ...string) *proxy {
	t.Helper()
	server := redistest.Standalone(t)
	user := func(name string) string { return fmt.Sprintf("{name: %s, sha256: %q}", name, sha256Hex("pw")) }
	p := startProxy(t, fmt.Sprintf(`
listeners: [{address: "127.0.0.1:0"}]
admin: {address: "127.0.0.1:0"}
loops: 3
clusters: [{name: main, kind: standalone, addresses: ["%s"]}]
tenants:
  - {name: acme, cluster: main, databases: [0, 1], users: [%s, %s]}
  - {name: globex, cluster: main, databases: [2], users: [%s]}
%s`, server.Addr(), user("ann"), user("bob"), user("eve"), strings.Join(extra, "\n")))
	p.awaitReady(t)
	return p
}

// login dials and authenticates.
func login(t *testing.T, p *proxy, user string, protocol int) *redistest.Conn {
	t.Helper()
	c := redistest.Dial(t, p.Addr)
	require.Equal(t, byte("*%"[protocol-2]), c.Do("HELLO", fmt.Sprint(protocol), "AUTH", user, "pw")[0])
	return c
}

// spread moves the clients to different loops: the i-th to loop i.
func spread(t *testing.T, p *proxy, clients ...*redistest.Conn) {
	t.Helper()
	for i, c := range clients {
		id, to := clientID(t, c), p.Shared().Workers[i]
		require.Eventually(t, func() bool {
			arrived := false
			for _, w := range p.Shared().Workers {
				w.Loop.Call(func() {
					w.Each(func(s *session.Session) {
						if s.ID() == id {
							s.Move(to)
							arrived = arrived || w == to
						}
					})
				})
			}
			return c.Do("PING") != nil && arrived
		}, eventually, tick)
	}
}

func clientID(t *testing.T, c *redistest.Conn) (id uint64) {
	t.Helper()
	_, err := fmt.Sscanf(string(c.Do("CLIENT", "ID")), ":%d\r\n", &id)
	require.NoError(t, err)
	return id
}

func localAddr(c *redistest.Conn) string { return c.NetConn().LocalAddr().String() }

func TestClientKillEndsOwnTenantsClientsOnly(t *testing.T) {
	t.Parallel()
	p := twoTenants(t)
	ann, eve := login(t, p, "ann", 2), login(t, p, "eve", 3)
	bobs := []*redistest.Conn{login(t, p, "bob", 2), login(t, p, "bob", 3), login(t, p, "bob", 2), login(t, p, "bob", 2)}
	spread(t, p, append([]*redistest.Conn{ann, eve}, bobs...)[:3]...)

	for _, line := range []string{
		fmt.Sprintf("CLIENT KILL ID %d", clientID(t, eve)), "CLIENT KILL ADDR " + localAddr(eve),
		"CLIENT KILL USER bob SKIPME no TYPE pubsub", "CLIENT KILL TYPE normal USER ann", "CLIENT KILL MAXAGE 1000",
		"CLIENT KILL USER bob LADDR 127.0.0.1:1",
	} {
		require.Equal(t, ":0\r\n", string(ann.Do(words(t, line)...)), line)
	}
	require.Equal(t, "-ERR No such client\r\n", string(ann.Do("CLIENT", "KILL", localAddr(eve))))
	require.Equal(t, "-ERR No such user 'eve'\r\n", string(ann.Do("CLIENT", "KILL", "USER", "eve")), "another tenant's user")
	require.Equal(t, "-ERR maxage should be greater than 0\r\n", string(ann.Do("CLIENT", "KILL", "MAXAGE", "0")))

	require.Equal(t, ":1\r\n", string(ann.Do("CLIENT", "KILL", "ID", fmt.Sprint(clientID(t, bobs[0])))))
	bobs[0].RequireClosed()
	require.Equal(t, "+OK\r\n", string(ann.Do("CLIENT", "KILL", localAddr(bobs[1]))))
	bobs[1].RequireClosed()
	require.Equal(t, ":2\r\n", string(ann.Do("CLIENT", "KILL", "USER", "bob", "LADDR", p.Addr)))
	bobs[2].RequireClosed()
	bobs[3].RequireClosed()
	require.Equal(t, "+PONG\r\n", string(eve.Do("PING")))
	require.Equal(t, "+PONG\r\n", string(ann.Do("PING")))
}

func TestClientThatKillsItselfGetsTheReply(t *testing.T) {
	t.Parallel()
	p := startPair(t)
	for _, protocol := range []int{2, 3} {
		for _, format := range []string{"CLIENT KILL %s", "CLIENT KILL ADDR %s SKIPME no", "CLIENT KILL TYPE normal ADDR %s SKIPME NO"} {
			through, direct := p.dial(t, protocol)
			for _, c := range []*redistest.Conn{through, direct} {
				c.Send("SET a 1\r\n" + fmt.Sprintf(format, localAddr(c)) + "\r\nSET a 2\r\n")
			}
			require.Equal(t, direct.ReadReply(), through.ReadReply())
			require.Equal(t, direct.ReadReply(), through.ReadReply())
			through.RequireClosed()
			require.Equal(t, "$1\r\n1\r\n", string(p.backend.Do("GET", "a")), "what came behind is not executed")
		}
	}
}

// TestClientKillInEveryState ends clients that are in the middle of something, and nothing of them stays behind.
func TestClientKillInEveryState(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	p := startProxy(t, standaloneYAML(server.Addr(), "loops: 2"))
	p.awaitReady(t)
	killer := redistest.Dial(t, p.Addr)
	for state, enter := range map[string]func(c *redistest.Conn){
		"blocked":    func(c *redistest.Conn) { c.Send("BLPOP list 0\r\n") },
		"watching":   func(c *redistest.Conn) { c.Do("WATCH", "k") },
		"queueing":   func(c *redistest.Conn) { c.Do("WATCH", "k"); c.Do("MULTI"); c.Do("SET", "k", "1") },
		"subscribed": func(c *redistest.Conn) { c.Do("SUBSCRIBE", "news") },
		"streaming": func(c *redistest.Conn) {
			c.Send("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1000000\r\n" + strings.Repeat("x", 600000))
		},
		"partial": func(c *redistest.Conn) { c.Send("*3\r\n$3\r\nSET\r\n$1\r\nk") },
	} {
		victim := redistest.Dial(t, p.Addr)
		id := clientID(t, victim)
		enter(victim)
		if state == "blocked" {
			require.Eventually(t, func() bool { return strings.Contains(lineOf(killer, id), " flags=b ") }, eventually, tick)
		}
		require.Equal(t, ":1\r\n", string(killer.Do("CLIENT", "KILL", "ID", fmt.Sprint(id))), state)
		victim.RequireClosed()
		require.Equal(t, "", lineOf(killer, id))
	}
	require.Equal(t, ":1\r\n", string(killer.Do("RPUSH", "list", "x")), "nobody pops it")
	require.Equal(t, "$-1\r\n", string(killer.Do("GET", "k")), "what was not whole is not executed")
	require.Eventually(t, func() bool { return string(server.Do("PUBSUB", "CHANNELS")) == "*0\r\n" }, eventually, tick)
	require.Eventually(t, func() bool {
		return !strings.Contains(string(server.Do("CLIENT", "LIST")), " flags=b ")
	}, eventually, tick)
}

// lineOf is a client's line in CLIENT LIST without its end.
func lineOf(c *redistest.Conn, id uint64) string {
	return regexp.MustCompile(fmt.Sprintf(`(?m)\bid=%d .*$`, id)).FindString(string(c.Do("CLIENT", "LIST", "ID", fmt.Sprint(id))))
}
