package loop

// tailInPlace is the size up to which unconsumed input is copied in front of the next read into the loop's scratch
// buffer. Above it the connection reads into its own buffer, so that a large argument is not copied again and again.
const tailInPlace = 16 << 10

// hintFactor bounds how far the owner's hint may run ahead of what was received: a header alone reserves no memory.
const hintFactor = 16

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

// Restore gives a new connection the input that a detached one had not consumed; it is delivered in this tick.
func (c *Conn) Restore(unread []byte) {
	c.in = append(c.in, unread...)
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
	if cap(c.in) < len(rest) {
		c.in = make([]byte, 0, c.sizeFor(len(rest)))
	}
	c.in = append(c.in[:0], rest...)
}

// sizeFor is the size of a buffer for a message of which n bytes have been received.
func (c *Conn) sizeFor(n int) int {
	if n <= tailInPlace {
		return n
	}
	return max(n, min(c.inHint, hintFactor*n))
}

// widen makes room for a tail of at least need bytes.
func (c *Conn) widen(need int) {
	size := c.sizeFor(len(c.in))
	if size < need {
		size = max(need, 2*len(c.in))
	}
	wider := make([]byte, len(c.in), size)
	copy(wider, c.in)
	c.in = wider
}

// inputBuffer returns where the transport should read to and how many bytes of unconsumed input already lie in front.
func (c *Conn) inputBuffer() (buf []byte, tail int, own bool) {
	if len(c.in) <= tailInPlace {
		return c.loop.scratch, copy(c.loop.scratch, c.in), false
	}
	if len(c.in) == cap(c.in) {
		c.widen(len(c.in) + 1)
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
	if need := len(c.in) + len(b); need > cap(c.in) {
		c.widen(need)
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
