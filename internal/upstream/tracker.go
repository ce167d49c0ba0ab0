package upstream

import (
	"time"

	"github.com/sluiceproxy/sluice/internal/loop"
	"github.com/sluiceproxy/sluice/internal/pipe"
	"github.com/sluiceproxy/sluice/internal/topology"
)

// Tracker is the connections of a session that has turned client-side caching on: one to each node that it uses, on
// which the node has been told to track before anything else was sent. All calls of the session whose target is marked by
// Target.Own take them, so that what is tracked, for whom and what not is the nodes' own doing. They are never given to
// anybody else. A Tracker belongs to the session's loop.
type Tracker struct {
	local *Local
	lane  uint32
	base  Target
	user  TrackerUser
	how   Tracking
	conns map[*node]*tracked
	retry *loop.Timer // the next attempt to connect to the nodes without a connection; nil: none is due
	ended bool

	missing int // answers to the question that done waits for
	problem TrackingProblem
	done    func(TrackingProblem)
}

// TrackerUser is the session of a Tracker.
type TrackerUser interface {
	DedicatedUser
	// Invalidated is given a push message of a node as it came, valid only during the call.
	Invalidated(message []byte)
	// CacheLost tells that invalidations may have been missed, so that nothing which the client has cached is sure.
	CacheLost()
}

// Tracking is how a session wants its nodes to track.
type Tracking struct {
	// Command appends the command that turns tracking on. With Feed, redirect is the node's number of the connection that
	// the messages are to go to, else 0. again tells that the connection tracks already and is told of a change.
	Command func(dst []byte, redirect int64, again bool) []byte
	// Feed has the messages come over a second connection to each node, which speaks RESP3 whatever the first one speaks.
	Feed bool
	// Everywhere has every primary connected all the time, because any of them may have something to tell.
	Everywhere bool
	// Timeout is how long a node may take to answer; 0 means for ever.
	Timeout time.Duration
}

// TrackingProblem is why a node does not track. The zero value is no problem.
type TrackingProblem struct {
	// Reply is the node's error; nil: it has sent none.
	Reply   []byte
	Failure pipe.Failure
}

// IsNone reports whether there is no problem.
func (p *TrackingProblem) IsNone() bool { return p.Reply == nil && p.Failure.Reason == 0 }

// NewTracker prepares the connections of the session with the lane, for Begin.
func (lc *Local) NewTracker(lane uint32, key Target, user TrackerUser, how Tracking) *Tracker {
	return &Tracker{local: lc, lane: lane, base: key.Shared(), user: user, how: how, conns: make(map[*node]*tracked)}
}

// Begin connects to the first node, or to every primary, and calls done when tracking is on there. When the outcome is
// not Sent, nothing has begun and done is not called. From here to End the session's calls take the connections; the lane
// must be the session's alone.
func (tr *Tracker) Begin(done func(TrackingProblem)) Outcome {
	nodes := tr.nodes()
	if len(nodes) == 0 {
		tr.local.cluster.RequestRefresh()
		return Uncovered
	}
	tr.local.trackers[tr.lane] = tr
	tr.local.followTopology()
	tr.done, tr.missing = done, len(nodes)
	for _, n := range nodes {
		c, outcome := tr.connect(n)
		if outcome != Sent {
			tr.done = nil
			tr.End()
			return outcome
		}
		c.asked = true
	}
	return Sent
}

// nodes are those to be connected at the beginning, or all the time.
func (tr *Tracker) nodes() []*node {
	lc := tr.local
	if !tr.how.Everywhere || !lc.Sharded() {
		if n := lc.nodeFor(-1, tr.lane, tr.base); n != nil {
			return []*node{n}
		}
		return nil
	}
	if lc.view == nil {
		return nil
	}
	nodes := make([]*node, 0, len(lc.view.Shards))
	for i := range lc.view.Shards {
		if shard := &lc.view.Shards[i]; len(shard.Slots) > 0 {
			nodes = append(nodes, lc.node(shard.Primary.Addr))
		}
	}
	return nodes
}

// Change tells the nodes of another way to track and calls done when they have answered.
func (tr *Tracker) Change(how Tracking, done func(TrackingProblem)) {
	tr.how = how
	tr.done, tr.missing, tr.problem = done, len(tr.conns), TrackingProblem{}
	if tr.missing == 0 {
		tr.answer()
		return
	}
	for _, c := range tr.conns {
		c.asked = true
		var redirect int64
		if how.Feed {
			redirect = c.feedID
		}
		c.pipe.Send(c.newQuestion(c.told), how.Command(nil, redirect, true))
	}
	tr.local.watch()
}

// Retarget has the connections speak another protocol version and use another database. Nothing is in flight.
func (tr *Tracker) Retarget(key Target) {
	key = key.Shared()
	for _, c := range tr.conns {
		if key.Protocol() != tr.base.Protocol() {
			c.pipe.Send(c.newQuestion(c.adapted), helloCommand(key.Protocol()))
		}
		if key.Database() != tr.base.Database() {
			c.pipe.Send(c.newQuestion(c.adapted), selectCommand(key.Database()))
		}
	}
	tr.base = key
}

