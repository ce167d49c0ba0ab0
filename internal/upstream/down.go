package upstream

import (
	"time"

	"go.uber.org/zap"
)

const (
	backoffFirst = 50 * time.Millisecond
	backoffMax   = time.Second
)

// markDown notes that the node cannot be reached and keeps trying. Until it can be, commands are refused at once: else
// each would wait its full time.
func (t *target) markDown(err error) {
	lc := t.node.local
	t.failedAt = lc.loop.Now()
	t.noteBusy(err)
	lc.cluster.RequestRefresh()
	if t.down {
		return
	}
	t.down = true
	t.backoff = backoffFirst
	lc.cluster.log.Warn("node is unavailable", zap.String("node", t.node.alias), zap.Error(hideAddress("cannot connect", err)))
	t.scheduleProbe()
}

func (t *target) markUp() {
	if !t.down {
		return
	}
	t.endDown()
	t.node.local.cluster.log.Info("node is available again", zap.String("node", t.node.alias))
	t.node.local.cluster.reached(t.node.addr)
}

func (t *target) endDown() {
	t.down = false
	t.node.local.loop.Cancel(t.probe)
	t.probe = nil
}

// trust takes the word of another node, which has sent a command here, that this one serves: it is tried at once, unless
// that has just failed.
func (t *target) trust() {
	if t.down && t.node.local.loop.Now()-t.failedAt >= int64(backoffFirst) {
		t.endDown()
	}
}

func (t *target) scheduleProbe() {
	lc := t.node.local
	lc.loop.Cancel(t.probe)
	t.probe = lc.loop.After(spread(t.backoff, lc.random.Int64N), t.probeNow)
	if t.backoff = min(2*t.backoff, backoffMax); t.busy {
		t.backoff = backoffFirst
	}
}

// probeNow tries to reach a node that is down.
func (t *target) probeNow() {
	lc := t.node.local
	lc.loop.Cancel(t.probe)
	t.probe = nil
	if t.node.retired || lc.closed || !t.down || t.probing {
		return
	}
	t.probing = true
	t.dial(t.probed)
}

// probed takes the result of an attempt to reach a node that is down; a connection that was made becomes a lane.
func (t *target) probed(link Link, err error) {
	lc := t.node.local
	t.probing = false
	if err == nil && (t.node.retired || lc.closed) {
		link.Drop()
		return
	}
	if err != nil {
		if t.down && !t.node.retired && !lc.closed {
			t.failedAt = lc.loop.Now()
			t.noteBusy(err)
			t.scheduleProbe()
			lc.cluster.RequestRefresh() // another node may have taken over
		}
		return
	}
	t.markUp()
	p := lc.newPipe(t, t)
	t.connected(p, link, nil)
	if t.lanes[0] == nil {
		t.lanes[0] = p
	} else {
		t.keepSpare(p)
	}
}

// reached tells all loops that a node which was away can be connected again, so that none waits for its own next probe.
func (c *Cluster) reached(addr string) {
	for _, local := range c.locals {
		local.loop.Post(func() {
			if n := local.known[addr]; n != nil {
				for _, t := range n.targets {
					t.probeNow()
				}
			}
		})
	}
}
