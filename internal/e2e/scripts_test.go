package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/pkg/slot"
)

const noScript = "-NOSCRIPT No matching script. Please use EVAL.\r\n"

// loadScript loads a script and returns its name.
func loadScript(t *testing.T, c *redistest.Conn, body string) string {
	t.Helper()
	reply := string(c.Do("SCRIPT", "LOAD", body))
	require.Len(t, reply, 47, reply)
	return reply[5:45]
}

// emptyCaches has every node lose its scripts behind the proxy's back.
func emptyCaches(t *testing.T, servers *redistest.ClusterServers) {
	t.Helper()
	for _, s := range servers.Primaries {
		require.Equal(t, "+OK\r\n", string(s.Do("SCRIPT", "FLUSH")))
	}
}

// TestScriptsOnCluster: a client that knows nothing of clusters gets from one what it gets from a single server.
func TestScriptsOnCluster(t *testing.T) {
	t.Parallel()
	servers := redistest.Cluster(t, 3, 0)
	p := clusterProxy(t, servers, "")
	direct := redistest.Standalone(t)
	for _, protocol := range []int{2, 3} {
		t.Run(fmt.Sprintf("RESP%d", protocol), func(t *testing.T) {
			through, single := hello(t, p.Addr, protocol), hello(t, direct.Addr(), protocol)
			same := func(args ...string) {
				t.Helper()
				require.Equal(t, string(single.Do(args...)), string(through.Do(args...)), "%q", args)
			}
			for _, line := range scriptDialogue {
				same(words(t, line)...)
			}
			compareLoadedScripts(t, through, single, protocol)
		})
	}
	t.Run("keys in several slots", func(t *testing.T) {
		c := hello(t, p.Addr, 2)
		for _, line := range []string{"EVAL x 2 a b", "EVAL_RO x 2 a b", "EVALSHA x 2 a b", "EVALSHA_RO x 2 a b", "FCALL x 2 a b", "FCALL_RO x 2 a b"} {
			require.Equal(t, crossSlot, string(c.Do(strings.Fields(line)...)), line)
		}
		sha := loadScript(t, c, "return 'several slots'")
		require.Equal(t, crossSlot, string(c.Do("EVALSHA", sha, "2", "a", "b")))
	})
	t.Run("long arguments", func(t *testing.T) { requireLongArguments(t, p.Addr) })
	t.Run("no keys", func(t *testing.T) { requireSteadyPrimary(t, p.Addr, servers) })
	t.Run("exists", func(t *testing.T) { requireExistsMerged(t, p.Addr, servers) })
	t.Run("cache lost", func(t *testing.T) { requireServedAgain(t, p.Addr, servers) })
	t.Run("flush", func(t *testing.T) { requireFlushed(t, p.Addr, servers) })
	requireNoAddressInLogs(t, p, servers.Addrs()...)
}

var scriptDialogue = []string{
	`SCRIPT FLUSH`, `FUNCTION FLUSH`,
	`EVAL "return {KEYS[1],ARGV[1],1,false,{ok='fine'}}" 1 k v`, `EVAL_RO "return redis.call('GET',KEYS[1])" 1 k`,
	`EVAL "return redis.call('SET',KEYS[1],ARGV[1])" 1 key:b v`, `EVAL_RO "return redis.call('SET',KEYS[1],ARGV[1])" 1 k v`,
	`EVAL "bad(" 0`, `EVAL "return redis.error_reply('MY error')" 0`, `EVAL "error('oops')" 0`, `EVAL "return 1" notanumber`,
	`EVAL "return 1" -1`, `EVAL "return 1" 3 a`, `EVAL "return 1"`,
	`EVALSHA nosuch 0`, `EVALSHA 0123456789012345678901234567890123456789 0`, `EVALSHA_RO 0123456789012345678901234567890123456789 1 k`,
	`SCRIPT LOAD "return 'loaded'"`, `SCRIPT LOAD "bad("`, `SCRIPT LOAD`, `SCRIPT EXISTS`, `SCRIPT EXISTS nosuch`, `SCRIPT FLUSH NOW`,
	`SCRIPT FLUSH SYNC NOW`, `SCRIPT FLUSH async`, `SCRIPT FLUSH SYNC`, `SCRIPT KILL`, `FUNCTION KILL`, `SCRIPT HELP`, `FUNCTION HELP`,
	`SCRIPT SHOW nosuch`, `SCRIPT NOSUCH`, `SCRIPT`, `FUNCTION`,
	`FUNCTION STATS`, `FUNCTION LIST`, `FUNCTION DUMP`,
	`FUNCTION LOAD "#!lua name=lib\nredis.register_function{function_name='f',callback=function(k,a) return {k,a} end,flags={'no-writes'},description='d'}"`,
	`FUNCTION LOAD "#!lua name=lib\nredis.register_function('f',function(k,a) return 1 end)"`,
	`FUNCTION LOAD nonsense`, `FUNCTION LOAD "#!lua name=x\nbad("`, `FUNCTION LOAD "#!lua name=other\nredis.register_function('f',function() end)"`,
	`FUNCTION LIST`, `FUNCTION LIST WITHCODE`, `FUNCTION LIST LIBRARYNAME l*`, `FUNCTION LIST LIBRARYNAME x WITHCODE`, `FUNCTION LIST NOSUCH`,
	`FUNCTION STATS`, `FUNCTION DUMP`, `FCALL f 1 a x`, `FCALL f 1 b x`, `FCALL f 1 c x`, `FCALL_RO f 1 c x`, `FCALL f 0`, `FCALL nosuch 0`,
	`FUNCTION LOAD REPLACE "#!lua name=lib\nredis.register_function('f',function(k,a) return 'replaced' end)"`,
	`FCALL f 1 a`, `FCALL f 1 b`, `FCALL f 1 c`, `FCALL_RO f 1 a`, `FUNCTION LIST WITHCODE`,
	`FUNCTION DELETE nosuch`, `FUNCTION DELETE lib`, `FUNCTION DELETE lib`, `FCALL f 1 a`, `FUNCTION LIST`,
	`FUNCTION RESTORE nonsense`, `FUNCTION FLUSH NOW`, `FUNCTION FLUSH ASYNC`, `FUNCTION FLUSH SYNC`,
}

