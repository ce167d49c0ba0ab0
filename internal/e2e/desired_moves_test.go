package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/redistest"
)

// movable is a proxy whose tenant acme, with user app, is on the first of two servers, as clusters one and two.
func movable(t *testing.T, settings string) (p *proxy, r registrar, one, two *redistest.Server) {
	t.Helper()
	one, two = redistest.Standalone(t), redistest.Standalone(t)
	p = startProxy(t, fmt.Sprintf("listeners: [{address: '127.0.0.1:0'}]\nadmin: {address: '127.0.0.1:0'}\ndata_dir: %q\n%s\n", t.TempDir(), settings))
	r = p.registrar(t)
	r.cluster("one", "standalone", one.Addr())
	r.cluster("two", "standalone", two.Addr())
	r.tenant("acme", "one")
	r.user("acme", "app")
	return p, r, one, two
}

// pinnedConns are clients that cannot change over between two commands.
type pinnedConns struct{ watching, queueing, blocked *redistest.Conn }

func pinnedClients(t *testing.T, p *proxy) (c pinnedConns) {
	t.Helper()
	c = pinnedConns{p.login(t, "app"), p.login(t, "app"), p.login(t, "app")}
	require.Equal(t, "+OK\r\n", string(c.watching.Do("WATCH", "k")))
	require.Equal(t, "+OK\r\n", string(c.queueing.Do("MULTI")))
	require.Equal(t, "+QUEUED\r\n", string(c.queueing.Do("SET", "queued", "v")))
	c.blocked.SendCommand("BLPOP", "list", "0")
	require.Eventually(t, func() bool { return p.metric(t, "sluice_pinned_sessions", `reason="blocked"`) == 1 }, eventually, tick)
	return c
}

// TestPinnedClientsMoveWhenTheyAreDone: a client that watches, queues or blocks goes on where it began, and is on
// the other cluster when that has ended.
func TestPinnedClientsMoveWhenTheyAreDone(t *testing.T) {
	t.Parallel()
	p, r, one, two := movable(t, "")
	c := pinnedClients(t, p)
	r.patchTenant("acme", `{"cluster": "two"}`)
	require.Equal(t, "+OK\r\n", string(p.login(t, "app").Do("SET", "k", "two")), "others are there at once")
	require.Equal(t, "$3\r\ntwo\r\n", string(two.Do("GET", "k")))

	require.Equal(t, "$-1\r\n", string(c.watching.Do("GET", "k")), "it has not left")
	c.watching.Send("MULTI\r\nSET k one\r\nEXEC\r\n")
	for _, reply := range []string{"+OK\r\n", "+QUEUED\r\n", "*1\r\n+OK\r\n"} {
		c.watching.RequireReply(reply)
	}
	require.Equal(t, "$3\r\none\r\n", string(one.Do("GET", "k")))
	require.Equal(t, "*1\r\n+OK\r\n", string(c.queueing.Do("EXEC")))
	require.Equal(t, "$1\r\nv\r\n", string(one.Do("GET", "queued")))
	require.Equal(t, ":1\r\n", string(one.Do("RPUSH", "list", "e")))
	c.blocked.RequireReply("*2\r\n$4\r\nlist\r\n$1\r\ne\r\n")
	for _, conn := range []*redistest.Conn{c.watching, c.queueing, c.blocked} {
		require.Equal(t, "$3\r\ntwo\r\n", string(conn.Do("GET", "k")))
	}
}

// TestPinnedClientsMoveByTheDeadline: who is not done in time is disconnected; nobody else is.
func TestPinnedClientsMoveByTheDeadline(t *testing.T) {
	t.Parallel()
	p, r, one, _ := movable(t, "clients: {move_timeout: 300ms}")
	c, idle := pinnedClients(t, p), p.login(t, "app")
	r.patchTenant("acme", `{"cluster": "two"}`)
	for _, conn := range []*redistest.Conn{c.watching, c.queueing, c.blocked} {
		conn.RequireClosed()
	}
	require.InDelta(t, 3, p.metric(t, "sluice_clients_disconnected_total", `reason="left_behind"`), 0)
	require.Equal(t, "+OK\r\n", string(idle.Do("SET", "k", "two")))
	require.Equal(t, ":1\r\n", string(one.Do("RPUSH", "list", "e")))
	require.Equal(t, ":1\r\n", string(one.Do("LLEN", "list")), "nobody takes it any more")
}

