package upstream

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/sluiceproxy/sluice/internal/loop"
	"github.com/sluiceproxy/sluice/internal/pipe"
	"github.com/sluiceproxy/sluice/internal/topology"
)

const (
	// watchInterval is how often a loop looks at the deadlines and delays of its pipes, while any call is in flight.
	watchInterval = 50 * time.Millisecond
	// attemptsMax bounds how often one call is sent: two nodes that each redirect to the other must not keep it for ever.
	attemptsMax = 8
)

// Local is what one loop owns of a cluster: its view of the topology and its pipes. Only that loop touches it.
type Local struct {
	cluster *Cluster
	loop    *loop.Loop
	view    *topology.Map
	nodes   []*node          // as view.Nodes
	known   map[string]*node // by address
	order   []*node          // the known ones, in the order in which they became known
	leaving []*node          // no longer in the view, with replies on their way
	// epoch changes with the view and with the number of pipes. A session that has calls in flight under another epoch
	// lets them settle before it sends more: so order holds through every change of route.
	epoch    uint32
	lossID   uint64
	detours  map[detourKey]*detour // the last one of each session and slot
	watching bool
	closed   bool
	busyText string              // see BusyText
	hub      *Hub                // nil: no session has subscribed
	trackers map[uint32]*Tracker // by lane
	// following: the topology is looked at periodically, for the trackers.
	following bool
	counts    map[string]*nodeCounts // by alias
	random    *rand.Rand
	facts     map[string]remembered
	// Users is the number of sessions that send to the cluster from this loop.
	Users int
	Stats LocalStats
}

// LocalStats counts what a loop did with a cluster.
type LocalStats struct {
	Moved, Ask, TryAgain, ClusterDown uint64
	Retried                           uint64
	Late                              uint64
	Exhausted                         uint64 // sessions that waited in vain for a dedicated connection
	ScriptsProvided                   uint64 // SCRIPT LOADs in front of calls
	FeedsLost                         uint64
}

func newLocal(c *Cluster, l *loop.Loop) *Local {
	seed := c.cfg.Seed
	if seed == 0 {
		seed = rand.Uint64()
	}
	lc := &Local{cluster: c, loop: l, known: make(map[string]*node), counts: make(map[string]*nodeCounts), detours: make(map[detourKey]*detour), trackers: make(map[uint32]*Tracker), facts: make(map[string]remembered), random: rand.New(rand.NewPCG(seed, uint64(l.ID())))} //nolint:gosec // spreads load; not a secret
	lc.Refresh()
	return lc
}

// Cluster is the cluster that this is a part of.
func (lc *Local) Cluster() *Cluster { return lc.cluster }

// Epoch tells one state of the routes from another.
func (lc *Local) Epoch() uint32 { return lc.epoch }

// Refresh takes the topology in force over.
func (lc *Local) Refresh() {
	m := lc.cluster.topo.Load()
	if m == lc.view || lc.closed {
		return
	}
	if len(lc.trackers) > 0 {
		defer lc.retrack(lc.view)
	}
	lc.view = m
	lc.epoch++
	for _, n := range lc.order {
		n.tellAllWaiting()
	}
	lc.nodes = lc.nodes[:0]
	current := make(map[string]bool, len(m.Nodes))
	for i := range m.Nodes {
		n := lc.node(m.Nodes[i].Addr)
		n.alias = m.Nodes[i].Alias
		lc.nodes = append(lc.nodes, n)
		current[n.addr] = true
	}
	if lc.hub != nil {
		defer lc.hub.moveAll()
	}
	lc.order = slices.DeleteFunc(lc.order, func(n *node) bool {
		if current[n.addr] {
			return false
		}
		n.retire()
		delete(lc.known, n.addr)
		if n.busy() {
			lc.leaving = append(lc.leaving, n)
			lc.watch()
		}
		return true
	})
}

// Shards is the number of shards in the view.
func (lc *Local) Shards() int {
	if lc.view == nil {
		return 0
	}
	return len(lc.view.Shards)
}

// Covered is the number of slots that some node serves.
func (lc *Local) Covered() int {
	if lc.view == nil {
		return 0
	}
	return lc.view.Covered()
}

// Sharded reports whether keys are divided over nodes by slot.
func (lc *Local) Sharded() bool { return lc.cluster.cfg.Kind == Sharded }

func (lc *Local) node(addr string) *node {
	n := lc.known[addr]
	if n == nil {
		n = &node{local: lc, addr: addr, alias: "node"}
		lc.known[addr] = n
		lc.order = append(lc.order, n)
	}
	return n
}

