package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/control"
	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/pkg/api"
)

// anyWrite is a change by an administrator, whatever version is there.
func anyWrite() control.Write {
	return control.Write{Actor: control.Actor{Name: "test", Role: api.RoleAdmin}, Version: control.AnyVersion}
}

// emptyProxy has a data directory and neither clusters nor tenants.
func emptyProxy(t *testing.T, dir string) *proxy {
	t.Helper()
	return startProxy(t, fmt.Sprintf("listeners: [{address: '127.0.0.1:0'}]\nadmin: {address: '127.0.0.1:0'}\ndata_dir: %q\n", dir))
}

// registrar registers through the control plane, as the admin API does.
type registrar struct {
	t *testing.T
	*control.Control
}

func (p *proxy) registrar(t *testing.T) registrar { return registrar{t, p.Control()} }

func (r registrar) cluster(name, kind string, addresses ...string) {
	r.t.Helper()
	_, err := r.Clusters().Create(r.t.Context(), anyWrite(), api.Cluster{Name: name, ClusterKind: kind, Addresses: addresses})
	require.NoError(r.t, err)
}

func (r registrar) tenant(name, cluster string) {
	r.t.Helper()
	_, err := r.Tenants().Create(r.t.Context(), anyWrite(), api.Tenant{Name: name, Cluster: cluster})
	require.NoError(r.t, err)
}

// user registers a user whose password is "pw-NAME". It is hashed by SHA-256, which costs a test no time.
func (r registrar) user(tenant, name string) {
	r.t.Helper()
	_, err := r.Users().Create(r.t.Context(), anyWrite(), api.User{Tenant: tenant, Name: name, SHA256: sha256Hex("pw-" + name)})
	require.NoError(r.t, err)
}

func (r registrar) patchTenant(name, patch string) {
	r.t.Helper()
	_, err := r.Tenants().Patch(r.t.Context(), anyWrite(), name, []byte(patch))
	require.NoError(r.t, err)
}

func (p *proxy) login(t *testing.T, user string) *redistest.Conn {
	t.Helper()
	c := redistest.Dial(t, p.Addr)
	require.Equal(t, "+OK\r\n", string(c.Do("AUTH", user, "pw-"+user)))
	return c
}

// TestRegisteredOnAnEmptyMachine registers clusters, tenants and users with a daemon that was started with nothing, and
// uses each at once: the answer to a change comes when it is in force.
func TestRegisteredOnAnEmptyMachine(t *testing.T) {
	t.Parallel()
	one, two := redistest.Standalone(t), redistest.Cluster(t, 3, 0)
	dir := filepath.Join(t.TempDir(), "state")
	p := emptyProxy(t, dir)
	p.awaitReady(t)
	r := p.registrar(t)
	r.cluster("c1", "standalone", one.Addr())
	r.cluster("c2", "cluster", two.Addrs()[:2]...)
	r.tenant("acme", "c1")
	require.Equal(t, wrongPass, string(redistest.Dial(t, p.Addr).Do("AUTH", "app", "pw-app")))
	r.user("acme", "app")
	c := p.login(t, "app")
	require.Equal(t, "+OK\r\n", string(c.Do("SET", "k", "one")))
	require.Equal(t, "$3\r\none\r\n", string(one.Do("GET", "k")))

	r.patchTenant("acme", `{"cluster": "c2"}`)
	require.Equal(t, "$-1\r\n", string(c.Do("GET", "k")), "the same connection is on the other cluster")
	require.Equal(t, "+OK\r\n", string(c.Do("SET", "k", "two")))
	_, err := r.Tenants().Rollback(t.Context(), anyWrite(), "acme", 0)
	require.NoError(t, err)
	require.Equal(t, "$3\r\none\r\n", string(c.Do("GET", "k")))

	// A restart keeps all of it.
	require.NoError(t, p.stop())
	p = emptyProxy(t, dir)
	p.awaitReady(t)
	require.Equal(t, "$3\r\none\r\n", string(p.login(t, "app").Do("GET", "k")))
}