// TestSubscriptionsAreCarriedOver: a client that listens, and nothing more, stays connected and listens on the other
// cluster, or at the other address, with its commands going there too.
func TestSubscriptionsAreCarriedOver(t *testing.T) {
	t.Parallel()
	p, r, one, two := movable(t, "clients: {move_timeout: 100ms}\nloops: 1")
	old, modern := p.login(t, "app"), p.login(t, "app")
	require.Equal(t, "*3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n", string(old.Do("SUBSCRIBE", "news")))
	require.Equal(t, "%7\r\n", string(modern.Do("HELLO", "3"))[:4])
	require.Equal(t, ">3\r\n$10\r\npsubscribe\r\n$2\r\nn*\r\n:1\r\n", string(modern.Do("PSUBSCRIBE", "n*")))

	heard := func(from *redistest.Server, text string) {
		t.Helper()
		require.Equal(t, ":2\r\n", string(from.Do("PUBLISH", "news", text)))
		message := fmt.Sprintf("$4\r\nnews\r\n$%d\r\n%s\r\n", len(text), text)
		old.RequireReply("*3\r\n$7\r\nmessage\r\n" + message)
		modern.RequireReply(">4\r\n$8\r\npmessage\r\n$2\r\nn*\r\n" + message)
	}
	listeners := func(at *redistest.Server, want string) {
		t.Helper()
		counts := "*2\r\n$4\r\nnews\r\n:" + want + "\r\n:" + want + "\r\n"
		require.Eventually(t, func() bool {
			return string(at.Do("PUBSUB", "NUMSUB", "news"))+string(at.Do("PUBSUB", "NUMPAT")) == counts
		}, eventually, tick)
	}
	heard(one, "at the first")
	r.patchTenant("acme", `{"cluster": "two"}`)
	listeners(one, "0")
	heard(two, "at the second")
	require.Equal(t, "+OK\r\n", string(modern.Do("SET", "k", "two")))
	require.Equal(t, "$3\r\ntwo\r\n", string(two.Do("GET", "k")))
	r.patchTenant("acme", `{"cluster": "one"}`)
	listeners(two, "0")
	heard(one, "at the first again")
	feed := func() (ids []string) {
		for _, line := range strings.Split(string(one.Do("CLIENT", "LIST", "TYPE", "pubsub")), "\n") {
			if id, _, found := strings.Cut(line, " addr="); found {
				ids = append(ids, id)
			}
		}
		return ids
	}
	before := feed()
	require.Len(t, before, 1)
	relay := redistest.NewFaultyProxy(t, one.Addr())
	_, err := r.Clusters().Patch(t.Context(), anyWrite(), "one", fmt.Appendf(nil, `{"addresses": [%q]}`, relay.Addr()))
	require.NoError(t, err)
	require.Eventually(t, func() bool { now := feed(); return len(now) == 1 && now[0] != before[0] }, eventually, tick)
	heard(one, "by another way")

	require.Equal(t, "*3\r\n$11\r\nunsubscribe\r\n$4\r\nnews\r\n:0\r\n", string(old.Do("UNSUBSCRIBE", "news")))
	modern.SendCommand("PUNSUBSCRIBE")
	modern.RequireReply(">3\r\n$12\r\npunsubscribe\r\n$2\r\nn*\r\n:0\r\n")
	listeners(one, "0")
	require.Zero(t, p.metric(t, "sluice_clients_disconnected_total", `reason="left_behind"`))
}

// TestSubscriptionsThatAreRefusedElsewhere: who may not listen on the other cluster listens where it did until the deadline.
func TestSubscriptionsThatAreRefusedElsewhere(t *testing.T) {
	t.Parallel()
	p, r, one, two := movable(t, "clients: {move_timeout: 3s}")
	require.Equal(t, "+OK\r\n", string(two.Do("ACL", "SETUSER", "default", "resetchannels")))
	c := p.login(t, "app")
	require.Equal(t, "*3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n", string(c.Do("SUBSCRIBE", "news")))
	r.patchTenant("acme", `{"cluster": "two"}`)
	require.Eventually(t, func() bool { return strings.Contains(string(two.Do("ACL", "LOG")), "channel") }, eventually, tick)
	require.Equal(t, ":1\r\n", string(one.Do("PUBLISH", "news", "still here")))
	c.RequireReply("*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$10\r\nstill here\r\n")
	c.RequireClosed()
	require.InDelta(t, 1, p.metric(t, "sluice_clients_disconnected_total", `reason="left_behind"`), 0)
}

