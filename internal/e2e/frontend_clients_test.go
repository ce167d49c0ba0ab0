package e2e

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/pkg/slot"
)

// startFleet runs proxies that share the slots. Their ports are known only when they run, so what they advertise comes
// with a reload.
func startFleet(t *testing.T, n int, kind, addr string, tenant ...string) (fleet []*proxy) {
	t.Helper()
	var addrs []string
	for range n {
		p := startProxy(t, frontendYAML(kind, addr, anyListener, tenant...))
		p.awaitReady(t)
		fleet, addrs = append(fleet, p), append(addrs, fmt.Sprintf("%q", p.Addr))
	}
	for _, p := range fleet {
		p.advertise(t, kind, addr, fmt.Sprintf("advertise: [%s]", strings.Join(addrs, ", ")), tenant...)
	}
	return fleet
}

// advertise changes what the only listener advertises.
func (p *proxy) advertise(t *testing.T, kind, addr, keys string, tenant ...string) {
	t.Helper()
	p.rewrite(t, frontendYAML(kind, addr, fmt.Sprintf(`{address: "127.0.0.1:0", %s}`, keys), tenant...))
}

// TestFleetIsOneCluster: clients in cluster mode find all proxies by one of them and use every one for its slots.
func TestFleetIsOneCluster(t *testing.T) {
	t.Parallel()
	sharded := redistest.Cluster(t, 3, 0)
	direct := redistest.Standalone(t)
	for kind, addr := range map[string]string{"standalone": redistest.Standalone(t).Addr(), "cluster": sharded.Addrs()[0]} {
		t.Run(kind, func(t *testing.T) {
			fleet := startFleet(t, 2, kind, addr)
			t.Run("they agree", func(t *testing.T) { requireAgreement(t, fleet) })
			for _, protocol := range []int{2, 3} {
				t.Run(fmt.Sprintf("go-redis RESP%d", protocol), func(t *testing.T) { clusterGoRedis(t, fleet, protocol) })
			}
			t.Run("redis-cli", func(t *testing.T) { clusterCLI(t, fleet, direct.Addr()) })
			t.Run("redis-benchmark", func(t *testing.T) { clusterBenchmark(t, fleet) })
		})
	}
}

// requireAgreement: all proxies tell the same nodes with the same ids, and each knows which it is.
func requireAgreement(t *testing.T, fleet []*proxy) {
	t.Helper()
	one, two := redistest.Dial(t, fleet[0].Addr), redistest.Dial(t, fleet[1].Addr)
	for _, line := range []string{"CLUSTER SLOTS", "CLUSTER SHARDS"} {
		reply := string(one.Do(strings.Fields(line)...))
		require.Equal(t, reply, string(two.Do(strings.Fields(line)...)), line)
		require.Regexp(t, `:0\r\n:8191\r\n(.*\r\n)+:8192\r\n:16383\r\n`, reply)
	}
	for i, c := range []*redistest.Conn{one, two} {
		id := strings.Split(string(c.Do("CLUSTER", "MYID")), "\r\n")[1]
		require.Regexp(t, fmt.Sprintf(`%s %s@\d+ myself,master - 0 \d+ %d connected`, id, fleet[i].Addr, i+1), string(c.Do("CLUSTER", "NODES")))
		require.Equal(t, ":0\r\n", string(two.Do("CLUSTER", "COUNT-FAILURE-REPORTS", id)), "the other knows it")
	}
	require.Contains(t, string(one.Do("CLUSTER", "INFO")), "cluster_known_nodes:2\r\ncluster_size:2\r\n")
}

