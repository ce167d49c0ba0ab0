package e2e

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/sluiceproxy/sluice/internal/config"
	"github.com/sluiceproxy/sluice/internal/control"
	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/store"
	"github.com/sluiceproxy/sluice/pkg/api"
)

var manyTenants = flag.Int("tenants", 1000, "tenants of TestManyTenants") //nolint:gochecknoglobals // a flag

// tenantMemory is what a tenant without traffic may take.
const tenantMemory = 50 << 10

// TestManyTenants tells how long a start and a change take with many tenants on 20 clusters, and what a tenant costs.
func TestManyTenants(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	const clusters = 20
	tenants := *manyTenants
	server := redistest.Standalone(t)
	dir := memoryDir(t)
	p := emptyProxy(t, dir)
	r := p.registrar(t)
	for i := range clusters {
		r.cluster(fmt.Sprint("c", i), "standalone", server.Addr())
	}
	p.awaitReady(t)
	empty := heapInUse()
	require.NoError(t, p.stop())
	began := time.Now()
	seedTenants(t, filepath.Join(dir, "store.db"), tenants, clusters)
	t.Logf("%d tenants with a user each written in %s", tenants, time.Since(began))

	began = time.Now()
	p = emptyProxy(t, dir)
	t.Logf("started in %s", time.Since(began))
	p.awaitReady(t)
	t.Logf("ready in %s", time.Since(began))
	require.Equal(t, tenants, p.Status().Tenants)
	each := (max(heapInUse(), empty) - empty) / uint64(tenants)
	t.Logf("%d bytes of heap per tenant", each)
	require.Less(t, each, uint64(tenantMemory))
	r = p.registrar(t)
	c := p.login(t, "useven")
	for n := range 3 {
		began = time.Now()
		r.patchTenant("seven", fmt.Sprintf(`{"databases": [0, %d]}`, n+1))
		require.Equal(t, "+OK\r\n", string(c.Do("SELECT", fmt.Sprint(n+1))))
		t.Logf("a change was live after %s", time.Since(began))
		require.Equal(t, "+OK\r\n", string(c.Do("SELECT", "0")))
	}
	r.tenant("late", "c0")
	r.user("late", "late")
	for _, user := range []string{"ut0", fmt.Sprint("ut", tenants-2), "late"} {
		require.Equal(t, "+OK\r\n", string(p.login(t, user).Do("SET", "k", "v")))
	}
}

// memoryDir is a folder in memory, where the machine has one: to keep a thousand writes on a disk takes long.
func memoryDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "sluice")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// seedTenants writes tenants with a user each into the file of a store, as copies of one that was registered: to register each
// would be a thousand changes of what is in force. One is called seven.
func seedTenants(t *testing.T, file string, tenants, clusters int) {
	t.Helper()
	const tenant, cluster = "template-tenant", "template-cluster"
	model := store.NewMemory()
	r := registrar{t, control.New(model, nil, control.NewFile(&config.Config{}, nil), zap.NewNop())}
	r.cluster(cluster, "standalone", "127.0.0.1:1")
	r.tenant(tenant, cluster)
	_, err := r.Users().Create(t.Context(), anyWrite(), api.User{Tenant: tenant, Name: "u" + tenant, SHA256: sha256Hex("pw-u" + tenant)})
	require.NoError(t, err)
	seeded, err := store.OpenBolt(file)
	require.NoError(t, err)
	defer func() { require.NoError(t, seeded.Close()) }()
	for i := range tenants {
		name := fmt.Sprint("t", i-1)
		if i == 0 {
			name = "seven"
		}
		like := strings.NewReplacer(tenant, name, cluster, fmt.Sprint("c", i%clusters), sha256Hex("pw-u"+tenant), sha256Hex("pw-u"+name))
		for _, key := range []string{"tenants/" + tenant, "users/" + tenant + "/u" + tenant} {
			entry, err := model.Get(t.Context(), key)
			require.NoError(t, err)
			_, err = seeded.Put(t.Context(), like.Replace(key), []byte(like.Replace(string(entry.Value))), store.Absent)
			require.NoError(t, err)
		}
	}
}
