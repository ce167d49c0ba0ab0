package upstream

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/sluiceproxy/sluice/internal/loop"
	"github.com/sluiceproxy/sluice/internal/pipe"
)

const (
	backoffFirst = 50 * time.Millisecond
	backoffMax   = time.Second
	sparesMax    = 64
	// spareIdle is how long a connection that served a large value is kept for the next one.
	spareIdle = int64(10 * time.Second)
)

// node is one node as one loop sees it.
type node struct {
	local   *Local
	addr    string
	alias   string
	targets []*target
	retired bool // no longer in the topology
}

func (n *node) target(key Target) *target {
	for _, t := range n.targets {
		if t.key == key {
			return t
		}
	}
	t := &target{node: n, key: key, lanes: make([]*pipe.Pipe, 1, n.local.cluster.cfg.Pipes.Max)}
	n.targets = append(n.targets, t)
	return t
}

// retire closes the connections of a node that the topology no longer has. What is in flight still gets its replies.
func (n *node) retire() {
	n.retired = true
	for _, t := range n.targets {
		t.retire()
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

	// down: the last attempt to connect failed. Commands are refused at once; a timer tries on.
	down      bool
	downErr   error
	backoff   time.Duration
	idleSince int64 // when the last lane was last needed
}

type spare struct {
	pipe  *pipe.Pipe
	since int64
}

// pipe returns the lane's pipe, which may still be connecting.
func (t *target) pipe(lane uint32) (*pipe.Pipe, Outcome) {
	i := int(lane) % len(t.lanes)
	p := t.lanes[i]
	if p == nil {
		if t.down || t.node.retired || t.node.local.closed {
			return nil, Unreachable
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
	return pipe.New(lc.loop, owner, pipe.Config{StreamThreshold: lc.cluster.cfg.StreamThreshold, LossID: &lc.lossID, Traffic: &t.traffic, Late: &lc.Stats.Late})
}

// connect asks for a connection off the loop and gives it to p.
func (t *target) connect(p *pipe.Pipe) {
	lc := t.node.local
	cluster := lc.cluster
	cluster.spawn(func(ctx context.Context) {
		le, err := cluster.dial(ctx, t.node.addr, t.key)
		lc.loop.Post(func() { t.connected(p, le, err) })
	})
}

func (t *target) connected(p *pipe.Pipe, le *lease, err error) {
	cluster := t.node.local.cluster
	if err == nil && !p.Closed() {
		p.SetOnClosed(func() { cluster.spawn(func(context.Context) { le.release() }) })
		err = le.attach(p.Conn())
	} else if err == nil {
		cluster.spawn(func(context.Context) { le.drop() })
		return
	}
	if err != nil {
		t.markDown(err)
		p.Conn().Close(err)
		return
	}
	t.markUp()
}

// markDown notes that the node cannot be connected and keeps trying.
func (t *target) markDown(err error) {
	lc := t.node.local
	t.downErr = hideAddress("cannot connect", err)
	if !t.down {
		t.down = true
		t.backoff = backoffFirst
		lc.cluster.log.Warn("node is unavailable", zap.String("node", t.node.alias), zap.Error(t.downErr))
		t.scheduleProbe()
	}
	lc.cluster.RequestRefresh()
}

func (t *target) markUp() {
	if t.down {
		t.down = false
		t.node.local.cluster.log.Info("node is available again", zap.String("node", t.node.alias))
	}
}

func (t *target) scheduleProbe() {
	lc := t.node.local
	lc.loop.After(jittered(t.backoff), func() {
		if t.node.retired || lc.closed || !t.down {
			return
		}
		cluster := lc.cluster
		cluster.spawn(func(ctx context.Context) {
			le, err := cluster.dial(ctx, t.node.addr, t.key)
			lc.loop.Post(func() { t.probed(le, err) })
		})
	})
	t.backoff = min(2*t.backoff, backoffMax)
}

// probed takes the result of an attempt to reach a node that is down; a connection that was made becomes a lane.
func (t *target) probed(le *lease, err error) {
	lc := t.node.local
	if err != nil || t.node.retired || lc.closed {
		if le != nil {
			lc.cluster.spawn(func(context.Context) { le.drop() })
		}
		if err != nil && !t.node.retired && !lc.closed {
			t.scheduleProbe()
		}
		return
	}
	t.markUp()
	p := lc.newPipe(t, t)
	t.connected(p, le, nil)
	if t.lanes[0] == nil {
		t.lanes[0] = p
	} else {
		t.keepSpare(p)
	}
}

// look is the periodic check of a target's pipes.
func (t *target) look(now int64) (more bool) {
	var delay time.Duration
	for _, p := range t.lanes {
		if p == nil {
			continue
		}
		more = t.lookAt(p, now) || more
		delay = max(delay, p.QueueDelay())
	}
	for _, p := range t.beside {
		more = t.lookAt(p, now) || more
	}
	for _, d := range t.lent {
		more = t.lookAt(d.pipe, now) || more
	}
	more = t.dropSpares(now) || more
	return t.fitLanes(delay, now) || more
}

// lookAt expires calls. A pipe on which calls wait and nothing has come for as long as the longest of them may take is
// given up: it is black-holed, and what is behind would wait in vain.
func (t *target) lookAt(p *pipe.Pipe, now int64) (more bool) {
	expired := p.Expire(now)
	if expired > 0 {
		t.node.local.Stats.Errors[pipe.TimedOut] += uint64(expired)
		if p.Silent(now) >= p.OldestAge(now) {
			t.node.local.cluster.log.Warn("node does not answer", zap.String("node", t.node.alias))
			p.Conn().Close(errSilent)
		}
	}
	return p.Inflight() > 0
}

// fitLanes opens one more pipe when commands queue up in the proxy and closes the last one when it is not needed.
func (t *target) fitLanes(delay time.Duration, now int64) (more bool) {
	cfg := &t.node.local.cluster.cfg.Pipes
	if delay > cfg.GrowDelay || t.idleSince == 0 {
		t.idleSince = now
	}
	if !t.node.local.mayChangeLanes() {
		return true
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
		if !p.Closed() {
			return p
		}
	}
	return nil
}

// keepSpare keeps a connection that is in a clean state for later, or closes it.
func (t *target) keepSpare(p *pipe.Pipe) {
	if len(t.spares) >= sparesMax || t.node.retired || t.node.local.closed {
		p.Conn().Close(nil)
		return
	}
	t.spares = append(t.spares, spare{p, t.node.local.loop.Now()})
}

func (t *target) dropSpares(now int64) (more bool) {
	kept := t.spares[:0]
	for _, s := range t.spares {
		if now-s.since > spareIdle {
			s.pipe.Conn().Close(nil)
		} else {
			kept = append(kept, s)
		}
	}
	t.spares = kept
	return len(kept) > 0
}

func remove(list []*pipe.Pipe, p *pipe.Pipe) ([]*pipe.Pipe, bool) {
	for i, other := range list {
		if other == p {
			return append(list[:i], list[i+1:]...), true
		}
	}
	return list, false
}
