package e2e

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/redistest"
)

const crossSlot = "-CROSSSLOT Keys in request don't hash to the same slot\r\n"

// TestClusterCommands runs what clients send to a Redis Cluster of three primaries and three replicas through one proxy.
// The reply to compare with is that of a standalone server: to its clients the cluster looks like one.
func TestClusterCommands(t *testing.T) {
	t.Parallel()
	servers := redistest.Cluster(t, 3, 3)
	single := redistest.Standalone(t)
	p := clusterProxy(t, servers, "")
	strict := clusterProxy(t, servers, "cross_slot: error")
	for _, protocol := range []int{2, 3} {
		t.Run(fmt.Sprintf("RESP%d", protocol), func(t *testing.T) {
			through, direct := hello(t, p.Addr, protocol), hello(t, single.Addr(), protocol)
			t.Run("one slot", func(t *testing.T) { compareLines(t, through, direct, oneSlotLines) })
			t.Run("split", func(t *testing.T) { compareLines(t, through, direct, splitLines) })
			t.Run("binary keys", func(t *testing.T) { compareBinaryKeys(t, through, direct) })
			t.Run("large split", func(t *testing.T) { compareLargeSplit(t, through, direct) })
			t.Run("cross slot", func(t *testing.T) { requireCrossSlot(t, through, crossSlotLines) })
			t.Run("cross slot error", func(t *testing.T) {
				c := hello(t, strict.Addr, protocol)
				requireCrossSlot(t, c, append(crossSlotLines, crossSlotWhenAsked...))
				require.Equal(t, "+OK\r\n", string(c.Do("MSET", "{s}1", "a", "{s}2", "b")))
				require.Equal(t, "*2\r\n$1\r\na\r\n$1\r\nb\r\n", string(c.Do("MGET", "{s}1", "{s}2")))
			})
			t.Run("no keys", func(t *testing.T) { requireKeyless(t, through, servers) })
			through.Do("DEL", "a", "b", "c") // nothing is left half-read
			require.Equal(t, "+PONG\r\n", string(through.Do("PING")))
		})
		single.Do("FLUSHALL")
		for _, primary := range servers.Primaries {
			require.Equal(t, "+OK\r\n", string(primary.Do("FLUSHALL")))
		}
	}
	t.Run("keys are where the cluster has them", func(t *testing.T) {
		c := redistest.Dial(t, p.Addr)
		for i := range 100 {
			key := fmt.Sprint("place:", i)
			require.Equal(t, "+OK\r\n", string(c.Do("SET", key, "here")))
			require.Equal(t, "$4\r\nhere\r\n", string(servers.NodeFor(key).Do("GET", key)))
		}
	})
	requireNoAddressInLogs(t, p, servers.Addrs()...)
}

