package upstream

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/sluiceproxy/sluice/internal/redistest"
)

// teller is a scripted node that tells a topology.
type teller struct {
	*redistest.ScriptedNode
	asked atomic.Int64
	mu    struct {
		sync.Mutex
		owners []int // ports
		epoch  int
		size   int
		fails  bool
	}
}

func newTeller(t *testing.T) *teller {
	n := &teller{ScriptedNode: redistest.NewScripted(t)}
	n.Handle(func(args [][]byte) []byte {
		n.mu.Lock()
		defer n.mu.Unlock()
		switch what := strings.ToUpper(string(args[1])); {
		case n.mu.fails:
			return []byte("-ERR This instance has cluster support disabled\r\n")
		case what == "SHARDS":
			n.asked.Add(1)
			return []byte(shardsReply(n.mu.owners))
		default:
			text := fmt.Sprintf("cluster_state:ok\r\ncluster_size:%d\r\ncluster_current_epoch:%d\r\n", n.mu.size, n.mu.epoch)
			return fmt.Appendf(nil, "$%d\r\n%s\r\n", len(text), text)
		}
	})
	return n
}

func (n *teller) tell(epoch int, owners ...*teller) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mu.epoch, n.mu.owners, n.mu.size = epoch, nil, len(owners)
	for _, o := range owners {
		n.mu.owners = append(n.mu.owners, o.Port())
	}
}

func shardsReply(owners []int) string {
	var b strings.Builder
	word := func(s string) { fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(s), s) }
	fmt.Fprintf(&b, "*%d\r\n", len(owners))
	for i, port := range owners {
		fmt.Fprintf(&b, "*4\r\n$5\r\nslots\r\n*2\r\n:%d\r\n:%d\r\n$5\r\nnodes\r\n*1\r\n*10\r\n", i*16384/len(owners), (i+1)*16384/len(owners)-1)
		word("id")
		word(fmt.Sprintf("%040d", port))
		word("port")
		fmt.Fprintf(&b, ":%d\r\n", port)
		for _, s := range []string{"endpoint", "127.0.0.1", "role", "master", "health", "online"} {
			word(s)
		}
	}
	return b.String()
}

// withSeeds is a cluster without loops that knows these nodes.
func withSeeds(t *testing.T, seeds ...*teller) (*Cluster, *observer.ObservedLogs) {
	t.Helper()
	core, logs := observer.New(zap.DebugLevel)
	cfg := Config{Name: "main", Kind: Sharded, RefreshInterval: time.Hour}
	for _, s := range seeds {
		cfg.Addresses = append(cfg.Addresses, s.Addr())
	}
	c := NewCluster(cfg, nil, zap.New(core))
	t.Cleanup(c.Close)
	return c, logs
}

func ownersIn(c *Cluster) (addrs []string) {
	m := c.Topology()
	for i := range m.Shards {
		addrs = append(addrs, m.Shards[i].Primary.Addr)
	}
	return addrs
}

func TestCandidatesAreKnownNodesThenSeeds(t *testing.T) {
	b := newBench(t, Config{Kind: Sharded, Addresses: []string{"seed:1", "b:2"}})
	require.Equal(t, []string{"seed:1", "b:2"}, b.cluster.candidates())
	require.NoError(t, b.cluster.Adopt(mapOf(t, "a:1", "b:2", "c:3")))
	firsts := make(map[string]bool)
	for range 100 {
		list := b.cluster.candidates()
		require.ElementsMatch(t, []string{"a:1", "b:2", "c:3"}, list[:3])
		require.Equal(t, []string{"seed:1"}, list[3:])
		firsts[list[0]] = true
	}
	require.Len(t, firsts, 3, "one node is always asked first")
}

// However often it is called for, the topology is asked for at most five times a second, and soon.
func TestRefreshesAreRareAndSoon(t *testing.T) {
	redistest.LeakCheck(t)
	n := newTeller(t)
	n.tell(1, n)
	c, _ := withSeeds(t, n)
	c.Start()
	require.Eventually(t, func() bool { ready, _ := c.Ready(); return ready }, 5*time.Second, time.Millisecond)
	asked := n.asked.Load()
	start := time.Now()
	c.RequestRefresh()
	require.Eventually(t, func() bool { return n.asked.Load() > asked }, 5*time.Second, time.Millisecond)
	require.Less(t, time.Since(start), time.Second)
	asked = n.asked.Load()
	for time.Since(start) < 2*time.Second {
		c.RequestRefresh()
		time.Sleep(100 * time.Microsecond)
	}
	require.LessOrEqual(t, n.asked.Load()-asked, int64(10))
	require.GreaterOrEqual(t, n.asked.Load()-asked, int64(5))
}

// A node that was cut off shows an old map: it is not taken, another node is asked.
func TestOldMapOfOneNodeIsNotTaken(t *testing.T) {
	redistest.LeakCheck(t)
	a, b, old := newTeller(t), newTeller(t), newTeller(t)
	for _, n := range []*teller{a, b, old} {
		n.tell(7, a, b, old)
	}
	c, _ := withSeeds(t, a, b, old)
	require.NoError(t, c.look())
	require.Equal(t, []string{a.Addr(), b.Addr(), old.Addr()}, ownersIn(c))
	old.tell(6, old, old, old)
	a.tell(8, b, a, a)
	b.tell(8, b, a, a)
	for range 10 {
		require.NoError(t, c.look())
		require.Equal(t, b.Addr(), ownersIn(c)[0])
	}
	// What most nodes say is so, also when it looks old: the cluster was made anew.
	for _, n := range []*teller{a, b, old} {
		n.tell(1, old, a, b)
	}
	require.NoError(t, c.look())
	require.Equal(t, old.Addr(), ownersIn(c)[0])
}

func TestReadyTellsWhyNot(t *testing.T) {
	redistest.LeakCheck(t)
	n := newTeller(t)
	n.mu.fails = true
	c, logs := withSeeds(t, n)
	ready, reason := c.Ready()
	require.False(t, ready)
	require.Equal(t, "not connected yet", reason)
	for range 3 {
		c.setReady(c.look())
	}
	ready, reason = c.Ready()
	require.False(t, ready)
	require.Equal(t, "cannot read the topology: ERR This instance has cluster support disabled", reason)
	require.Equal(t, 1, logs.FilterMessageSnippet("not ready").Len(), "the same reason is logged once")
	n.mu.Lock()
	n.mu.fails = false
	n.mu.Unlock()
	n.tell(1, n)
	c.setReady(c.look())
	ready, reason = c.Ready()
	require.True(t, ready)
	require.Empty(t, reason)
}
