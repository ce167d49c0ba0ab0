package e2e

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/redistest"
)

// TestClusterKeyspace runs the commands about all keys on a cluster; a standalone server says what the answers are.
func TestClusterKeyspace(t *testing.T) {
	t.Parallel()
	servers := redistest.Cluster(t, 3, 0)
	single := redistest.Standalone(t)
	p := clusterProxy(t, servers, "")
	for _, protocol := range []int{2, 3} {
		t.Run(fmt.Sprintf("RESP%d", protocol), func(t *testing.T) {
			through, direct := hello(t, p.Addr, protocol), hello(t, single.Addr(), protocol)
			same := func(lines ...string) {
				t.Helper()
				for _, line := range lines {
					require.Equal(t, string(direct.Do(strings.Fields(line)...)), string(through.Do(strings.Fields(line)...)), line)
				}
			}
			same("DBSIZE", "KEYS *", "RANDOMKEY", "FLUSHDB", "FLUSHALL", "KEYS", "RANDOMKEY x", "FLUSHALL NOW", "FLUSHDB ASYNC SYNC", "LASTSAVE x", "DBSIZE x")
			keys := fill(t, through, "key", 1000)
			fill(t, direct, "key", 1000)
			require.Equal(t, keys, keysOf(through, "*"))
			require.Equal(t, keysOf(direct, "key:?5*"), keysOf(through, "key:?5*"))
			same("DBSIZE", "KEYS nothing", "KEYS key:77", "FLUSHDB ASYNC", "DBSIZE", "RANDOMKEY")
			for _, flush := range []string{"FLUSHDB", "FLUSHDB SYNC", "FLUSHALL", "FLUSHALL SYNC", "FLUSHALL ASYNC"} {
				fill(t, through, "more", 50)
				fill(t, direct, "more", 50)
				same("DBSIZE", flush, "DBSIZE")
			}
			for i := range 3 { // a single key, wherever it is
				key := keyOfShard(i, "only")
				through.Do("SET", key, "v")
				direct.Do("SET", key, "v")
				for range 5 {
					same("RANDOMKEY")
				}
				same("KEYS *", "DEL "+key)
			}
			require.Equal(t, "-ERR SWAPDB is not allowed in cluster mode\r\n", string(through.Do("SWAPDB", "0", "1")))
			for _, line := range []string{"KEYS *", "DBSIZE", "RANDOMKEY", "FLUSHALL", "FLUSHDB"} {
				same("SET a 1", "MULTI", line, "EXEC", "DBSIZE", "DEL a")
			}
			require.Equal(t, "+OK\r\n", string(through.Do("MULTI")))
			require.Equal(t, "+QUEUED\r\n", string(through.Do("LASTSAVE")))
			require.Regexp(t, `^\*1\r\n:\d+\r\n$`, string(through.Do("EXEC")))
		})
	}
}

// TestClusterRandomKeyIsSpread: each shard's keys come as often as it has keys.
func TestClusterRandomKeyIsSpread(t *testing.T) {
	t.Parallel()
	servers := redistest.Cluster(t, 3, 0)
	p := clusterProxy(t, servers, "")
	c := hello(t, p.Addr, 2)
	for i := range 90 {
		require.Equal(t, "+OK\r\n", string(c.Do("SET", keyOfShard(0, fmt.Sprint("many", i)), "v")))
	}
	for i := range 10 {
		require.Equal(t, "+OK\r\n", string(c.Do("SET", keyOfShard(1, fmt.Sprint("few", i)), "v")))
	}
	counts := [3]int{}
	for range 1000 {
		counts[shardAtStart(bulkText(string(c.Do("RANDOMKEY"))))]++
	}
	require.InDelta(t, 900, counts[0], 60) // six standard deviations
	require.InDelta(t, 100, counts[1], 60)
}

// TestClusterLastSave: what is certain to be saved is what the node has that saved first.
func TestClusterLastSave(t *testing.T) {
	t.Parallel()
	servers := redistest.Cluster(t, 3, 0)
	p := clusterProxy(t, servers, "")
	oldest := int64(0)
	for i, primary := range servers.Primaries {
		at, err := strconv.ParseInt(strings.Trim(string(primary.Do("LASTSAVE")), ":\r\n"), 10, 64)
		require.NoError(t, err)
		if i == 0 || at < oldest {
			oldest = at
		}
	}
	require.Equal(t, "+OK\r\n", string(servers.Primaries[1].Do("SAVE")))
	require.Equal(t, fmt.Sprintf(":%d\r\n", oldest), string(hello(t, p.Addr, 3).Do("LASTSAVE")))
}

// TestClusterKeysIsBounded: more keys than a client may leave unread are an error, and the connection stays.
func TestClusterKeysIsBounded(t *testing.T) {
	t.Parallel()
	servers := redistest.Cluster(t, 3, 0)
	p := clusterProxy(t, servers, "", "clients: {output_buffer: 256KiB}")
	for _, protocol := range []int{2, 3} {
		c := hello(t, p.Addr, protocol)
		keys := fill(t, c, strings.Repeat("long", 20), 12000)
		require.Regexp(t, `^-ERR the reply of all shards together is longer than \d+ bytes; ask for less at a time, as SCAN does\r\n$`, string(c.Do("KEYS", "*")))
		require.Regexp(t, "^-ERR the reply of all shards together", string(c.Do("SCAN", "0", "COUNT", "100000")))
		require.Equal(t, keys, newScanner(t, c).finish("COUNT", "500"))
		require.Len(t, keysOf(c, "*:77*"), 111, "77, 770 to 779, 7700 to 7799")
		c.Do("FLUSHALL")
	}
}

// TestClusterKeyspaceWithANodeAway: the part that fails is the answer, and nothing hangs.
func TestClusterKeyspaceWithANodeAway(t *testing.T) {
	redistest.LeakCheck(t)
	servers := redistest.Cluster(t, 3, 0)
	p := clusterProxy(t, servers, "command_timeout: 500ms")
	c := hello(t, p.Addr, 2)
	fill(t, c, "key", 100)
	servers.Primaries[1].Kill()
	for _, line := range []string{"KEYS *", "DBSIZE", "RANDOMKEY", "FLUSHALL", "LASTSAVE"} {
		require.Regexp(t, `^-(ERR upstream|CLUSTERDOWN|ERR a)`, string(c.Do(strings.Fields(line)...)), line)
	}
	walk := newScanner(t, c)
	for range 10 { // somewhere on its way it comes to the node
		reply := string(c.Do("SCAN", walk.cursor, "COUNT", "1000"))
		if strings.HasPrefix(reply, "-") {
			require.Regexp(t, `^-(ERR upstream|CLUSTERDOWN)`, reply)
			require.Equal(t, "+PONG\r\n", string(c.Do("PING")))
			return
		}
		_, elements := aggregate([]byte(reply))
		walk.cursor = bulkText(elements[0])
		require.NotEqual(t, "0", walk.cursor)
	}
	t.Fatal("the walk went past a node that is away")
}