// clusterGoRedis uses the client that divides its commands by slot.
func clusterGoRedis(t *testing.T, fleet []*proxy, protocol int) {
	ctx := t.Context()
	var dialled [2]atomic.Int64
	client := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: []string{fleet[0].Addr}, Protocol: protocol,
		Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			for i := range dialled {
				if addr == fleet[i].Addr {
					dialled[i].Add(1)
				}
			}
			return (&net.Dialer{}).DialContext(ctx, network, addr)
		},
	})
	defer client.Close()
	name := func(i int) string { return fmt.Sprintf("fleet:%d:%d", protocol, i) }
	commands, err := client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i := range 500 {
			pipe.Set(ctx, name(i), i, 0)
			pipe.Incr(ctx, name(i))
		}
		return nil
	})
	require.NoError(t, err)
	for i := range 500 {
		require.EqualValues(t, i+1, commands[2*i+1].(*redis.IntCmd).Val())
	}
	require.Equal(t, "500", client.Get(ctx, name(499)).Val())
	require.ErrorIs(t, client.Get(ctx, "absent").Err(), redis.Nil)
	require.Positive(t, dialled[0].Load())
	require.Positive(t, dialled[1].Load(), "the second proxy serves its slots")

	require.ErrorContains(t, client.MSetNX(ctx, "bar", 1, "hello", 2).Err(), "CROSSSLOT")
	_, err = client.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.Set(ctx, "{tx}a", 1, 0)
		pipe.Incr(ctx, "{tx}a")
		return nil
	})
	require.NoError(t, err)
	require.NoError(t, client.Watch(ctx, func(tx *redis.Tx) error {
		_, err := tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
			pipe.Incr(ctx, "{tx}a")
			return nil
		})
		return err
	}, "{tx}a"))
	require.Equal(t, "3", client.Get(ctx, "{tx}a").Val())

	script := redis.NewScript("return redis.call('INCRBY', KEYS[1], ARGV[1])")
	for i := range 20 {
		require.EqualValues(t, 5, script.Run(ctx, client, []string{fmt.Sprint("script", protocol, i)}, 5).Val())
	}
	clusterBlocking(t, client)
	clusterPubSub(t, client)
}

// clusterBlocking: a list element reaches the client that waits for it.
func clusterBlocking(t *testing.T, client *redis.ClusterClient) {
	t.Helper()
	for _, key := range []string{"list:bar", "list:foo", "list:1"} {
		popped := make(chan []string, 1)
		go func() { popped <- client.BLPop(t.Context(), eventually, key).Val() }()
		require.NoError(t, client.RPush(t.Context(), key, "element").Err())
		require.Equal(t, []string{key, "element"}, <-popped)
	}
}

// clusterPubSub: messages reach subscribers whichever proxy they are at.
func clusterPubSub(t *testing.T, client *redis.ClusterClient) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), eventually)
	defer cancel()
	for channel, publish := range map[string]func(ctx context.Context, channel string, message any) *redis.IntCmd{"c": client.Publish, "s": client.SPublish} {
		subscribe := client.Subscribe
		if channel == "s" {
			subscribe = client.SSubscribe
		}
		for i := range 4 {
			name := fmt.Sprint(channel, i)
			sub := subscribe(ctx, name)
			_, err := sub.Receive(ctx)
			require.NoError(t, err)
			require.NoError(t, publish(ctx, name, "message").Err())
			message, err := sub.ReceiveMessage(ctx)
			require.NoError(t, err)
			require.Equal(t, "message", message.Payload)
			require.NoError(t, sub.Close())
		}
	}
}

// clusterCLI: redis-cli follows nothing, since nothing redirects, and its check of a cluster finds none wrong.
func clusterCLI(t *testing.T, fleet []*proxy, direct string) {
	if _, err := exec.LookPath("redis-cli"); err != nil {
		t.Skip("redis-cli is not installed")
	}
	for _, p := range fleet {
		require.Equal(t, "OK\n", redisCLI(t, p.Addr, "", "-c", "SET", "bar", "value"))
		require.Equal(t, "value\n", redisCLI(t, p.Addr, "", "-c", "GET", "bar"))
		require.Equal(t, untimed(redisCLI(t, direct, cliDialogue, "--no-raw")), untimed(redisCLI(t, p.Addr, cliDialogue, "-c", "--no-raw")))
		check := redisCLI(t, p.Addr, "", "--cluster", "check", p.Addr)
		require.Contains(t, check, "[OK] All nodes agree about slots configuration.")
		require.Contains(t, check, "[OK] All 16384 slots covered.")
		require.Contains(t, check, "2 masters")
	}
}

func clusterBenchmark(t *testing.T, fleet []*proxy) {
	if _, err := exec.LookPath("redis-benchmark"); err != nil {
		t.Skip("redis-benchmark is not installed")
	}
	host, port, err := net.SplitHostPort(fleet[0].Addr)
	require.NoError(t, err)
	output, err := exec.CommandContext(t.Context(), "redis-benchmark", "-h", host, "-p", port, "--cluster", "-n", "2000", "-c", "10", "-r", "100", "-q", "-t", "set,get").CombinedOutput()
	require.NoError(t, err, string(output))
	for _, p := range fleet {
		require.Contains(t, string(output), p.Addr)
	}
	require.Regexp(t, `SET: [0-9.]+ requests per second(.*\n)+.*GET: [0-9.]+ requests per second`, strings.ReplaceAll(string(output), "\r", "\n"))
	require.NotContains(t, string(output), "rror")
}

