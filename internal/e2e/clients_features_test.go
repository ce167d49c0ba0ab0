package e2e

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/redistest"
)

// TestClientFeatures uses go-redis and redis-cli in front of one server and of a cluster that looks like one. The same is
// done directly, which shows that the test is right.
func TestClientFeatures(t *testing.T) {
	t.Parallel()
	one := startProxy(t, standaloneYAML(redistest.Standalone(t).Addr()))
	one.awaitReady(t)
	cluster := clusterProxy(t, redistest.Cluster(t, 3, 0), "")
	direct := redistest.Standalone(t)
	for _, target := range []drivenAt{{"direct", direct.Addr(), false}, {"one server", one.Addr, false}, {"cluster", cluster.Addr, true}} {
		for _, protocol := range []int{2, 3} {
			t.Run(fmt.Sprintf("go-redis RESP%d/%s", protocol, target.name), func(t *testing.T) {
				client := redis.NewClient(&redis.Options{Addr: target.addr, Protocol: protocol, ClientName: "features"})
				defer client.Close()
				goRedisFeatures(t, client, fmt.Sprintf("go%d", protocol))
			})
		}
		t.Run("redis-cli/"+target.name, func(t *testing.T) { redisCLIFeatures(t, target.addr, direct.Addr()) })
	}
}

func goRedisFeatures(t *testing.T, client *redis.Client, prefix string) {
	tag := "{" + prefix + "}:"
	t.Run("transactions", func(t *testing.T) { goRedisTransactions(t, client, tag) })
	t.Run("pub/sub", func(t *testing.T) { goRedisPubSub(t, client, prefix) })
	t.Run("blocking", func(t *testing.T) { goRedisBlocking(t, client, tag) })
	t.Run("scripts", func(t *testing.T) { goRedisScripts(t, client, tag) })
	t.Run("streams", func(t *testing.T) { goRedisStreams(t, client, tag) })
	t.Run("scan", func(t *testing.T) { goRedisScan(t, client, prefix) })
}

func goRedisTransactions(t *testing.T, client *redis.Client, tag string) {
	ctx, key := t.Context(), tag+"n"
	increment := func(change func()) error {
		return client.Watch(ctx, func(tx *redis.Tx) error {
			n, err := tx.Get(ctx, key).Int()
			if err != nil && !errors.Is(err, redis.Nil) {
				return err
			}
			change()
			_, err = tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error { return pipe.Set(ctx, key, n+1, 0).Err() })
			return err
		}, key)
	}
	require.NoError(t, increment(func() {}))
	require.ErrorIs(t, increment(func() { client.Set(ctx, key, 100, 0) }), redis.TxFailedErr)
	require.Equal(t, "100", client.Get(ctx, key).Val())
	replies, err := client.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.Incr(ctx, key)
		pipe.LPush(ctx, key, "x")
		pipe.Get(ctx, key)
		return nil
	})
	require.ErrorContains(t, err, "WRONGTYPE")
	require.Equal(t, "101", replies[2].(*redis.StringCmd).Val())
}

func goRedisPubSub(t *testing.T, client *redis.Client, prefix string) {
	ctx, cancel := context.WithTimeout(t.Context(), eventually)
	defer cancel()
	sub := client.Subscribe(ctx, prefix+"news")
	defer func() { _ = sub.Close() }()
	require.NoError(t, sub.PSubscribe(ctx, prefix+"p*"))
	for range 2 {
		_, err := sub.Receive(ctx)
		require.NoError(t, err)
	}
	for i := range 100 {
		require.NoError(t, client.Publish(ctx, prefix+"news", i).Err())
		message, err := sub.ReceiveMessage(ctx)
		require.NoError(t, err)
		require.Equal(t, fmt.Sprint(i), message.Payload)
	}
	require.NoError(t, client.Publish(ctx, prefix+"pattern", "matched").Err())
	message, err := sub.ReceiveMessage(ctx)
	require.NoError(t, err)
	require.Equal(t, prefix+"p*", message.Pattern)

	shard := client.SSubscribe(ctx, prefix+"shard")
	defer func() { _ = shard.Close() }()
	_, err = shard.Receive(ctx)
	require.NoError(t, err)
	require.NoError(t, client.SPublish(ctx, prefix+"shard", "x").Err())
	message, err = shard.ReceiveMessage(ctx)
	require.NoError(t, err)
	require.Equal(t, "x", message.Payload)
}

func goRedisBlocking(t *testing.T, client *redis.Client, tag string) {
	ctx := t.Context()
	popped := make(chan []string, 1)
	go func() { popped <- client.BLPop(ctx, 0, tag+"queue", tag+"other").Val() }() // ends with the push
	require.NoError(t, client.RPush(ctx, tag+"queue", "job").Err())
	require.Equal(t, []string{tag + "queue", "job"}, <-popped)
	require.ErrorIs(t, client.BLPop(ctx, time.Second, tag+"queue").Err(), redis.Nil)
}

func goRedisScripts(t *testing.T, client *redis.Client, tag string) {
	ctx := t.Context()
	script := redis.NewScript("return redis.call('INCRBY', KEYS[1], ARGV[1]) -- " + tag)
	require.Equal(t, []bool{false}, script.Exists(ctx, client).Val())
	require.ErrorContains(t, script.EvalSha(ctx, client, []string{tag + "script"}, 5).Err(), "NOSCRIPT")
	require.NoError(t, script.Load(ctx, client).Err())
	require.Equal(t, []bool{true}, script.Exists(ctx, client).Val())
	require.EqualValues(t, 5, script.EvalSha(ctx, client, []string{tag + "script"}, 5).Val())
	library := "#!lua name=" + strings.Trim(tag, "{}:") + "\nredis.register_function('" + strings.Trim(tag, "{}:") + "', function(keys, args) return args[1] end)"
	require.NoError(t, client.FunctionLoadReplace(ctx, library).Err())
	require.Equal(t, "a", client.FCall(ctx, strings.Trim(tag, "{}:"), []string{tag + "k"}, "a").Val())
}

