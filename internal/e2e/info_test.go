package e2e

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/redistest"
)

// infoFields are what INFO says, by name; sections are under "# Title".
func infoFields(reply []byte) map[string]string {
	fields := map[string]string{}
	for line := range strings.Lines(bulkText(string(reply))) {
		line = strings.TrimRight(line, "\r\n")
		if name, value, ok := strings.Cut(line, ":"); ok && !strings.HasPrefix(line, "txt:") {
			fields[name] = value
		} else if i := strings.Index(line, "# "); i >= 0 {
			fields[line[i:]] = ""
		}
	}
	return fields
}

// TestInfoTellsTheTenantsKeyspace: a tenant sees its own databases.
func TestInfoTellsTheTenantsKeyspace(t *testing.T) {
	t.Parallel()
	p := startPair(t)
	for _, protocol := range []int{2, 3} {
		p.flush(t)
		through, direct := p.dial(t, protocol)
		for _, c := range []*redistest.Conn{through, direct} {
			require.Equal(t, "+OK\r\n", string(c.Do("MSET", "a", "1", "b", "2")))
			require.Equal(t, "+OK\r\n", string(c.Do("SELECT", "2")))
			require.Equal(t, "+OK\r\n", string(c.Do("SET", "c", "3")))
			require.Equal(t, string(c.Do("INFO", "keyspace")), string(c.Do("INFO", "KEYSPACE", "nosuch")))
		}
		require.Equal(t, string(direct.Do("INFO", "keyspace")), string(through.Do("INFO", "keyspace")))
		require.Equal(t, string(direct.Do("INFO", "nosuch")), string(through.Do("INFO", "nosuch")))
		require.Equal(t, string(direct.Do("INFO", "cluster")), string(through.Do("INFO", "cluster")))
		p.backend.Do("SET", "d", "4")
		other := p.backend.Dial()
		other.Do("SELECT", "5") // not the tenant's
		other.Do("SET", "secret", "1")
		require.NotContains(t, string(through.Do("INFO")), "db5:")
		for _, section := range []string{"", "default", "all", "everything"} {
			args := strings.Fields("INFO " + section)
			through, direct := infoFields(through.Do(args...)), infoFields(direct.Do(args...))
			for _, name := range []string{
				"redis_version", "redis_mode", "arch_bits", "connected_clients", "blocked_clients", "maxmemory", "maxmemory_human", "maxmemory_policy",
				"loading", "rdb_bgsave_in_progress", "rdb_last_bgsave_status", "aof_enabled", "aof_last_write_status", "role", "connected_slaves",
				"cluster_enabled", "# Server", "# Clients", "# Memory", "# Persistence", "# Stats", "# Replication", "# Cluster", "# Keyspace",
			} {
				require.Contains(t, through, name)
				require.Equal(t, direct[name], through[name], name)
			}
			for _, name := range []string{"os", "tcp_port", "uptime_in_seconds", "uptime_in_days", "used_memory", "used_memory_human", "used_memory_peak_human", "run_id", "rdb_last_save_time", "process_id"} {
				require.NotEmpty(t, through[name], name)
			}
		}
		through.Close()
		direct.Close()
		require.Eventually(t, func() bool { return p.proxy.metric(t, "sluice_clients") == 0 }, eventually, tick)
	}
}

