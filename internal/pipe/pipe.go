// Package pipe is one shared upstream connection: commands of many sessions go out one behind the other, and each reply
// goes to the oldest call that has none. A pipe is a state machine on a loop. It looks at where replies end and at the
// first byte, and passes them on as they came.
package pipe

import (
	"errors"
	"io"
	"math"
	"time"

	"github.com/sluiceproxy/sluice/internal/loop"
	"github.com/sluiceproxy/sluice/pkg/resp"
)

// holdMax is the length up to which an incomplete reply waits for its end, so that a connection lost in the middle of
// it becomes a clean error. A longer one is passed on part by part.
const holdMax = 32 << 10

// neverWritten is the end of a request that is not complete.
const neverWritten = math.MaxUint64

// pushMax bounds an out-of-band message, which is received whole and dropped.
const pushMax = 1 << 20

// Owner is told of what a pipe cannot decide by itself.
type Owner interface {
	// ErrorReply is asked about each reply that begins with '-'. True: the owner has taken the call off the pipe's hands
	// (it is sent elsewhere) and the reply is not delivered.
	ErrorReply(p *Pipe, c *Call, line []byte) bool
	// LargeReply tells that a reply with more than the stream threshold to come is being received.
	LargeReply(p *Pipe)
	// Lost is given the calls of a closed pipe, oldest first. The owner sends each again or fails it.
	Lost(p *Pipe, calls []LostCall, err error)
	// Idle tells that the last call in flight has been answered.
	Idle(p *Pipe)
	// Drained tells that output which the connection had not taken at once has been taken.
	Drained(p *Pipe)
}

// LostCall is a call of a closed pipe.
type LostCall struct {
	Call *Call
	// InDoubt: the node may have run the command.
	InDoubt bool
	// Retry: the command may be sent again: it was never written whole, or it changes nothing and no other command of
	// its session that changes something was lost with it.
	Retry bool
}

// Config is what the pipes of one target have in common.
type Config struct {
	// StreamThreshold is the number of bytes to come above which a reply counts as large.
	StreamThreshold int64
	// LossID counts the connection losses of the loop.
	LossID *uint64
	// Traffic and Late are counted into: bytes, and replies that came after their call had timed out.
	Traffic *loop.Traffic
	Late    *uint64
}

// Pipe is one pipelined connection.
type Pipe struct {
	conn  *loop.Conn
	owner Owner
	scan  resp.ReplyScanner
	cfg   Config

	head, tail *Call // in flight, oldest first
	inflight   int

	scanned  int // bytes of the unconsumed tail that the scanner has seen
	parting  bool
	large    bool
	lastData int64
	waiting  int64  // when the output that is not yet written was appended; 0: none
	waitEnd  uint64 // position of the output behind it

	held       bool // see Hold
	closed     bool
	queueDelay time.Duration
	onClosed   func()
}

// New makes a pipe whose connection is still to be made: what is sent waits until a transport is attached to Conn.
func New(l *loop.Loop, owner Owner, cfg Config) *Pipe {
	p := &Pipe{owner: owner, cfg: cfg}
	p.conn = l.NewConn(handler{p}, cfg.Traffic)
	p.lastData = l.Now()
	return p
}

// SetOwner replaces the owner of a pipe on which nothing is in flight.
func (p *Pipe) SetOwner(owner Owner) { p.owner = owner }

// SetOnClosed has fn called once when the pipe is closed.
func (p *Pipe) SetOnClosed(fn func()) { p.onClosed = fn }

// QueueDelay is the smoothed time that commands waited in the proxy before the connection took them.
func (p *Pipe) QueueDelay() time.Duration { return p.queueDelay }

// Conn is the connection, to attach a transport or to close it.
func (p *Pipe) Conn() *loop.Conn { return p.conn }

// Inflight is the number of calls without a reply.
func (p *Pipe) Inflight() int { return p.inflight }

// Closed reports whether the pipe is closed.
func (p *Pipe) Closed() bool { return p.closed }

// Backlog is the number of bytes that the connection has not taken.
func (p *Pipe) Backlog() int { return p.conn.Pending() }

// Send appends a command, in RESP, and puts the call behind those in flight.
func (p *Pipe) Send(c *Call, request []byte) {
	if p.closed {
		panic("BUG: send on a closed pipe")
	}
	k, off := p.conn.AppendRef(request)
	c.chunk, c.off, c.length = k, int32(off), int32(len(request))
	p.enqueue(c)
}

// Resend moves a call that left another pipe of the same loop to this one.
func (p *Pipe) Resend(c *Call) {
	old := c.chunk
	p.Send(c, c.Request())
	p.conn.Release(old)
}

// SendOpen is Send for a command whose rest follows by More, because it is too long to be held. Such a call cannot be
// sent again: until Finish it counts as not written, after it as any other.
func (p *Pipe) SendOpen(c *Call, first []byte) {
	p.Send(c, nil)
	c.end = neverWritten
	p.More(first)
}

// More passes on the next bytes of the command begun by SendOpen.
func (p *Pipe) More(b []byte) { p.conn.AppendOrWrite(b) }

// Finish ends the command begun by SendOpen.
func (p *Pipe) Finish(c *Call) { c.end = p.conn.Appended() }

