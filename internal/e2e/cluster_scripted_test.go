package e2e

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/pkg/slot"
)

// fakeCluster is scripted nodes that share the slots evenly and know each other.
type fakeCluster struct {
	nodes []*redistest.ScriptedNode
	ports []int
	shown atomic.Pointer[string] // the topology
	asked atomic.Int64           // how often for it
}

// newFakeCluster starts n nodes. answer is asked for everything but the topology.
func newFakeCluster(t *testing.T, n int, answer func(node int, c *redistest.ScriptedConn, args [][]byte)) *fakeCluster {
	f := &fakeCluster{}
	for i := range n {
		node := redistest.NewScripted(t)
		f.nodes = append(f.nodes, node)
		node.HandleConn(func(c *redistest.ScriptedConn, args [][]byte) {
			if strings.EqualFold(string(args[0]), "cluster") {
				c.Write(f.topology(string(args[1])))
				return
			}
			answer(i, c, args)
		})
	}
	for i := range f.nodes {
		f.ports = append(f.ports, f.nodes[i].Port())
	}
	f.show(f.ports...)
	return f
}

func (f *fakeCluster) addrs() (all []string) {
	for _, n := range f.nodes {
		all = append(all, n.Addr())
	}
	return all
}

// show makes every node tell that the nodes at these ports have the slots.
func (f *fakeCluster) show(owners ...int) {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(owners))
	for i, port := range owners {
		fmt.Fprintf(&b, "*4\r\n$5\r\nslots\r\n*2\r\n:%d\r\n:%d\r\n$5\r\nnodes\r\n*1\r\n", i*16384/len(owners), (i+1)*16384/len(owners)-1)
		b.WriteString("*14\r\n" + bulk("id") + bulk(fmt.Sprintf("%040d", port)) + bulk("port") + fmt.Sprintf(":%d\r\n", port) +
			bulk("ip") + bulk("127.0.0.1") + bulk("endpoint") + bulk("127.0.0.1") + bulk("role") + bulk("master") +
			bulk("replication-offset") + ":0\r\n" + bulk("health") + bulk("online"))
	}
	text := b.String()
	f.shown.Store(&text)
}

func (f *fakeCluster) topology(what string) string {
	if strings.EqualFold(what, "shards") {
		f.asked.Add(1)
		return *f.shown.Load()
	}
	return bulk("cluster_state:ok\r\ncluster_slots_assigned:16384\r\ncluster_size:1\r\ncluster_current_epoch:1\r\n")
}

// keyOfHalf is a key of the i-th of two nodes.
func keyOfHalf(i int, name string) string {
	for n := 0; ; n++ {
		key := fmt.Sprint(name, n)
		if int(slot.Of([]byte(key)))/(slot.Count/2) == i {
			return key
		}
	}
}

func portOf(t *testing.T, addr string) int {
	t.Helper()
	_, text, err := net.SplitHostPort(addr)
	require.NoError(t, err)
	port, err := strconv.Atoi(text)
	require.NoError(t, err)
	return port
}

// storm sends commands as fast as clients can for a while.
func storm(t *testing.T, addr string, clients int, d time.Duration, packet string, replies int) *crowd {
	t.Helper()
	c := newCrowd(t)
	for i := range clients {
		conn := hello(t, addr, 2+i%2)
		c.join(func() {
			for !c.ended() {
				if err := conn.TrySend(packet); err != nil {
					c.wrong("cannot send: %v", err)
					return
				}
				for range replies {
					reply, err := conn.TryRead()
					if err != nil {
						c.wrong("no reply: %v", err)
						return
					}
					c.saw(reply)
				}
			}
		})
	}
	time.Sleep(d)
	c.requireRight()
	return c
}

// TestDeadNodeCausesNoStorm: while a node is away and thousands of commands a second ask for it, the others are asked for
// the topology at most five times a second, and the dead one is not flooded with attempts to connect.
func TestDeadNodeCausesNoStorm(t *testing.T) {
	redistest.LeakCheck(t)
	f := newFakeCluster(t, 2, func(_ int, c *redistest.ScriptedConn, _ [][]byte) { c.Write("$1\r\nv\r\n") })
	// The front counts attempts to connect; the way behind it is what is switched off.
	way := redistest.NewFaultyProxy(t, f.nodes[1].Addr())
	front := redistest.NewFaultyProxy(t, way.Addr())
	f.show(f.ports[0], portOf(t, front.Addr()))
	p := startProxy(t, tenantYAML("cluster", f.addrs()[:1], "", "loops: 2"))
	p.awaitReady(t)
	c := hello(t, p.Addr, 2)
	require.Equal(t, "$1\r\nv\r\n", string(c.Do("GET", keyOfHalf(1, "k"))))

	way.RefuseNew()
	way.Cut()
	asked, dialled := f.asked.Load(), front.Accepted()
	const d = 3 * time.Second
	clients := storm(t, p.Addr, 8, d, strings.Repeat(redistest.Command("GET", keyOfHalf(1, "k")), 20)+redistest.Command("GET", keyOfHalf(0, "k")), 21)
	require.Greater(t, clients.served(), 10_000, "this is no storm")
	require.LessOrEqual(t, f.asked.Load()-asked, int64(5*d.Seconds()+1), "looks at the topology in %s", d)
	require.LessOrEqual(t, front.Accepted()-dialled, 80, "connections to the dead node in %s", d)
	for text := range clients.errors() {
		require.Regexp(t, `^-ERR upstream (unavailable|connection lost)`, text)
	}

	way.AcceptNew()
	require.Eventually(t, func() bool { return string(c.Do("GET", keyOfHalf(1, "k"))) == "$1\r\nv\r\n" }, 3*time.Second, tick)
}

