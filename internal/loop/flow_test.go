package loop

import (
	"bytes"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPeerThatDoesNotRead is about output that the transport does not take: the owner learns once when it is gone.
func TestPeerThatDoesNotRead(t *testing.T) {
	const size = 32 << 20
	overEach(t, func(t *testing.T, l *Loop, kind transportKind) {
		o := newOwner()
		peer := kind.connect(t, l, o)
		want := noise(size)
		onLoop(t, l, func() { o.conn.Append(want) })
		for range 3 { // whatever the sockets take, it is less than this
			onLoop(t, l, func() {
				require.NotZero(t, o.conn.Pending())
				require.Zero(t, o.drains)
			})
		}
		require.True(t, bytes.Equal(want, receive(t, peer, size)))
		drained := make(chan struct{}, 1)
		onLoop(t, l, func() {
			if o.drained = func() { drained <- struct{}{} }; o.drains > 0 {
				o.drained()
			}
		})
		arrives(t, drained, "Drained")
		onLoop(t, l, func() {
			require.Zero(t, o.conn.Pending())
			require.Equal(t, 1, o.drains)
			o.conn.Append([]byte("small"))
		})
		require.Equal(t, "small", string(receive(t, peer, 5)))
		onLoop(t, l, func() {
			require.Equal(t, 1, o.drains, "Drained although nothing was held back")
			o.conn.Close(nil)
		})
		require.NoError(t, o.closesOnce(t, l))
	})
}

// TestProducerStaysWithinItsBound sends on each Drained as much as it may have pending.
func TestProducerStaysWithinItsBound(t *testing.T) {
	const bound, size = 1 << 20, 24 << 20
	overEach(t, func(t *testing.T, l *Loop, kind transportKind) {
		o := newOwner()
		want := noise(size)
		most := 0
		produce := func() {
			for o.conn.Pending() < bound && int(o.conn.Appended()) < size {
				at := int(o.conn.Appended())
				o.conn.AppendOrWrite(want[at:min(size, at+50_000)])
				most = max(most, o.conn.Pending())
			}
			if int(o.conn.Appended()) == size {
				o.conn.CloseFlushed()
			}
		}
		o.drained = produce
		peer := kind.connect(t, l, o)
		onLoop(t, l, produce)
		require.True(t, bytes.Equal(want, receive(t, peer, size)))
		peer.Close()
		_ = o.closesOnce(t, l)
		onLoop(t, l, func() { require.LessOrEqual(t, most, bound+50_000) })
	})
}

// TestPauseHoldsInputBack also covers what had been delivered and was not consumed: Resume gives it again by itself.
func TestPauseHoldsInputBack(t *testing.T) {
	overEach(t, func(t *testing.T, l *Loop, kind transportKind) {
		var got []byte
		o := newOwner()
		paused := make(chan struct{}, 1)
		o.data = func(b []byte) int {
			if got == nil {
				got = append(got, b[0])
				o.conn.Pause()
				o.conn.Pause()
				paused <- struct{}{}
				return 1
			}
			got = append(got, b...)
			o.conn.Append([]byte("."))
			return len(b)
		}
		peer := kind.connect(t, l, o)
		want := noise(300_000)
		sent := send(peer, want, 1000)
		arrives(t, paused, "the first byte")
		for range 5 {
			onLoop(t, l, func() { require.Len(t, got, 1, "delivered while paused") })
		}
		onLoop(t, l, func() {
			require.LessOrEqual(t, o.conn.Unread(), scratchSize+streamReadSize, "more than what was under way is held")
			o.conn.Resume()
		})
		readAway(peer)
		require.NoError(t, arrives(t, sent, "end of sending"))
		for length := 0; length < len(want); {
			onLoop(t, l, func() { length = len(got) })
		}
		onLoop(t, l, func() {
			require.True(t, bytes.Equal(want, got))
			o.conn.Close(nil)
		})
		_ = o.closesOnce(t, l)
	})
}

// readAway reads and drops until the connection ends.
func readAway(from net.Conn) {
	go func() {
		b := make([]byte, 4096)
		for {
			if _, err := from.Read(b); err != nil {
				return
			}
		}
	}()
}

// TestResumeRedeliversWithoutNewInput covers input that was left unconsumed although nothing more comes.
func TestResumeRedeliversWithoutNewInput(t *testing.T) {
	overEach(t, func(t *testing.T, l *Loop, kind transportKind) {
		o := newOwner()
		given := make(chan string, 8)
		consume := false
		o.data = func(b []byte) int {
			given <- string(b)
			if !consume {
				o.conn.Pause()
				return 0
			}
			return len(b)
		}
		peer := kind.connect(t, l, o)
		require.NoError(t, arrives(t, send(peer, []byte("wait"), 4), "end of sending"))
		require.Equal(t, "wait", arrives(t, given, "Data"))
		onLoop(t, l, func() {
			consume = true
			o.conn.Resume()
		})
		require.Equal(t, "wait", arrives(t, given, "Data again"))
		onLoop(t, l, func() {
			require.Zero(t, o.conn.Unread())
			require.Empty(t, given)
		})
	})
}
