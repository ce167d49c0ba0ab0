package loop

import (
	"bytes"
	"errors"
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

// endWrite ends the peer's sending; its receiving goes on where the connection can do that.
func endWrite(t testing.TB, peer net.Conn) {
	t.Helper()
	half, ok := peer.(interface{ CloseWrite() error })
	require.True(t, ok)
	require.NoError(t, half.CloseWrite())
}

// readToEnd reads until the end of the stream and returns what came.
func readToEnd(t testing.TB, from net.Conn) []byte {
	t.Helper()
	b, err := io.ReadAll(from)
	require.NoError(t, err)
	return b
}

func TestWritingGoesOnAfterThePeerHasFinishedSending(t *testing.T) {
	const size = 3 << 20
	overEach(t, func(t *testing.T, l *Loop, kind transportKind) {
		if !kind.halves {
			t.Skip("both directions end together")
		}
		o := newOwner()
		want := noise(size)
		o.eof = func() {
			o.conn.Append(want[:size/2])
			l.Post(func() {
				o.conn.Append(want[size/2:])
				o.conn.CloseFlushed()
			})
		}
		peer := kind.connect(t, l, o)
		require.NoError(t, arrives(t, send(peer, []byte("all"), 3), "end of sending"))
		endWrite(t, peer)
		require.True(t, bytes.Equal(want, readToEnd(t, peer)))
		require.NoError(t, o.closesOnce(t, l))
		onLoop(t, l, func() { require.Equal(t, 1, o.ends, "calls of EOF") })
	})
}

// TestCloseFlushedSendsWhatIsOwed has a peer that goes on sending, more than the sockets hold, and reads afterwards.
func TestCloseFlushedSendsWhatIsOwed(t *testing.T) {
	const size = 4 << 20
	overEach(t, func(t *testing.T, l *Loop, kind transportKind) {
		for _, pausedBefore := range []bool{false, true} {
			o := newOwner()
			want := noise(size)
			o.data = func(b []byte) int {
				o.conn.Append(want)
				if pausedBefore {
					o.conn.Pause()
				}
				o.conn.CloseFlushed()
				o.conn.CloseFlushed()
				return len(b)
			}
			peer := kind.connect(t, l, o)
			if kind.name == "stream pipe" { // its one write is taken by one read
				require.NoError(t, arrives(t, send(peer, []byte("x"), 1), "end of sending"))
			} else {
				require.NoError(t, arrives(t, send(peer, noise(16<<20), 1<<20), "end of sending"))
				endWrite(t, peer)
			}
			require.True(t, bytes.Equal(want, readToEnd(t, peer)))
			require.NoError(t, o.closesOnce(t, l))
		}
	})
}

func TestCloseFlushedWithNothingOwed(t *testing.T) {
	overEach(t, func(t *testing.T, l *Loop, kind transportKind) {
		o := newOwner()
		peer := kind.connect(t, l, o)
		onLoop(t, l, func() { o.conn.CloseFlushed() })
		require.Empty(t, readToEnd(t, peer))
		peer.Close()
		require.NoError(t, o.closesOnce(t, l))
	})
}

func TestCloseInEachCallback(t *testing.T) {
	reason := errors.New("enough")
	callbacks := map[string]func(o *owner, closing func()){
		"Data": func(o *owner, closing func()) {
			o.data = func([]byte) int { closing(); return 0 }
		},
		"Data, all consumed": func(o *owner, closing func()) {
			o.data = func(b []byte) int { closing(); return len(b) }
		},
		"Drained": func(o *owner, closing func()) {
			o.data = func(b []byte) int { o.conn.Append(noise(32 << 20)); return len(b) }
			o.drained = closing
		},
		"EOF": func(o *owner, closing func()) { o.eof = closing },
	}
	overEach(t, func(t *testing.T, l *Loop, kind transportKind) {
		for name, set := range callbacks {
			t.Run(name, func(t *testing.T) {
				o := newOwner()
				set(o, func() {
					o.conn.Append([]byte("dropped"))
					o.conn.Close(reason)
					o.conn.Close(nil)
					o.conn.CloseFlushed()
					o.conn.Pause()
					o.conn.Resume()
					o.conn.Again()
				})
				o.closed = func(error) {
					require.True(t, o.conn.Closed())
					o.conn.Close(nil)
					o.conn.Append([]byte("dropped"))
				}
				peer := kind.connect(t, l, o)
				require.NoError(t, arrives(t, send(peer, []byte("go"), 2), "end of sending"))
				if name == "Drained" { // what the peer does not read is more than the system takes
					for blocked := false; !blocked; {
						onLoop(t, l, func() { blocked = o.conn.blocked })
					}
				}
				if name == "EOF" {
					if !kind.halves {
						peer.Close()
					} else {
						endWrite(t, peer)
					}
				} else {
					_, _ = io.Copy(io.Discard, peer) // ends, because the loop closed
				}
				require.Equal(t, reason, o.closesOnce(t, l))
			})
		}
	})
}

func TestPeerGoesAway(t *testing.T) {
	overEach(t, func(t *testing.T, l *Loop, kind transportKind) {
		o := newOwner()
		o.eof = func() {} // a pipe's end says that nothing can be written any more; a socket's does not
		peer := kind.connect(t, l, o)
		if tcp, ok := peer.(*net.TCPConn); ok {
			require.NoError(t, tcp.SetLinger(0))
		}
		require.NoError(t, arrives(t, send(peer, []byte("x"), 1), "end of sending"))
		peer.Close()
		onLoop(t, l, func() { o.conn.Append(noise(1 << 20)) })
		for i := 0; len(o.gone) == 0; i++ { // the first write may still be taken by the system
			onLoop(t, l, func() { o.conn.Append([]byte("x")) })
		}
		require.Error(t, o.closesOnce(t, l))
	})
}

// TestStopClosesWhatIsLeft has owners that do not close by themselves when their loop stops.
func TestStopClosesWhatIsLeft(t *testing.T) {
	overEach(t, func(t *testing.T, l *Loop, kind transportKind) {
		first, second := newOwner(), newOwner()
		far := kind.connect(t, l, first)
		_ = kind.connect(t, l, second)
		onLoop(t, l, func() {
			l.OnStop(func() { second.conn.Close(nil) })
		})
		l.Stop()
		l.Wait()
		require.Equal(t, ErrClosed, <-first.gone)
		require.NoError(t, <-second.gone)
		require.Equal(t, 1, first.closes)
		require.Equal(t, 1, second.closes)
		_, err := far.Read(make([]byte, 1))
		require.ErrorIs(t, err, io.EOF)
	})
}

// TestStopSendsWhatIsOwed is a drain: the loop stops while connections still owe output.
func TestStopSendsWhatIsOwed(t *testing.T) {
	overEach(t, func(t *testing.T, l *Loop, kind transportKind) {
		o := newOwner()
		peer := kind.connect(t, l, o)
		want := noise(60_000)
		onLoop(t, l, func() {
			o.conn.Append(want)
			o.conn.CloseFlushed()
		})
		l.Stop()
		require.True(t, bytes.Equal(want, readToEnd(t, peer)))
		l.Wait()
	})
}

func TestAttachAfterClose(t *testing.T) {
	overEach(t, func(t *testing.T, l *Loop, kind transportKind) {
		o := newOwner()
		onLoop(t, l, func() {
			o.conn = l.NewConn(o, nil)
			o.conn.Append([]byte("never sent"))
			o.conn.Close(nil)
		})
		require.NoError(t, o.closesOnce(t, l))
		near, far := kind.pair(t)
		defer far.Close()
		onLoop(t, l, func() { kind.attach(t, o.conn, near) })
		require.Empty(t, readToEnd(t, far))
	})
}

// TestOutputWaitsForTheTransport is about a connection that is still being made.
func TestOutputWaitsForTheTransport(t *testing.T) {
	overEach(t, func(t *testing.T, l *Loop, kind transportKind) {
		o := newOwner()
		drained := make(chan struct{}, 4)
		o.drained = func() { drained <- struct{}{} }
		onLoop(t, l, func() {
			o.conn = l.NewConn(o, nil)
			o.conn.Append([]byte("early"))
			require.False(t, o.conn.Attached())
		})
		near, far := kind.pair(t)
		defer far.Close()
		onLoop(t, l, func() {
			require.Equal(t, 5, o.conn.Pending())
			kind.attach(t, o.conn, near)
			o.conn.Append([]byte(" bird"))
		})
		require.Equal(t, "early bird", string(receive(t, far, 10)))
		arrives(t, drained, "Drained")
		onLoop(t, l, func() { o.conn.Close(nil) })
		require.NoError(t, o.closesOnce(t, l))
	})
}