// compareLoadedScripts runs scripts by their names, over all shards.
func compareLoadedScripts(t *testing.T, through, single *redistest.Conn, protocol int) {
	same := func(args ...string) {
		t.Helper()
		require.Equal(t, string(single.Do(args...)), string(through.Do(args...)), "%q", args)
	}
	body := fmt.Sprintf("return {KEYS[1], %d}", protocol)
	same("SCRIPT", "LOAD", body)
	sha := loadScript(t, through, body)
	onceEvaluated := fmt.Sprintf("return {'evaluated', %d}", protocol)
	same("EVAL", onceEvaluated, "1", keyOfShard(0, "x"))
	evaluated := loadedName(t, onceEvaluated)
	same("SCRIPT", "EXISTS", sha, strings.ToUpper(sha), "nosuch", evaluated)
	for i := range 3 {
		key := keyOfShard(i, "loaded")
		same("EVALSHA", sha, "1", key)
		same("EVALSHA_RO", sha, "1", key)
		same("EVALSHA", strings.ToUpper(sha), "1", key)
		same("EVALSHA", evaluated, "1", key)
	}
	same("FUNCTION", "LOAD", "#!lua name=kept\nredis.register_function('kept',function() return 'kept' end)")
	dump := single.Do("FUNCTION", "DUMP")
	payload := string(dump[strings.IndexByte(string(dump), '\n')+1 : len(dump)-2])
	same("FUNCTION", "RESTORE", payload)
	same("FUNCTION", "RESTORE", payload, "REPLACE")
	same("FUNCTION", "RESTORE", payload, "FLUSH")
	for i := range 3 {
		same("FCALL", "kept", "1", keyOfShard(i, "restored"))
	}
	same("MULTI")
	same("EVALSHA", sha, "1", "{tx}a")
	same("EVALSHA", evaluated, "1", "{tx}b")
	same("EVALSHA", "0123456789012345678901234567890123456789", "0")
	same("EXEC")
}

// loadedName is the name that a server gives to a script.
func loadedName(t *testing.T, body string) string {
	t.Helper()
	return redis.NewScript(body).Hash()
}

// requireSteadyPrimary: without keys a session stays with one primary, and sessions are spread.
func requireSteadyPrimary(t *testing.T, addr string, servers *redistest.ClusterServers) {
	for i, s := range servers.Primaries {
		require.Equal(t, "+OK\r\n", string(s.Do("SET", keyOfShard(i, "steady"), fmt.Sprint(i))))
	}
	seen := map[string]bool{}
	for range 12 {
		c := hello(t, addr, 2)
		loadScript(t, c, "return redis.sha1hex('')")
		body := "return redis.call('INFO','server')"
		first := c.Do("EVAL", body, "0")
		port := string(first[strings.Index(string(first), "tcp_port:"):][:15])
		seen[port] = true
		for range 5 {
			require.Contains(t, string(c.Do("EVAL", body, "0")), port)
			require.Contains(t, string(c.Do("EVALSHA", loadedName(t, body), "0")), port)
		}
		c.Close()
	}
	require.Len(t, seen, 3)
}

