package e2e

import (
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/admin"
	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/pkg/api"
)

// registered is a proxy with tenant acme on a standalone server and tenant wide on a cluster; their users are app and
// wideapp.
func registered(t *testing.T) (p *proxy, one *redistest.Server, wide *redistest.ClusterServers) {
	t.Helper()
	one, wide = redistest.Standalone(t), redistest.Cluster(t, 3, 0)
	p = emptyProxy(t, t.TempDir())
	r := p.registrar(t)
	r.cluster("one", "standalone", one.Addr())
	r.cluster("wide", "cluster", wide.Addrs()...)
	r.tenant("acme", "one")
	r.user("acme", "app")
	r.tenant("wide", "wide")
	r.user("wide", "wideapp")
	return p, one, wide
}

func TestWhatTheRuntimeTells(t *testing.T) {
	t.Parallel()
	p, _, _ := registered(t)
	p.awaitReady(t)
	c := p.login(t, "app")
	require.Equal(t, "+OK\r\n", string(c.Do("CLIENT", "SETNAME", "me")))
	require.Equal(t, "+OK\r\n", string(c.Do("SET", "k", "v")))
	other := p.login(t, "wideapp")

	status := p.Status()
	require.True(t, status.Ready, status.NotReady)
	require.Equal(t, 2, status.Clusters)
	require.Equal(t, 2, status.Tenants)
	require.Equal(t, "bbolt", status.Store.Kind)
	require.True(t, status.Store.Available)
	require.Equal(t, status.Store.Revision, status.Store.Applied)

	sessions := p.Sessions(admin.SessionFilter{Tenant: "acme"})
	require.Len(t, sessions, 1)
	require.Equal(t, "me", sessions[0].Name)
	require.Equal(t, "app", sessions[0].User)
	require.Equal(t, "set", sessions[0].LastCommand)
	require.WithinDuration(t, time.Now(), sessions[0].Connected, time.Minute)
	require.Len(t, p.Sessions(admin.SessionFilter{Cluster: "wide"}), 1)
	require.Empty(t, p.Sessions(admin.SessionFilter{Tenants: []string{}}))

	topology := p.Topology("wide")
	require.True(t, topology.Ready)
	require.Equal(t, 16384, topology.Covered)
	require.Len(t, topology.Nodes, 3)
	require.Equal(t, 5461, topology.Nodes[0].Slots)
	require.Nil(t, p.Topology("nosuch"))
	require.Len(t, p.Nodes(), 4)

	stats := p.Stats()
	require.Equal(t, "acme", stats.Tenants[0].Name)
	require.Equal(t, 1, stats.Tenants[0].Clients)
	require.NotZero(t, stats.Tenants[0].P99)
	require.Contains(t, p.Config()["tenants"].([]any)[0], "name")

	require.Equal(t, 1, p.Kill(admin.SessionFilter{Tenant: "acme"}))
	c.RequireClosed()
	require.Equal(t, "+PONG\r\n", string(other.Do("PING")))
}

func TestExplain(t *testing.T) {
	t.Parallel()
	p, _, _ := registered(t)
	p.awaitReady(t)
	for _, c := range []struct {
		tenant  string
		args    []string
		served  string
		nodes   int
		refused string
	}{
		{"acme", []string{"GET", "k"}, "forward", 1, ""},
		{"wide", []string{"get", "k"}, "forward", 1, ""},
		{"wide", []string{"MGET", "a", "b", "c"}, "split", 3, ""},
		{"wide", []string{"SINTER", "a", "b"}, "forward", 0, "CROSSSLOT"},
		{"wide", []string{"DBSIZE"}, "fan-out", 3, ""},
		{"wide", []string{"PING"}, "local", 0, ""},
		{"wide", []string{"BLPOP", "a", "0"}, "dedicated", 1, ""},
		{"acme", []string{"SHUTDOWN"}, "admin", 0, "NOPERM"},
		{"acme", []string{"GET"}, "forward", 0, "ERR wrong number"},
		{"acme", []string{"NOSUCH", "x"}, "unknown", 0, ""},
	} {
		e, err := p.Explain(c.tenant, c.args)
		require.NoError(t, err)
		require.Equal(t, c.served, e.Served, "%v: %+v", c.args, e)
		require.Len(t, e.Nodes, c.nodes, "%v: %+v", c.args, e)
		if c.refused == "" {
			require.Empty(t, e.Refused, "%v", c.args)
		} else {
			require.Contains(t, e.Refused, c.refused, "%v", c.args)
		}
	}
	_, err := p.Explain("nosuch", []string{"GET", "k"})
	require.Error(t, err)
}

const halted = "-ERR this tenant is paused by the operator; try again later\r\n"

