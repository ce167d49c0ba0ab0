// Package pipe is one shared upstream connection: commands of many sessions go out one behind the other, and each reply
// goes to the oldest call that has none. A pipe is a state machine on a loop. It looks at where replies end and at the
// first byte, and passes them on as they came.
package pipe

import (
	"io"
	"math"
	"time"

	"github.com/sluiceproxy/sluice/internal/loop"
	"github.com/sluiceproxy/sluice/pkg/resp"
)

// neverWritten is the end of a request that is not complete.
const neverWritten = math.MaxUint64

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

// Config is what the pipes of one target have in common.
type Config struct {
	// StreamThreshold is the number of bytes to come above which a reply counts as large.
	StreamThreshold int64
	// LossID counts the connection losses of the loop.
	LossID *uint64
	// Traffic and Late are counted into: bytes, and replies that came after their call had timed out.
	Traffic *loop.Traffic
	// Node is the node's alias, for counting; nil: none.
	Node *string
	// Window, when set, is how long commands are collected before they are written; Limit is the number of commands that
	// ends it early, 0 for no such number.
	Window time.Duration
	Limit  int
	Late   *uint64
}

// Pipe is one pipelined connection.
type Pipe struct {
	conn  *loop.Conn
	owner Owner
	scan  resp.ReplyScanner
	cfg   Config

	head, tail *Call // in flight, oldest first
	inflight   int
	collected  int // commands since the window began

	scanned  int // bytes of the unconsumed tail that the scanner has seen
	parting  bool
	large    bool
	passed   int64  // bytes of the current reply that were passed on before its end
	lastData int64  // when something was last received, or the pipe was last idle
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
	p.conn.SetWindow(cfg.Window)
	return p
}

// SetOwner replaces the owner of a pipe on which nothing is in flight.
func (p *Pipe) SetOwner(owner Owner) { p.owner = owner }

// SetOnClosed has fn called once when the pipe is closed.
func (p *Pipe) SetOnClosed(fn func()) { p.onClosed = fn }

// QueueDelay is the smoothed time that commands waited in the proxy before the connection took them; 0 while none is in
// flight.
func (p *Pipe) QueueDelay() time.Duration {
	if p.head == nil {
		return 0
	}
	return p.queueDelay
}

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

// countCollected ends the window when it has as many commands as it may have.
func (p *Pipe) countCollected(c *Call) {
	if p.cfg.Limit <= 0 || p.cfg.Window <= 0 {
		return
	}
	if p.conn.Pending() <= int(c.length) {
		p.collected = 0
	}
	if p.collected++; p.collected >= p.cfg.Limit {
		p.collected = 0
		p.conn.Flush()
	}
}

func (p *Pipe) enqueue(c *Call) {
	now := p.conn.Loop().Now()
	if c.Attempts == 0 {
		c.SentAt = now
	}
	c.Attempts++
	c.pipe, c.next, c.parts = p, nil, false
	c.node = p.cfg.Node
	c.prefaced, c.refusal, c.settled = 0, nil, false
	c.end = p.conn.Appended()
	if p.tail == nil {
		p.head = c
		p.lastData = now
	} else {
		p.tail.next = c
	}
	p.tail = c
	p.inflight++
	p.countCollected(c)
	if p.waiting == 0 && p.conn.Blocked() {
		p.waiting, p.waitEnd = now, c.end
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

// Drained implements loop.Handler.
func (p *Pipe) Drained() {
	p.noteWritten()
	p.owner.Drained(p)
}

// EOF implements loop.Handler: a node that has finished sending is lost.
func (p *Pipe) EOF() { p.conn.Close(io.ErrUnexpectedEOF) }

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
