package redistest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// nodeTimeout is the cluster-node-timeout of test clusters: a dead primary is
// replaced some 3 seconds after its end.
const nodeTimeout = 2000 * time.Millisecond

const slotCount = 16384

// ClusterServers is a Redis Cluster of real processes.
type ClusterServers struct {
	// Primaries and Replicas are the roles at the start; Replicas[i] follows
	// Primaries[i % len(Primaries)]. Failovers do not change them.
	Primaries []*Server
	Replicas  []*Server

	t   testing.TB
	ids map[*Server]string
}

// Cluster starts primaries + replicas nodes that share the slots evenly and
// returns when every node finds the cluster in order and replicas are in sync.
// That takes about 3 seconds: Redis lets no fresh primary serve for the first 2.
func Cluster(t testing.TB, primaries, replicas int, opts ...Option) *ClusterServers {
	t.Helper()
	c := &ClusterServers{t: t, ids: map[*Server]string{}}
	o := gather(opts)
	for i := range primaries + replicas {
		s := newServer(t, o, true)
		s.start()
		if i < primaries {
			c.Primaries = append(c.Primaries, s)
		} else {
			c.Replicas = append(c.Replicas, s)
		}
	}
	c.form()
	return c
}

func (c *ClusterServers) form() {
	c.t.Helper()
	for i, s := range c.Servers() {
		s.awaitAnswer()
		c.ids[s] = s.mustDo("CLUSTER", "MYID").(string)
		s.mustDo("CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1))
	}
	for i, s := range c.Primaries {
		first, last := evenShare(i, len(c.Primaries))
		s.mustDo("CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(first), strconv.Itoa(last))
	}
	c.introduce()
	for i, s := range c.Replicas {
		s.mustDo("CLUSTER", "REPLICATE", c.ids[c.Primaries[i%len(c.Primaries)]])
	}
	c.AwaitSettled()
	c.awaitReplication()
}

// evenShare is the i-th of n parts of the slots.
func evenShare(i, n int) (first, last int) {
	return i * slotCount / n, (i+1)*slotCount/n - 1
}

// introduce makes every node meet the first one; gossip does the rest.
func (c *ClusterServers) introduce() {
	c.t.Helper()
	servers := c.Servers()
	first := servers[0]
	for _, s := range servers[1:] {
		s.mustDo("CLUSTER", "MEET", "127.0.0.1", strconv.Itoa(first.Port()), strconv.Itoa(first.busPort.number))
	}
	c.eventually("every node knows every other", func() bool {
		for _, s := range servers {
			if !c.knowsAll(s) {
				return false
			}
		}
		return true
	})
}

func (c *ClusterServers) knowsAll(s *Server) bool {
	view, err := viewOf(s)
	if err != nil || len(view) != len(c.ids) {
		return false
	}
	for _, n := range view {
		if n.has("handshake") {
			return false
		}
	}
	return true
}

// AwaitSettled returns when all running nodes report cluster_state:ok and
// agree on who is primary, who follows whom, and who serves which slot.
func (c *ClusterServers) AwaitSettled() {
	c.t.Helper()
	c.eventually("running nodes agree on a healthy cluster", func() bool {
		agreed := ""
		for _, s := range c.running() {
			view, ok := c.settledView(s)
			if !ok || agreed != "" && view != agreed {
				return false
			}
			agreed = view
		}
		return agreed != ""
	})
}

// settledView is what s says of the running nodes, in a comparable form.
func (c *ClusterServers) settledView(s *Server) (string, bool) {
	info, err := s.tryDo("CLUSTER", "INFO")
	if err != nil || !strings.Contains(string(info), "cluster_state:ok") {
		return "", false
	}
	nodes, err := viewOf(s)
	if err != nil {
		return "", false
	}
	var lines []string
	for _, n := range nodes {
		if !c.isRunning(n.id) {
			continue
		}
		if n.has("fail") || n.has("fail?") {
			return "", false
		}
		lines = append(lines, fmt.Sprint(n.id, n.primary, n.slots))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n"), true
}

// awaitReplication returns when every replica has its primary's data and no
// node calls one "loading" any more, which they learn by gossip.
func (c *ClusterServers) awaitReplication() {
	c.t.Helper()
	c.eventually("replicas are in sync", func() bool {
		for _, s := range c.Replicas {
			info, err := s.tryDo("INFO", "replication")
			text := string(info)
			if err != nil || !strings.Contains(text, "master_link_status:up") ||
				strings.Contains(text, "slave_repl_offset:0\r") {
				return false
			}
		}
		return !c.anyLoading()
	})
}

func (c *ClusterServers) anyLoading() bool {
	for _, s := range c.Servers() {
		shards, err := s.tryDo("CLUSTER", "SHARDS")
		if err != nil || strings.Contains(string(shards), "\r\nloading\r\n") {
			return true
		}
	}
	return false
}

// Servers are all nodes, first those that started as primaries.
func (c *ClusterServers) Servers() []*Server {
	return slices.Concat(c.Primaries, c.Replicas)
}

// Addrs are the host:port of all nodes in the order of Servers.
func (c *ClusterServers) Addrs() []string {
	var addrs []string
	for _, s := range c.Servers() {
		addrs = append(addrs, s.Addr())
	}
	return addrs
}

// ID is the node's cluster id.
func (c *ClusterServers) ID(s *Server) string { return c.ids[s] }

func (c *ClusterServers) byID(id string) *Server {
	for s, known := range c.ids {
		if known == id {
			return s
		}
	}
	return nil
}

func (c *ClusterServers) isRunning(id string) bool {
	s := c.byID(id)
	return s != nil && s.Running()
}

func (c *ClusterServers) running() []*Server {
	return slices.DeleteFunc(c.Servers(), func(s *Server) bool { return !s.Running() })
}

func (c *ClusterServers) eventually(what string, holds func() bool) {
	c.t.Helper()
	eventually(c.t, what, holds)
}