func TestFirstToken(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "state")
	p := emptyProxy(t, dir)
	path := filepath.Join(dir, "admin-token")
	first, err := os.ReadFile(path)
	require.NoError(t, err)
	for _, name := range []string{"admin-token", "secret-key", "store.db"} {
		info, err := os.Stat(filepath.Join(dir, name))
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), name)
	}
	token, ok := p.Control().Authenticate(strings.TrimSpace(string(first)))
	require.True(t, ok)
	require.Equal(t, api.RoleAdmin, token.Role)
	require.Equal(t, "admin", token.Name)
	for _, entry := range p.Logs.All() {
		require.NotContains(t, entry.Message+fmt.Sprint(entry.ContextMap()), strings.TrimSpace(string(first)))
	}
	require.NoError(t, p.stop())

	p = emptyProxy(t, dir)
	again, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, first, again, "only the first start makes one")
	tokens, err := p.Control().Tokens().List(t.Context(), nil)
	require.NoError(t, err)
	require.Len(t, tokens, 1)
}

// TestTokensOfTheFile: with tokens in the configuration, none is made.
func TestTokensOfTheFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := startProxy(t, fmt.Sprintf(`
listeners: [{address: "127.0.0.1:0"}]
admin: {address: "127.0.0.1:0", tokens: [{name: ops, role: operator, sha256: %q}]}
data_dir: %q
`, sha256Hex("slt_of-the-operators"), dir))
	token, ok := p.Control().Authenticate("slt_of-the-operators")
	require.True(t, ok)
	require.Equal(t, api.SourceFile, token.Meta.Source)
	require.NoFileExists(t, filepath.Join(dir, "admin-token"))
}

// TestNewClusterIsDialledFirst moves a tenant to a cluster that cannot be reached: its clients stay where they are for as
// long as the dialling may take, and other changes do not wait for it.
func TestNewClusterIsDialledFirst(t *testing.T) {
	t.Parallel()
	one, away := redistest.Standalone(t), redistest.Standalone(t)
	away.Stop() // it accepts and does not answer
	p := emptyProxy(t, t.TempDir())
	r := p.registrar(t)
	r.cluster("one", "standalone", one.Addr())
	for _, name := range []string{"moving", "other"} {
		r.tenant(name, "one")
		r.user(name, name)
	}
	moving := p.login(t, "moving")
	require.Equal(t, "+OK\r\n", string(moving.Do("SET", "k", "v")))
	r.cluster("away", "standalone", away.Addr())
	started := time.Now()
	moved := make(chan error, 1)
	go func() {
		_, err := r.Tenants().Patch(context.Background(), anyWrite(), "moving", []byte(`{"cluster": "away"}`))
		moved <- err
	}()
	require.Eventually(t, func() bool {
		tenant, err := r.Tenants().Get(t.Context(), "moving")
		return err == nil && tenant.Cluster == "away"
	}, eventually, tick)
	r.user("other", "late")
	require.Equal(t, "$1\r\nv\r\n", string(p.login(t, "late").Do("GET", "k")))
	if time.Since(started) < 2*time.Second { // else the dialling may be over
		require.Equal(t, "$1\r\nv\r\n", string(moving.Do("GET", "k")))
	}
	require.NoError(t, <-moved)
	away.Continue()
	require.Eventually(t, func() bool { return string(moving.Do("GET", "k")) == "$-1\r\n" }, eventually, tick)
}

// TestOneClusterThatCannotBeBuilt: files of TLS that are gone keep one cluster out, and nothing else.
func TestOneClusterThatCannotBeBuilt(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	dir := t.TempDir()
	files := redistest.NewTLSFiles(t)
	p := emptyProxy(t, dir)
	r := p.registrar(t)
	_, err := r.Clusters().Create(t.Context(), anyWrite(), api.Cluster{
		Name: "secure", ClusterKind: "standalone", Addresses: []string{"127.0.0.1:1"}, TLS: &api.ClusterTLS{CA: files.CA},
	})
	require.NoError(t, err)
	r.tenant("unlucky", "secure")
	require.NoError(t, p.stop())
	require.NoError(t, os.Remove(files.CA))
	p = emptyProxy(t, dir)
	r = p.registrar(t)
	r.cluster("plain", "standalone", server.Addr())
	r.tenant("lucky", "plain")
	r.user("lucky", "lucky")
	require.Equal(t, "+OK\r\n", string(p.login(t, "lucky").Do("SET", "k", "v")))
	require.InDelta(t, 1, p.metric(t, "sluice_desired_state_problems"), 0)
	require.NotEmpty(t, p.Logs.FilterMessageSnippet("a part of the desired state is not in force").All())
}

func (r registrar) patchCluster(name, patch string) {
	r.t.Helper()
	_, err := r.Clusters().Patch(r.t.Context(), anyWrite(), name, []byte(patch))
	require.NoError(r.t, err)
}
