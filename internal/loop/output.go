package loop

import "time"

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

// AppendRef copies b to the output in one piece and returns where it lies; the chunk stays until Release. Small pieces
// of several ticks share a chunk: one that is kept for long does not keep much more than itself.
func (c *Conn) AppendRef(b []byte) (k *Chunk, off int) {
	k = c.tail
	if k == nil || k.room() < len(b) {
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
		return c.push(c.loop.chunks.measured(need))
	case need > mediumChunk:
		return c.push(c.loop.chunks.get(2))
	default:
		return c.push(c.shared(need))
	}
}

// shared returns the open chunk when it has room, else a new one, which becomes the open one.
func (c *Conn) shared(need int) *Chunk {
	if k := c.open; k != nil && !k.queued {
		if k.refs == 1 { // nobody else needs what is in it
			k.buf, k.written = k.buf[:0], 0
		}
		if k.room() >= need {
			return k
		}
	}
	c.closeChunk()
	c.open = c.loop.chunks.get(1)
	c.open.refs++
	return c.open
}

func (c *Conn) closeChunk() {
	if c.open != nil {
		c.loop.Release(c.open)
		c.open = nil
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

// SetWindow collects output for d before it is written, instead of until the end of the tick. The time is rounded up to
// what the poller can wait for, a millisecond.
func (c *Conn) SetWindow(d time.Duration) { c.window = d }

// Flush ends the window: output that has been collected leaves at the end of the tick.
func (c *Conn) Flush() {
	c.loop.Cancel(c.collecting)
	c.collecting = nil
	if c.head != nil && !c.dirty && !c.blocked && !c.closed {
		c.dirty = true
		c.loop.dirty = append(c.loop.dirty, c)
	}
}

func (c *Conn) markDirty() {
	if c.window > 0 && !c.closing {
		if c.collecting == nil && !c.dirty && !c.blocked {
			c.collecting = c.loop.After(c.window, c.Flush)
		}
		return
	}
	if !c.dirty && !c.blocked {
		c.dirty = true
		c.loop.dirty = append(c.loop.dirty, c)
	}
}

// flush offers the output to the transport. It is called at the end of the tick and when the transport is writable.
func (c *Conn) flush() {
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
