package e2e

import (
	"flag"
	"fmt"

	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/pkg/api"
)

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