func requireExistsMerged(t *testing.T, addr string, servers *redistest.ClusterServers) {
	c := hello(t, addr, 2)
	everywhere, once := "return 'on all nodes'", "return 'on one node'"
	for _, s := range servers.Primaries {
		s.Do("SCRIPT", "LOAD", everywhere)
	}
	servers.Primaries[1].Do("SCRIPT", "LOAD", once)
	c.Do("EVAL", "return 'by eval'", "1", keyOfShard(2, "exists"))
	c.Do("EVAL", "bad(", "1", keyOfShard(2, "exists"))
	require.Equal(t, "*4\r\n:1\r\n:0\r\n:1\r\n:0\r\n", string(c.Do("SCRIPT", "EXISTS",
		loadedName(t, everywhere), loadedName(t, once), loadedName(t, "return 'by eval'"), loadedName(t, "bad("))))
	// What is said to exist is found on every node, also in the middle of a pipeline.
	for i := range 3 {
		require.Equal(t, bulk("by eval"), string(c.Do("EVALSHA", loadedName(t, "return 'by eval'"), "1", keyOfShard(i, "exists"))))
	}
	require.Equal(t, noScript, string(c.Do("EVALSHA", loadedName(t, once), "1", keyOfShard(0, "exists"))))
}

// requireServedAgain: nodes that lost their caches are given the scripts again.
func requireServedAgain(t *testing.T, addr string, servers *redistest.ClusterServers) {
	c := hello(t, addr, 3)
	sha := loadScript(t, c, "return redis.call('INCR',KEYS[1])")
	for i := range 3 {
		key := keyOfShard(i, "again")
		require.Equal(t, ":1\r\n", string(c.Do("EVALSHA", sha, "1", key)))
		emptyCaches(t, servers)
		require.Equal(t, ":2\r\n", string(c.Do("EVALSHA", sha, "1", key)))
		require.Equal(t, ":3\r\n", string(c.Do("EVALSHA", sha, "1", key)))
		// With commands behind it, the client gets what Redis says; they have been run already.
		emptyCaches(t, servers)
		c.Send(redistest.Command("EVALSHA", sha, "1", key) + redistest.Command("GET", key))
		require.Equal(t, noScript, string(c.ReadReply()))
		require.Equal(t, bulk("3"), string(c.ReadReply()))
		c.Send(redistest.Command("EVALSHA", sha, "1", key) + redistest.Command("GET", key))
		require.Equal(t, ":4\r\n", string(c.ReadReply()))
		require.Equal(t, bulk("4"), string(c.ReadReply()))
	}
	// A script that answers with these very words has been run, once.
	liar := "redis.call('INCR',KEYS[1]) return redis.error_reply('NOSCRIPT No matching script. Please use EVAL.')"
	sha = loadScript(t, c, liar)
	require.Equal(t, noScript, string(c.Do("EVALSHA", sha, "1", "liar")))
	require.Equal(t, bulk("1"), string(c.Do("GET", "liar")))
}

// requireFlushed: after SCRIPT FLUSH nothing is remembered, and what never came through the proxy is not known.
func requireFlushed(t *testing.T, addr string, servers *redistest.ClusterServers) {
	c, other := hello(t, addr, 2), hello(t, addr, 3)
	sha := loadScript(t, c, "return 'to be flushed'")
	require.Equal(t, bulk("to be flushed"), string(other.Do("EVALSHA", sha, "1", "k")))
	require.Equal(t, "+OK\r\n", string(c.Do("SCRIPT", "FLUSH")))
	for i := range 3 {
		key := keyOfShard(i, "flushed")
		require.Equal(t, noScript, string(c.Do("EVALSHA", sha, "1", key)))
		require.Equal(t, noScript, string(other.Do("EVALSHA", sha, "1", key)))
		require.Equal(t, "*1\r\n:0\r\n", string(servers.Primaries[i].Do("SCRIPT", "EXISTS", sha)))
	}
	require.Equal(t, "*1\r\n:0\r\n", string(other.Do("SCRIPT", "EXISTS", sha)))
	c.Send(redistest.Command("SCRIPT", "LOAD", "return 1") + redistest.Command("SCRIPT", "FLUSH", "SYNC") +
		redistest.Command("EVALSHA", loadedName(t, "return 1"), "1", "k"))
	c.ReadReply()
	require.Equal(t, "+OK\r\n", string(c.ReadReply()))
	require.Equal(t, noScript, string(c.ReadReply()))
}

