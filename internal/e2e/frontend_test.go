package e2e

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/redistest"
)

// frontendYAML is one open tenant that is shown as a cluster.
func frontendYAML(kind, addr, listeners string, extra ...string) string {
	return fmt.Sprintf(`
listeners: [%s]
admin: {address: "127.0.0.1:0"}
clusters: [{name: main, kind: %s, addresses: [%q]}]
tenants: [{name: acme, cluster: main, frontend: cluster%s}]
`, listeners, kind, addr, strings.Join(append([]string{""}, extra...), ", "))
}

const anyListener = `{address: "127.0.0.1:0"}`

// clusterLines are what a client may ask of a node that has all slots. ? compares shapes, see example.
var clusterLines = []string{
	"SELECT 0", "SELECT 1", "SELECT -1", "SELECT x", "SELECT 99999999999999",
	"READONLY", "READWRITE", "ASKING", "READONLY x",
	"CLUSTER", "CLUSTER NOPE", "CLUSTER INFO x", "CLUSTER KEYSLOT",
	"CLUSTER KEYSLOT foo", "CLUSTER KEYSLOT {a}b", `CLUSTER KEYSLOT ""`, "cluster keyslot foo",
	"CLUSTER COUNTKEYSINSLOT x", "CLUSTER COUNTKEYSINSLOT -1", "CLUSTER COUNTKEYSINSLOT 16384", "CLUSTER COUNTKEYSINSLOT 01",
	"CLUSTER GETKEYSINSLOT 1 x", "CLUSTER GETKEYSINSLOT x 1", "CLUSTER GETKEYSINSLOT 16384 1", "CLUSTER GETKEYSINSLOT 1 -1",
	"CLUSTER GETKEYSINSLOT 1 9999999999999999999999",
	"CLUSTER COUNT-FAILURE-REPORTS abc", "CLUSTER REPLICAS abc", "CLUSTER SLAVES abc", "CLUSTER LINKS",
	"? CLUSTER SLOTS", "? CLUSTER SHARDS", "? CLUSTER MYID",
	"SET bar 1", "SET {bar}1 1", "MGET bar {bar}1", "MGET bar hello", "DEL bar hello", "MSET bar 1 hello 1", "EXISTS bar hello",
	"UNLINK bar hello", "TOUCH bar hello", "MSETNX bar 1 hello 2", "RENAME bar hello", "SINTER bar hello", "EVAL return(1) 2 bar hello",
	"EVAL return(1) 2 bar {bar}2", "EVAL return(1) 0", "BLPOP bar hello 1", "XREAD BLOCK 1 STREAMS bar hello 0 0", "BLMOVE bar hello LEFT LEFT 1",
	"SORT bar STORE hello", "PFCOUNT bar hello", "SPUBLISH bar hello", "SSUBSCRIBE bar hello", "SUNSUBSCRIBE bar hello",
	"MOVE bar 1", "MOVE bar 0", "SWAPDB 0 1", "COPY bar {bar}x DB 1", "COPY bar {bar}x DB x", "COPY bar hello DB 1", "COPY bar {bar}x DB 0",
	"COPY bar {bar}x REPLACE DB 0", "COPY bar {bar}y", "GET {bar}x", "DBSIZE",
	"WATCH bar hello", "MULTI", "SET bar 1", "MSET bar 1 hello 2", "EXEC",
	"MULTI", "SET bar 1", "SET {bar}1 1", "SET hello 2", "EXEC", "GET hello", "EXISTS {bar}1",
	"WATCH bar", "MULTI", "SET bar 7", "SET hello 2", "EXEC", "GET bar", "EXEC",
	"MULTI", "COPY bar {bar}z DB 0", "GET {bar}z", "EXEC", "MULTI", "SSUBSCRIBE bar hello", "EXEC", "MULTI", "DISCARD",
	"WATCH bar", "WATCH {bar}1", "MULTI", "INCR bar", "EXEC",
	"FLUSHALL",
}

// TestClusterFrontend compares a tenant that is shown as a cluster with a Redis Cluster of one node, byte for byte.
func TestClusterFrontend(t *testing.T) {
	t.Parallel()
	direct := redistest.Cluster(t, 1, 0)
	t.Run("on a server", func(t *testing.T) {
		p := startProxy(t, frontendYAML("standalone", redistest.Standalone(t).Addr(), anyListener, "databases: [3]"))
		requireClusterNode(t, p, direct)
		c := redistest.Dial(t, p.Addr)
		for _, line := range []string{"CLUSTER COUNTKEYSINSLOT 5", "CLUSTER GETKEYSINSLOT 5 1"} {
			require.Equal(t, "-ERR the backend of this tenant keeps no index of slots; only a Redis Cluster does\r\n", string(c.Do(strings.Fields(line)...)))
		}
	})
	t.Run("on a cluster", func(t *testing.T) {
		servers := redistest.Cluster(t, 3, 0)
		p := startProxy(t, frontendYAML("cluster", servers.Addrs()[0], anyListener))
		requireSlotsCounted(t, p)
	})
	t.Run("on a cluster of one node", func(t *testing.T) {
		p := startProxy(t, frontendYAML("cluster", redistest.Cluster(t, 1, 0).Addrs()[0], anyListener))
		requireClusterNode(t, p, direct)
	})
}

