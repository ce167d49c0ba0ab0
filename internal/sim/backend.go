package sim

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluiceproxy/sluice/internal/topology"
)

// move is the migration of one slot, key by key, as redis-cli does it.
type move struct {
	tag      *tag
	from, to *node
	stage    int
	keys     []*register
}

// playBackend lets the cluster change.
func (w *world) playBackend() {
	w.connect()
	w.playMoves()
	if w.profile.pubsub {
		w.playMessages()
	}
	if w.profile.blocking {
		w.playElements()
	}
	if w.profile.transactions && !w.profile.certain() && !w.calm && len(w.clients) > 0 && chance(w.random, 3) {
		w.touchKeys()
	}
	if w.faulty() {
		w.playFaults()
	}
	if w.profile.reloads && chance(w.random, 2) {
		w.tracef("the table is swapped")
		w.swapTable(w.profile.command + time.Duration(w.random.IntN(3))*time.Millisecond)
	}
	if !w.profile.sharded {
		return
	}
	w.noteErrors()
	if w.mapDue != 0 && w.mapDue <= w.loop.Now() {
		w.adopt(w.trueMap())
	}
	if w.profile.moves && !w.calm && chance(w.random, 1) && len(w.moves) == 0 {
		w.adopt(w.maps[w.random.IntN(len(w.maps))])
	}
	if w.profile.gaps && !w.calm && chance(w.random, 2) {
		w.adopt(w.mapOf(w.tags[w.random.IntN(len(w.tags))]))
		w.mapDue = w.loop.Now() + int64(time.Millisecond)
	}
}

func (w *world) playMoves() {
	if w.profile.moves && !w.calm && chance(w.random, 5) {
		w.beginMove()
	}
	for i := 0; i < len(w.moves); i++ {
		if !w.calm && chance(w.random, 60) {
			continue
		}
		if !w.moves[i].step() {
			w.moves = append(w.moves[:i], w.moves[i+1:]...)
			i--
		}
	}
}

// beginMove begins to move a slot unless it is on the way already, or commands may still be on their ways along the
// last move: that a slot comes back to a node which still has commands from before, nobody can put right.
func (w *world) beginMove() {
	t := w.tags[w.random.IntN(len(w.tags))]
	from := w.owner(t)
	to := w.nodes[w.random.IntN(len(w.nodes))]
	if t.move != nil || to == from || !to.up || to.gone || !from.up || w.mistaken(t) || w.unsettled(t) {
		return
	}
	t.move = &move{tag: t, from: from, to: to}
	for _, c := range w.everyone {
		for _, r := range c.registers {
			if r.tag == t {
				t.move.keys = append(t.move.keys, r)
			}
		}
	}
	w.moves = append(w.moves, t.move)
	w.stats.Moves++
	w.tracef("slot %s moves from %s to %s", t.text, from.name, to.name)
}

// mistaken reports whether the proxy takes another node for the owner of a slot.
func (w *world) mistaken(t *tag) bool {
	m := w.cluster.Topology()
	i := m.Primary(t.slot)
	return i < 0 || m.Nodes[i].Addr != w.owner(t).addr
}

// noteErrors notes when the proxy was last mistaken: commands that it sent then may be with any node.
func (w *world) noteErrors() {
	for _, t := range w.tags {
		if t.move == nil && w.mistaken(t) {
			t.moved = w.loop.Now()
		}
	}
}

// unsettled reports whether a command is unanswered that was sent before the last move of the slot had ended, or while the
// proxy did not know the slot's place.
func (w *world) unsettled(t *tag) bool {
	if t.moved == 0 {
		return false
	}
	for _, c := range w.clients {
		for _, cmd := range c.waiting {
			if cmd.issued <= t.moved && slices.ContainsFunc(cmd.keys, func(r *register) bool { return r.tag == t }) {
				return true
			}
		}
	}
	return false
}

// step takes one step of the move; false: it has ended.
func (m *move) step() bool {
	t, w := m.tag.index, m.from.world
	if !m.from.up || !m.to.up {
		return true
	}
	m.stage++
	switch m.stage {
	case 1:
		m.to.importing[t] = m.from
	case 2:
		m.from.migrating[t] = m.to
	case 3:
		if m.moveKey() {
			m.stage--
		}
	case 4:
		m.to.owns[t], m.to.importing[t], m.to.knows[t] = true, nil, m.to
		w.tracef("%s has slot %s", m.to.name, m.tag.text)
	case 5:
		m.from.endShardChannels(m.tag)
		m.from.owns[t], m.from.migrating[t], m.from.knows[t] = false, nil, m.to
	default:
		w.learn(m.tag, m.to)
		m.tag.move, m.tag.moved = nil, w.loop.Now()
		w.changedMap()
		return false
	}
	return true
}

