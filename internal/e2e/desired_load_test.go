package e2e

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/pkg/api"
)

// TestChangesUnderLoad changes tenants, users, databases, addresses and passwords of clusters at random while clients write
// in pipelines: no command may fail, and no connection be lost.
func TestChangesUnderLoad(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	const tenants, clients, changes = 5, 50, 100
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 0))
	var servers []*redistest.Server
	for range 4 {
		servers = append(servers, redistest.Standalone(t, redistest.WithUser("one", "pw-one", "on ~* &* +@all"), redistest.WithUser("two", "pw-two", "on ~* &* +@all")))
	}
	p := emptyProxy(t, t.TempDir())
	r := p.registrar(t)
	for i := range 3 {
		r.cluster(fmt.Sprint("c", i), "standalone", servers[i].Addr())
	}
	for i := range tenants {
		r.tenant(fmt.Sprint("t", i), fmt.Sprint("c", i%3))
		r.user(fmt.Sprint("t", i), fmt.Sprint("u", i))
	}
	crowd := newCrowd(t)
	for i := range clients {
		c := p.login(t, fmt.Sprint("u", i%tenants))
		crowd.join(func() {
			for n := 0; !crowd.ended(); n++ {
				depth := 1 + n%8
				if err := c.TrySend(strings.Repeat(fmt.Sprintf("SET k%d v\r\n", n%100), depth)); err != nil {
					crowd.wrong("cannot send: %v", err)
					return
				}
				for range depth {
					reply, err := c.TryRead()
					if err != nil || crowd.saw(reply) {
						crowd.wrong("%q %v", reply, err)
						return
					}
				}
			}
		})
	}
	var slowest time.Duration
	for n := range changes {
		began := time.Now()
		tenant, cluster := fmt.Sprint("t", random.IntN(tenants)), fmt.Sprint("c", random.IntN(3))
		switch random.IntN(6) {
		case 0:
			r.patchTenant(tenant, fmt.Sprintf(`{"cluster": %q}`, cluster))
		case 1:
			r.patchTenant(tenant, fmt.Sprintf(`{"databases": [0, %d]}`, 1+random.IntN(5)))
		case 2:
			r.patchCluster(cluster, fmt.Sprintf(`{"addresses": [%q]}`, servers[random.IntN(4)].Addr()))
		case 3:
			user := []string{"one", "two"}[random.IntN(2)]
			r.patchCluster(cluster, fmt.Sprintf(`{"auth": {"username": %q, "password": %q}}`, user, "pw-"+user))
		case 4:
			name := fmt.Sprint("extra", n)
			r.tenant(name, cluster)
			r.user(name, name)
			p.login(t, name).Close()
			_, err := r.Users().Delete(t.Context(), anyWrite(), name+"/"+name)
			require.NoError(t, err)
			_, err = r.Tenants().Delete(t.Context(), anyWrite(), name)
			require.NoError(t, err)
		default:
			r.user(tenant, fmt.Sprint("more", n))
		}
		slowest = max(slowest, time.Since(began))
		time.Sleep(20 * time.Millisecond) // a rate of changes, not a wait for one
	}
	t.Logf("seed %d: %d replies, slowest change %s", seed, crowd.served(), slowest)
	crowd.requireRight()
	require.Empty(t, crowd.errors())
}

var manyTenants = flag.Int("tenants", 60, "tenants of TestManyTenants")

// TestManyTenants tells how long a start and a change take, and what a tenant costs.
func TestManyTenants(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	const clusters = 20
	tenants := *manyTenants
	server := redistest.Standalone(t)
	dir := t.TempDir()
	p := emptyProxy(t, dir)
	r := p.registrar(t)
	for i := range clusters {
		r.cluster(fmt.Sprint("c", i), "standalone", server.Addr())
	}
	p.awaitReady(t)
	empty := heapInUse()
	began := time.Now()
	var running sync.WaitGroup
	var next atomic.Int64
	for range 16 { // as clients of the API would
		running.Go(func() {
			for i := next.Add(1) - 1; i < int64(tenants); i = next.Add(1) - 1 {
				name := fmt.Sprint("t", i)
				_, err := r.Tenants().Create(t.Context(), anyWrite(), api.Tenant{Name: name, Cluster: fmt.Sprint("c", i%clusters)})
				if err == nil {
					_, err = r.Users().Create(t.Context(), anyWrite(), api.User{Tenant: name, Name: "u" + name, SHA256: sha256Hex("pw-u" + name)})
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	running.Wait()
	t.Logf("%d tenants with a user each registered in %s", tenants, time.Since(began))
	t.Logf("%d bytes of heap per tenant", (heapInUse()-empty)/uint64(tenants))
	for range 3 {
		began = time.Now()
		r.patchTenant("t7", fmt.Sprintf(`{"databases": [0, %d]}`, 1+time.Now().UnixNano()%500))
		t.Logf("a change was live after %s", time.Since(began))
	}
	require.NoError(t, p.stop())
	began = time.Now()
	p = emptyProxy(t, dir)
	t.Logf("started in %s", time.Since(began))
	p.awaitReady(t)
	t.Logf("ready in %s", time.Since(began))
	require.Equal(t, "+OK\r\n", string(p.login(t, fmt.Sprint("ut", tenants-1)).Do("SET", "k", "v")))
}

// TestFleetOverEtcd: two proxies follow one etcd, go on without it, and converge when it is back.
func TestFleetOverEtcd(t *testing.T) {
	t.Parallel()
	etcd, one, two := redistest.Etcd(t, nil), redistest.Standalone(t), redistest.Standalone(t)
	yaml := fmt.Sprintf(`
listeners: [{address: "127.0.0.1:0"}]
admin: {address: "127.0.0.1:0"}
store: {kind: etcd, etcd: {endpoints: [%q]}}
`, etcd.Endpoint())
	a, b := startProxy(t, yaml), startProxy(t, yaml)
	r := a.registrar(t)
	r.cluster("one", "standalone", one.Addr())
	r.cluster("two", "standalone", two.Addr())
	r.tenant("acme", "one")
	r.user("acme", "app")
	began := time.Now()
	require.Eventually(t, func() bool { return b.Status().Store.Applied >= a.Status().Store.Applied && b.Status().Tenants == 1 }, eventually, tick)
	t.Logf("the other proxy had it after %s", time.Since(began))
	ca, cb := a.login(t, "app"), b.login(t, "app")
	require.Equal(t, "+OK\r\n", string(ca.Do("SET", "k", "v")))

	etcd.Kill()
	require.Eventually(t, func() bool { return !a.Status().Store.Available && !b.Status().Store.Available }, 3*eventually, tick)
	require.InDelta(t, 0, b.metric(t, "sluice_store_available"), 0)
	require.Equal(t, "$1\r\nv\r\n", string(cb.Do("GET", "k")))
	b.login(t, "app").Close()
	require.True(t, b.Status().Ready, "what is known goes on being served")
	etcd.Start()
	require.Eventually(t, func() bool { return a.Status().Store.Available && b.Status().Store.Available }, 3*eventually, tick)
	r.patchTenant("acme", `{"cluster": "two"}`)
	require.Eventually(t, func() bool { return string(cb.Do("GET", "k")) == "$-1\r\n" }, eventually, tick)
}
