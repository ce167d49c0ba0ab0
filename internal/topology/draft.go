package topology

import (
	"cmp"
	"errors"
	"slices"
)

// maxNodes bounds what one answer can make us hold; Redis Cluster is made for
// at most 1,000 nodes.
const maxNodes = 16000

// maxClaims bounds the slots named in one answer; each is named once by a
// sane node.
const maxClaims = 4 * SlotCount

var (
	errTooManyNodes = errors.New("cannot read topology: too many nodes")
	errTooManySlots = errors.New("cannot read topology: slots are claimed too often")
	errNoNodes      = errors.New("cannot use topology: it has no nodes")
	errNoSlots      = errors.New("cannot use topology: no node serves a slot")
)

// draft is a Map in the making, in any order.
type draft struct {
	shards   []shardDraft
	epoch    uint64
	minority bool
}

type shardDraft struct {
	number   int // of the alias, if numbered
	numbered bool
	primary  Node
	replicas []Node
	slots    []Range // may overlap with other shards' and be in any order
}

// check bounds a draft that was made from a node's answer.
func (d *draft) check() error {
	nodes, claims := 0, 0
	for i := range d.shards {
		nodes += 1 + len(d.shards[i].replicas)
		for _, r := range d.shards[i].slots {
			claims += int(r.Last) - int(r.First) + 1
		}
	}
	switch {
	case nodes == 0:
		return errNoNodes
	case nodes > maxNodes:
		return errTooManyNodes
	case claims == 0:
		return errNoSlots
	case claims > maxClaims:
		return errTooManySlots
	}
	return nil
}

// finish unifies, checks and builds what was read from a node's answer.
func (d *draft) finish() (*Map, error) {
	d.unify()
	if err := d.check(); err != nil {
		return nil, err
	}
	return d.build(), nil
}

// build makes the map; the same draft in another order gives the same map.
func (d *draft) build() *Map {
	d.settleSlots()
	d.order()
	d.number()
	m := &Map{Epoch: d.epoch, Minority: d.minority}
	m.fill(d.shards)
	return m
}

// settleSlots gives each slot to one shard and rewrites the shards' ranges in
// order. If two shards claim a slot, as may be while nodes disagree, a healthy
// primary has it, then the one with the lower id.
func (d *draft) settleSlots() {
	slices.SortStableFunc(d.shards, func(a, b shardDraft) int {
		return cmp.Or(compareHealth(&a.primary, &b.primary), compareNodes(&a.primary, &b.primary))
	})
	var owners [SlotCount]int16
	for slot := range owners {
		owners[slot] = uncovered
	}
	for i := range d.shards {
		for _, r := range d.shards[i].slots {
			claim(&owners, int16(i), r)
		}
		d.shards[i].slots = nil
	}
	for slot, owner := range &owners {
		if owner != uncovered {
			d.shards[owner].addSlot(uint16(slot))
		}
	}
}

func claim(owners *[SlotCount]int16, shard int16, r Range) {
	for slot := int(r.First); slot <= int(r.Last); slot++ {
		if owners[slot] == uncovered {
			owners[slot] = shard
		}
	}
}

// addSlot appends a slot above all that the shard has.
func (s *shardDraft) addSlot(slot uint16) {
	if n := len(s.slots); n > 0 && s.slots[n-1].Last+1 == slot {
		s.slots[n-1].Last = slot
		return
	}
	s.slots = append(s.slots, Range{slot, slot})
}

func compareHealth(a, b *Node) int {
	switch {
	case a.Healthy == b.Healthy:
		return 0
	case a.Healthy:
		return -1
	}
	return 1
}

func compareNodes(a, b *Node) int {
	return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Addr, b.Addr))
}

// order sorts shards by their lowest slot, those without slots last by id, and
// replicas by id.
func (d *draft) order() {
	slices.SortStableFunc(d.shards, func(a, b shardDraft) int {
		return cmp.Or(cmp.Compare(a.lowestSlot(), b.lowestSlot()), compareNodes(&a.primary, &b.primary))
	})
	for i := range d.shards {
		slices.SortStableFunc(d.shards[i].replicas, func(a, b Node) int { return compareNodes(&a, &b) })
	}
}

func (s *shardDraft) lowestSlot() int {
	if len(s.slots) == 0 {
		return SlotCount
	}
	return int(s.slots[0].First)
}

// fill lays out the nodes of ordered and numbered shards.
func (m *Map) fill(shards []shardDraft) {
	total := 0
	for i := range shards {
		total += 1 + len(shards[i].replicas)
	}
	m.Nodes = make([]Node, 0, total) // never grows: shards point into it
	m.Shards = make([]Shard, len(shards))
	m.byAddr = make(map[string]int, total)
	for slot := range m.primaries {
		m.primaries[slot] = uncovered
	}
	for i := range shards {
		m.Shards[i] = m.addShard(&shards[i])
	}
	for i := range m.Nodes {
		m.indexAddr(i)
	}
}

func (m *Map) addShard(d *shardDraft) Shard {
	primary := len(m.Nodes)
	s := Shard{Number: d.number, Slots: d.slots, Primary: m.addNode(d.primary, RolePrimary)}
	for _, replica := range d.replicas {
		s.Replicas = append(s.Replicas, m.addNode(replica, RoleReplica))
	}
	for _, r := range d.slots {
		for slot := int(r.First); slot <= int(r.Last); slot++ {
			m.primaries[slot] = int16(primary)
		}
		m.covered += int(r.Last) - int(r.First) + 1
	}
	return s
}

func (m *Map) addNode(n Node, role Role) *Node {
	n.Role = role
	m.Nodes = append(m.Nodes, n)
	return &m.Nodes[len(m.Nodes)-1]
}

// indexAddr lets the better of two nodes with one address be found by it: a
// node that was reset is for a while also known by its former, failed id.
func (m *Map) indexAddr(i int) {
	known, ok := m.byAddr[m.Nodes[i].Addr]
	if !ok || m.Nodes[i].Healthy && !m.Nodes[known].Healthy {
		m.byAddr[m.Nodes[i].Addr] = i
	}
}

// draft takes a map apart again, to build a changed one from it.
func (m *Map) draft() *draft {
	d := &draft{epoch: m.Epoch, minority: m.Minority, shards: make([]shardDraft, len(m.Shards))}
	for i := range m.Shards {
		s := &m.Shards[i]
		d.shards[i] = shardDraft{
			number: s.Number, numbered: true,
			primary: *s.Primary, slots: slices.Clone(s.Slots),
		}
		for _, replica := range s.Replicas {
			d.shards[i].replicas = append(d.shards[i].replicas, *replica)
		}
	}
	return d
}
