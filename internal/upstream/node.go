package upstream

import (
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/sluiceproxy/sluice/internal/loop"
	"github.com/sluiceproxy/sluice/internal/pipe"
)

// node is one node as one loop sees it.
type node struct {
	local   *Local
	addr    string
	alias   string
	targets []*target
	retired bool      // no longer in the topology
	waiting []*Waiter // for a dedicated connection, oldest first
	// provided are the scripts that the node has been given, since the caches were emptied for the flushes-th time.
	provided map[provided]bool
	flushes  uint64
	tracked  int // connections of trackers
}

func (n *node) target(key Target) *target {
	key = key.Shared()
	for _, t := range n.targets {
		if t.key == key {
			return t
		}
	}
	t := &target{node: n, key: key, lanes: make([]*pipe.Pipe, 1, n.local.cluster.cfg.Pipes.Max)}
	n.targets = append(n.targets, t)
	return t
}

// busy reports whether calls wait for replies of the node.
func (n *node) busy() bool {
	for _, t := range n.targets {
		if len(t.beside)+len(t.lent) > 0 {
			return true
		}
	}
	return false
}

// retire closes the connections of a node that the topology no longer has. What is in flight still gets its replies.
func (n *node) retire() {
	n.retired = true
	for _, t := range n.targets {
		t.retire()
	}
}

// hangUp closes the connections that retire has left open because replies are on their way.
func (n *node) hangUp() {
	for _, t := range n.targets {
		for _, p := range t.beside {
			p.Conn().Close(nil)
		}
		for _, d := range t.lent {
			d.pipe.Conn().Close(errAbandoned)
		}
	}
}

// target is a node's connections for one protocol version and database: the pipes that are shared, the ones taken out
// of use because a large reply is on its way, and dedicated ones.
type target struct {
	node  *node
	key   Target
	lanes []*pipe.Pipe // nil: to be connected when it is needed

	beside []*pipe.Pipe // with a large reply on its way; closed or spared when empty
	spares []spare
	lent   []*Dedicated

	traffic loop.Traffic // of all its connections, also closed ones

	// down: the node could not be reached at failedAt. Commands are refused at once; probes try on.
	down     bool
	busy     bool // down because it runs a script
	failedAt int64
	backoff  time.Duration
	probe    *loop.Timer // the next probe; nil: none is due
	probing  bool        // a probe is under way

	idleSince int64 // when the last lane was last needed
}

type spare struct {
	pipe  *pipe.Pipe
	since int64
}

// pipe is where a call for the node goes: to a lane of the target, or to the connection that its session has of its own.
func (n *node) pipe(key Target, lane uint32) (*pipe.Pipe, Outcome) {
	if key&own != 0 {
		if tr := n.local.trackers[lane]; tr != nil {
			return tr.pipe(n)
		}
	}
	return n.target(key).pipe(lane)
}

// pipe returns the lane's pipe, which may still be connecting.
func (t *target) pipe(lane uint32) (*pipe.Pipe, Outcome) {
	i := int(lane) % len(t.lanes)
	p := t.lanes[i]
	if p == nil {
		if t.down || t.node.retired || t.node.local.closed {
			return nil, t.outcome()
		}
		p = t.takeSpare()
		if p == nil {
			p = t.open()
		}
		t.lanes[i] = p
	}
	if p.Inflight() >= t.node.local.cluster.cfg.Pipes.MaxInflight {
		return nil, Full
	}
	return p, Sent
}

// open makes a pipe and begins to connect it.
func (t *target) open() *pipe.Pipe {
	lc := t.node.local
	p := lc.newPipe(t, t)
	t.connect(p)
	return p
}

// newPipe makes an unconnected pipe of target t.
func (lc *Local) newPipe(t *target, owner pipe.Owner) *pipe.Pipe {
	cfg := &lc.cluster.cfg
	return pipe.New(lc.loop, owner, pipe.Config{
		StreamThreshold: cfg.StreamThreshold, LossID: &lc.lossID, Traffic: &t.traffic, Late: &lc.Stats.Late,
		Window: cfg.Pipes.Window, Limit: cfg.Pipes.Limit, Node: &t.node.alias,
	})
}

// connect asks for a connection and gives it to p.
func (t *target) connect(p *pipe.Pipe) {
	t.dial(func(link Link, err error) { t.connected(p, link, err) })
}

func (t *target) dial(done func(Link, error)) {
	lc := t.node.local
	lc.cluster.dialer.Dial(lc.loop, t.node.addr, t.key, func(link Link, err error) {
		lc.countsOf(t.node.alias).dials[dialResult(err)]++
		done(link, err)
	})
}

func (t *target) connected(p *pipe.Pipe, link Link, err error) {
	if err == nil && !p.Closed() {
		p.SetOnClosed(link.Release)
		err = link.Attach(p.Conn())
	} else if err == nil {
		link.Drop()
		return
	}
	if err != nil {
		t.markDown(err)
		p.Conn().Close(err)
		return
	}
	t.markUp()
}

