package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/redistest"
)

// versionedLines are commands whose replies differ between RESP2 and RESP3. The second text is RESP3's.
var versionedLines = []struct{ line, two, three string }{
	{"HGETALL h", "*2\r\n$1\r\nf\r\n$1\r\nv\r\n", "%1\r\n$1\r\nf\r\n$1\r\nv\r\n"},
	{"SMEMBERS s", "*1\r\n$1\r\n7\r\n", "~1\r\n$1\r\n7\r\n"},
	{"ZSCORE z m", "$3\r\n1.5\r\n", ",1.5\r\n"},
	{"ZRANGE z 0 -1 WITHSCORES", "*2\r\n$1\r\nm\r\n$3\r\n1.5\r\n", "*1\r\n*2\r\n$1\r\nm\r\n,1.5\r\n"},
	{"GET nope", "$-1\r\n", "_\r\n"},
	{"HMGET h f nope", "*2\r\n$1\r\nv\r\n$-1\r\n", "*2\r\n$1\r\nv\r\n_\r\n"},
	{"MGET a nope b nope", "*4\r\n$1\r\n1\r\n$-1\r\n$1\r\n2\r\n$-1\r\n", "*4\r\n$1\r\n1\r\n_\r\n$1\r\n2\r\n_\r\n"},
	{"EVAL return{double=1.5} 1 k", "$3\r\n1.5\r\n", ",1.5\r\n"},
	{"EVAL redis.setresp(3);return{true,{map={x=1}}} 1 k", "*2\r\n:1\r\n*2\r\n$1\r\nx\r\n:1\r\n", "*2\r\n#t\r\n%1\r\n$1\r\nx\r\n:1\r\n"},
	{"ZPOPMIN nope", "*0\r\n", "*0\r\n"},
	{"GEOPOS nope m", "*1\r\n*-1\r\n", "*1\r\n_\r\n"},
	{"INCR s", "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n", "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"},
}

// TestClusterClients lets clients of several kinds use one cluster.
func TestClusterClients(t *testing.T) {
	t.Parallel()
	servers := redistest.Cluster(t, 3, 0)
	p := clusterProxy(t, servers, "")
	t.Run("each gets its protocol", func(t *testing.T) { eachGetsItsProtocol(t, servers, p) })
	t.Run("go-redis", func(t *testing.T) { plainGoRedis(t, p) })
}

// eachGetsItsProtocol: clients of both versions on one port and on the same keys each get what Redis sends in
// their version; nothing is converted, also when a client changes its version in the middle of a pipeline.
func eachGetsItsProtocol(t *testing.T, servers *redistest.ClusterServers, p *proxy) {
	seed := hello(t, p.Addr, 2)
	for _, line := range []string{"HSET h f v", "SADD s 7", "ZADD z 1.5 m", "MSET a 1 b 2"} {
		require.NotEqual(t, byte('-'), seed.Do(strings.Fields(line)...)[0])
	}
	for _, v := range versionedLines { // what the test says is what a server says
		for i, want := range []string{v.two, v.three} {
			if !strings.HasPrefix(v.line, "MGET") {
				direct := hello(t, servers.NodeFor(strings.Fields(v.line)[keyPosition(v.line)]).Addr(), 2+i)
				require.Equal(t, want, string(direct.Do(strings.Fields(v.line)...)), "%s, directly in RESP%d", v.line, 2+i)
				direct.Close()
			}
		}
	}
	clients := newCrowd(t)
	for i := range 16 {
		conn := hello(t, p.Addr, 2+i%2)
		clients.join(func() { protocolClient(clients, conn, i) })
	}
	clients.wg.Wait()
	clients.requireRight()
}

func keyPosition(line string) int {
	if strings.HasPrefix(line, "EVAL") {
		return 3
	}
	return 1
}

func protocolClient(c *crowd, conn *redistest.Conn, i int) {
	version := 2 + i%2
	for round := range 30 {
		var packet strings.Builder
		var want []string
		for n, v := range versionedLines {
			packet.WriteString(redistest.Command(strings.Fields(v.line)...))
			want = append(want, []string{v.two, v.three}[version-2])
			if (round+n+i)%7 == 0 {
				version = 5 - version
				packet.WriteString(redistest.Command("HELLO", fmt.Sprint(version)))
				want = append(want, "")
			}
		}
		if err := conn.TrySend(packet.String()); err != nil {
			c.wrong("cannot send: %v", err)
			return
		}
		for n, text := range want {
			reply, err := conn.TryRead()
			if err != nil || text != "" && string(reply) != text {
				c.wrong("client %d, round %d, reply %d: %q, %v; want %q", i, round, n, reply, err, text)
				return
			}
		}
	}
}

// plainGoRedis uses the client that knows nothing of clusters.
func plainGoRedis(t *testing.T, p *proxy) {
	for _, protocol := range []int{2, 3} {
		client := redis.NewClient(&redis.Options{Addr: p.Addr, Protocol: protocol, PoolSize: 8, ClientName: "test"})
		ctx := t.Context()
		require.NoError(t, client.Ping(ctx).Err())
		require.NoError(t, client.Set(ctx, "text", "value", time.Minute).Err())
		require.Equal(t, "value", client.Get(ctx, "text").Val())
		require.ErrorIs(t, client.Get(ctx, "absent").Err(), redis.Nil)
		require.NoError(t, client.HSet(ctx, "hash", "f", 1, "g", 2).Err())
		require.Equal(t, map[string]string{"f": "1", "g": "2"}, client.HGetAll(ctx, "hash").Val())
		require.NoError(t, client.ZAdd(ctx, "zset", redis.Z{Score: 1.5, Member: "m"}).Err())
		require.Equal(t, []redis.Z{{Score: 1.5, Member: "m"}}, client.ZRangeWithScores(ctx, "zset", 0, -1).Val())

		commands, err := client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for i := range 500 {
				pipe.Set(ctx, fmt.Sprint("p", i), i, 0)
				pipe.Incr(ctx, fmt.Sprint("p", i))
			}
			return nil
		})
		require.NoError(t, err)
		for i := range 500 {
			require.Equal(t, int64(i+1), commands[2*i+1].(*redis.IntCmd).Val())
		}
		keys := make([]string, 500)
		for i := range keys {
			keys[i] = fmt.Sprint("p", i)
		}
		values := client.MGet(ctx, append(keys, "absent")...).Val()
		require.Len(t, values, 501)
		require.Equal(t, "500", values[499])
		require.Nil(t, values[500])
		require.EqualValues(t, 500, client.Exists(ctx, keys...).Val())
		require.EqualValues(t, 500, client.Del(ctx, append(keys, "absent")...).Val())

		script := redis.NewScript("return redis.call('INCRBY', KEYS[1], ARGV[1])") // EVALSHA, and EVAL where it is not known
		for i := range 20 {
			require.EqualValues(t, 5, script.Run(ctx, client, []string{fmt.Sprint("script", protocol, i)}, 5).Val())
		}
		require.ErrorContains(t, client.MSetNX(ctx, "a", 1, "b", 2).Err(), "CROSSSLOT")
		require.NoError(t, client.Close())
	}
}
