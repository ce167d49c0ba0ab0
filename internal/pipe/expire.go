package pipe

import (
	"math"

	"github.com/sluiceproxy/sluice/internal/loop"
)

// Expire fails the calls whose deadline has passed; their replies, when they still come, are dropped. A reply that is
// being received may take its time as long as bytes come, or as long as its client keeps it back. It returns how many
// failed, and whether the node is silent: a call waited all its time without a single byte coming, or an overdue one as
// long again, and nobody on the pipe may wait for longer. Then the owner gives the pipe up: what is behind would wait in
// vain.
func (p *Pipe) Expire(now int64) (expired int, silent bool) {
	if p.conn.Closed() {
		return 0, false // the owner is told within this tick
	}
	if !p.conn.Attached() {
		return p.expireUnsent(now), false
	}
	for c := p.head; c != nil; c = c.next {
		if c.settled || !c.due(now) || c.parts && !p.stalled(c, now) || p.waitsForItsOwn(c) {
			continue
		}
		c.settled = true
		expired++
		silent = silent || !p.held && c.SentAt >= p.lastData
		// What has not been written yet still will be, unless the connection is lost before.
		c.Receiver.Failed(c, Failure{Reason: TimedOut, InDoubt: c.end != neverWritten})
	}
	return expired, (silent || p.stuck(now)) && now-p.lastData >= p.patience()
}

// patience is the longest time that a waiting call may take. A caller that gives its commands little must not cost others
// the connection, on which they would still be answered.
func (p *Pipe) patience() (longest int64) {
	for c := p.head; c != nil; c = c.next {
		switch {
		case c.settled:
		case c.Deadline == 0:
			return math.MaxInt64
		default:
			longest = max(longest, c.Deadline-c.SentAt)
		}
	}
	return longest
}

// stuck reports whether the oldest call is overdue and, since the last byte came, as much time has passed as it may take.
func (p *Pipe) stuck(now int64) bool {
	c := p.head
	return c != nil && c.settled && p.stalled(c, now)
}

// stalled reports whether, since the last byte came, as much time has passed as the call may take.
func (p *Pipe) stalled(c *Call, now int64) bool {
	return !p.held && now-p.lastData >= c.Deadline-c.SentAt
}

// waitsForItsOwn reports whether the reply in front, which is being received, is for the call's own session: how long that
// takes is up to its client.
func (p *Pipe) waitsForItsOwn(c *Call) bool {
	return c != p.head && p.head.parts && c.Origin != nil && c.Origin == p.head.Origin
}

// renew begins the time of a session's calls anew, since a long reply of its own held them up.
func (p *Pipe) renew(origin *Origin) {
	if origin == nil {
		return
	}
	now := p.conn.Loop().Now()
	for c := p.head; c != nil; c = c.next {
		if c.Origin == origin && c.Deadline != 0 {
			c.SentAt, c.Deadline = now, now+c.Deadline-c.SentAt
		}
	}
}

func (c *Call) due(now int64) bool { return c.Deadline != 0 && c.Deadline <= now }

// dueUnsent is due for a call whose connection is still being made.
func (c *Call) dueUnsent(now int64) bool { return c.due(now) || c.ConnectBy != 0 && c.ConnectBy <= now }

// expireUnsent takes the calls that are due out of the queue of a connection that is still being made, so that the node
// never sees them.
func (p *Pipe) expireUnsent(now int64) (expired int) {
	for c := p.head; c != nil; c = c.next {
		if c.dueUnsent(now) {
			expired++
		} else if c.length == 0 {
			return 0 // a streamed command's bytes lie in the output and nowhere else
		}
	}
	if expired == 0 {
		return 0
	}
	c, old := p.head, p.conn
	p.conn = old.Loop().NewConn(handler{p}, p.cfg.Traffic)
	p.head, p.tail, p.inflight, p.waiting = nil, nil, 0, 0
	for c != nil {
		next := c.next
		c.next = nil
		if c.dueUnsent(now) {
			Discard(old.Loop(), c, Failure{Reason: TimedOut})
		} else {
			p.Resend(c)
			c.Attempts-- // it was never sent before
		}
		c = next
	}
	old.SetHandler(abandoned{})
	old.Close(nil)
	p.noteIdle()
	return expired
}

// abandoned is the owner of a connection that was never made and is not wanted any more.
type abandoned struct{}

var _ loop.Handler = abandoned{}

// Data implements loop.Handler.
func (abandoned) Data(b []byte) int { return len(b) }

// Drained implements loop.Handler.
func (abandoned) Drained() {}

// EOF implements loop.Handler.
func (abandoned) EOF() {}

// Closed implements loop.Handler.
func (abandoned) Closed(error) {}