// moveKey moves the next key; false: there is none left. Keys that were made meanwhile are on the other side already.
func (m *move) moveKey() bool {
	for database, lists := range m.from.lists {
		if key := listKey(m.tag); len(lists[key]) > 0 {
			list := lists[key]
			delete(lists, key)
			for _, name := range list {
				m.to.push(database, key, false, name)
			}
			return true
		}
	}
	for len(m.keys) > 0 {
		r := m.keys[0]
		m.keys = m.keys[1:]
		data := m.from.data[r.database]
		if value, exists := data[r.key]; exists {
			m.to.data[r.database][r.key] = value
			delete(data, r.key)
			r.version++
			return true
		}
	}
	return false
}

func (w *world) owner(t *tag) *node {
	if t.move != nil {
		return t.move.from
	}
	for _, n := range w.nodes {
		if n.owns[t.index] {
			return n
		}
	}
	panic("BUG: a slot without an owner")
}

// learn tells all nodes who has a slot.
func (w *world) learn(t *tag, owner *node) {
	for _, n := range w.nodes {
		n.knows[t.index] = owner
	}
}

func (w *world) playFaults() {
	for _, n := range w.nodes {
		if !n.up && !n.gone && chance(w.random, 5) {
			w.tracef("%s is up again", n.name)
			n.up = true
		}
	}
	if !chance(w.random, 2) {
		return
	}
	n := w.nodes[w.random.IntN(len(w.nodes))]
	until := w.loop.Now() + w.random.Int64N(int64(2*w.profile.command))
	switch w.random.IntN(5) {
	case 0:
		w.tracef("%s is slow", n.name)
		n.slowUntil = until
	case 1:
		w.tracef("%s is loading", n.name)
		n.loadingUntil = until
	case 2:
		if w.profile.sharded {
			w.tracef("%s says the cluster is down", n.name)
			n.downUntil = until
		}
	case 3:
		w.crash(n)
	case 4:
		w.replace(n)
	}
}

// crash ends a node's connections. It keeps its data and may come back.
func (w *world) crash(n *node) {
	w.tracef("%s is down", n.name)
	for _, l := range slices.Clone(w.links) {
		if l.node == n {
			l.reset()
		}
	}
	n.up = false
}

// replace puts another node in the place of n, with all its data, as a failover without loss does.
func (w *world) replace(n *node) {
	if !w.profile.sharded || n.gone || len(w.nodes) > 12 || slices.ContainsFunc(w.moves, func(m *move) bool { return m.from == n || m.to == n }) {
		return
	}
	w.crash(n)
	n.gone = true
	heir := w.newNode()
	w.stats.Replaced++
	w.tracef("%s takes the place of %s", heir.name, n.name)
	heir.data, n.data = n.data, heir.data
	heir.lists, n.lists = n.lists, heir.lists
	copy(heir.knows, n.knows)
	for _, t := range w.tags {
		if n.owns[t.index] {
			n.owns[t.index], heir.owns[t.index] = false, true
			w.learn(t, heir)
		}
	}
	w.changedMap()
}

// changedMap lets the proxy know the new map some time later.
func (w *world) changedMap() {
	w.mapDue = w.loop.Now() + w.random.Int64N(int64(20*time.Millisecond)) + 1
}

func (w *world) adopt(m *topology.Map) {
	w.mapDue = 0
	w.stats.Maps++
	w.tracef("a topology is adopted: %v, %v slots covered", m, m.Covered())
	_ = w.cluster.Adopt(m) // an error tells of gaps, which are meant
}

// trueMap is the topology as it is.
func (w *world) trueMap() *topology.Map {
	m := w.mapOf(nil)
	w.maps = append(w.maps, m)
	return m
}

// mapOf is the topology, but for a gap where one slot is.
func (w *world) mapOf(gap *tag) *topology.Map {
	places := ""
	for _, t := range w.tags {
		if t != gap {
			places += w.owner(t).name
		}
		places += ","
	}
	if w.drawn[places] == nil {
		w.drawn[places] = w.draw(gap)
	}
	return w.drawn[places]
}

func (w *world) draw(gap *tag) *topology.Map {
	tags := slices.Clone(w.tags)
	slices.SortFunc(tags, func(a, b *tag) int { return cmp.Compare(a.slot, b.slot) })
	var entries []any
	add := func(first, last int, n *node) {
		if first <= last {
			host, port, _ := strings.Cut(n.addr, ":")
			number, _ := strconv.ParseInt(port, 10, 64)
			entries = append(entries, []any{int64(first), int64(last), []any{host, number, n.name}})
		}
	}
	at := 0
	for _, t := range tags {
		add(at, int(t.slot)-1, w.owner(t))
		if t != gap {
			add(int(t.slot), int(t.slot), w.owner(t))
		}
		at = int(t.slot) + 1
	}
	add(at, topology.SlotCount-1, w.owner(tags[0]))
	from, _ := topology.EndpointAt(standaloneAt, false)
	m, err := topology.ParseSlots(entries, from)
	if err != nil {
		w.failf("%v", err)
	}
	return m
}

func (w *world) nodeAt(addr string) *node {
	for _, n := range w.nodes {
		if n.addr == addr {
			return n
		}
	}
	return nil
}
