package loop

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// seeded returns one seed for this run, or the one in SLUICE_SEED, and prints it.
func seeded(t *testing.T) *rand.Rand {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if fixed := os.Getenv("SLUICE_SEED"); fixed != "" {
		var err error
		seed, err = strconv.ParseUint(fixed, 10, 64)
		require.NoError(t, err)
	}
	t.Logf("SLUICE_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// countingTransport counts the writes of a Fake.
type countingTransport struct {
	*Fake
	writes int
}

// Write implements Transport.
func (c *countingTransport) Write(p []byte) (int, error) {
	c.writes++
	return c.Fake.Write(p)
}

func TestOneTickOneWrite(t *testing.T) {
	m := NewManual()
	o := newOwner()
	o.conn = m.NewConn(o, nil)
	counting := &countingTransport{Fake: &Fake{Conn: o.conn, Room: -1}}
	o.conn.Attach(counting)
	for range 20 {
		o.conn.Append([]byte("a reply of thirty-two bytes.....\r\n"))
	}
	require.Zero(t, counting.writes, "written before the end of the tick")
	m.Tick()
	require.Equal(t, 1, counting.writes)
	m.Tick()
	require.Equal(t, 1, counting.writes)
	for range 300 {
		_, _ = o.conn.AppendRef([]byte("a request of some forty bytes, or fifty"))
	}
	m.Tick()
	require.Equal(t, 2, counting.writes)
}

// TestABlockedConnectionIsLeftAlone: no system call is made in vain while the transport takes nothing.
func TestABlockedConnectionIsLeftAlone(t *testing.T) {
	m := NewManual()
	o := newOwner()
	o.conn = m.NewConn(o, nil)
	counting := &countingTransport{Fake: &Fake{Conn: o.conn, Room: 10}}
	o.conn.Attach(counting)
	o.conn.Append([]byte("in the list of this tick already"))
	o.conn.AppendOrWrite(noise(mediumChunk))
	m.Tick()
	require.Equal(t, 1, counting.writes)
	o.conn.Append([]byte("more"))
	o.conn.AppendOrWrite(noise(mediumChunk))
	m.Tick()
	require.Equal(t, 1, counting.writes)
	require.Zero(t, o.drains)
	counting.Allow(-1)
	m.Tick()
	require.Zero(t, o.conn.Pending())
	require.Equal(t, 1, o.drains)
}

// TestAppendOrWriteKeepsItsPlace: it writes at once only what nothing waits in front of.
func TestAppendOrWriteKeepsItsPlace(t *testing.T) {
	m, o, f := faked(t)
	large := noise(mediumChunk)
	o.conn.AppendOrWrite(large)
	require.True(t, bytes.Equal(large, f.Sent), "not written at once")
	o.conn.Append([]byte("first"))
	o.conn.AppendOrWrite(large)
	require.Len(t, f.Sent, len(large))
	m.Tick()
	require.True(t, bytes.Equal(append(append(bytes.Clone(large), "first"...), large...), f.Sent))

	f.Room = 100
	o.conn.AppendOrWrite(large)
	require.Equal(t, len(large)-100, o.conn.Pending())
	f.Allow(-1)
	require.Zero(t, o.conn.Pending())
	require.Equal(t, 1, o.drains)
}

func TestPositionsTellWhatWasWritten(t *testing.T) {
	m, o, f := faked(t)
	f.Room = 7
	o.conn.Append([]byte("0123456789"))
	require.Equal(t, uint64(10), o.conn.Appended())
	require.Zero(t, o.conn.Written())
	m.Tick()
	require.Equal(t, uint64(7), o.conn.Written())
	require.Equal(t, 3, o.conn.Pending())
	o.conn.Close(errors.New("reset"))
	m.Tick()
	require.Equal(t, uint64(7), o.conn.Written(), "what was dropped counts as written")
	require.Equal(t, "0123456", string(f.Sent))
	require.Equal(t, uint64(7), o.traffic.Out)
}

func TestAWriteErrorCloses(t *testing.T) {
	for _, direct := range []bool{false, true} {
		m, o, f := faked(t)
		f.Err = io.EOF
		if direct {
			o.conn.AppendOrWrite(noise(mediumChunk))
		} else {
			o.conn.Append([]byte("x"))
		}
		m.Tick()
		require.Equal(t, io.ErrUnexpectedEOF, <-o.gone)
		require.Equal(t, 1, o.closes)
		require.True(t, f.Closed)
	}
}

// TestAStreamOfBytes plays random appends, short writes, input in random pieces, partial consumption and pauses. Both
// directions must come through whole and in order.
func TestAStreamOfBytes(t *testing.T) {
	random := seeded(t)
	for range 60 {
		m, o, f := faked(t)
		s := &byteStream{random: random, m: m, o: o, f: f}
		o.data = s.consume
		for range 200 {
			s.step(t)
		}
		s.finish(t)
	}
}

type byteStream struct {
	random *rand.Rand
	m      *Manual
	o      *owner
	f      *Fake

	appended, sent, given, consumed []byte
	references                      []*Chunk
}

func (s *byteStream) bytes() []byte {
	size := s.random.IntN(200)
	switch s.random.IntN(20) {
	case 0:
		size = s.random.IntN(300_000)
	case 1, 2:
		size = s.random.IntN(20_000)
	}
	b := make([]byte, size)
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], s.random.Uint64())
	_, _ = rand.NewChaCha8(key).Read(b)
	return b
}

