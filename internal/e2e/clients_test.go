package e2e

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/redistest"
)

func TestGoRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	p := startProxy(t, usersYAML(server.Addr(), fmt.Sprintf("[{name: ann, sha256: %q}]", sha256Hex("pw"))))
	p.awaitReady(t)
	for _, protocol := range []int{2, 3} {
		t.Run(fmt.Sprintf("RESP%d", protocol), func(t *testing.T) {
			server.Do("FLUSHALL")
			client := redis.NewClient(&redis.Options{Addr: p.Addr, Protocol: protocol, Username: "ann", Password: "pw", DB: 1, ClientName: "test", PoolSize: 8})
			defer client.Close()
			testGoRedis(t, client)
		})
	}
	t.Run("wrong password", func(t *testing.T) {
		client := redis.NewClient(&redis.Options{Addr: p.Addr, Username: "ann", Password: "wrong", MaxRetries: -1})
		defer client.Close()
		require.ErrorContains(t, client.Ping(t.Context()).Err(), "WRONGPASS")
	})
	t.Run("a database that the tenant has not", func(t *testing.T) {
		client := redis.NewClient(&redis.Options{Addr: p.Addr, Username: "ann", Password: "pw", DB: 5, MaxRetries: -1})
		defer client.Close()
		require.ErrorContains(t, client.Ping(t.Context()).Err(), "NOPERM this tenant may not use database 5")
	})
}

func testGoRedis(t *testing.T, client *redis.Client) {
	ctx := t.Context()
	require.NoError(t, client.Set(ctx, "k", "v", time.Hour).Err())
	require.Equal(t, "v", client.Get(ctx, "k").Val())
	require.ErrorIs(t, client.Get(ctx, "nosuch").Err(), redis.Nil)
	require.InDelta(t, time.Hour, client.TTL(ctx, "k").Val(), float64(time.Minute))
	require.NoError(t, client.HSet(ctx, "h", "a", 1, "b", 2).Err())
	require.Equal(t, map[string]string{"a": "1", "b": "2"}, client.HGetAll(ctx, "h").Val())
	require.NoError(t, client.ZAdd(ctx, "z", redis.Z{Score: 1.5, Member: "m"}).Err())
	require.Equal(t, []redis.Z{{Score: 1.5, Member: "m"}}, client.ZRangeWithScores(ctx, "z", 0, -1).Val())
	require.NoError(t, client.XAdd(ctx, &redis.XAddArgs{Stream: "x", ID: "1-1", Values: []any{"f", "v"}}).Err())
	require.Equal(t, []redis.XMessage{{ID: "1-1", Values: map[string]any{"f": "v"}}}, client.XRange(ctx, "x", "-", "+").Val())
	require.Equal(t, int64(2), client.SAdd(ctx, "s", "a", "b").Val())
	require.ErrorContains(t, client.Incr(ctx, "h").Err(), "WRONGTYPE")

	script := redis.NewScript("return redis.call('GET', KEYS[1])")
	require.Equal(t, "v", script.Run(ctx, client, []string{"k"}).Val(), "EVALSHA, NOSCRIPT, EVAL")
	require.Equal(t, "v", script.Run(ctx, client, []string{"k"}).Val())

	replies, err := client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i := range 1000 {
			p.Set(ctx, fmt.Sprint("p", i), i, 0)
			p.Get(ctx, fmt.Sprint("p", i))
			p.Get(ctx, "nosuch")
		}
		return nil
	})
	require.ErrorIs(t, err, redis.Nil)
	for i := range 1000 {
		require.Equal(t, fmt.Sprint(i), replies[3*i+1].(*redis.StringCmd).Val())
		require.ErrorIs(t, replies[3*i+2].Err(), redis.Nil)
	}

	var keys []string
	for scan := client.Scan(ctx, 0, "p*", 100).Iterator(); scan.Next(ctx); {
		keys = append(keys, scan.Val())
	}
	require.Len(t, keys, 1000)

	var all sync.WaitGroup
	for i := range 32 {
		all.Go(func() {
			key := fmt.Sprint("parallel", i)
			for n := range 50 {
				if got := client.Incr(ctx, key).Val(); got != int64(n+1) {
					t.Errorf("%s is %d, want %d", key, got, n+1)
				}
			}
		})
	}
	all.Wait()

	_, err = client.TxPipelined(ctx, func(p redis.Pipeliner) error { return p.Set(ctx, "k", "w", 0).Err() })
	require.NoError(t, err)
	require.Equal(t, "w", client.Get(ctx, "k").Val())
	require.Equal(t, "test", client.ClientGetName(ctx).Val())
	info := client.Info(ctx, "server").Val()
	require.Contains(t, info, "redis_version:7")

	ctx, cancel := context.WithTimeout(ctx, time.Nanosecond)
	defer cancel()
	require.True(t, errors.Is(client.Get(ctx, "k").Err(), context.DeadlineExceeded))
}

