package topology

import "slices"

// WithSlotMoved is m after a MOVED: slot is served by the node at addr. An
// unknown node is added as a shard of its own. A replica of the slot's own
// shard has taken the shard over, so all its slots go there at once; any other
// replica becomes a shard of its own. If m says so already, m is returned.
func (m *Map) WithSlotMoved(slot uint16, addr string) *Map {
	slot &= SlotCount - 1
	node := m.IndexOf(addr)
	if node >= 0 && node == m.Primary(slot) || node < 0 && len(m.Nodes) >= maxNodes {
		return m
	}
	d := m.draft()
	from := m.shardOf(slot)
	if from >= 0 && d.shards[from].promote(addr) {
		return d.build()
	}
	if from >= 0 {
		d.shards[from].removeSlot(slot)
	}
	to := d.shardLedBy(addr)
	d.shards[to].slots = append(d.shards[to].slots, Range{slot, slot})
	if from >= 0 && d.shards[from].isLeftover() {
		d.shards = slices.Delete(d.shards, from, from+1)
	}
	return d.build()
}

// isLeftover says whether the shard was known from MOVED alone and is now
// without slots: nothing else would ever take it away.
func (s *shardDraft) isLeftover() bool {
	return len(s.slots) == 0 && s.primary.ID == "" && len(s.replicas) == 0
}

// shardOf is the index in Shards of the shard that serves slot, -1 if none does.
func (m *Map) shardOf(slot uint16) int {
	primary := m.Primary(slot)
	if primary < 0 {
		return uncovered
	}
	return slices.IndexFunc(m.Shards, func(s Shard) bool { return s.Primary == &m.Nodes[primary] })
}

// promote makes the replica at addr the primary; false if there is none.
func (s *shardDraft) promote(addr string) bool {
	i := slices.IndexFunc(s.replicas, func(n Node) bool { return n.Addr == addr })
	if i < 0 {
		return false
	}
	s.primary, s.replicas[i] = s.replicas[i], s.primary
	s.primary.Healthy = true
	return true
}

func (s *shardDraft) removeSlot(slot uint16) {
	var kept []Range
	for _, r := range s.slots {
		if slot < r.First || slot > r.Last {
			kept = append(kept, r)
			continue
		}
		if r.First < slot {
			kept = append(kept, Range{r.First, slot - 1})
		}
		if slot < r.Last {
			kept = append(kept, Range{slot + 1, r.Last})
		}
	}
	s.slots = kept
}

// shardLedBy is the index of the shard whose primary is at addr; it is made
// if there is none.
func (d *draft) shardLedBy(addr string) int {
	for i := range d.shards {
		if d.shards[i].primary.Addr == addr {
			d.shards[i].primary.Healthy = true
			return i
		}
	}
	leader := d.takeReplica(addr)
	leader.Healthy = true
	d.shards = append(d.shards, shardDraft{primary: leader})
	return len(d.shards) - 1
}

// takeReplica removes the replica at addr from its shard; a new node if there is none.
func (d *draft) takeReplica(addr string) Node {
	for i := range d.shards {
		s := &d.shards[i]
		for j := range s.replicas {
			if s.replicas[j].Addr == addr {
				taken := s.replicas[j]
				s.replicas = slices.Delete(s.replicas, j, j+1)
				return taken
			}
		}
	}
	return Node{Addr: addr}
}