// look is the periodic check of a target's pipes.
func (t *target) look(now int64) (more bool) {
	var delay time.Duration
	check := func(p *pipe.Pipe) (silent bool) {
		waits, silent := t.lookAt(p, now)
		more = more || waits
		return silent
	}
	for _, p := range t.lanes {
		if p == nil {
			continue
		}
		delay = max(delay, p.QueueDelay())
		if check(p) {
			// Commands are refused at once until a probe has reached the node: else each would wait its full time.
			t.markDown(errSilent)
		}
	}
	for _, p := range t.beside {
		check(p)
	}
	for _, d := range slices.Clone(t.lent) { // one that fails is given back meanwhile
		check(d.pipe)
	}
	more = t.fitLanes(delay, now) || more
	more = len(t.lent) > 0 || more // what their sessions send may be all that there is to look at
	return t.dropSpares(now) || more
}

// lookAt expires calls. A pipe whose node is silent is given up: it is black-holed, and what is behind would wait in vain.
func (t *target) lookAt(p *pipe.Pipe, now int64) (more, silent bool) {
	expired, silent := p.Expire(now)
	t.node.local.countsOf(t.node.alias).errors[pipe.TimedOut] += uint64(expired)
	if silent {
		t.node.local.cluster.log.Warn("node does not answer", zap.String("node", t.node.alias))
		p.Conn().Close(errSilent)
	}
	return p.Inflight() > 0, silent
}

// fitLanes opens one more pipe when commands queue up in the proxy and closes the last one when it is not needed.
func (t *target) fitLanes(delay time.Duration, now int64) (more bool) {
	cfg := &t.node.local.cluster.cfg.Pipes
	if delay > cfg.GrowDelay || t.idleSince == 0 {
		t.idleSince = now
	}
	switch {
	case delay > cfg.GrowDelay && len(t.lanes) < cfg.Max && !t.down:
		t.lanes = append(t.lanes, nil)
		t.node.local.epoch++
	case len(t.lanes) > 1 && now-t.idleSince > int64(cfg.IdleTimeout):
		last := t.lanes[len(t.lanes)-1]
		t.lanes = t.lanes[:len(t.lanes)-1]
		t.idleSince = now
		t.node.local.epoch++
		if last != nil {
			t.setBeside(last)
		}
	}
	return len(t.lanes) > 1
}

// setBeside takes a pipe out of use for new commands; those in flight on it get their replies.
func (t *target) setBeside(p *pipe.Pipe) {
	t.beside = append(t.beside, p)
	if p.Inflight() == 0 {
		t.Idle(p)
	}
}

func (t *target) retire() {
	for i, p := range t.lanes {
		if p != nil {
			t.lanes[i] = nil
			t.setBeside(p)
		}
	}
	for _, s := range t.spares {
		s.pipe.Conn().Close(nil)
	}
	t.spares = nil
}

func (t *target) takeSpare() *pipe.Pipe {
	for len(t.spares) > 0 {
		p := t.spares[len(t.spares)-1].pipe
		t.spares = t.spares[:len(t.spares)-1]
		if !p.Conn().Closed() { // though its owner may not have been told yet
			return p
		}
	}
	return nil
}

// keepSpare keeps a connection that is in a clean state for later. There are no more of them than may be lent; that they
// end when nobody has wanted them for a while is what makes them few, and not a bound below that, by which a crowd whose
// transactions come at once would have connections made and closed each time.
func (t *target) keepSpare(p *pipe.Pipe) {
	cfg := &t.node.local.cluster.cfg.Dedicated
	if t.node.spare() >= max(cfg.Max, cfg.Min) || t.node.retired || t.node.local.closed {
		p.Conn().Close(nil)
		return
	}
	t.spares = append(t.spares, spare{p, t.node.local.loop.Now()})
	t.node.local.watch()
}

// dropSpares closes connections that nobody has wanted for long, down to the least number that is kept.
func (t *target) dropSpares(now int64) (more bool) {
	cfg := &t.node.local.cluster.cfg.Dedicated
	spares := slices.DeleteFunc(t.spares, func(s spare) bool { return s.pipe.Conn().Closed() })
	kept := spares[:0]
	for i, s := range spares {
		if left := len(kept) + len(spares) - i; left > cfg.Min && now-s.since > int64(cfg.IdleTimeout) {
			s.pipe.Conn().Close(nil)
		} else {
			kept = append(kept, s)
		}
	}
	t.spares = kept
	return len(kept) > cfg.Min
}

func remove(list []*pipe.Pipe, p *pipe.Pipe) ([]*pipe.Pipe, bool) {
	for i, other := range list {
		if other == p {
			return append(list[:i], list[i+1:]...), true
		}
	}
	return list, false
}