func TestOperatorPausesATenant(t *testing.T) {
	t.Parallel()
	p, _, _ := registered(t)
	c, other := p.login(t, "app"), p.login(t, "wideapp")
	require.True(t, p.Pause("acme", admin.Pause{Refuse: true}))
	require.Equal(t, halted, string(c.Do("GET", "k")))
	require.Equal(t, []string{"acme"}, p.Status().Paused)
	e, err := p.Explain("acme", []string{"GET", "k"})
	require.NoError(t, err)
	require.Contains(t, e.Refused, "paused")
	require.Equal(t, "$-1\r\n", string(other.Do("GET", "k")), "others go on")
	late := p.login(t, "app")
	require.Equal(t, halted, string(late.Do("SET", "k", "v")))
	require.Equal(t, halted, string(late.Do("CLIENT", "UNPAUSE")), "it is not the tenant's to end")
	require.True(t, p.Resume("acme"))
	require.Equal(t, "+OK\r\n", string(late.Do("SET", "k", "v")))

	require.True(t, p.Pause("acme", admin.Pause{}))
	c.Send("GET k\r\n")
	require.Eventually(t, func() bool {
		s := p.Sessions(admin.SessionFilter{Tenant: "acme", Command: "get"})
		return len(s) == 1 && s[0].Inflight == 0
	}, eventually, tick)
	require.True(t, p.Resume("acme"))
	c.RequireReply("$1\r\nv\r\n")

	require.True(t, p.Pause("acme", admin.Pause{Until: time.Now().Add(50 * time.Millisecond)}))
	require.Equal(t, "$1\r\nv\r\n", string(c.Do("GET", "k")), "it ends by itself")
	require.False(t, p.Pause("nosuch", admin.Pause{}))
}

func TestOperatorDrains(t *testing.T) {
	t.Parallel()
	p, _, _ := registered(t)
	p.awaitReady(t)
	c := p.login(t, "app")
	p.Drain()
	c.RequireClosed()
	status, _, _ := p.get(t, "/readyz")
	require.Equal(t, 503, status)
	require.True(t, p.Status().Draining)
	nc, err := net.Dial("tcp", p.Addr)
	require.NoError(t, err)
	defer nc.Close()
	require.NoError(t, nc.SetReadDeadline(time.Now().Add(eventually)))
	_, err = nc.Read(make([]byte, 1))
	require.Error(t, err)
	require.NotErrorIs(t, err, net.ErrClosed)
	p.Undrain()
	p.awaitReady(t)
	require.Equal(t, "$-1\r\n", string(p.login(t, "app").Do("GET", "k")))
}

func TestClusterIsTested(t *testing.T) {
	t.Parallel()
	one, wide := redistest.Standalone(t), redistest.Cluster(t, 3, 0)
	locked := redistest.Standalone(t, redistest.WithPassword("hunter2"))
	p := emptyProxy(t, t.TempDir())
	for name, c := range map[string]struct {
		cluster api.Cluster
		err     string
	}{
		"standalone": {api.Cluster{Addresses: []string{one.Addr()}}, ""},
		"cluster":    {api.Cluster{ClusterKind: "cluster", Addresses: wide.Addrs()[:1]}, ""},
		"locked":     {api.Cluster{Addresses: []string{locked.Addr()}, Auth: &api.ClusterAuth{Password: "hunter2"}}, ""},
		"no auth":    {api.Cluster{Addresses: []string{locked.Addr()}}, "asks for a password"},
		"bad auth":   {api.Cluster{Addresses: []string{locked.Addr()}, Auth: &api.ClusterAuth{Password: "x"}}, "does not take"},
		"not one":    {api.Cluster{Addresses: []string{wide.Addrs()[0]}}, "part of a Redis Cluster"},
		"no cluster": {api.Cluster{ClusterKind: "cluster", Addresses: []string{one.Addr()}}, "not part of a Redis Cluster"},
		"nobody":     {api.Cluster{Addresses: []string{"127.0.0.1:1"}}, "cannot be reached"},
		"no TLS":     {api.Cluster{Addresses: []string{one.Addr()}, TLS: &api.ClusterTLS{InsecureSkipVerify: true}}, ""},
	} {
		result := p.Test(t.Context(), c.cluster)
		if name == "no TLS" {
			require.False(t, result.OK)
			continue
		}
		require.Equal(t, c.err == "", result.OK, "%s: %s", name, result.Error)
		require.Contains(t, result.Error, c.err, name)
		require.NotContains(t, result.Error, "127.0.0.1", name)
		if result.OK {
			require.Equal(t, 16384, result.Covered, name)
			require.Contains(t, result.Server, "Redis 7.", name)
		}
	}
}
