package pipe

import (
	"github.com/sluiceproxy/sluice/internal/loop"
)

// LostCall is a call of a closed pipe.
type LostCall struct {
	Call *Call
	// InDoubt: the node may have run the command.
	InDoubt bool
	// Retry: the command may be sent again: it was never written whole, or it changes nothing and no other command of
	// its session that changes something was lost with it.
	Retry bool
}

// collectLost takes all calls off the pipe and judges which may be sent again.
func (p *Pipe) collectLost() []LostCall {
	written := p.conn.Written()
	for c := p.head; c != nil; c = c.next {
		if c.end <= written && !c.settled && !c.ReadOnly && c.Origin != nil {
			c.Origin.lossID = *p.cfg.LossID
		}
	}
	lost := make([]LostCall, 0, p.inflight)
	for p.head != nil {
		c := p.head
		p.takeHead()
		if c.settled {
			Release(p.conn.Loop(), c)
			continue
		}
		inDoubt := c.end <= written
		retry := !c.parts && c.length > 0 && (!inDoubt || c.ReadOnly && (c.Origin == nil || c.Origin.lossID != *p.cfg.LossID))
		c.pipe = nil
		lost = append(lost, LostCall{Call: c, InDoubt: inDoubt, Retry: retry})
	}
	return lost
}

// Discard fails a call that is on no pipe and lets go of it. The owner calls it for what it does not send again.
func Discard(l *loop.Loop, c *Call, f Failure) {
	c.Receiver.Failed(c, f)
	Release(l, c)
}

// Release lets go of a call that is on no pipe and that has had its reply or failure.
func Release(l *loop.Loop, c *Call) {
	k := c.chunk
	c.chunk, c.pipe = nil, nil
	if k != nil {
		l.Release(k)
	}
	c.Receiver.Free(c)
}
