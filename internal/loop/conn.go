package loop

import (
	"errors"
	"io"
	"time"
)

// tailInPlace is the size up to which unconsumed input is copied in front of the next read into the loop's scratch
// buffer. Above it the connection reads into its own buffer, so that a large argument is not copied again and again.
const tailInPlace = 16 << 10

// ErrClosed is the error of a Conn whose owner closed it.
var ErrClosed = errors.New("connection closed by its owner")

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
	appended uint64 // bytes of output ever appended
	written  uint64 // bytes of output ever taken by the transport; appended-written bytes are pending

	stats *Traffic

	dirty     bool // in loop.dirty: written at the end of the tick
	blocked   bool // the transport takes no more; waits for Writable
	wasHeld   bool // Drained is owed: output was not taken at once, or there was no transport yet
	paused    bool // the owner wants no input
	eof       bool // the peer has finished sending
	again     bool // in loop.again: Data is called this tick without new input
	inData    bool // Data is running
	closing   bool // close as soon as the output is written
	closed    bool
	err       error
	lingering *Timer // runs while the peer is given time to close its side
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

// Appended is the position in the output stream behind the last byte appended.
func (c *Conn) Appended() uint64 { return c.appended }

// Written is the position in the output stream up to which the transport has taken bytes: a request that ends at or
// below it may have been executed by the peer, one that ends above cannot have been.
func (c *Conn) Written() uint64 { return c.written }

// Closed reports whether the connection is closed.
func (c *Conn) Closed() bool { return c.closed }

// Unread is the number of received bytes that the handler has not consumed.
func (c *Conn) Unread() int { return len(c.in) }

// Append copies b to the output.
func (c *Conn) Append(b []byte) {
	if c.closed || len(b) == 0 {
		return
	}
	c.appended += uint64(len(b))
	for {
		k := c.tail
		if k == nil || len(k.buf) == cap(k.buf) {
			k = c.grow(len(b))
		}
		n := copy(k.buf[len(k.buf):cap(k.buf)], b)
		k.buf = k.buf[:len(k.buf)+n]
		if n == len(b) {
			break
		}
		b = b[n:]
	}
	c.markDirty()
}

// AppendRef copies b to the output in one piece and returns where it lies; the chunk stays until Release.
func (c *Conn) AppendRef(b []byte) (k *Chunk, off int) {
	k = c.tail
	if k == nil || cap(k.buf)-len(k.buf) < len(b) {
		k = c.growWhole(len(b))
	}
	off = len(k.buf)
	k.buf = append(k.buf, b...)
	k.refs++
	c.appended += uint64(len(b))
	c.markDirty()
	return k, off
}

// Release gives a reference from AppendRef back.
func (c *Conn) Release(k *Chunk) { c.loop.Release(k) }

// Release gives a reference from AppendRef back, also when its connection is closed.
func (l *Loop) Release(k *Chunk) {
	k.refs--
	if k.refs == 0 && !k.queued {
		l.chunks.put(k)
	}
}

// AppendOrWrite is Append for large pieces: when nothing waits before b it is offered to the transport at once, without
// a copy, and only what is not taken is queued.
func (c *Conn) AppendOrWrite(b []byte) {
	if c.head == nil && c.transport != nil && !c.blocked && !c.closed && len(b) >= mediumChunk {
		n, err := c.transport.Write(b)
		c.appended += uint64(n)
		c.written += uint64(n)
		c.stats.Out += uint64(n)
		if err != nil {
			c.Close(err)
			return
		}
		if n < len(b) {
			c.blocked, c.wasHeld = true, true
		}
		b = b[n:]
	}
	c.Append(b)
}

func (c *Conn) grow(need int) *Chunk {
	class := int8(0)
	switch {
	case need > mediumChunk || c.tail != nil && c.tail.class != 0:
		class = 2
	case need > smallChunk || c.tail != nil:
		class = 1
	}
	return c.push(c.loop.chunks.get(class))
}

func (c *Conn) growWhole(need int) *Chunk {
	switch {
	case need > largeChunk:
		return c.push(&Chunk{buf: make([]byte, 0, need), class: -1})
	case need > mediumChunk:
		return c.push(c.loop.chunks.get(2))
	default:
		return c.push(c.loop.chunks.get(1))
	}
}

func (c *Conn) push(k *Chunk) *Chunk {
	k.queued = true
	if c.tail == nil {
		c.head = k
	} else {
		c.tail.next = k
	}
	c.tail = k
	return k
}

func (c *Conn) markDirty() {
	if !c.dirty && !c.blocked {
		c.dirty = true
		c.loop.dirty = append(c.loop.dirty, c)
	}
}

// flush offers the output to the transport. It is called at the end of the tick and when the transport is writable.
func (c *Conn) flush() {
	if c.blocked {
		return
	}
	for c.head != nil && !c.closed && c.transport != nil {
		k := c.head
		p := k.buf[k.written:]
		if len(p) == 0 {
			c.pop()
			continue
		}
		n, err := c.transport.Write(p)
		k.written += n
		c.written += uint64(n)
		c.stats.Out += uint64(n)
		if err != nil {
			c.Close(err)
			return
		}
		if n < len(p) {
			c.blocked, c.wasHeld = true, true
			return
		}
		c.pop()
	}
	if c.head != nil {
		return
	}
	if c.closing {
		c.linger()
		return
	}
	if c.wasHeld && !c.closed {
		c.wasHeld = false
		c.handler.Drained()
	}
}

