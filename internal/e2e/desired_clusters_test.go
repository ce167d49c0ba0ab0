package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/pkg/api"
)

// TestScriptsOfClusterAtNewAddress: what a client has loaded is there when its cluster is at another address, as it is after
// any other loss of a node.
func TestScriptsOfClusterAtNewAddress(t *testing.T) {
	t.Parallel()
	before, after := redistest.Standalone(t), redistest.Standalone(t)
	p := emptyProxy(t, t.TempDir())
	r := p.registrar(t)
	r.cluster("main", "standalone", before.Addr())
	r.tenant("acme", "main")
	r.user("acme", "app")
	c := p.login(t, "app")
	sha := loadScript(t, c, "return redis.call('INCR',KEYS[1])")
	require.Equal(t, ":1\r\n", string(c.Do("EVALSHA", sha, "1", "n")))
	r.patchCluster("main", fmt.Sprintf(`{"addresses": [%q]}`, after.Addr()))
	require.Equal(t, ":1\r\n", string(c.Do("EVALSHA", sha, "1", "n")), "the other server counts from the start")
	require.Equal(t, "$1\r\n1\r\n", string(after.Do("GET", "n")))
	require.Equal(t, ":2\r\n", string(p.login(t, "app").Do("EVALSHA", sha, "1", "n")))
	r.patchCluster("main", fmt.Sprintf(`{"addresses": [%q]}`, before.Addr()))
	require.Equal(t, ":2\r\n", string(c.Do("EVALSHA", sha, "1", "n")))
}

// TestTwoClustersOnOneServer: a tenant must not empty another's databases because the same server is registered twice.
func TestTwoClustersOnOneServer(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	p := emptyProxy(t, t.TempDir())
	r := p.registrar(t)
	r.cluster("one", "standalone", server.Addr())
	r.cluster("same", "standalone", strings.Replace(server.Addr(), "127.0.0.1", "localhost", 1))
	r.tenant("alpha", "one")
	r.user("alpha", "ann")
	ann := p.login(t, "ann")
	require.Equal(t, "+OK\r\n", string(ann.Do("FLUSHALL")), "nobody else is there yet")
	r.tenant("beta", "same")
	r.patchTenant("beta", `{"databases": [1]}`)
	r.user("beta", "ben")
	require.Equal(t, "+OK\r\n", string(p.login(t, "ben").Do("SET", "k", "v")))
	require.Regexp(t, "^-NOPERM 'flushall' would empty other tenants' databases", string(ann.Do("FLUSHALL")))
	require.Regexp(t, "^-NOPERM", string(ann.Do("FUNCTION", "FLUSH")))
	require.Equal(t, "$1\r\nv\r\n", string(p.login(t, "ben").Do("GET", "k")))
}

// TestOldPasswordOfAClusterEnds: a client that stays on the old connections, because it listens, is not told when it needs another one and
// the old password has ended.
func TestOldPasswordOfAClusterEnds(t *testing.T) {
	t.Parallel()
	b := newBackend(t, "main", false)
	p := emptyProxy(t, t.TempDir())
	r := p.registrar(t)
	_, err := r.Clusters().Create(t.Context(), anyWrite(), api.Cluster{
		Name: b.name, Addresses: b.addresses[2], Auth: &api.ClusterAuth{Username: proxyUser, Password: b.password},
	})
	require.NoError(t, err)
	r.tenant("acme", b.name)
	r.user("acme", "app")
	c := p.login(t, "app")
	require.Contains(t, string(c.Do("HELLO", "3")), "proto")
	require.Equal(t, ">3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n", string(c.Do("SUBSCRIBE", "news")))
	for _, password := range []string{"second", "third"} {
		b.setUser(t, ">"+password)
		r.patchCluster(b.name, fmt.Sprintf(`{"auth": {"username": %q, "password": %q}}`, proxyUser, password))
		b.setUser(t, "<"+b.password)
		b.password = password
	}
	require.Equal(t, "+OK\r\n", string(c.Do("WATCH", "k")), "which takes a connection of its own")
	require.Equal(t, "+OK\r\n", string(c.Do("SET", "k", "v")))
	require.Equal(t, "+OK\r\n", string(p.login(t, "app").Do("WATCH", "k")))
}