var pongs = regexp.MustCompile(` 0 \d{13} `)

// TestAdvertise: what is told follows the configuration, also while it runs.
func TestAdvertise(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	p := startProxy(t, frontendYAML("standalone", server.Addr(), anyListener))
	p.awaitReady(t)
	c := redistest.Dial(t, p.Addr)
	nodes := func() string {
		_, text, _ := strings.Cut(string(c.Do("CLUSTER", "NODES")), "\r\n")
		return text
	}
	require.Contains(t, nodes(), p.Addr+"@", "the address that the client connected to")
	p.advertise(t, "standalone", server.Addr(), `advertise: ["one.example.com:6380", "two.example.com:6380", "[2001:db8::1]:6380"], advertise_self: "two.example.com:6380"`)
	require.Regexp(t, `one\.example\.com:6380@16380,one\.example\.com master .*\n.*two\.example\.com:6380@16380,two\.example\.com myself,master .* 5461-10921\n.* 2001:db8::1:6380@16380 master .* 10922-16383\n`, nodes())
	before := nodes()
	p.advertise(t, "standalone", server.Addr(), `advertise: ["0.0.0.0:6380"]`)
	require.Equal(t, pongs.ReplaceAllString(before, ""), pongs.ReplaceAllString(nodes(), ""), "a wrong configuration changes nothing")
	p.rewrite(t, strings.Replace(frontendYAML("standalone", server.Addr(), anyListener), "frontend: cluster", "frontend: standalone", 1))
	require.Equal(t, "-ERR This instance has cluster support disabled\r\n", string(c.Do("CLUSTER", "NODES")))
	require.Equal(t, "+OK\r\n", string(c.Do("MSET", "bar", "1", "hello", "2")))
}

// TestAdvertiseOfListeners: each listener tells of its own kind of address.
func TestAdvertiseOfListeners(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	files := redistest.NewTLSFiles(t)
	path, other := socketPath(t), socketPath(t)
	p := startProxy(t, frontendYAML("standalone", server.Addr(), fmt.Sprintf(
		`{address: "127.0.0.1:0", tls: {cert: %q, key: %q}}, {address: "0.0.0.0:0"}, {address: "unix://%s"}, {address: "unix://%s", advertise: ["proxy:6380"]}`,
		files.ServerCert, files.ServerKey, path, other)))
	p.awaitReady(t)
	secure, wide := p.Addresses()[0].(*net.TCPAddr), p.Addresses()[1].(*net.TCPAddr)
	shards := string(redistest.DialTLS(t, secure.String(), files.ClientConfig(t)).Do("CLUSTER", "SHARDS"))
	require.Contains(t, shards, fmt.Sprintf("$8\r\ntls-port\r\n:%d\r\n", secure.Port))
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{secure.String()}, TLSConfig: files.ClientConfig(t)})
	require.NoError(t, client.Set(t.Context(), "k", "v", time.Minute).Err())
	require.NoError(t, client.Close())

	slots := string(redistest.Dial(t, fmt.Sprintf("127.0.0.2:%d", wide.Port)).Do("CLUSTER", "SLOTS"))
	require.Contains(t, slots, fmt.Sprintf("$9\r\n127.0.0.2\r\n:%d\r\n", wide.Port), "the one of the machine's addresses that the client uses")
	c := redistest.Dial(t, path)
	for _, sub := range []string{"SLOTS", "SHARDS", "NODES", "INFO", "MYID", "MYSHARDID"} {
		require.Equal(t, "-ERR this listener has no address that the nodes of a cluster could be told by; its advertise must name some\r\n", string(c.Do("CLUSTER", sub)))
	}
	require.Equal(t, fmt.Sprintf(":%d\r\n", slot.Of([]byte("k"))), string(c.Do("CLUSTER", "KEYSLOT", "k")))
	require.Contains(t, string(redistest.Dial(t, other).Do("CLUSTER", "SLOTS")), "$5\r\nproxy\r\n:6380\r\n")
}
