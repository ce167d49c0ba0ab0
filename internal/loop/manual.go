package loop

import "time"

// Manual is a loop without a poller or a goroutine: a test or a simulation drives it tick by tick, with a clock of its
// own, so that every interleaving can be chosen and played again.
type Manual struct {
	*Loop
	nanos int64
}

// NewManual makes a loop whose clock stands at zero.
func NewManual() *Manual {
	m := &Manual{}
	m.Loop = newLoop(0, func() int64 { return m.nanos })
	m.poller = idlePoller{}
	return m
}

type idlePoller struct{}

func (idlePoller) wait(time.Duration)   {}
func (idlePoller) wake()                {}
func (idlePoller) eachConn(func(*Conn)) {}
func (idlePoller) close()               {}

// Advance moves the clock on.
func (m *Manual) Advance(d time.Duration) {
	m.nanos += int64(d)
	m.now = m.nanos
}

// NextTimer is the time until the next timer is due; ok is false when there is none.
func (m *Manual) NextTimer() (d time.Duration, ok bool) {
	if len(m.timers) == 0 {
		return 0, false
	}
	return max(0, time.Duration(m.timers[0].at-m.now)), true
}

// Tick ends a tick: posts, timers, redelivery, writes, closes.
func (m *Manual) Tick() {
	m.awake()
	m.finishTick()
}

// Fake is the transport of tests. What the connection sends is collected in Sent.
type Fake struct {
	Conn *Conn
	// Room is how many more bytes Write takes; negative: no limit.
	Room int
	// Sent collects what Write took; the test may cut it as it consumes.
	Sent    []byte
	Reading bool
	Closed  bool
	// Err, when set, is what the next Write returns.
	Err error
}

// AttachFake gives a connection a fake transport without limit.
func (l *Loop) AttachFake(c *Conn) *Fake {
	f := &Fake{Conn: c, Room: -1, Reading: true}
	c.Attach(f)
	return f
}

// Write implements Transport.
func (f *Fake) Write(p []byte) (int, error) {
	if f.Err != nil {
		return 0, f.Err
	}
	n := len(p)
	if f.Room >= 0 {
		n = min(n, f.Room)
		f.Room -= n
	}
	f.Sent = append(f.Sent, p[:n]...)
	return n, nil
}

// SetReading implements Transport.
func (f *Fake) SetReading(on bool) { f.Reading = on }

// Close implements Transport.
func (f *Fake) Close() { f.Closed = true }

// Receive delivers b; the test asks Reading first.
func (f *Fake) Receive(b []byte) {
	for len(b) > 0 && !f.Closed {
		b = b[f.Read(b):]
	}
}

// Read delivers what one read of b would and returns how much that was; the test asks Reading first.
func (f *Fake) Read(b []byte) int {
	buf, tail, own := f.Conn.inputBuffer()
	n := copy(buf[tail:], b)
	f.Conn.received(buf, tail, n, own)
	return n
}

// End delivers the end of input.
func (f *Fake) End() { f.Conn.InputEnded() }

// Allow lets Write take n more bytes (negative: no limit) and tells the connection.
func (f *Fake) Allow(n int) {
	f.Room = n
	f.Conn.Writable()
}

// Break fails the connection as a reset by the peer would.
func (f *Fake) Break(err error) { f.Conn.Close(err) }