func requireClusterNode(t *testing.T, p *proxy, node *redistest.ClusterServers) {
	t.Helper()
	p.awaitReady(t)
	for _, protocol := range []int{2, 3} {
		through, direct := hello(t, p.Addr, protocol), hello(t, node.Addrs()[0], protocol)
		for _, text := range clusterLines {
			e := example{text: fmt.Sprintf("RESP%d %s", protocol, text), args: words(t, strings.TrimPrefix(text, "? "))}
			if e.args = words(t, strings.TrimPrefix(text, "? ")); strings.HasPrefix(text, "? ") {
				e.as = shape
			}
			e.requireSame(t, direct.Do(e.args...), through.Do(e.args...))
		}
		for _, line := range []string{"CLUSTER NODES", "CLUSTER INFO", "HELLO", "INFO cluster"} {
			require.Equal(t, clusterText(direct.Do(strings.Fields(line)...)), clusterText(through.Do(strings.Fields(line)...)), line)
		}
		id := strings.Split(string(through.Do("CLUSTER", "MYID")), "\r\n")[1]
		require.Contains(t, string(through.Do("CLUSTER", "NODES")), id+" "+p.Addr)
		require.Equal(t, ":0\r\n", string(through.Do("CLUSTER", "COUNT-FAILURE-REPORTS", id)))
		require.Equal(t, "*0\r\n", string(through.Do("CLUSTER", "REPLICAS", id)))
		require.Equal(t, "*0\r\n", string(through.Do("CLUSTER", "SLAVES", id)))
		require.Regexp(t, `^\$40\r\n[0-9a-f]{40}\r\n$`, string(through.Do("CLUSTER", "MYSHARDID")))
		require.Contains(t, string(through.Do("CLUSTER", "HELP")), "+COUNTKEYSINSLOT <slot>\r\n")
		require.Contains(t, string(through.Do("INFO")), "redis_mode:cluster\r\n")
		for _, line := range []string{"MEET 127.0.0.1 1", "ADDSLOTS 1", "FAILOVER", "SETSLOT 1 STABLE", "RESET", "FORGET " + id, "FLUSHSLOTS"} {
			reply := string(through.Do(append([]string{"CLUSTER"}, strings.Fields(line)...)...))
			require.Equal(t, fmt.Sprintf("-NOPERM 'cluster|%s' concerns the operation of the backend and is not available through this proxy\r\n",
				strings.ToLower(strings.Fields(line)[0])), reply)
		}
	}
}

var (
	changing = regexp.MustCompile(`[0-9a-f]{40}|[0-9.]*:[0-9]+@[0-9]+|0 [0-9]+ [0-9]+ connected|(proto|id)\r\n:[0-9]+|\$[0-9]+|=[0-9]+|cluster_(current|my)_epoch:[0-9]+|cluster_stats_messages_[a-z_]+:[0-9]+\r\n`)
	version  = regexp.MustCompile(`version\r\n\$[0-9]+\r\n[0-9.]+`)
)

// clusterText leaves of a text what two clusters of one node have in common.
func clusterText(reply []byte) string {
	return changing.ReplaceAllString(version.ReplaceAllString(string(reply), ""), "")
}

// requireSlotsCounted: the node that has the slot tells its keys.
func requireSlotsCounted(t *testing.T, p *proxy) {
	t.Helper()
	p.awaitReady(t)
	c := redistest.Dial(t, p.Addr)
	for i := range 3 {
		key := keyOfShard(i, "counted")
		require.Equal(t, "+OK\r\n", string(c.Do("SET", key, "1")))
		at := strings.Trim(string(c.Do("CLUSTER", "KEYSLOT", key)), ":\r\n")
		require.Equal(t, ":1\r\n", string(c.Do("CLUSTER", "COUNTKEYSINSLOT", at)))
		require.Equal(t, fmt.Sprintf("*1\r\n$%d\r\n%s\r\n", len(key), key), string(c.Do("CLUSTER", "GETKEYSINSLOT", at, "10")))
		require.Equal(t, "*0\r\n", string(c.Do("CLUSTER", "GETKEYSINSLOT", at, "0")))
	}
	require.Contains(t, string(c.Do("CLUSTER", "INFO")), "cluster_state:ok\r\ncluster_slots_assigned:16384\r\n")
}

// TestStandaloneFrontend: the clients of any other tenant are told what a server without cluster support tells, also when
// the backend is a cluster.
func TestStandaloneFrontend(t *testing.T) {
	t.Parallel()
	p := startPair(t)
	lines := []string{"READONLY", "READWRITE", "ASKING", "CLUSTER", "CLUSTER NOPE", "CLUSTER INFO x", "CLUSTER KEYSLOT"}
	for _, sub := range []string{
		"SLOTS", "SHARDS", "NODES", "INFO", "MYID", "KEYSLOT foo", "COUNTKEYSINSLOT 5", "COUNTKEYSINSLOT x", "GETKEYSINSLOT 5 1", "LINKS",
		"COUNT-FAILURE-REPORTS abc", "REPLICAS abc", "SLAVES abc", "HELP", "MEET a 1", "RESET", "FAILOVER", "FLUSHSLOTS", "BUMPEPOCH", "FORGET abc",
		"SAVECONFIG", "ADDSLOTS 1", "SETSLOT 1 STABLE", "REPLICATE abc", "SET-CONFIG-EPOCH 1",
	} {
		lines = append(lines, "CLUSTER "+sub)
	}
	for _, protocol := range []int{2, 3} {
		through, direct := p.dial(t, protocol)
		for _, line := range lines {
			e := example{text: line, args: strings.Fields(line)}
			e.requireSame(t, direct.Do(e.args...), through.Do(e.args...))
		}
		require.Contains(t, string(through.Do("HELLO")), "$10\r\nstandalone\r\n")
		require.Contains(t, string(through.Do("INFO")), "redis_mode:standalone\r\n")
		require.Contains(t, string(through.Do("INFO", "cluster")), "cluster_enabled:0\r\n")
	}
}
