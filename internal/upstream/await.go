package upstream

import (
	"time"

	"github.com/sluiceproxy/sluice/internal/loop"
)

// Waiter is a session that waits for a dedicated connection, because all that the node may have are lent.
type Waiter struct {
	timer *loop.Timer
	fn    func()
	local *Local
	node  *node // that may free one; nil: none is known
}

// Await calls fn as soon as a connection to the node that has the slot may be free, the sessions in the order in which
// they came, or after limit; the caller then tries again. It is not called before Await has returned.
func (lc *Local) Await(slot int32, lane uint32, key Target, limit time.Duration, fn func()) *Waiter {
	w := &Waiter{fn: fn, local: lc, node: lc.nodeFor(slot, lane, key)}
	if w.node != nil {
		w.node.waiting = append(w.node.waiting, w)
		lc.watch()
	}
	w.timer = lc.loop.After(limit, w.wake)
	return w
}

// Cancel ends the wait; fn is not called.
func (w *Waiter) Cancel() {
	w.local.loop.Cancel(w.timer)
	if w.node == nil {
		return
	}
	for i, other := range w.node.waiting {
		if other == w {
			w.node.waiting = append(w.node.waiting[:i], w.node.waiting[i+1:]...)
			return
		}
	}
}

func (w *Waiter) wake() {
	w.Cancel()
	w.fn()
}

// lent is the number of connections to the node that sessions have.
func (n *node) lent() (sum int) {
	sum = n.tracked
	for _, t := range n.targets {
		sum += len(t.lent)
	}
	return sum
}

// spare is how many idle connections are kept for the next sessions.
func (n *node) spare() (sum int) {
	for _, t := range n.targets {
		sum += len(t.spares)
	}
	return sum
}

// freed is called when a session has given a connection back: the one that has waited longest is told.
func (n *node) freed() {
	if len(n.waiting) > 0 {
		n.waiting[0].wake()
	}
}

// tellWaiting wakes those for whom a connection is free: a place that was freed may not have been taken by the one who was
// told, who has gone or needs another node by now. It reports whether anybody still waits.
func (n *node) tellWaiting() bool {
	for free := n.local.cluster.cfg.Dedicated.Max - n.lent(); free > 0 && len(n.waiting) > 0; free-- {
		n.waiting[0].wake()
	}
	return len(n.waiting) > 0
}

// tellAllWaiting wakes everybody who waits, because the routes have changed: a connection to another node may be needed.
func (n *node) tellAllWaiting() {
	waiting := n.waiting
	n.waiting = nil
	for _, w := range waiting {
		w.wake()
	}
}

// DedicatedWait is how long a session may wait for a connection of its own.
func (c *Cluster) DedicatedWait() time.Duration { return c.cfg.Dedicated.Wait }