// Reselect has the connections use the session's database, whichever they have been told to use meanwhile.
func (tr *Tracker) Reselect() {
	for _, c := range tr.conns {
		c.pipe.Send(c.newQuestion(c.adapted), selectCommand(tr.base.Database()))
	}
}

// Pipe is the session's connection to the node that has the slot.
func (tr *Tracker) Pipe(slot int32) (*pipe.Pipe, Outcome) {
	n := tr.local.nodeFor(slot, tr.lane, tr.base)
	if n == nil {
		tr.local.cluster.RequestRefresh()
		return nil, Uncovered
	}
	p, outcome := tr.pipe(n)
	if outcome == Sent {
		tr.local.watch()
	}
	return p, outcome
}

// pipe is the session's connection to the node, which may still be connecting.
func (tr *Tracker) pipe(n *node) (*pipe.Pipe, Outcome) {
	c := tr.conns[n]
	if c == nil {
		var outcome Outcome
		if c, outcome = tr.connect(n); outcome != Sent {
			return nil, outcome
		}
	}
	if c.pipe.Inflight() >= tr.local.cluster.cfg.Pipes.MaxInflight {
		return nil, Full
	}
	return c.pipe, Sent
}

// End closes the connections. What is in flight, which is nobody's, fails or is sent another way.
func (tr *Tracker) End() {
	if tr.ended {
		return
	}
	tr.ended = true
	tr.local.loop.Cancel(tr.retry)
	if tr.local.trackers[tr.lane] == tr {
		delete(tr.local.trackers, tr.lane)
	}
	for _, c := range tr.conns {
		c.close(nil)
	}
}

// hangUp closes the connections of a cluster that is closed.
func (tr *Tracker) hangUp() {
	for _, c := range tr.conns {
		c.close(errAbandoned)
	}
}

// answered takes the answer of one node to what done waits for.
func (tr *Tracker) answered(problem TrackingProblem) {
	if tr.problem.IsNone() {
		tr.problem = problem
	}
	if tr.missing--; tr.missing == 0 {
		tr.answer()
	}
}

func (tr *Tracker) answer() {
	if done := tr.done; done != nil {
		tr.done = nil
		done(tr.problem)
	}
}

// look expires what waits for too long.
func (tr *Tracker) look(now int64) (more bool) {
	for _, c := range tr.conns {
		waits, _ := c.shared().lookAt(c.pipe, now)
		more = more || waits
		if c.feed != nil {
			waits, _ = c.shared().lookAt(c.feed, now)
			more = more || waits
		}
	}
	return more
}

const trackRetry = 200 * time.Millisecond

// connectAll connects to the primaries without a connection, and tries again later where that cannot be.
func (tr *Tracker) connectAll() {
	tr.local.loop.Cancel(tr.retry)
	tr.retry = nil
	if tr.ended || tr.local.closed || !tr.how.Everywhere {
		return
	}
	for _, n := range tr.nodes() {
		if tr.conns[n] != nil {
			continue
		}
		if _, outcome := tr.connect(n); outcome != Sent {
			tr.connectLater()
		}
	}
}

func (tr *Tracker) connectLater() {
	if tr.retry == nil && tr.how.Everywhere && !tr.ended && !tr.local.closed {
		tr.retry = tr.local.loop.After(spread(trackRetry, tr.local.random.Int64N), tr.connectAll)
	}
}

// followInterval is how often a loop with trackers looks for a new topology: a client that waits for invalidations may send
// nothing by which it would be noticed.
const followInterval = 250 * time.Millisecond

// followTopology begins to look for a new topology, as long as there are trackers.
func (lc *Local) followTopology() {
	if lc.following {
		return
	}
	lc.following = true
	lc.loop.Every(followInterval, func() bool {
		lc.Refresh()
		lc.following = len(lc.trackers) > 0 && !lc.closed
		return lc.following
	})
}

// retrack follows a change of the topology from the view before.
func (lc *Local) retrack(before *topology.Map) {
	robbed := lc.robbed(before)
	for _, tr := range lc.trackers {
		lost := false
		for n, c := range tr.conns {
			switch {
			case !lc.isPrimary(n):
				lost = true
				c.retire()
			case robbed[n.addr] && !tr.how.Everywhere:
				lost = true
			}
		}
		if lost {
			tr.user.CacheLost()
		}
		tr.connectAll()
	}
}

// robbed names the nodes that serve a slot no more. They tell of the keys that they give away, but not of those which
// were read and did not exist.
func (lc *Local) robbed(before *topology.Map) map[string]bool {
	addrs := make(map[string]bool)
	if before == nil {
		return addrs
	}
	for slot := range uint16(topology.SlotCount) {
		was, is := before.Primary(slot), lc.view.Primary(slot)
		if was >= 0 && (is < 0 || before.Nodes[was].Addr != lc.view.Nodes[is].Addr) {
			addrs[before.Nodes[was].Addr] = true
		}
	}
	return addrs
}

func (lc *Local) isPrimary(n *node) bool {
	i := lc.view.IndexOf(n.addr)
	return i >= 0 && lc.view.Nodes[i].Role == topology.RolePrimary
}
