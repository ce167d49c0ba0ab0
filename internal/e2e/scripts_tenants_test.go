package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/redistest"
)

// scriptTenants is a daemon with two tenants, ann's and ben's, on one cluster.
func scriptTenants(t *testing.T, kind string, addrs []string, databases [2]string) (ann, ben *redistest.Conn) {
	t.Helper()
	p := startProxy(t, fmt.Sprintf(`
listeners: [{address: "127.0.0.1:0"}]
clusters: [{name: main, kind: %s, addresses: ["%s"]}]
tenants:
  - {name: alpha, cluster: main%s, users: [{name: ann, sha256: %q}]}
  - {name: beta, cluster: main%s, users: [{name: ben, sha256: %q}]}
`, kind, strings.Join(addrs, `", "`), databases[0], sha256Hex("pw"), databases[1], sha256Hex("pw")))
	ann, ben = redistest.Dial(t, p.Addr), redistest.Dial(t, p.Addr)
	for _, c := range []*redistest.Conn{ann, ben} {
		name := map[*redistest.Conn]string{ann: "ann", ben: "ben"}[c]
		require.Equal(t, "+OK\r\n", string(c.Do("AUTH", name, "pw")))
		require.Eventually(t, func() bool { return string(c.Do("SET", "up", "1")) == "+OK\r\n" }, eventually, tick)
	}
	return ann, ben
}

// TestScriptsOfTenantsOnOneServer: what tenants share is not changed or shown by one of them.
func TestScriptsOfTenantsOnOneServer(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	require.Equal(t, bulk("op"), string(server.Do("FUNCTION", "LOAD", "#!lua name=op\nredis.register_function('op',function() return 'by the operator' end)")))
	ann, ben := scriptTenants(t, "standalone", []string{server.Addr()}, [2]string{", databases: [0]", ", databases: [1]"})
	library := "#!lua name=op\nredis.register_function('op',function() return 'by ann' end)"
	for _, args := range [][]string{
		{"FUNCTION", "LOAD", "REPLACE", library}, {"FUNCTION", "LOAD", library + strings.Repeat(" ", 300<<10)}, {"FUNCTION", "DELETE", "op"}, {"FUNCTION", "FLUSH"},
		{"FUNCTION", "LIST"}, {"FUNCTION", "DUMP"}, {"FUNCTION", "RESTORE", "x"}, {"FUNCTION", "STATS"}, {"FUNCTION", "KILL"},
		{"SCRIPT", "KILL"}, {"SCRIPT", "SHOW", "x"},
	} {
		want := "-NOPERM '" + strings.ToLower(args[0]+"|"+args[1]) + "' concerns what all tenants of this backend share and is not available through this proxy\r\n"
		require.Equal(t, want, string(ann.Do(args...)))
		require.Equal(t, "+OK\r\n", string(ann.Do("MULTI")))
		reply := string(ann.Do(args...))
		require.True(t, reply == want || strings.HasPrefix(reply, "-ERR ") && len(args[len(args)-1]) > 1<<10, reply)
		require.Contains(t, string(ann.Do("EXEC")), "-EXECABORT")
	}
	require.Equal(t, bulk("by the operator"), string(ann.Do("FCALL", "op", "0")))

	// Ann empties the caches; ben's scripts are given to the node again, also in the middle of a pipeline.
	sha := loadScript(t, ben, "return redis.call('INCR',KEYS[1])")
	require.Equal(t, ":1\r\n", string(ben.Do("EVALSHA", sha, "1", "n")))
	require.Equal(t, "+OK\r\n", string(ann.Do("SCRIPT", "FLUSH")))
	require.Equal(t, noScript, string(ann.Do("EVALSHA", sha, "1", "n")))
	ben.Send(redistest.Command("EVALSHA", sha, "1", "n") + redistest.Command("GET", "n"))
	require.Equal(t, ":2\r\n", string(ben.ReadReply()))
	require.Equal(t, bulk("2"), string(ben.ReadReply()))
}

// TestScriptMemoryIsTheTenants: the proxy's memory serves nobody but the tenant whose scripts they are.
func TestScriptMemoryIsTheTenants(t *testing.T) {
	t.Parallel()
	servers := redistest.Cluster(t, 3, 0)
	ann, ben := scriptTenants(t, "cluster", servers.Addrs(), [2]string{})
	body := "return 'of ann'"
	ann.Do("EVAL", body, "1", keyOfShard(0, "a"))
	sha := loadedName(t, body)
	require.Equal(t, "*1\r\n:1\r\n", string(ann.Do("SCRIPT", "EXISTS", sha)))
	require.Equal(t, "*1\r\n:0\r\n", string(ben.Do("SCRIPT", "EXISTS", sha)))
	for i := 1; i < 3; i++ {
		require.Equal(t, noScript, string(ben.Do("EVALSHA", sha, "1", keyOfShard(i, "a"))))
		require.Equal(t, bulk("of ann"), string(ann.Do("EVALSHA", sha, "1", keyOfShard(i, "a"))))
	}
	emptyCaches(t, servers)
	require.Equal(t, noScript, string(ben.Do("EVALSHA", sha, "1", keyOfShard(0, "a"))))
	require.Equal(t, bulk("of ann"), string(ann.Do("EVALSHA", sha, "1", keyOfShard(0, "a"))))
}