// TestRemovedClusterDrains: what is in flight on a cluster that is removed gets its replies, a transaction ends there, and then its
// connections are closed.
func TestRemovedClusterDrains(t *testing.T) {
	t.Parallel()
	p, r, one, _ := movable(t, "")
	watching, waiting := p.login(t, "app"), p.login(t, "app")
	require.Equal(t, "+OK\r\n", string(watching.Do("WATCH", "k")))
	require.Equal(t, "+OK\r\n", string(waiting.Do("SET", "k", "one")))
	one.Stop()
	waiting.Send("GET k\r\n")
	require.Eventually(t, func() bool { return p.metric(t, "sluice_inflight_calls") == 1 }, eventually, tick)
	r.patchTenant("acme", `{"cluster": "two"}`)
	_, err := r.Clusters().Delete(t.Context(), anyWrite(), "one")
	require.NoError(t, err)
	waiting.Send("GET k\r\n")
	one.Continue()
	waiting.RequireReply("$3\r\none\r\n")
	waiting.RequireReply("$-1\r\n")
	watching.Send("MULTI\r\nPING\r\nEXEC\r\n")
	for _, reply := range []string{"+OK\r\n", "+QUEUED\r\n", "*-1\r\n"} { // the watched key was changed there
		watching.RequireReply(reply)
	}
	require.Equal(t, "$-1\r\n", string(watching.Do("GET", "k")))
	requireOnlyOwnConnection(t, one)
}

// requireOnlyOwnConnection waits until nobody but the test is connected to a server.
func requireOnlyOwnConnection(t *testing.T, server *redistest.Server) {
	t.Helper()
	require.Eventually(t, func() bool { return strings.Count(string(server.Do("CLIENT", "LIST")), "id=") == 1 }, eventually, tick)
}

// TestNewClusterIsConnectedBeforeItIsUsed: the nodes of a cluster are asked how they are when it is registered, and a
// changed one is left alone until it answers.
func TestNewClusterIsConnectedBeforeItIsUsed(t *testing.T) {
	t.Parallel()
	p, r, one, two := movable(t, "")
	require.Eventually(t, func() bool { return strings.Count(string(two.Do("CLIENT", "LIST")), "id=") > 1 }, eventually, tick, "no tenant uses it")
	c := p.login(t, "app")
	require.Equal(t, "+OK\r\n", string(c.Do("SET", "k", "one")))
	stuck := redistest.NewFaultyProxy(t, two.Addr())
	stuck.Both(redistest.Faults{BlackHole: true})
	changed := make(chan error, 1)
	go func() {
		_, err := r.Clusters().Patch(t.Context(), anyWrite(), "one", fmt.Appendf(nil, `{"addresses": [%q]}`, stuck.Addr()))
		changed <- err
	}()
	require.Eventually(t, func() bool { return stuck.Accepted() > 0 }, eventually, tick)
	require.Equal(t, "$3\r\none\r\n", string(c.Do("GET", "k")), "while the new address is being connected")
	stuck.Heal()
	require.NoError(t, <-changed)
	require.Eventually(t, func() bool { return string(c.Do("GET", "k")) == "$-1\r\n" }, eventually, tick)
	requireOnlyOwnConnection(t, one)
}

// TestRemovedTenantsMetrics: a tenant's series go with its last client, and no count is lost before.
func TestRemovedTenantsMetrics(t *testing.T) {
	t.Parallel()
	p, r, one, _ := movable(t, "loops: 2")
	r.tenant("stays", "one")
	r.user("stays", "other")
	c, other := p.login(t, "app"), p.login(t, "other")
	require.Equal(t, "+OK\r\n", string(c.Do("SET", "k", "v")))
	require.Equal(t, "+OK\r\n", string(other.Do("SET", "k", "v")))
	count := func(tenant string) float64 {
		return p.metric(t, "sluice_commands_total", fmt.Sprintf("tenant=%q", tenant))
	}
	before := count("acme")
	one.Stop()
	c.Send("SET k w\r\n") // it is not done when the tenant goes
	require.Eventually(t, func() bool { return p.metric(t, "sluice_inflight_calls") == 1 }, eventually, tick)
	_, err := r.Users().Delete(t.Context(), anyWrite(), "acme/app")
	require.NoError(t, err)
	_, err = r.Tenants().Delete(t.Context(), anyWrite(), "acme")
	require.NoError(t, err)
	p.Shared().ForgetTenants()
	require.NotZero(t, before)
	require.InDelta(t, before, count("acme"), 0, "its client is there")
	one.Continue()
	c.RequireReply("+OK\r\n")
	require.Regexp(t, "^-", string(c.ReadReply()))
	c.RequireClosed()
	require.Eventually(t, func() bool {
		_, body, _ := p.get(t, "/metrics")
		return !strings.Contains(body, `tenant="acme"`)
	}, eventually, tick)
	require.NotZero(t, count("stays"))
	for _, tenant := range p.Stats().Tenants {
		require.NotEqual(t, "acme", tenant.Name)
	}
	r.tenant("acme", "one")
	r.user("acme", "app")
	require.Equal(t, "+OK\r\n", string(p.login(t, "app").Do("SET", "k", "v")))
	require.LessOrEqual(t, count("acme"), before, "it begins anew")
}