func (p *Pipe) enqueue(c *Call) {
	now := p.conn.Loop().Now()
	if c.Attempts == 0 {
		c.SentAt = now
	}
	c.Attempts++
	c.pipe, c.next, c.parts = p, nil, false
	c.end = p.conn.Appended()
	if p.tail == nil {
		p.head = c
		p.lastData = now
	} else {
		p.tail.next = c
	}
	p.tail = c
	p.inflight++
	if p.waiting == 0 && p.conn.Pending() > int(c.length) {
		p.waiting, p.waitEnd = now, c.end
	}
}

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
		if p.closed {
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
		return // nobody asked for it
	}
	c := p.head
	if reply[0] == '-' && !p.parting && !c.settled {
		p.takeHead()
		if p.owner.ErrorReply(p, c, reply) {
			p.noteIdle()
			return
		}
		c.Receiver.Reply(c, reply, true)
		Release(p.conn.Loop(), c)
		p.noteIdle()
		return
	}
	p.takeHead()
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

// partial keeps the beginning of a reply until it is whole, or passes it on when it is long.
func (p *Pipe) partial(b []byte, start int) (consumed int) {
	rest := b[start:]
	if rest[0] == '>' && !p.parting && len(rest) > pushMax {
		p.fail("endless push message")
		return len(b)
	}
	if !p.parting && (len(rest) < holdMax || rest[0] == '>' || rest[0] == '-') {
		p.scanned = len(rest)
		return start
	}
	c := p.head
	p.parting = true
	if c.settled {
		return len(b)
	}
	c.parts = true
	if !p.large && p.scan.BulkRemaining() > p.cfg.StreamThreshold {
		p.large = true
		p.owner.LargeReply(p)
	}
	c.Receiver.Reply(c, rest, false)
	return len(b)
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

// noteWritten measures the queueing delay: the time from when output had to wait until the connection took it.
func (p *Pipe) noteWritten() {
	if p.waiting == 0 {
		// Decay towards zero while nothing waits.
		p.queueDelay -= p.queueDelay >> 6
		return
	}
	if p.conn.Written() >= p.waitEnd {
		p.sampleDelay(p.conn.Loop().Now() - p.waiting)
		p.waiting = 0
	}
}

func (p *Pipe) sampleDelay(nanos int64) {
	p.queueDelay += (time.Duration(nanos) - p.queueDelay) / 8
}

// Large reports whether the reply that is being received was found to be large; the owner has been told, and no new
// command is sent behind it.
func (p *Pipe) Large() bool { return p.large }

// Hold stops reading from the node, because the client that the current reply is for takes it too slowly. Only the
// receiver of a large reply may do so, after the owner took the pipe out of use for others.
func (p *Pipe) Hold() {
	p.held = true
	p.conn.Pause()
}

// Continue undoes Hold.
func (p *Pipe) Continue() {
	p.held = false
	p.lastData = p.conn.Loop().Now()
	p.conn.Resume()
}

// Expire fails the calls whose deadline has passed; their replies, when they still come, are dropped.
// It returns how many failed and when the pipe last received something.
func (p *Pipe) Expire(now int64) (expired int) {
	for c := p.head; c != nil; c = c.next {
		if c.settled || c.Deadline == 0 || c.Deadline > now {
			continue
		}
		c.settled = true
		expired++
		c.Receiver.Failed(c, Failure{Reason: TimedOut, InDoubt: c.end <= p.conn.Written()})
	}
	return expired
}

// Silent is how long calls have been waiting without a byte from the node.
func (p *Pipe) Silent(now int64) time.Duration {
	if p.head == nil || p.held {
		return 0
	}
	return time.Duration(now - p.lastData)
}

// OldestAge is how long the oldest call has been waiting for its reply, 0 when none is.
func (p *Pipe) OldestAge(now int64) time.Duration {
	if p.head == nil {
		return 0
	}
	return time.Duration(now - p.head.SentAt)
}

// Drained implements loop.Handler.
func (p *Pipe) Drained() {
	p.noteWritten()
	p.owner.Drained(p)
}

// EOF implements loop.Handler: a node that has finished sending is lost.
func (p *Pipe) EOF() { p.conn.Close(io.ErrUnexpectedEOF) }

var errProtocol = errors.New("the node sent something that is not a reply")

func (p *Pipe) fail(what string) {
	p.conn.Close(errors.Join(errProtocol, errors.New(what)))
}

// IsMalformed reports whether err, given to Owner.Lost, means that the node did not speak RESP.
func IsMalformed(err error) bool { return errors.Is(err, errProtocol) }

// handler gives the connection its callbacks without making them the pipe's own methods: Pipe.Closed asks, the
// handler's Closed tells.
type handler struct{ *Pipe }

// Closed implements loop.Handler.
func (h handler) Closed(err error) {
	p := h.Pipe
	p.closed = true
	*p.cfg.LossID++
	if p.onClosed != nil {
		p.onClosed()
	}
	p.owner.Lost(p, p.collectLost(), err)
}

// collectLost takes all calls off the pipe and judges which may be sent again.
func (p *Pipe) collectLost() []LostCall {
	written := p.conn.Written()
	for c := p.head; c != nil; c = c.next {
		if c.end <= written && !c.ReadOnly && c.Origin != nil {
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
