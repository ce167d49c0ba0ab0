package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/store"
)

// fleet is two proxies that share an etcd, one of them through a relay, and clients of both that must not notice what
// happens to it.
type fleet struct {
	*crowd
	t      *testing.T
	etcd   *redistest.EtcdServer
	relay  *redistest.FaultyProxy // between etcd and far
	near   *proxy
	far    *proxy
	r      registrar // of near
	number int
}

// TestFleetOverEtcd: etcd is stopped, partitioned from one proxy, compacted meanwhile, and restored from a backup. Traffic never stops,
// and the proxies have the same state when etcd is there.
func TestFleetOverEtcd(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.stopped()
	f.partitioned(false)
	f.partitioned(true)
	f.restored()
	f.requireRight()
	require.Empty(t, f.errors())
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	f := &fleet{t: t, etcd: redistest.Etcd(t, nil)}
	f.relay = redistest.NewFaultyProxy(t, f.etcd.Addr())
	over := func(endpoint string) *proxy {
		return startProxy(t, fmt.Sprintf(`
listeners: [{address: "127.0.0.1:0"}]
admin: {address: "127.0.0.1:0"}
store: {kind: etcd, etcd: {endpoints: [%q]}}
`, endpoint))
	}
	f.near, f.far = over(f.etcd.Endpoint()), over("http://"+f.relay.Addr())
	f.r = f.near.registrar(t)
	one, two := redistest.Standalone(t), redistest.Standalone(t)
	f.r.cluster("one", "standalone", one.Addr())
	f.r.cluster("two", "standalone", two.Addr())
	f.r.tenant("acme", "one")
	f.r.user("acme", "app")
	f.r.tenant("moving", "one")
	f.r.user("moving", "mover")
	f.converge("what was registered")
	f.crowd = newCrowd(t)
	for i, p := range []*proxy{f.near, f.far, f.near, f.far} {
		conn, key, at := p.login(t, "app"), fmt.Sprint("client:", i), 0
		f.join(func() {
			for !f.ended() {
				if err := count(f.crowd, conn, key, &at, 1); err != nil {
					f.wrong("%s: %v", key, err)
					return
				}
			}
		})
	}
	return f
}

// converge changes something at the near proxy and waits until both have it in force.
func (f *fleet) converge(what string) {
	f.t.Helper()
	f.change()
	began := time.Now()
	f.same()
	f.t.Logf("%s: the other proxy had it after %s", what, time.Since(began).Round(time.Millisecond))
}

// change makes a change that every client of the tenant can see. When etcd has just come back, it may need another attempt.
func (f *fleet) change() {
	f.t.Helper()
	f.number++
	require.Eventually(f.t, func() bool {
		_, err := f.r.Tenants().Patch(f.t.Context(), anyWrite(), "moving", fmt.Appendf(nil, `{"databases": [0, %d], "cluster": %q}`,
			f.number, []string{"one", "two"}[f.number%2]))
		return err == nil
	}, 3*eventually, tick)
}

// same waits until both proxies serve what was changed last.
func (f *fleet) same() {
	f.t.Helper()
	for _, p := range []*proxy{f.near, f.far} {
		require.Eventually(f.t, func() bool { return f.serves(p, f.number) }, 3*eventually, tick)
	}
}

func (f *fleet) serves(p *proxy, number int) bool {
	for _, tenant := range p.Config()["tenants"].([]any) {
		of := tenant.(map[string]any)
		if of["name"] == "moving" {
			return of["cluster"] == []string{"one", "two"}[number%2] && fmt.Sprint(of["databases"]) == fmt.Sprintf("[0 %d]", number)
		}
	}
	return false
}

// available waits until a proxy finds etcd so, and tells it in its metrics.
func (f *fleet) available(p *proxy, is bool) {
	f.t.Helper()
	want := map[bool]float64{true: 1}[is]
	require.Eventually(f.t, func() bool { return p.Status().Store.Available == is }, 3*eventually, tick)
	require.InDelta(f.t, want, p.metric(f.t, "sluice_store_available", `kind="etcd"`), 0)
}

// goesOn requires that both proxies serve who is there and who comes.
func (f *fleet) goesOn() {
	f.t.Helper()
	f.awaitServed(100)
	for _, p := range []*proxy{f.near, f.far} {
		p.login(f.t, "app").Close()
		require.True(f.t, p.Status().Ready)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	require.Empty(f.t, f.mu.wrong)
}

func (f *fleet) stopped() {
	f.etcd.Kill()
	f.available(f.near, false)
	f.available(f.far, false)
	f.goesOn()
	_, err := f.r.Tenants().Patch(f.t.Context(), anyWrite(), "moving", []byte(`{"databases": [0, 15]}`))
	require.ErrorIs(f.t, err, store.ErrUnavailable)
	f.etcd.Start()
	f.available(f.near, true)
	f.available(f.far, true)
	f.converge("after etcd was stopped")
}

// partitioned keeps the far proxy away from etcd while something changes, and while the log of changes is dropped.
func (f *fleet) partitioned(compacted bool) {
	f.relay.Both(redistest.Faults{BlackHole: true})
	f.available(f.far, false)
	f.available(f.near, true)
	before := f.number
	for range 3 {
		f.change()
	}
	require.True(f.t, f.serves(f.near, f.number))
	require.True(f.t, f.serves(f.far, before), "the last state that it knew")
	behind := f.far.metric(f.t, "sluice_store_revision_applied")
	require.Less(f.t, behind, f.near.metric(f.t, "sluice_store_revision_applied"))
	f.goesOn()
	if compacted {
		f.compact()
	}
	f.relay.Cut() // what was sent into the hole is gone
	f.relay.Heal()
	f.same()
	require.Greater(f.t, f.far.metric(f.t, "sluice_store_revision_applied"), behind)
	f.available(f.far, true)
	f.converge(map[bool]string{false: "after a partition", true: "after a partition and a compaction"}[compacted])
}

// compact drops the changes up to now.
func (f *fleet) compact() {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{f.etcd.Endpoint()}, Logger: zap.NewNop()})
	require.NoError(f.t, err)
	defer func() { _ = client.Close() }()
	ctx, cancel := context.WithTimeout(f.t.Context(), eventually)
	defer cancel()
	now, err := client.Get(ctx, "/sluice/", clientv3.WithCountOnly())
	require.NoError(f.t, err)
	_, err = client.Compact(ctx, now.Header.Revision, clientv3.WithCompactPhysical())
	require.NoError(f.t, err)
}

// restored puts an older state of etcd in the place of the present one.
func (f *fleet) restored() {
	f.etcd.Kill()
	backup, kept := f.etcd.Backup(), f.number
	f.etcd.Start()
	f.converge("what will be forgotten")
	f.etcd.Kill()
	f.etcd.Restore(backup)
	f.etcd.Start()
	f.number = kept
	f.same()
	f.goesOn()
	f.available(f.near, true)
	f.available(f.far, true)
	f.number += 2 // not what was forgotten
	f.converge("after a restore")
}
