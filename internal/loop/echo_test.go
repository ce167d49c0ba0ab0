package loop

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

// noise returns n bytes that are the same in every run.
func noise(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{byte(n)}).Read(b)
	return b
}

// send writes b in the background, in pieces; the returned channel tells the outcome.
func send(to net.Conn, b []byte, piece int) <-chan error {
	sent := make(chan error, 1)
	go func() {
		for len(b) > 0 {
			n := min(piece, len(b))
			if _, err := to.Write(b[:n]); err != nil {
				sent <- err
				return
			}
			b = b[n:]
		}
		sent <- nil
	}()
	return sent
}

// receive reads n bytes.
func receive(t testing.TB, from net.Conn, n int) []byte {
	t.Helper()
	b := make([]byte, n)
	read, err := io.ReadFull(from, b)
	require.NoError(t, err, "after %d of %d bytes", read, n)
	return b
}

func TestEchoInPiecesOfAnySize(t *testing.T) {
	overEach(t, func(t *testing.T, l *Loop, kind transportKind) {
		for _, c := range []struct{ size, piece int }{{1, 1}, {300, 1}, {5000, 17}, {1 << 20, 40_000}, {4 << 20, 4 << 20}} {
			o := echo()
			peer := kind.connect(t, l, o)
			want := noise(c.size)
			sent := send(peer, want, c.piece)
			require.True(t, bytes.Equal(want, receive(t, peer, c.size)), "%d bytes in pieces of %d", c.size, c.piece)
			require.NoError(t, arrives(t, sent, "end of sending"))
			onLoop(t, l, func() {
				require.Equal(t, Traffic{In: uint64(c.size), Out: uint64(c.size)}, o.traffic)
				require.Zero(t, o.conn.Pending())
				require.Zero(t, o.conn.Unread())
				require.Equal(t, o.conn.Appended(), o.conn.Written())
			})
			peer.Close()
			_ = o.closesOnce(t, l) // a pipe's write may fail on the way; what counts is the end
		}
	})
}

// TestUnconsumedInputIsGivenAgain has a handler that takes whole messages only, smaller and larger than what lies in the
// scratch buffer, and with and without telling how much it expects.
func TestUnconsumedInputIsGivenAgain(t *testing.T) {
	overEach(t, func(t *testing.T, l *Loop, kind transportKind) {
		for _, message := range []int{100, tailInPlace + 1, scratchSize, scratchSize + 1, 1 << 20} {
			for _, hint := range []int{0, message} {
				takesWholeMessages(t, l, kind, message, hint)
			}
		}
	})
}

func takesWholeMessages(t *testing.T, l *Loop, kind transportKind, message, hint int) {
	const messages = 3
	want := noise(messages*message + 1)
	var got []byte
	o := newOwner()
	longest := 0
	o.data = func(b []byte) int {
		longest = max(longest, len(b))
		o.conn.Expect(hint)
		n := len(b) / message * message
		got = append(got, b[:n]...)
		if len(got) == messages*message {
			o.conn.Append([]byte("!"))
		}
		return n
	}
	peer := kind.connect(t, l, o)
	sent := send(peer, want, 50_000)
	receive(t, peer, 1)
	require.NoError(t, arrives(t, sent, "end of sending"))
	onLoop(t, l, func() {
		require.True(t, bytes.Equal(want[:messages*message], got), "messages of %d", message)
		require.GreaterOrEqual(t, longest, message)
	})
	peer.Close()
	_ = o.closesOnce(t, l)
}

// TestExpectSavesCopies checks that a long message lies in one buffer from when its length is believed.
func TestExpectSavesCopies(t *testing.T) {
	const message = 1 << 20
	m := NewManual()
	o := newOwner()
	o.data = func(b []byte) int {
		o.conn.Expect(message)
		return len(b) / message * message
	}
	o.conn = m.NewConn(o, nil)
	f := m.AttachFake(o.conn)

	f.Receive(noise(40))
	require.LessOrEqual(t, cap(o.conn.in), 64, "a header alone reserves memory")
	f.Receive(noise(scratchSize - 40))
	buffer := &o.conn.in[0]
	require.Equal(t, message, cap(o.conn.in))
	for o.conn.Unread() < message-1000 {
		f.Receive(noise(1000))
		require.Same(t, buffer, &o.conn.in[0], "copied at %d", o.conn.Unread())
	}
	f.Receive(noise(message - o.conn.Unread()))
	require.Zero(t, o.conn.Unread())
	require.Nil(t, o.conn.in, "an idle connection holds a buffer")
}

// TestAHintReservesLittle is about a peer that announces much and sends little.
func TestAHintReservesLittle(t *testing.T) {
	m := NewManual()
	o := newOwner()
	o.data = func([]byte) int {
		o.conn.Expect(1 << 30)
		return 0
	}
	o.conn = m.NewConn(o, nil)
	f := m.AttachFake(o.conn)
	for sent := 0; sent < 1<<20; sent += 10_000 {
		f.Receive(noise(10_000))
		require.LessOrEqual(t, cap(o.conn.in), hintFactor*o.conn.Unread())
	}
}
