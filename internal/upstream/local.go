package upstream

import (
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
	// settleAfterResend is how long after a redirect or a loss the number of pipes is left as it is, because calls that
	// were sent again keep their order only on the pipe of their lane.
	settleAfterResend = int64(time.Second)
)

// Local is what one loop owns of a cluster: its view of the topology and its pipes. Only that loop touches it.
type Local struct {
	cluster *Cluster
	loop    *loop.Loop
	view    *topology.Map
	nodes   []*node          // as view.Nodes
	known   map[string]*node // by address
	// epoch changes with the view and with the number of pipes. A session that has calls in flight under another epoch
	// lets them settle before it sends more: so order holds through every change of route.
	epoch    uint32
	lossID   uint64
	resentAt int64
	watching bool
	closed   bool
	// Users is the number of sessions that send to the cluster from this loop.
	Users int
	Stats LocalStats
}

// LocalStats counts what a loop did with a cluster.
type LocalStats struct {
	Moved, Ask, TryAgain, ClusterDown uint64
	Retried                           uint64
	Errors                            [8]uint64 // by pipe.Reason
	Late                              uint64
}

func newLocal(c *Cluster, l *loop.Loop) *Local {
	lc := &Local{cluster: c, loop: l, known: make(map[string]*node)}
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
	lc.view = m
	lc.epoch++
	lc.nodes = lc.nodes[:0]
	current := make(map[string]bool, len(m.Nodes))
	for i := range m.Nodes {
		n := lc.node(m.Nodes[i].Addr)
		n.alias = m.Nodes[i].Alias
		lc.nodes = append(lc.nodes, n)
		current[n.addr] = true
	}
	for addr, n := range lc.known {
		if !current[addr] {
			n.retire()
			delete(lc.known, addr)
		}
	}
}

// Shards is the number of shards in the view.
func (lc *Local) Shards() int {
	if lc.view == nil {
		return 0
	}
	return len(lc.view.Shards)
}

// Sharded reports whether keys are divided over nodes by slot.
func (lc *Local) Sharded() bool { return lc.cluster.cfg.Kind == Sharded }

func (lc *Local) node(addr string) *node {
	n := lc.known[addr]
	if n == nil {
		n = &node{local: lc, addr: addr, alias: "node"}
		lc.known[addr] = n
	}
	return n
}

// nodeFor is the node that a call goes to: the primary of its slot, or any primary for a call without a key, chosen
// by its lane. nil: no node has the slot.
func (lc *Local) nodeFor(slot int32, lane uint32) *node {
	if lc.view == nil {
		return nil
	}
	if lc.cluster.cfg.Kind == Standalone {
		return lc.nodes[0]
	}
	if slot < 0 {
		if len(lc.view.Shards) == 0 {
			return nil
		}
		shard := &lc.view.Shards[int(lane)%len(lc.view.Shards)]
		if shard.Primary == nil {
			return nil
		}
		return lc.node(shard.Primary.Addr)
	}
	i := lc.view.Primary(uint16(slot))
	if i < 0 {
		return nil
	}
	return lc.nodes[i]
}

// Outcome says what became of an attempt to send.
type Outcome uint8

// The outcomes.
const (
	Sent        Outcome = iota
	Uncovered           // no node has the slot, or there is no topology yet
	Unreachable         // the node is known to be away
	Full                // too many calls in flight
)

// Send puts a command on the pipe of its lane to the node that has its slot. When the outcome is not Sent, the call was
// not taken and no callback follows. Slot, Lane, Target and Origin must be set.
func (lc *Local) Send(c *pipe.Call, request []byte) Outcome {
	n := lc.nodeFor(c.Slot, c.Lane)
	if n == nil {
		lc.cluster.RequestRefresh()
		return Uncovered
	}
	p, outcome := n.target(Target(c.Target)).pipe(c.Lane)
	if outcome == Sent {
		p.Send(c, request)
		lc.watch()
	}
	return outcome
}

// resend sends a call that left its pipe once more, to the node that has its slot now, or fails it.
func (lc *Local) resend(c *pipe.Call, reason pipe.Reason, inDoubt bool) {
	lc.resendTo(lc.nodeFor(c.Slot, c.Lane), c, reason, inDoubt, false)
}

func (lc *Local) resendTo(n *node, c *pipe.Call, reason pipe.Reason, inDoubt, asking bool) {
	lc.resentAt = lc.loop.Now()
	if n != nil && c.Attempts < attemptsMax && (c.Deadline == 0 || c.Deadline > lc.loop.Now()) {
		if p, outcome := n.target(Target(c.Target)).pipe(c.Lane); outcome == Sent {
			lc.Stats.Retried++
			if asking {
				p.Send(newAsking(lc.loop.Now()), askingCommand)
			}
			p.Resend(c)
			lc.watch()
			return
		}
		reason = pipe.Unavailable
	}
	lc.fail(c, pipe.Failure{Reason: reason, InDoubt: inDoubt})
}

// fail ends a call that is on no pipe.
func (lc *Local) fail(c *pipe.Call, f pipe.Failure) {
	lc.Stats.Errors[f.Reason]++
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
	for _, n := range lc.known {
		for _, t := range n.targets {
			more = t.look(lc.loop.Now()) || more
		}
	}
	return more && !lc.closed
}

// mayChangeLanes reports whether no call was sent again lately.
func (lc *Local) mayChangeLanes() bool {
	return lc.resentAt == 0 || lc.loop.Now()-lc.resentAt > settleAfterResend
}

func (lc *Local) close() {
	lc.closed = true
	for _, n := range lc.known {
		n.retire()
	}
}
