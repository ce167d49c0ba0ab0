package e2e

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/redistest"
)

// partialCoverage lets a cluster serve the slots that it still has, so that a test can tell its faults from the proxy's.
func partialCoverage() redistest.Option {
	return redistest.WithConfig("cluster-require-full-coverage no")
}

// counter increments a key of one shard, over and over.
type counter struct {
	crowd   *crowd
	conn    *redistest.Conn
	key     string
	value   atomic.Int64 // the last reply
	served  atomic.Int64 // replies that were no errors
	slowest atomic.Int64 // nanoseconds of the slowest reply
}

func startCounters(t *testing.T, c *crowd, addr string, shard, n int) (all []*counter) {
	t.Helper()
	for i := range n {
		one := &counter{crowd: c, conn: hello(t, addr, 2+i%2), key: keyOfShard(shard, fmt.Sprintf("count-%d-%d", shard, i))}
		all = append(all, one)
		c.join(one.run)
	}
	return all
}

func (c *counter) run() {
	for !c.crowd.ended() {
		start := time.Now()
		reply, err := c.conn.TryDo("INCR", c.key)
		if err != nil {
			c.crowd.wrong("the proxy closed a client's connection: %v", err)
			return
		}
		c.slowest.Store(max(c.slowest.Load(), int64(time.Since(start))))
		if c.crowd.saw(reply) {
			time.Sleep(time.Millisecond) // a client that is refused does not spin
			continue
		}
		v, err := strconv.ParseInt(strings.TrimSpace(string(reply[1:])), 10, 64)
		if err != nil || reply[0] != ':' {
			c.crowd.wrong("INCR answered %q", reply)
			return
		}
		c.value.Store(v)
		c.served.Add(1)
	}
}

// awaitMore returns when each of the counters has been served more times.
func awaitMore(t *testing.T, counters []*counter, more int64) {
	t.Helper()
	var marks []int64
	for _, c := range counters {
		marks = append(marks, c.served.Load()+more)
	}
	require.Eventually(t, func() bool {
		for i, c := range counters {
			if c.served.Load() < marks[i] {
				return false
			}
		}
		return true
	}, eventually, tick)
}

// requireExact: nothing of these was lost, repeated or refused.
func requireExact(t *testing.T, servers *redistest.ClusterServers, counters []*counter) {
	t.Helper()
	for _, c := range counters {
		require.Equal(t, bulk(strconv.FormatInt(c.served.Load(), 10)), string(servers.NodeFor(c.key).Do("GET", c.key)))
	}
}

// TestPrimaryDiesUnderLoad kills the primary that is also the only configured address. Its clients get errors until the
// cluster has put a replica in its place, and then go on over the same connections; nobody else notices.
func TestPrimaryDiesUnderLoad(t *testing.T) {
	redistest.LeakCheck(t)
	servers := redistest.Cluster(t, 3, 3, partialCoverage())
	dead := servers.Primaries[0]
	p := startProxy(t, tenantYAML("cluster", []string{dead.Addr()}, ""))
	p.awaitReady(t)

	hurt, others := newCrowd(t), newCrowd(t)
	concerned := startCounters(t, hurt, p.Addr, 0, 6)
	healthy := append(startCounters(t, others, p.Addr, 1, 6), startCounters(t, others, p.Addr, 2, 6)...)
	awaitMore(t, concerned, 100)

	dead.Kill()
	awaitMore(t, healthy, 200)
	successor := servers.AwaitFailover(dead)
	recovery := time.Now()
	awaitMore(t, concerned, 20)
	require.Less(t, time.Since(recovery), 5*time.Second, "the proxy did not find the new primary")

	// The cluster lost its seed and its entry: the topology is kept all the same.
	refreshed := p.metric(t, "sluice_topology_refreshes_total", `result="ok"`)
	require.Positive(t, refreshed)

	// The dead node comes back as a replica, and gets its slots back in an orderly way.
	before := hurt.errors()
	dead.Restart()
	servers.AwaitSettled()
	require.Same(t, dead, servers.ReplicaOf(successor))
	awaitMore(t, concerned, 20)
	require.Same(t, dead, servers.Failover(successor))
	awaitMore(t, concerned, 50)
	require.Equal(t, before, hurt.errors(), "an orderly failover must not be noticed")

	hurt.requireRight()
	others.requireRight()
	require.Empty(t, others.errors())
	requireExact(t, servers, healthy)
	require.NotEmpty(t, before)
	for text := range before {
		require.Regexp(t, `^-(ERR upstream (connection lost|unavailable)|CLUSTERDOWN)`, text)
	}
	for _, c := range concerned {
		require.Less(t, time.Duration(c.slowest.Load()), 4*time.Second, "a command of the dead shard hung")
	}
	requireNoAddressInLogs(t, p, servers.Addrs()...)
}

// TestSeedsAppearAfterTheStart: a daemon whose clusters are all away starts, says so, and serves when they come.
func TestSeedsAppearAfterTheStart(t *testing.T) {
	t.Parallel()
	servers := redistest.Cluster(t, 3, 0)
	first, second := redistest.NewFaultyProxy(t, servers.Primaries[0].Addr()), redistest.NewFaultyProxy(t, servers.Primaries[1].Addr())
	first.RefuseNew()
	second.RefuseNew()
	p := startProxy(t, tenantYAML("cluster", []string{first.Addr(), second.Addr()}, ""))
	c := hello(t, p.Addr, 3)
	require.Equal(t, "+PONG\r\n", string(c.Do("PING")))
	reply := within(t, time.Second, func() string { return string(c.Do("GET", "k")) })
	require.Equal(t, "-CLUSTERDOWN Hash slot not served\r\n", reply)
	require.Eventually(t, func() bool {
		status, body, _ := p.get(t, "/readyz")
		return status == http.StatusServiceUnavailable && strings.Contains(body, "connection refused") && strings.Contains(body, "acme")
	}, eventually, tick)
	_, body, _ := p.get(t, "/readyz")
	require.NotContains(t, body, "127.0.0.1")

	second.AcceptNew()
	p.awaitReady(t)
	require.Equal(t, "+OK\r\n", string(c.Do("MSET", "a", "1", "b", "2", "c", "3")))

	// The seed may go for ever: the cluster's nodes are known.
	second.RefuseNew()
	second.Cut()
	servers.MoveSlot(servers.Slot("a"), servers.NodeFor("a"), servers.NodeFor("b"))
	require.Equal(t, "*2\r\n$1\r\n1\r\n$1\r\n2\r\n", string(c.Do("MGET", "a", "b")))
	requireNoAddressInLogs(t, p, append(servers.Addrs(), first.Addr(), second.Addr())...)
}
