package loop

import (
	"errors"
	"io"
	"time"
)

// ErrClosed is the error of a Conn that was open when its loop stopped.
var ErrClosed = errors.New("connection closed because its loop stopped")

// Conn is one connection as its owner sees it: a queue of output, a tail of unconsumed input and the transport behind.
// It belongs to one loop and only that loop's goroutine touches it (law: what a loop owns only the loop touches).
type Conn struct {
	loop      *Loop
	handler   Handler
	transport Transport // nil until Attach: output queues up meanwhile

	in       []byte // input that the handler has not consumed
	inHint   int    // bytes that the owner expects the whole message to need; sizes in
	head     *Chunk // output, oldest first; the last chunk may still grow
	tail     *Chunk
	open     *Chunk // the last one of AppendRef, referenced, so that requests of later ticks share it
	appended uint64 // bytes of output ever appended
	written  uint64 // bytes of output ever taken by the transport; appended-written bytes are pending

	stats *Traffic

	dirty      bool // in loop.dirty: written at the end of the tick
	blocked    bool // the transport takes no more; waits for Writable
	wasHeld    bool // Drained is owed: output was not taken at once, or there was no transport yet
	paused     bool // the owner wants no input
	eof        bool // the peer has finished sending
	again      bool // in loop.again: Data is called this tick without new input
	inData     bool // Data is running
	closing    bool // close as soon as the output is written
	closed     bool
	err        error
	window     time.Duration // see SetWindow
	collecting *Timer        // runs while output is collected
	lingering  *Timer        // runs while the peer is given time to close its side
}

// Traffic counts bytes; it belongs to the loop.
type Traffic struct{ In, Out uint64 }

// NewConn makes a connection without a transport: what is appended waits until Attach.
func (l *Loop) NewConn(h Handler, stats *Traffic) *Conn {
	if stats == nil {
		stats = &l.discarded
	}
	return &Conn{loop: l, handler: h, stats: stats, wasHeld: true}
}

// Attach gives the connection its transport. Output that waited leaves at the end of the tick.
func (c *Conn) Attach(t Transport) {
	if c.closed {
		t.Close()
		return
	}
	c.transport, c.wasHeld = t, c.head != nil
	if c.paused {
		t.SetReading(false)
	}
	if c.head != nil {
		c.markDirty()
	}
}

// Attached reports whether the connection has its transport.
func (c *Conn) Attached() bool { return c.transport != nil }

// Loop returns the loop that owns the connection.
func (c *Conn) Loop() *Loop { return c.loop }

// SetHandler replaces the owner; used when a connection is handed from one state machine to another on its loop.
func (c *Conn) SetHandler(h Handler) { c.handler = h }

// Pending is the number of output bytes that the transport has not taken.
func (c *Conn) Pending() int { return int(c.appended - c.written) }

// TellDrained has Drained called when the output has been taken, also when that is at the end of this tick.
func (c *Conn) TellDrained() {
	if c.head != nil && !c.closed {
		c.wasHeld = true
	}
}

// Blocked reports whether the transport takes no more at the moment: what is appended has to wait.
func (c *Conn) Blocked() bool { return c.blocked }

// Appended is the position in the output stream behind the last byte appended.
func (c *Conn) Appended() uint64 { return c.appended }

// Written is the position in the output stream up to which the transport has taken bytes: a request that ends at or
// below it may have been executed by the peer, one that ends above cannot have been.
func (c *Conn) Written() uint64 { return c.written }

// Closed reports whether the connection is closed.
func (c *Conn) Closed() bool { return c.closed }

// Unread is the number of received bytes that the handler has not consumed.
func (c *Conn) Unread() int { return len(c.in) }

// lingerTime is how long a connection that is being closed waits for the peer to close its side.
const lingerTime = 2 * time.Second

// CloseFlushed closes the connection when its output has been written. What the peer still sends is read and dropped
// until it closes too: closing a socket with unread input makes the system discard output that the peer has not read,
// and a peer that reads only when it has sent everything would never come to read.
func (c *Conn) CloseFlushed() {
	if c.closed || c.closing {
		return
	}
	c.closing = true
	c.in = nil
	if c.paused {
		c.paused = false
		if c.transport != nil && !c.eof {
			c.transport.SetReading(true)
		}
	}
	if c.head == nil {
		c.linger()
	}
}

// linger ends the output and waits for the end of the input.
func (c *Conn) linger() {
	if c.lingering != nil {
		return
	}
	half, can := c.transport.(halfCloser)
	if c.eof || !can || half.CloseWrite() != nil {
		c.Close(nil)
		return
	}
	c.lingering = c.loop.After(lingerTime, func() { c.Close(nil) })
}

// halfCloser is a transport that can end its output alone.
type halfCloser interface{ CloseWrite() error }

// Close closes the connection at once; output that waits is dropped. The handler's Closed follows in this tick.
func (c *Conn) Close(err error) {
	if c.closed {
		return
	}
	c.closed, c.err = true, err
	c.loop.Cancel(c.lingering)
	c.loop.Cancel(c.collecting)
	if errors.Is(err, io.EOF) {
		c.err = io.ErrUnexpectedEOF
	}
	if c.transport != nil {
		c.transport.Close()
	}
	c.loop.closing = append(c.loop.closing, c)
}

// finish drops the output and tells the handler.
func (c *Conn) finish() {
	for c.head != nil {
		c.pop()
	}
	c.closeChunk()
	if !c.inData {
		c.in = nil
	}
	c.handler.Closed(c.err)
}