// oneSlotLines are commands of all classes whose keys are in one slot.
var oneSlotLines = []string{
	"SET s v", "GET s", "APPEND s w", "INCR n", "INCRBYFLOAT n 1.5", "GETRANGE s 0 0", "STRLEN s", "GETEX s EX 100", "GETDEL s",
	"SETEX s 100 v", "LCS {q}1 {q}2 LEN", "GET nope", "INCR s",
	"HSET h f 1 g 2", "HGETALL h", "HINCRBY h f 5", "HMGET h f nope g", "HRANDFIELD h 0", "HSCAN h 0",
	"RPUSH l a b c", "LRANGE l 0 -1", "LMOVE l l LEFT RIGHT", "LMPOP 1 l LEFT COUNT 2", "LPOS l a",
	"SADD {t}1 1 2", "SADD {t}2 2 3", "SINTER {t}1 {t}2", "SUNIONSTORE {t}3 {t}1 {t}2", "SINTERCARD 2 {t}1 {t}2", "SMOVE {t}1 {t}2 1",
	"ZADD {z}1 1 a 2 b", "ZADD {z}2 3 b", "ZUNIONSTORE {z}3 2 {z}1 {z}2 WEIGHTS 2 3", "ZRANGE {z}3 0 -1 WITHSCORES", "ZUNION 2 {z}1 {z}2",
	"ZINTER 2 {z}1 {z}2 WITHSCORES", "ZMPOP 2 {z}1 {z}2 MIN", "ZRANGESTORE {z}4 {z}3 0 0", "ZSCORE {z}3 a",
	"XADD {x}1 1-1 f v", "XADD {x}2 1-1 f w", "XREAD COUNT 5 STREAMS {x}1 {x}2 0 0", "XGROUP CREATE {x}1 g 0", "XREADGROUP GROUP g c STREAMS {x}1 >",
	"XACK {x}1 g 1-1", "XLEN {x}1", "XINFO STREAM nope",
	"SETBIT b 7 1", "BITCOUNT b", "BITOP NOT {b}d {b}s", "BITFIELD b SET u8 0 255", "BITFIELD_RO b GET u8 0", "BITPOS b 1",
	"PFADD {p}1 a b", "PFADD {p}2 c", "PFCOUNT {p}1 {p}2", "PFMERGE {p}3 {p}1 {p}2",
	"GEOADD {g}1 13.361389 38.115556 Palermo 15.087269 37.502669 Catania", "GEORADIUS {g}1 15 37 200 km STORE {g}2", "ZCARD {g}2",
	"GEORADIUSBYMEMBER {g}1 Palermo 200 km", "GEOSEARCHSTORE {g}3 {g}1 FROMMEMBER Palermo BYRADIUS 200 km", "GEOPOS {g}1 Palermo nope",
	"RPUSH {o}l 3 1 2", "SORT {o}l", "SORT {o}l DESC STORE {o}d", "LRANGE {o}d 0 -1", "SORT_RO {o}l LIMIT 0 1",
	"RENAME {o}d {o}e", "COPY {o}e {o}f", "OBJECT ENCODING n", "TYPE {o}f", "EXPIRE {o}f 100", "PERSIST {o}f", "DUMP nope", "RENAME {o}no {o}x",
	"EVAL return{KEYS[1],ARGV[1]} 1 k a", "EVAL return{KEYS[1],KEYS[2]} 2 {e}1 {e}2", "EVAL return{1,false,'x'} 0",
	"EVAL return{err='CUSTOM'} 1 k", "EVALSHA 0000000000000000000000000000000000000000 1 k", "EVAL_RO return{ok='fine'} 1 k",
	"MGET {m}1 {m}2", "MSET {m}1 a {m}2 b", "MSETNX {m}3 a {m}4 b", "DEL {m}1 {m}2 {m}9", "LPUSH n x", "HGET n f",
	"EVAL x 1", "ZUNIONSTORE {z}d x {z}1", "SET", "NOSUCHCOMMAND a b",
}

// splitLines are commands whose keys are in several slots, among them several in one.
var splitLines = []string{
	"MSET a 1 b 2 c 3 {a}2 4 d 5", "MGET a b c {a}2 d nope a", "MGET d c b a", "EXISTS a b c nope a", "TOUCH a b nope", "RPUSH list x",
	"MGET a list b", "UNLINK a nope b", "DEL c d {a}2 nope", "MGET a b c d", "mget A B", "MSET a 1 b 2 a 3", "MGET a b",
	"MSET a 1 b", "MSET a 1 b 2 c", "MGET", "DEL", "MSET a", "DEL a a b b", "EXISTS a b",
}

var crossSlotLines = []string{
	"MSETNX a 1 b 2", "RENAME a b", "RENAMENX a b", "COPY a b", "SINTER a b", "SUNION a b", "SDIFF a b", "SINTERSTORE a b c", "SUNIONSTORE a b c",
	"SDIFFSTORE a b c", "SMOVE a b m", "SINTERCARD 2 a b", "ZUNIONSTORE d 2 a b", "ZINTERSTORE d 2 a b", "ZDIFFSTORE d 2 a b", "ZRANGESTORE a b 0 -1",
	"ZUNION 2 a b", "ZINTER 2 a b", "ZDIFF 2 a b", "LMOVE a b LEFT LEFT", "RPOPLPUSH a b", "LMPOP 2 a b LEFT", "ZMPOP 2 a b MIN", "PFCOUNT a b",
	"PFMERGE a b", "BITOP AND d a b", "EVAL return 2 a b", "EVALSHA 00 2 a b", "FCALL f 2 a b", "XREAD STREAMS a b 0 0", "SORT a STORE b",
	"GEORADIUS a 1 2 3 km STORE b", "GEORADIUSBYMEMBER a m 3 km STOREDIST b", "GEOSEARCHSTORE a b FROMMEMBER m BYRADIUS 1 km", "LCS a b",
}

var crossSlotWhenAsked = []string{"MGET a b", "MSET a 1 b 2", "DEL a b", "UNLINK a b", "EXISTS a b", "TOUCH a b"}