func TestGoRedisPoolSurvivesBackendRestart(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	p := startProxy(t, standaloneYAML(server.Addr()))
	p.awaitReady(t)
	client := redis.NewClient(&redis.Options{Addr: p.Addr, MaxRetries: -1})
	defer client.Close()
	require.NoError(t, client.Set(t.Context(), "k", "v", 0).Err())
	connections := client.PoolStats().TotalConns
	server.Restart()
	require.Eventually(t, func() bool { return client.Set(t.Context(), "k", "v", 0).Err() == nil }, eventually, tick)
	require.Equal(t, connections, client.PoolStats().TotalConns, "the client's own connections stay")
}

// redisCLI runs redis-cli, which prints replies as a person sees them.
func redisCLI(t *testing.T, addr, stdin string, args ...string) string {
	t.Helper()
	host, port, err := net.SplitHostPort(addr)
	require.NoError(t, err)
	cli := exec.CommandContext(t.Context(), "redis-cli", append([]string{"-h", host, "-p", port}, args...)...)
	cli.Stdin = strings.NewReader(stdin)
	output, err := cli.CombinedOutput()
	require.NoError(t, err, string(output))
	return string(output)
}

func TestRedisCLI(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("redis-cli"); err != nil {
		t.Skip("redis-cli is not installed")
	}
	p := startPair(t)
	for _, args := range [][]string{
		{"SET", "k", "v"},
		{"GET", "k"},
		{"-3", "HGETALL", "nosuch"},
		{"-3", "HSET", "h", "f", "v"},
		{"-3", "HGETALL", "h"},
		{"-n", "1", "GET", "k"},
		{"NOSUCH", "x"},
		{"-x", "SET", "from-stdin"},
		{"--raw", "GET", "from-stdin"},
		{"EVAL", "return {1,{2,'x'}}", "0"},
		{"-r", "3", "INCR", "n"},
		{"--no-raw", "LRANGE", "nosuch", "0", "-1"},
		{"--eval", "/dev/stdin", "k", ",", "arg"},
		{"--scan", "--pattern", "f*"},
	} {
		stdin := "return {KEYS[1],ARGV[1]}"
		require.Equal(t, redisCLI(t, p.direct.Addr(), stdin, args...), redisCLI(t, p.proxy.Addr, stdin, args...), args)
	}
	session := "SET a 1\nINCR a\nGET a\nHELLO 4\nCLIENT SETNAME me\nCLIENT GETNAME\nSELECT 1\nGET a\nnosuch\n\"unbalanced\nPING hello\n"
	require.Equal(t, redisCLI(t, p.direct.Addr(), session), redisCLI(t, p.proxy.Addr, session))
	var mass strings.Builder
	for i := range 5000 {
		mass.WriteString(redistest.Command("SET", fmt.Sprint("mass:", i), fmt.Sprint(i)))
	}
	require.Contains(t, redisCLI(t, p.proxy.Addr, mass.String(), "--pipe"), "errors: 0, replies: 5000")
	require.Equal(t, "$4\r\n4999\r\n", string(p.backend.Do("GET", "mass:4999")))
}