// nodeFor is the node that a call goes to: the primary of its slot, or any primary for a call without a key. nil: no node
// has the slot.
func (lc *Local) nodeFor(slot int32, lane uint32, key Target) *node {
	if lc.view == nil {
		return nil
	}
	if lc.cluster.cfg.Kind == Standalone {
		return lc.nodes[0]
	}
	if slot < 0 {
		if slot < -1 {
			return lc.primaryNamed(slot)
		}
		return lc.anyPrimary(lane, key)
	}
	i := lc.view.Primary(uint16(slot))
	if i < 0 {
		return nil
	}
	return lc.nodes[i]
}

// anyPrimary chooses by lane, so that a session stays with one node as long as that one can be reached.
func (lc *Local) anyPrimary(lane uint32, key Target) (first *node) {
	shards := lc.view.Shards
	for i := range shards {
		n := lc.node(shards[(int(lane)+i)%len(shards)].Primary.Addr)
		if !n.target(key).down {
			return n
		}
		if first == nil {
			first = n
		}
	}
	return first
}

// Outcome says what became of an attempt to send.
type Outcome uint8

// The outcomes.
const (
	Sent        Outcome = iota
	Uncovered           // no node has the slot, or there is no topology yet
	Unreachable         // the node is known to be away
	Full                // too many calls in flight
	Busy                // the node takes no connection while it runs a script, see Local.BusyText
)

// Send puts a command on the pipe of its lane to the node that has its slot. When the outcome is not Sent, the call was
// not taken and no callback follows. Slot, Lane, Target and Origin must be set.
func (lc *Local) Send(c *pipe.Call, request []byte) Outcome {
	n := lc.nodeFor(c.Slot, c.Lane, Target(c.Target))
	if n == nil {
		lc.cluster.RequestRefresh()
		return Uncovered
	}
	p, outcome := n.pipe(Target(c.Target), c.Lane)
	if outcome == Sent {
		p.Send(c, request)
		lc.watch()
	}
	return outcome
}

// resend sends a call that left its pipe once more, to the node that has its slot now, or fails it.
func (lc *Local) resend(c *pipe.Call, f pipe.Failure) {
	switch d := detourOf(c); {
	case d != nil:
		d.again(f)
	case lc.lastDetour(c) != nil:
		lc.fail(c, f) // it could overtake that one
	default:
		lc.sendAgain(lc.nodeFor(c.Slot, c.Lane, Target(c.Target)), nil, c, f, false)
	}
}

// sendAgain sends a call that left its pipe to p, or, when p is nil, to the pipe of its lane to node n, or fails it.
func (lc *Local) sendAgain(n *node, p *pipe.Pipe, c *pipe.Call, f pipe.Failure, asking bool) {
	if n != nil && c.Attempts < attemptsMax && (c.Deadline == 0 || c.Deadline > lc.loop.Now()) {
		outcome := Sent
		if p == nil {
			p, outcome = n.pipe(Target(c.Target), c.Lane)
		}
		if outcome == Sent {
			lc.Stats.Retried++
			if s := scriptOf(c); s != nil {
				n.provide(p, c, s)
			}
			if asking {
				p.Send(newAsking(c), askingCommand)
			}
			p.Resend(c)
			lc.watch()
			return
		}
		if f.Reason = pipe.Unavailable; outcome == Busy {
			f.Reason = pipe.Busy
		}
	}
	lc.fail(c, f)
}

// fail ends a call that is on no pipe.
func (lc *Local) fail(c *pipe.Call, f pipe.Failure) {
	lc.countsOf(c.Node()).errors[f.Reason]++
	pipe.Discard(lc.loop, c, f)
}

// watch starts the periodic look at the pipes unless it runs.
func (lc *Local) watch() {
	if lc.watching {
		return
	}
	lc.watching = true
	lc.loop.Every(watchInterval, func() bool {
		lc.watching = lc.look()
		return lc.watching
	})
}

// look expires calls, gives up silent pipes and fits the number of pipes to the delays. It reports whether there is
// anything to look at again.
func (lc *Local) look() (more bool) {
	for _, n := range lc.order {
		for _, t := range n.targets {
			more = t.look(lc.loop.Now()) || more
		}
		more = n.tellWaiting() || more
	}
	for _, n := range lc.leaving {
		for _, t := range n.targets {
			t.look(lc.loop.Now())
		}
	}
	for _, tr := range lc.trackers {
		more = tr.look(lc.loop.Now()) || more
	}
	lc.leaving = slices.DeleteFunc(lc.leaving, func(n *node) bool { return !n.busy() })
	return (more || len(lc.leaving) > 0) && !lc.closed
}

// close ends all connections; what is in flight fails.
func (lc *Local) close() {
	lc.closed = true
	if lc.hub != nil {
		lc.hub.close()
	}
	for _, tr := range lc.trackers {
		tr.hangUp()
	}
	for _, n := range slices.Concat(lc.order, lc.leaving) {
		n.retire()
		n.hangUp()
	}
}