func compareLines(t *testing.T, through, direct *redistest.Conn, lines []string) {
	t.Helper()
	for _, line := range lines {
		args := strings.Fields(line)
		want, got := direct.Do(args...), through.Do(args...)
		require.Equal(t, string(want), string(got), line)
	}
	// The same in one packet: order is kept over the shards.
	var packet strings.Builder
	for _, line := range lines {
		packet.WriteString(redistest.Command(strings.Fields(line)...))
	}
	through.Send(packet.String())
	direct.Send(packet.String())
	for _, line := range lines {
		require.Equal(t, string(direct.ReadReply()), string(through.ReadReply()), "%s in a pipeline", line)
	}
}

func compareBinaryKeys(t *testing.T, through, direct *redistest.Conn) {
	keys := []string{"", "\x00", "\r\n", "a\r\n$3\r\nfoo", "\xff\xfe\xfd", "{", "}", "{}x", "{}y", "{\r\n}1", "{\r\n}2", "{{a}}", "*2\r\n", strings.Repeat("k", 5000), "{" + strings.Repeat("\x00", 300) + "}"}
	same := func(args ...string) {
		t.Helper()
		require.Equal(t, string(direct.Do(args...)), string(through.Do(args...)), "%q", args)
	}
	pairs := []string{"MSET"}
	for i, key := range keys {
		same("SET", key, fmt.Sprint("value\r\n", i))
		same("GET", key)
		pairs = append(pairs, key, key+"'s value")
	}
	same(pairs...)
	same(append([]string{"MGET"}, keys...)...)
	same(append([]string{"EXISTS"}, keys...)...)
	same(append([]string{"DEL"}, keys...)...)
}

// compareLargeSplit splits a command over a thousand slots, with values that do not fit one read.
func compareLargeSplit(t *testing.T, through, direct *redistest.Conn) {
	mset, mget, del := []string{"MSET"}, []string{"MGET"}, []string{"DEL"}
	for i := range 1000 {
		key := fmt.Sprint("large:", i)
		mset = append(mset, key, strings.Repeat(string(rune('a'+i%26)), i*3))
		mget = append(mget, key, "absent:"+key)
		del = append(del, key)
	}
	mset = append(mset, "large:big", strings.Repeat("B", 200_000))
	mget = append(mget, "large:big", "large:1")
	for _, args := range [][]string{mset, mget, del} {
		want, got := direct.Do(args...), through.Do(args...)
		require.True(t, bytes.Equal(want, got), "%s differs", args[0])
	}
	through.Do("DEL", "large:big")
	direct.Do("DEL", "large:big")
}

func requireCrossSlot(t *testing.T, c *redistest.Conn, lines []string) {
	t.Helper()
	for _, line := range lines {
		require.Equal(t, crossSlot, string(c.Do(strings.Fields(line)...)), line)
	}
}

// requireKeyless: what one node can answer is answered, what it cannot is refused in clear words.
func requireKeyless(t *testing.T, c *redistest.Conn, servers *redistest.ClusterServers) {
	t.Helper()
	require.Equal(t, ":0\r\n", string(c.Do("PUBLISH", "channel", "message")))
	require.Equal(t, ":7\r\n", string(c.Do("EVAL", "return 7", "0")))
	sum := 0
	for _, primary := range servers.Primaries {
		n, err := strconv.Atoi(strings.Trim(string(primary.Do("DBSIZE")), ":\r\n"))
		require.NoError(t, err)
		sum += n
	}
	require.Equal(t, fmt.Sprintf(":%d\r\n", sum), string(c.Do("DBSIZE")))
	for _, line := range []string{"CLUSTER SLOTS", "CLUSTER SHARDS", "CLUSTER NODES", "CLUSTER INFO", "ROLE", "CONFIG GET port", "CLIENT LIST", "INFO"} {
		reply := string(c.Do(strings.Fields(line)...))
		for _, s := range servers.Servers() {
			require.NotContains(t, reply, fmt.Sprint(s.Port()), line)
		}
	}
	require.Equal(t, "-ERR SELECT is not allowed in cluster mode\r\n", string(c.Do("SELECT", "1")))
}

// requireNoAddressInLogs fails the test if the daemon logged where a node is.
func requireNoAddressInLogs(t *testing.T, p *proxy, addrs ...string) {
	t.Helper()
	require.NotEmpty(t, addrs)
	for _, entry := range p.Logs.All() {
		text := fmt.Sprint(entry.Message, entry.ContextMap())
		for _, addr := range addrs {
			require.NotContains(t, text, addr)
		}
	}
}
