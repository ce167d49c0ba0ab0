package loop

import (
	"errors"
	"io"
	"net"
	"time"
)

const (
	streamReadSize  = 32 << 10
	streamWriteSize = 128 << 10
	// streamLinger is how long the piece that is being written may take when the connection is closed at once.
	streamLinger = time.Second
	// streamDrain is the same for a connection that owes its output (Conn.CloseFlushed).
	streamDrain = 5 * time.Second
)

// stream is the transport of every net.Conn (TLS, systems without epoll): one goroutine reads and one writes, both may
// block, and they post to the loop. The reader waits for the loop to take a piece before it reads the next.
type stream struct {
	loop *Loop
	conn *Conn
	nc   net.Conn

	// Owned by the loop.
	writing  bool
	reading  bool
	waiting  bool // the reader waits for permission
	ending   bool // no more is written
	closed   bool
	writeBuf []byte

	next   chan struct{} // loop to reader: read on; capacity 1
	writes chan []byte   // loop to writer; capacity 1, closed by CloseWrite or Close
	end    chan struct{} // closed by Close
}

// AttachStream gives a connection any net.Conn, which the loop owns from now on. The transport's two goroutines end
// when the connection is closed; Loop.Wait waits for them.
func (l *Loop) AttachStream(c *Conn, nc net.Conn) {
	s := &stream{
		loop: l, conn: c, nc: nc, reading: true,
		next: make(chan struct{}, 1), writes: make(chan []byte, 1), end: make(chan struct{}),
	}
	l.streams[s] = struct{}{}
	l.streaming.Go(s.readLoop)
	l.streaming.Go(s.writeLoop)
	c.Attach(s)
}

func (s *stream) readLoop() {
	buf := make([]byte, streamReadSize)
	for {
		n, err := s.nc.Read(buf)
		if n > 0 {
			s.loop.Post(func() { s.received(buf[:n]) })
			select {
			case <-s.next:
			case <-s.end:
				return
			}
		}
		if errors.Is(err, io.EOF) {
			s.loop.Post(s.ended)
			return
		}
		if err != nil {
			s.loop.Post(func() { s.failed(err) })
			return
		}
	}
}

func (s *stream) received(b []byte) {
	if s.closed {
		return
	}
	s.conn.Input(b)
	if s.closed {
		return
	}
	if s.reading {
		s.readOn()
	} else {
		s.waiting = true
	}
}

// readOn lets the reader go on. The channel has room: the reader takes one permission for each piece.
func (s *stream) readOn() {
	s.waiting = false
	select {
	case s.next <- struct{}{}:
	default:
	}
}

func (s *stream) ended() {
	if !s.closed {
		s.conn.InputEnded()
	}
}

func (s *stream) failed(err error) {
	if !s.closed {
		s.conn.Close(err)
	}
}

func (s *stream) writeLoop() {
	defer func() { _ = s.nc.Close() }()
	for b := range s.writes {
		if _, err := s.nc.Write(b); err != nil {
			s.loop.Post(func() { s.failed(err) })
			return
		}
		s.loop.Post(s.wrote)
	}
	if half, can := s.nc.(halfCloser); can {
		_ = half.CloseWrite() // the peer sees the end; what it still sends is read until Close
		<-s.end
	}
}

func (s *stream) wrote() {
	s.writing = false
	if s.closed {
		return
	}
	s.conn.Writable()
	if !s.writing {
		s.writeBuf = nil // an idle connection holds no buffer
	}
}

// Write implements Transport: one piece is under way at a time.
func (s *stream) Write(p []byte) (int, error) {
	if s.ending {
		return 0, net.ErrClosed
	}
	if s.writing {
		return 0, nil
	}
	n := min(len(p), streamWriteSize)
	s.writeBuf = append(s.writeBuf[:0], p[:n]...)
	s.writing = true
	s.writes <- s.writeBuf // has room: the writer is idle
	return n, nil
}

// SetReading implements Transport.
func (s *stream) SetReading(on bool) {
	s.reading = on
	if on && s.waiting {
		s.readOn()
	}
}

var errNoHalfClose = errors.New("both directions of the connection end together")

// CloseWrite ends the output behind what was written.
func (s *stream) CloseWrite() error {
	if _, can := s.nc.(halfCloser); !can {
		return errNoHalfClose
	}
	s.ending = true
	close(s.writes)
	return nil
}

// Close implements Transport.
func (s *stream) Close() {
	if s.closed {
		return
	}
	s.closed = true
	delete(s.loop.streams, s)
	close(s.end)
	if s.writing { // what was handed over may still leave, but a peer that does not read cannot hold the writer
		linger := streamLinger
		if s.conn.closing {
			linger = streamDrain
		}
		_ = s.nc.SetWriteDeadline(time.Now().Add(linger))
	}
	if !s.ending {
		close(s.writes)
	}
}
