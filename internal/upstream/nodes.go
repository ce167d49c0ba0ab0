package upstream

import "github.com/sluiceproxy/sluice/internal/topology"

// NodeState is one node as the proxy sees it: by the topology, and by what the loops have with it.
type NodeState struct {
	Alias, Addr string
	Role        topology.Role
	Healthy     bool
	Slots       int
	// Pipes are connected; Lent and Spare are dedicated connections.
	Pipes, Lent, Spare, Waiting int
	Inflight                    int
	QueueDelay                  float64 // seconds, of the worst pipe
	Errors                      uint64
}

// Nodes are the nodes of the topology in force; none while none is known. For any goroutine but loops.
func (c *Cluster) Nodes() []NodeState {
	m := c.topo.Load()
	if m == nil {
		return nil
	}
	sum := numbers{nodes: make(map[string]*nodeNumbers), counts: make(map[string]*nodeCounts)}
	c.onLoops(func(lc *Local) { lc.addTo(&sum) })
	slots := make([]int, len(m.Nodes))
	for i := range topology.SlotCount {
		if n := m.Primary(uint16(i)); n >= 0 {
			slots[n]++
		}
	}
	ready, _ := c.Ready()
	nodes := make([]NodeState, len(m.Nodes))
	for i := range m.Nodes {
		n := &m.Nodes[i]
		s := NodeState{Alias: n.Alias, Addr: n.Addr, Role: n.Role, Healthy: n.Healthy, Slots: slots[i]}
		if c.cfg.Kind == Standalone {
			s.Healthy = ready
		}
		if has := sum.nodes[n.Alias]; has != nil {
			s.Pipes, s.Lent, s.Spare, s.Waiting = has.up+has.beside, has.lent, has.spare, has.waiting
			s.Inflight, s.QueueDelay = has.inflight, has.queueDelay
		}
		if counts := sum.counts[n.Alias]; counts != nil {
			for _, v := range counts.errors {
				s.Errors += v
			}
		}
		nodes[i] = s
	}
	return nodes
}
