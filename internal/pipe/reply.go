package pipe

import (
	"errors"
	"fmt"
)

// holdMax is the length up to which an incomplete reply waits for its end, so that a connection lost in the middle of
// it becomes a clean error. A longer one is passed on part by part.
const holdMax = 32 << 10

// Data implements loop.Handler: it cuts the input into replies.
func (p *Pipe) Data(b []byte) int {
	p.lastData = p.conn.Loop().Now()
	p.noteWritten()
	start := 0
	for start < len(b) {
		if p.head == nil && !p.isPush(b[start]) {
			p.fail("reply without a command")
			return len(b)
		}
		n, done, err := p.scan.Feed(b[start+p.scanned:])
		if err != nil {
			p.fail("malformed reply")
			return len(b)
		}
		end := start + p.scanned + n
		p.scanned = 0
		if !done {
			return p.partial(b, start)
		}
		p.whole(b[start:end])
		if p.conn.Closed() {
			return len(b)
		}
		start = end
	}
	return start
}

func (p *Pipe) isPush(first byte) bool { return first == '>' && !p.parting }

// whole handles the end of a reply.
func (p *Pipe) whole(reply []byte) {
	if !p.parting && reply[0] == '>' {
		p.pushed(reply)
		return
	}
	if p.tooEarly(reply[0]) {
		return
	}
	c := p.head
	if c.end > p.conn.Written() && !p.parting && c.prefaced == c.Preface {
		p.conn.Close(errRefused) // after this reply: the node does not read on where the command ends
	}
	if c.prefaced < c.Preface {
		p.preface(c, reply)
		return
	}
	if reply[0] == '-' && !p.parting && !c.settled {
		p.takeHead()
		if p.owner.ErrorReply(p, c, c.reason(reply)) {
			p.noteIdle()
			return
		}
		c.Receiver.Reply(c, reply, true)
		Release(p.conn.Loop(), c)
		p.noteIdle()
		return
	}
	p.takeHead()
	if p.large {
		p.renew(c.Origin)
	}
	p.parting, p.large = false, false
	if c.settled {
		*p.cfg.Late++
	} else {
		c.Receiver.Reply(c, reply, true)
	}
	Release(p.conn.Loop(), c)
	if p.head == nil {
		p.noteIdle()
	}
}

// preface takes a reply that comes before the one that counts.
func (p *Pipe) preface(c *Call, reply []byte) {
	c.prefaced++
	if reply[0] == '-' && c.refusal == nil {
		c.refusal = append([]byte(nil), reply...)
	}
	if r, wants := c.Receiver.(PrefaceReceiver); wants && !c.settled {
		r.Prefaced(c, reply)
	}
	p.parting, p.large = false, false
}

// reason is the error that says why a call was refused: of a transaction the one that the refused command got, not EXEC.
func (c *Call) reason(reply []byte) []byte {
	if c.refusal != nil {
		return c.refusal
	}
	return reply
}

// partial keeps the beginning of a reply until it is whole, or passes it on when it is long.
func (p *Pipe) partial(b []byte, start int) (consumed int) {
	rest := b[start:]
	if rest[0] == '>' && !p.parting && len(rest) > p.pushLimit() {
		p.fail("endless push message")
		return len(b)
	}
	if !p.parting && (len(rest) < holdMax || rest[0] == '>') { // a redirect is never longer
		p.scanned = len(rest)
		return start
	}
	if p.tooEarly(rest[0]) {
		return len(b)
	}
	c := p.head
	if !p.parting {
		p.parting, p.passed = true, 0
	}
	p.passed += int64(len(rest))
	if !p.large && max(p.scan.BulkRemaining(), p.passed) > p.cfg.StreamThreshold { // of many elements none tells their sum
		p.large = true
		p.owner.LargeReply(p)
	}
	if c.settled || c.prefaced < c.Preface {
		return len(b)
	}
	c.parts = true
	c.Receiver.Reply(c, rest, false)
	return len(b)
}

// tooEarly gives the connection up when a reply comes before its command has been sent: it belongs to nobody, and all that
// follow would reach the wrong client. Only an error may come early, to a command that the node refuses half-read, and
// what the node says to the first commands of several while the last ones are still on their way.
func (p *Pipe) tooEarly(first byte) bool {
	c := p.head
	if p.parting || c.end <= p.conn.Written() || p.begun(c) && (first == '-' || c.prefaced < c.Preface) {
		return false
	}
	p.fail("reply to a command that has not been sent")
	return true
}

// begun reports whether the connection has taken the first bytes of the request.
func (p *Pipe) begun(c *Call) bool {
	return c.end == neverWritten || c.end-uint64(c.length) < p.conn.Written()
}

func (p *Pipe) takeHead() {
	c := p.head
	p.head = c.next
	if p.head == nil {
		p.tail = nil
	}
	c.next = nil
	p.inflight--
}

func (p *Pipe) noteIdle() {
	if p.head == nil && !p.closed {
		p.owner.Idle(p)
	}
}

// Large reports whether the reply that is being received was found to be large; the owner has been told, and no new
// command is sent behind it.
func (p *Pipe) Large() bool { return p.large }

var (
	errProtocol = errors.New("the node sent something that is not a reply")
	errRefused  = errors.New("the node refused a command before it was whole")
)

func (p *Pipe) fail(what string) {
	p.conn.Close(fmt.Errorf("%w: %s", errProtocol, what))
}

// IsMalformed reports whether err, given to Owner.Lost, means that the node did not speak RESP.
func IsMalformed(err error) bool { return errors.Is(err, errProtocol) }