// pop takes the first chunk, written whole, off the queue.
func (c *Conn) pop() {
	k := c.head
	c.head = k.next
	if c.head == nil {
		c.tail = nil
	}
	k.next, k.queued = nil, false
	if k.refs == 0 {
		c.loop.chunks.put(k)
	}
}

// Writable is called by the transport when it takes output again.
func (c *Conn) Writable() {
	if c.closed || !c.blocked {
		return
	}
	c.blocked = false
	c.flush()
}

// Expect tells how many bytes the message that is being received needs in all, as known now.
func (c *Conn) Expect(n int) { c.inHint = n }

// Pause stops the delivery of input; what the peer sends waits in the kernel.
func (c *Conn) Pause() {
	if c.paused || c.closed || c.closing {
		return
	}
	c.paused = true
	if c.transport != nil && !c.eof {
		c.transport.SetReading(false)
	}
}

// Resume undoes Pause; input that was left is delivered again in this tick.
func (c *Conn) Resume() {
	if !c.paused || c.closed || c.closing {
		return
	}
	c.paused = false
	if c.transport != nil && !c.eof {
		c.transport.SetReading(true)
	}
	c.Again()
}

// Again asks for Data to be called with the unconsumed input in this tick.
func (c *Conn) Again() {
	if !c.again && !c.closed && (len(c.in) > 0 || c.inData) {
		c.again = true
		c.loop.again = append(c.loop.again, c)
	}
}

// redeliver gives the unconsumed input to the handler once more.
func (c *Conn) redeliver() {
	c.again = false
	if c.closed || c.paused || len(c.in) == 0 {
		return
	}
	c.deliver(c.in, true)
}

// deliver hands b to the handler and keeps what it leaves. own tells that b lies in c.in.
func (c *Conn) deliver(b []byte, own bool) {
	if c.closing {
		c.in = nil
		return
	}
	c.inData = true
	n := c.handler.Data(b)
	c.inData = false
	if c.closed || c.closing {
		c.in = nil
		return
	}
	rest := b[n:]
	switch {
	case len(rest) == 0:
		c.in = nil // an idle connection holds no buffer
	case own && n == 0:
		// Nothing moved: keep the buffer as it is.
	case own:
		c.in = c.in[:copy(c.in, rest)]
	default:
		c.keep(rest)
	}
}

// keep copies rest, which lies in the loop's scratch buffer, into the connection's own.
func (c *Conn) keep(rest []byte) {
	want := len(rest)
	if want > tailInPlace && c.inHint > want {
		want = c.inHint
	}
	if cap(c.in) < want {
		c.in = make([]byte, 0, want)
	}
	c.in = append(c.in[:0], rest...)
}

// inputBuffer returns where the transport should read to and how many bytes of unconsumed input already lie in front.
func (c *Conn) inputBuffer() (buf []byte, tail int, own bool) {
	if len(c.in) <= tailInPlace && c.inHint <= len(c.loop.scratch)/2 {
		return c.loop.scratch, copy(c.loop.scratch, c.in), false
	}
	if len(c.in) == cap(c.in) || cap(c.in) < c.inHint {
		grown := make([]byte, len(c.in), max(2*len(c.in), c.inHint, 2*tailInPlace))
		copy(grown, c.in)
		c.in = grown
	}
	return c.in[:cap(c.in)], len(c.in), true
}

// received takes n bytes that the transport read behind the tail of a buffer from inputBuffer.
func (c *Conn) received(buf []byte, tail, n int, own bool) {
	c.stats.In += uint64(n)
	if own {
		c.in = buf[:tail+n]
	}
	c.deliver(buf[:tail+n], own)
}

// Input takes bytes that a transport received in a buffer of its own.
func (c *Conn) Input(b []byte) {
	if c.closed {
		return
	}
	c.stats.In += uint64(len(b))
	if len(c.in) == 0 && !c.paused {
		c.deliver(b, false)
		return
	}
	c.in = append(c.in, b...)
	if !c.paused {
		c.deliver(c.in, true)
	}
}

// InputEnded is called by the transport when the peer has finished sending.
func (c *Conn) InputEnded() {
	if c.closed || c.eof {
		return
	}
	c.eof = true
	c.transport.SetReading(false)
	if c.lingering != nil {
		c.Close(nil)
		return
	}
	c.handler.EOF()
}

// lingerTime is how long a connection that is being closed waits for the peer to close its side.
const lingerTime = 2 * time.Second

// CloseFlushed closes the connection when its output has been written. What the peer still sends is read and dropped
// until it closes too: closing a socket with unread input makes the system discard output that the peer has not read.
func (c *Conn) CloseFlushed() {
	if c.closed || c.closing {
		return
	}
	c.closing = true
	c.in = nil
	if c.head == nil {
		c.linger()
	}
}

// linger ends the output and waits for the end of the input.
func (c *Conn) linger() {
	half, can := c.transport.(halfCloser)
	if c.eof || !can || half.CloseWrite() != nil {
		c.Close(nil)
		return
	}
	c.lingering = c.loop.After(lingerTime, func() { c.Close(nil) })
	if c.paused {
		c.paused = false
		c.transport.SetReading(true)
	}
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
	if !c.inData {
		c.in = nil
	}
	c.handler.Closed(c.err)
}