// consume is Data: it takes what it likes and holds the rest against what it has seen.
func (s *byteStream) consume(b []byte) int {
	if !bytes.Equal(s.given[len(s.consumed):], b) {
		panic("input was lost, doubled or changed")
	}
	if s.random.IntN(4) == 0 {
		s.o.conn.Expect(s.random.IntN(500_000))
	}
	if s.random.IntN(8) == 0 {
		s.o.conn.Pause()
	}
	n := 0
	switch s.random.IntN(3) {
	case 0:
		n = len(b)
	case 1:
		n = s.random.IntN(len(b) + 1)
	}
	s.consumed = append(s.consumed, b[:n]...)
	return n
}

func (s *byteStream) step(t *testing.T) {
	c := s.o.conn
	switch s.random.IntN(8) {
	case 0:
		b := s.bytes()
		s.appended = append(s.appended, b...)
		c.Append(b)
	case 1:
		b := s.bytes()
		s.appended = append(s.appended, b...)
		c.AppendOrWrite(b)
	case 2:
		b := s.bytes()
		s.appended = append(s.appended, b...)
		k, off := c.AppendRef(b)
		require.True(t, bytes.Equal(b, k.Bytes(off, len(b))))
		s.references = append(s.references, k)
	case 3:
		s.m.Tick()
	case 4:
		s.f.Allow(s.random.IntN(50_000))
	case 5:
		if s.f.Reading && s.random.IntN(2) == 0 {
			s.receive()
		}
	case 6:
		c.Resume()
		s.m.Tick()
	default:
		if i := len(s.references); i > 0 {
			i = s.random.IntN(i)
			c.Release(s.references[i])
			s.references = append(s.references[:i], s.references[i+1:]...)
		}
	}
	s.take(t)
}

// receive gives one read's worth of input.
func (s *byteStream) receive() {
	buf, tail, own := s.o.conn.inputBuffer()
	b := s.bytes()
	if n := copy(buf[tail:], b); n > 0 {
		s.given = append(s.given, b[:n]...)
		s.o.conn.received(buf, tail, n, own)
	}
}

func (s *byteStream) take(t *testing.T) {
	s.sent = append(s.sent, s.f.Sent...)
	s.f.Sent = s.f.Sent[:0]
	c := s.o.conn
	require.Equal(t, len(s.appended)-len(s.sent), c.Pending())
	require.Equal(t, uint64(len(s.sent)), c.Written())
}

func (s *byteStream) finish(t *testing.T) {
	s.f.Allow(-1)
	s.m.Tick()
	s.take(t)
	require.True(t, bytes.Equal(s.appended, s.sent))
	s.o.conn.Close(nil)
	s.m.Tick()
	for _, k := range s.references {
		s.m.Release(k)
	}
	if len(s.references) > 0 && s.references[0].class >= 0 {
		requireAllFree(t, s.m, s.references[0])
	}
	require.True(t, bytes.HasPrefix(s.given, s.consumed))
	require.Equal(t, 1, s.o.closes)
}