func goRedisStreams(t *testing.T, client *redis.Client, tag string) {
	ctx, stream := t.Context(), tag+"stream"
	require.NoError(t, client.XGroupCreateMkStream(ctx, stream, "group", "$").Err())
	id := client.XAdd(ctx, &redis.XAddArgs{Stream: stream, Values: []string{"f", "v"}}).Val()
	read := &redis.XReadGroupArgs{Group: "group", Consumer: "worker", Streams: []string{stream, ">"}, Block: time.Second}
	require.Equal(t, id, client.XReadGroup(ctx, read).Val()[0].Messages[0].ID)
	require.EqualValues(t, 1, client.XAck(ctx, stream, "group", id).Val())
}

func goRedisScan(t *testing.T, client *redis.Client, prefix string) {
	ctx := t.Context()
	var want, got []string
	_, err := client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i := range 1000 {
			want = append(want, fmt.Sprint(prefix, "scan", i))
			pipe.Set(ctx, want[i], i, 0)
		}
		return nil
	})
	require.NoError(t, err)
	iterator := client.Scan(ctx, 0, prefix+"scan*", 100).Iterator()
	for iterator.Next(ctx) {
		got = append(got, iterator.Val())
	}
	require.NoError(t, iterator.Err())
	slices.Sort(got)
	require.ElementsMatch(t, want, slices.Compact(got))
}

// cliDialogue is what redis-cli is given on its standard input. Its keys are in one slot.
const cliDialogue = "MULTI\nSET {c}1 v\nHSET {c}h f v\nINCR {c}1\nEXEC\nMULTI\nNOSUCH\nEXEC\nMULTI\nSET {c}2 v\nDISCARD\nGET {c}2\n" +
	"WATCH {c}1\nMULTI\nGET {c}1\nEXEC\nBLPOP {c}list 1\nEVAL \"return {KEYS[1],{1,'x'}}\" 1 {c}k\nDEL {c}1 {c}h\n"

func redisCLIFeatures(t *testing.T, addr, direct string) {
	if _, err := exec.LookPath("redis-cli"); err != nil {
		t.Skip("redis-cli is not installed")
	}
	for _, flags := range [][]string{{"--no-raw"}, {"-3", "--no-raw"}} {
		want := untimed(redisCLI(t, direct, cliDialogue, flags...))
		require.Equal(t, want, untimed(redisCLI(t, addr, cliDialogue, flags...)), flags)
	}
	var mass strings.Builder
	for i := range 2000 {
		mass.WriteString(redistest.Command("SET", fmt.Sprint("cli:", i), fmt.Sprint(i)))
	}
	require.Contains(t, redisCLI(t, addr, mass.String(), "--pipe"), "errors: 0, replies: 2000")
	require.Len(t, strings.Fields(redisCLI(t, addr, "", "--scan", "--pattern", "cli:*")), 2000)
	redisCLI(t, addr, "", "RPUSH", "cli:list", "a", "b", "c")
	require.Contains(t, redisCLI(t, addr, "", "--bigkeys"), "Biggest   list found '\"cli:list\"' has 3 items")
	require.Contains(t, redisCLI(t, addr, "", "--memkeys"), "Biggest   list found")
	subscribeByCLI(t, addr)
	popped := linesOf(t, addr, "BLPOP", "cli:queue", "0")
	redisCLI(t, addr, "", "RPUSH", "cli:queue", "job")
	for _, want := range []string{"cli:queue", "job"} {
		require.Equal(t, want, <-popped)
	}
}

// untimed drops how long a blocking command took, which redis-cli tells.
func untimed(output string) string {
	var lines []string
	for line := range strings.Lines(output) {
		if i := strings.Index(line, "s)"); !strings.HasPrefix(line, "(") || i < 0 {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}

func subscribeByCLI(t *testing.T, addr string) {
	lines := linesOf(t, addr, "SUBSCRIBE", "cli-channel")
	for _, want := range []string{"subscribe", "cli-channel", "1"} {
		require.Equal(t, want, <-lines)
	}
	redisCLI(t, addr, "", "PUBLISH", "cli-channel", "hello")
	for _, want := range []string{"message", "cli-channel", "hello"} {
		require.Equal(t, want, <-lines)
	}
}

// linesOf runs a redis-cli that does not end by itself until the test's end and gives its lines.
func linesOf(t *testing.T, addr string, args ...string) <-chan string {
	t.Helper()
	host, port, err := net.SplitHostPort(addr)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), eventually)
	cli := exec.CommandContext(ctx, "redis-cli", append([]string{"-h", host, "-p", port}, args...)...)
	output, err := cli.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cli.Start())
	lines := make(chan string, 100)
	done := make(chan struct{})
	go func() { // ends with the program, which the clean-up ends
		defer close(done)
		defer close(lines)
		for text := bufio.NewScanner(output); text.Scan(); {
			select {
			case lines <- text.Text():
			default:
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-done
		_ = cli.Wait() // ended by the line above
	})
	return lines
}