// TestNodeThatDropsConnectionsIsNotFlooded: a node that takes connections and closes them at the first command gets new
// ones at the bounded rate only.
func TestNodeThatDropsConnectionsIsNotFlooded(t *testing.T) {
	redistest.LeakCheck(t)
	node := redistest.NewScripted(t)
	node.HandleConn(func(c *redistest.ScriptedConn, _ [][]byte) { c.Close() })
	p := startProxy(t, tenantYAML("standalone", []string{node.Addr()}, ""))
	p.awaitReady(t)
	const d = 2 * time.Second
	storm(t, p.Addr, 8, d, redistest.Command("GET", "k"), 1)
	require.Greater(t, node.Accepted(), 10)
	require.LessOrEqual(t, node.Accepted(), 64+int(200*1.5*d.Seconds()), "connections in %s", d)
	require.LessOrEqual(t, p.metric(t, "sluice_topology_refreshes_total"), 5*d.Seconds()+3)
}

// TestRedirectLoopEnds: two nodes that each redirect to the other neither keep a command for ever nor cause a storm.
func TestRedirectLoopEnds(t *testing.T) {
	t.Parallel()
	var f *fakeCluster
	var ready sync.WaitGroup
	ready.Add(1)
	f = newFakeCluster(t, 2, func(node int, c *redistest.ScriptedConn, args [][]byte) {
		ready.Wait()
		if strings.EqualFold(string(args[0]), "asking") {
			c.Write("+OK\r\n")
			return
		}
		kind := "MOVED"
		if len(args[1]) > 3 {
			kind = "ASK"
		}
		c.Write(fmt.Sprintf("-%s 42 127.0.0.1:%d\r\n", kind, f.nodes[1-node].Port()))
	})
	ready.Done()
	p := startProxy(t, tenantYAML("cluster", f.addrs(), ""))
	p.awaitReady(t)
	c := hello(t, p.Addr, 2)
	for _, key := range []string{"mov", "ask it"} {
		reply := within(t, time.Second, func() []byte { return c.Do("SET", key, "v") })
		require.Equal(t, byte('-'), reply[0])
		require.False(t, tellsAddress(reply), "%q", reply)
	}
	asked := f.asked.Load()
	clients := storm(t, p.Addr, 4, time.Second, redistest.Command("SET", "mov", "v"), 1)
	require.NotEmpty(t, clients.errors())
	require.LessOrEqual(t, f.asked.Load()-asked, int64(6))
}

// TestCommandOnANodeThatLeavesStillTimesOut: a call in flight to a node that the topology drops is not forgotten.
func TestCommandOnANodeThatLeavesStillTimesOut(t *testing.T) {
	t.Parallel()
	f := newFakeCluster(t, 2, func(node int, c *redistest.ScriptedConn, args [][]byte) {
		if node == 0 {
			c.Write("$1\r\nv\r\n")
		} // the other one never answers
	})
	p := startProxy(t, tenantYAML("cluster", f.addrs()[:1], "command_timeout: 1s", "cluster: refresh_interval: 200ms"))
	p.awaitReady(t)
	c, key := hello(t, p.Addr, 3), keyOfHalf(1, "k")
	c.SendCommand("GET", key)
	require.Eventually(t, func() bool { return slices.Contains(f.nodes[1].Commands(), "GET "+key) }, eventually, tick)
	f.show(f.ports[0])
	other := hello(t, p.Addr, 3)
	require.Eventually(t, func() bool { return string(other.Do("GET", key)) == "$1\r\nv\r\n" }, eventually, tick)
	require.Regexp(t, "^-ERR upstream (timeout|connection lost)", string(within(t, 3*time.Second, c.ReadReply)))
	require.Equal(t, "$1\r\nv\r\n", string(c.Do("GET", key)))
}
