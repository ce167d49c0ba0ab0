package topology

import "fmt"

// Validate says why m cannot serve, nil if it can: it needs a node and a slot
// that is served. A map with gaps serves the rest, and the nodes of a minority
// answer for themselves that they are down.
func (m *Map) Validate() error {
	switch {
	case len(m.Nodes) == 0:
		return errNoNodes
	case m.covered == 0:
		return errNoSlots
	}
	return m.checkShape()
}

// checkShape asserts what the types promise.
func (m *Map) checkShape() error {
	covered := 0
	for i := range m.Shards {
		s := &m.Shards[i]
		if s.Primary == nil {
			return fmt.Errorf("BUG: %v has no primary", s)
		}
		for _, r := range s.Slots {
			for slot := int(r.First); slot <= int(r.Last); slot++ {
				covered++
				if node := m.Primary(uint16(slot)); node < 0 || &m.Nodes[node] != s.Primary {
					return fmt.Errorf("BUG: slot %d of %v leads elsewhere", slot, s)
				}
			}
		}
	}
	if covered != m.covered {
		return fmt.Errorf("BUG: %d slots are in shards and %d covered", covered, m.covered)
	}
	return nil
}

// Supersedes says whether m, just received, should replace old. It guards
// against nodes that know less than we do: one cut off with a minority, one
// that gossip has not reached yet, one that was reset.
//
// It judges one answer. A caller that hears the same refused map from most of
// the nodes should take it: slots may have been deleted, or the cluster made
// anew, by its operator.
func (m *Map) Supersedes(old *Map) bool {
	switch {
	case old == nil:
		return true
	case m.Minority && !old.Minority:
		return false
	case !m.sharesNode(old): // epochs of two clusters do not compare
		return m.covered >= old.covered
	case m.Epoch != old.Epoch && m.Epoch != 0 && old.Epoch != 0:
		return m.Epoch > old.Epoch
	}
	return m.covered >= old.covered && (m.mostPrimariesHealthy() || !old.mostPrimariesHealthy())
}

func (m *Map) sharesNode(old *Map) bool {
	known := make(map[string]struct{}, len(old.Nodes))
	for i := range old.Nodes {
		known[identity(&old.Nodes[i])] = struct{}{}
		known[old.Nodes[i].Addr] = struct{}{} // a node that MOVED named has no id yet
	}
	for i := range m.Nodes {
		if _, ok := known[identity(&m.Nodes[i])]; ok {
			return true
		}
		if _, ok := known[m.Nodes[i].Addr]; ok {
			return true
		}
	}
	return false
}

func (m *Map) mostPrimariesHealthy() bool {
	healthy, all := 0, 0
	for i := range m.Shards {
		if len(m.Shards[i].Slots) == 0 {
			continue
		}
		all++
		if m.Shards[i].Primary.Healthy {
			healthy++
		}
	}
	return 2*healthy > all
}