// TestScriptsOfGoRedis drives the client library's own way with scripts.
func TestScriptsOfGoRedis(t *testing.T) {
	t.Parallel()
	servers := redistest.Cluster(t, 3, 0)
	p := clusterProxy(t, servers, "")
	ctx := context.Background()
	for _, protocol := range []int{2, 3} {
		client := redis.NewClient(&redis.Options{Addr: p.Addr, Protocol: protocol})
		script := redis.NewScript(fmt.Sprintf("return redis.call('INCRBY', KEYS[1], ARGV[1] * %d)", protocol))
		for i := range 30 {
			key := fmt.Sprint("go:", protocol, ":", i)
			require.EqualValues(t, protocol, script.Run(ctx, client, []string{key}, 1).Val())
			if i%10 == 9 {
				emptyCaches(t, servers)
			}
		}
		exists, err := script.Exists(ctx, client).Result()
		require.NoError(t, err)
		require.Equal(t, []bool{false}, exists, "no node has it after the caches were emptied")
		require.NoError(t, script.Load(ctx, client).Err())
		results, err := client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for i := range 30 {
				script.EvalSha(ctx, pipe, []string{fmt.Sprint("go:", protocol, ":", i)}, 1)
			}
			return nil
		})
		require.NoError(t, err)
		for _, r := range results {
			require.EqualValues(t, 2*protocol, r.(*redis.Cmd).Val())
		}
		require.NoError(t, client.FunctionLoadReplace(ctx, "#!lua name=golib\nredis.register_function('gof', function(k) return k[1] end)").Err())
		require.Equal(t, "a", client.FCall(ctx, "gof", []string{"a"}).Val())
		libraries, err := client.FunctionList(ctx, redis.FunctionListQuery{}).Result()
		require.NoError(t, err)
		require.Len(t, libraries, 1)
		stats, err := client.FunctionStats(ctx).Result()
		require.NoError(t, err)
		require.False(t, stats.Running())
		require.NoError(t, client.FunctionFlush(ctx).Err())
		require.NoError(t, client.Close())
	}
}

// TestScriptsOnNewNode: a primary that joins, one that takes over and one that comes back empty are given the scripts
// before they are asked to run them, so that pipelines do not notice either.
func TestScriptsOnNewNode(t *testing.T) {
	t.Parallel()
	servers := redistest.Cluster(t, 3, 3)
	p := clusterProxy(t, servers, "")
	c := hello(t, p.Addr, 2)
	sha := loadScript(t, c, "return redis.call('INCR',KEYS[1])")
	key := keyOfShard(0, "node")
	require.Equal(t, ":1\r\n", string(c.Do("EVALSHA", sha, "1", key)))
	requirePipeline := func(first int) {
		t.Helper()
		c.Send(strings.Repeat(redistest.Command("EVALSHA", sha, "1", key), 4))
		for i := range 4 {
			require.Equal(t, fmt.Sprintf(":%d\r\n", first+i), string(c.ReadReply()))
		}
	}
	// The primary that the slot moves to has lost its cache: as empty as one that has just joined.
	servers.Primaries[1].Do("SCRIPT", "FLUSH")
	servers.MoveSlot(int(slot.Of([]byte(key))), servers.Primaries[0], servers.Primaries[1])
	requirePipeline(2)

	replica := servers.Failover(servers.Primaries[1])
	require.Equal(t, "*1\r\n:0\r\n", string(replica.Do("SCRIPT", "EXISTS", sha)), "replicas do not have scripts")
	require.Eventually(t, func() bool {
		return strings.Contains(string(c.Do("EVALSHA", loadedName(t, "return 1"), "0")), "NOSCRIPT") && string(c.Do("GET", key)) == bulk("5")
	}, eventually, tick)
	requirePipeline(6)
}

// requireLongArguments: arguments that are streamed find their node by the keys in front of them.
func requireLongArguments(t *testing.T, addr string) {
	c := hello(t, addr, 2)
	value := strings.Repeat("v", 600<<10)
	body := "redis.call('SET',KEYS[1],ARGV[1]) return #ARGV[1]"
	sha := loadScript(t, c, body)
	for i := range 3 {
		key := keyOfShard(i, "long")
		require.Equal(t, ":614400\r\n", string(c.Do("EVAL", body, "1", key, value)))
		require.Equal(t, ":614400\r\n", string(c.Do("EVALSHA", sha, "1", key, value)))
		require.Equal(t, ":614400\r\n", string(c.Do("STRLEN", key)))
	}
	require.Equal(t, ":614400\r\n", string(c.Do("EVAL", "return #ARGV[1]", "0", value)))
	require.Equal(t, crossSlot, string(c.Do("EVAL", body, "2", "a", "b", value)))
	require.Equal(t, crossSlot, string(c.Do("EVAL", body, "2", "a", value)))
	require.Equal(t, ":1\r\n", string(c.Do("EVAL", body+strings.Repeat(" ", 600<<10), "1", "a", "1")))
}