// TestInfoFollowsTheServersSettings: job queues refuse a server that evicts.
func TestInfoFollowsTheServersSettings(t *testing.T) {
	t.Parallel()
	p := startPair(t)
	through, _ := p.dial(t, 2)
	p.backend.Do("CONFIG", "SET", "maxmemory", "104857600")
	p.backend.Do("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
	fields := infoFields(through.Do("INFO", "memory"))
	require.Equal(t, "allkeys-lru", fields["maxmemory_policy"])
	require.Equal(t, "100.00M", fields["maxmemory_human"])
}

func TestInfoCountsBlockedClients(t *testing.T) {
	t.Parallel()
	p := startPair(t)
	through, _ := p.dial(t, 2)
	blocked, _ := p.dial(t, 3)
	blocked.SendCommand("BLPOP", "queue", "0")
	require.Eventually(t, func() bool { return infoFields(through.Do("INFO", "clients"))["blocked_clients"] == "1" }, eventually, tick)
	through.Do("LPUSH", "queue", "x")
	blocked.ReadReply()
	require.Equal(t, "0", infoFields(through.Do("INFO", "clients"))["blocked_clients"])
}

// TestInfoTellsNothingOfOtherTenants: how much memory a server uses is others' business where they share it.
func TestInfoTellsNothingOfOtherTenants(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	p := startProxy(t, fmt.Sprintf(`
listeners: [{address: "127.0.0.1:0", tenant: one}, {address: "127.0.0.1:0", tenant: two}]
admin: {address: "127.0.0.1:0"}
clusters: [{name: main, kind: standalone, addresses: ["%s"]}]
tenants: [{name: one, cluster: main, databases: [0]}, {name: two, cluster: main, databases: [1], users: [{name: u, sha256: "%s"}]}]
`, server.Addr(), sha256Hex("x")))
	p.awaitReady(t)
	c := redistest.Dial(t, p.Addr)
	other := server.Dial()
	other.Do("SELECT", "1")
	other.Do("SET", "k", "v")
	c.Do("SET", "k", "v")
	fields := infoFields(c.Do("INFO"))
	require.NotContains(t, fields, "db1")
	require.Equal(t, "0", fields["used_memory"])
	require.Equal(t, "*2\r\n$10\r\nkeys.count\r\n:1\r\n", string(c.Do("MEMORY", "STATS")))
	require.Contains(t, string(c.Do("MEMORY", "DOCTOR")), "I can only account for what occurs on this base.")
	require.Equal(t, "+OK\r\n", string(c.Do("MULTI")))
	require.Equal(t, "+QUEUED\r\n", string(c.Do("MEMORY", "STATS")))
	require.Equal(t, "*1\r\n*2\r\n$10\r\nkeys.count\r\n:1\r\n", string(c.Do("EXEC")))
}

// TestClusterInfo: the keyspace is that of all shards.
func TestClusterInfo(t *testing.T) {
	t.Parallel()
	servers := redistest.Cluster(t, 3, 0)
	single := redistest.Standalone(t)
	p := clusterProxy(t, servers, "")
	for _, protocol := range []int{2, 3} {
		through, direct := hello(t, p.Addr, protocol), hello(t, single.Addr(), protocol)
		require.Equal(t, string(direct.Do("INFO", "keyspace")), string(through.Do("INFO", "keyspace")))
		fill(t, through, "key", 500)
		fill(t, direct, "key", 500)
		for i := range 30 {
			require.Equal(t, ":1\r\n", string(through.Do("EXPIRE", fmt.Sprint("key:", i), "1000")))
			require.Equal(t, ":1\r\n", string(direct.Do("EXPIRE", fmt.Sprint("key:", i), "1000")))
		}
		clock := regexp.MustCompile(`avg_ttl=\d+|^[$=]\d+`) // differs by when each server looked, and so does the length
		require.Equal(t, clock.ReplaceAllString(string(direct.Do("INFO", "keyspace")), ""), clock.ReplaceAllString(string(through.Do("INFO", "keyspace")), ""))
		all := infoFields(through.Do("INFO"))
		require.Equal(t, "standalone", all["redis_mode"])
		require.Equal(t, "0", all["cluster_enabled"])
		require.Equal(t, "*2\r\n$10\r\nkeys.count\r\n:500\r\n", strings.Replace(string(through.Do("MEMORY", "STATS")), "%1", "*2", 1))
		require.Contains(t, string(through.Do("MEMORY", "DOCTOR")), "I can only account for what occurs on this base.")
		require.Equal(t, string(servers.NodeFor("key:7").Do("MEMORY", "USAGE", "key:7")), string(through.Do("MEMORY", "USAGE", "key:7")))
		require.Equal(t, string(direct.Do("OBJECT", "ENCODING", "key:7")), string(through.Do("OBJECT", "ENCODING", "key:7")))
		require.Equal(t, string(direct.Do("MEMORY", "HELP")), string(through.Do("MEMORY", "HELP")))
		through.Do("FLUSHALL")
		direct.Do("FLUSHALL")
	}
}

// TestLatencyAnswersAsAServerThatDoesNotSample compares with a server whose latency monitor is off.
func TestLatencyAnswersAsAServerThatDoesNotSample(t *testing.T) {
	t.Parallel()
	p := startPair(t)
	for _, protocol := range []int{2, 3} {
		through, direct := p.dial(t, protocol)
		for _, line := range []string{
			"LATENCY LATEST", "LATENCY HISTORY command", "LATENCY RESET", "LATENCY RESET command fork", "LATENCY GRAPH command", "LATENCY DOCTOR",
			"LATENCY HELP", "LATENCY HISTOGRAM nosuch", "LATENCY WHAT", "LATENCY", "LATENCY GRAPH", "LATENCY HISTORY", "MEMORY DOCTOR", "MEMORY HELP",
		} {
			require.Equal(t, string(direct.Do(words(t, line)...)), string(through.Do(words(t, line)...)), line)
		}
		require.Contains(t, string(through.Do("MEMORY", "STATS")), "peak.allocated", "alone on its server")
	}
}
