package loop

import (
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// socketPair returns two connected non-blocking sockets.
func socketPair(t testing.TB) (near, far int) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	return fds[0], fds[1]
}

// TestDescriptorReuseWithinATick has two sockets ready in one wait. The owner of the one that comes first closes the
// other, whose number goes to a new connection at once; the event of the old one must not reach the new one.
func TestDescriptorReuseWithinATick(t *testing.T) {
	l := started(t)
	fresh := newOwner()
	freshNear, freshFar := socketPair(t)
	owners := [2]*owner{newOwner(), newOwner()}
	var near, far [2]int
	onLoop(t, l, func() {
		for i := range owners {
			near[i], far[i] = socketPair(t)
			o := owners[i]
			o.conn = l.NewConn(o, nil)
			o.data = func(b []byte) int {
				replace(t, l, owners[1-i].conn, near[1-i], fresh, freshNear)
				return len(b)
			}
			require.NoError(t, l.AttachFD(o.conn, near[i]))
			_, err := unix.Write(far[i], []byte("x"))
			require.NoError(t, err)
			require.NoError(t, unix.Close(far[i])) // the event carries the hang-up too
		}
	})
	for range 5 {
		onLoop(t, l, func() {})
	}
	onLoop(t, l, func() {
		require.NotNil(t, fresh.conn)
		require.False(t, fresh.conn.Closed(), "an event of the number's former owner was delivered")
		require.Zero(t, fresh.closes+fresh.ends)
		fresh.conn.Resume()
	})
	got := make(chan string, 1)
	onLoop(t, l, func() { fresh.data = func(b []byte) int { got <- string(b); return len(b) } })
	_, err := unix.Write(freshFar, []byte("mine"))
	require.NoError(t, err)
	require.Equal(t, "mine", arrives(t, got, "Data"))
	require.NoError(t, unix.Close(freshFar))
}

// replace closes old, whose descriptor is number, and gives fd, under that number, to fresh. It does nothing the second
// time.
func replace(t testing.TB, l *Loop, old *Conn, number int, fresh *owner, fd int) {
	if fresh.conn != nil {
		return
	}
	old.Close(nil)
	require.NoError(t, unix.Dup3(fd, number, unix.O_CLOEXEC))
	require.NoError(t, unix.Close(fd))
	fresh.conn = l.NewConn(fresh, nil)
	require.NoError(t, l.AttachFD(fresh.conn, number))
	fresh.conn.Pause() // a hang-up would close it
}

// TestCyclesLeaveNothing connects and disconnects many clients, some of which leave without a word.
func TestCyclesLeaveNothing(t *testing.T) {
	const clients, cycles = 8, 10_000
	l := started(t)
	listener, err := net.Listen("unix", t.TempDir()+"/socket")
	require.NoError(t, err)
	defer listener.Close()
	raw, err := listener.(*net.UnixListener).File()
	require.NoError(t, err)
	defer raw.Close()
	var open int
	onLoop(t, l, func() {
		stop, err := l.Listen(int(raw.Fd()), func(fd int, _ unix.Sockaddr, err error) {
			require.NoError(t, err)
			o := echo()
			o.conn = l.NewConn(o, nil)
			o.closed = func(error) { open-- }
			open++
			require.NoError(t, l.AttachFD(o.conn, fd))
		})
		require.NoError(t, err)
		l.OnStop(stop)
	})
	cycle := func(n int) {
		var all sync.WaitGroup
		for range clients {
			all.Go(func() {
				for i := range n / clients {
					oneVisit(t, listener.Addr().String(), i)
				}
			})
		}
		all.Wait()
		for left := 1; left > 0; {
			onLoop(t, l, func() { left = open })
		}
	}
	cycle(cycles / 10)
	before := measure(t)
	cycle(cycles)
	after := measure(t)
	require.LessOrEqual(t, after.goroutines, before.goroutines)
	require.LessOrEqual(t, after.descriptors, before.descriptors)
	require.Less(t, after.heap, before.heap+256<<10)
}

func oneVisit(t testing.TB, address string, i int) {
	c, err := net.Dial("unix", address)
	if err != nil {
		t.Errorf("cannot connect: %v", err)
		return
	}
	defer c.Close()
	message := []byte(fmt.Sprint("hello ", i))
	if i%8 == 0 {
		return
	}
	if _, err := c.Write(message); err != nil || i%8 == 1 {
		return
	}
	if _, err := io.ReadFull(c, message); err != nil {
		t.Errorf("no echo: %v", err)
	}
}

type footprint struct{ goroutines, descriptors, heap int }

func measure(t testing.TB) footprint {
	open, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return footprint{goroutines: runtime.NumGoroutine(), descriptors: len(open), heap: int(m.HeapAlloc)}
}

// TestStreamCyclesLeaveNothing is the same for the transport that has goroutines.
func TestStreamCyclesLeaveNothing(t *testing.T) {
	l := started(t)
	visit := func() {
		near, far := net.Pipe()
		o := echo()
		onLoop(t, l, func() {
			o.conn = l.NewConn(o, nil)
			l.AttachStream(o.conn, near)
		})
		require.NoError(t, arrives(t, send(far, []byte("x"), 1), "end of sending"))
		receive(t, far, 1)
		far.Close()
		_ = arrives(t, o.gone, "Closed")
	}
	for range 100 {
		visit()
	}
	before := measure(t)
	for range 2000 {
		visit()
	}
	// The last reader may still be on its way out.
	for deadline := time.Now().Add(patience); measure(t).goroutines > before.goroutines && time.Now().Before(deadline); {
		runtime.Gosched()
	}
	after := measure(t)
	require.LessOrEqual(t, after.goroutines, before.goroutines)
	require.Less(t, after.heap, before.heap+256<<10)
	onLoop(t, l, func() { require.Empty(t, l.streams) })
}

// TestDetachMovesAConnection takes a connection, with input that nobody consumed, from one loop to another.
func TestDetachMovesAConnection(t *testing.T) {
	from, to := started(t), another(t)
	near, far := unixPair(t)
	defer far.Close()
	require.NoError(t, far.SetDeadline(time.Now().Add(patience)))
	fd, _, err := TakeDescriptor(near)
	require.NoError(t, err)

	o := newOwner()
	seen := make(chan string, 4)
	o.data = func(b []byte) int {
		_, _, ok := o.conn.Detach()
		require.False(t, ok, "detached while Data runs")
		seen <- string(b)
		return 2
	}
	onLoop(t, from, func() {
		o.conn = from.NewConn(o, nil)
		_, _, ok := o.conn.Detach()
		require.False(t, ok, "there is no transport yet")
		require.NoError(t, from.AttachFD(o.conn, fd))
	})
	require.NoError(t, arrives(t, send(far, []byte("abcd"), 4), "end of sending"))
	require.Equal(t, "abcd", arrives(t, seen, "Data"))

	var moved int
	var unread []byte
	onLoop(t, from, func() {
		o.conn.Append([]byte("<"))
		_, _, ok := o.conn.Detach()
		require.False(t, ok, "output waits")
	})
	receive(t, far, 1)
	onLoop(t, from, func() {
		var ok bool
		moved, unread, ok = o.conn.Detach()
		require.True(t, ok)
		_, _, ok = o.conn.Detach()
		require.False(t, ok, "detached twice")
	})
	require.Equal(t, "cd", string(unread))

	next := echo()
	onLoop(t, to, func() {
		next.conn = to.NewConn(next, nil)
		next.conn.Append(unread)
		require.NoError(t, to.AttachFD(next.conn, moved))
	})
	require.NoError(t, arrives(t, send(far, []byte("ef"), 2), "end of sending"))
	require.Equal(t, "cdef", string(receive(t, far, 4)))
	onLoop(t, from, func() { require.Zero(t, o.closes, "Closed after Detach") })
	far.Close()
	require.NoError(t, next.closesOnce(t, to))
}

func TestTakeDescriptorLeavesOthersAlone(t *testing.T) {
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	_, ok, err := TakeDescriptor(near)
	require.NoError(t, err)
	require.False(t, ok)

	tcp, peer := tcpPair(t)
	defer peer.Close()
	tcp.Close()
	_, _, err = TakeDescriptor(tcp)
	require.Error(t, err)
}

// TestAttachFDClosesWhatItCannotWatch: an ordinary file has no events.
func TestAttachFDClosesWhatItCannotWatch(t *testing.T) {
	l := started(t)
	fd, err := unix.Open(t.TempDir(), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	o := newOwner()
	onLoop(t, l, func() {
		o.conn = l.NewConn(o, nil)
		require.ErrorIs(t, l.AttachFD(o.conn, fd), syscall.EPERM)
		require.False(t, o.conn.Attached())
		o.conn.Close(nil)
	})
	require.Equal(t, unix.EBADF, unix.Close(fd))
	require.NoError(t, o.closesOnce(t, l))
}

// TestListenStops also while connections wait to be accepted.
func TestListenStops(t *testing.T) {
	l := started(t)
	listener, err := net.Listen("unix", t.TempDir()+"/socket")
	require.NoError(t, err)
	defer listener.Close()
	raw, err := listener.(*net.UnixListener).File()
	require.NoError(t, err)
	defer raw.Close()
	for range 3 {
		c, err := net.Dial("unix", listener.Addr().String())
		require.NoError(t, err)
		t.Cleanup(func() { c.Close() })
	}
	accepted := 0
	onLoop(t, l, func() {
		var stop func()
		stop, err = l.Listen(int(raw.Fd()), func(fd int, _ unix.Sockaddr, err error) {
			require.NoError(t, err)
			require.NoError(t, unix.Close(fd))
			accepted++
			stop()
			stop()
		})
		require.NoError(t, err)
	})
	for range 3 {
		onLoop(t, l, func() {})
	}
	onLoop(t, l, func() { require.Equal(t, 1, accepted) })
}

// TestEchoAllocatesNothing is the budget of the hot path: read, deliver, append, write.
func TestEchoAllocatesNothing(t *testing.T) {
	visit := echoOverSocketPair(t)
	require.Zero(t, testing.AllocsPerRun(2000, visit))
}

// BenchmarkEcho is one small message there and back, with both sides taking turns.
func BenchmarkEcho(b *testing.B) {
	visit := echoOverSocketPair(b)
	b.ReportAllocs()
	for b.Loop() {
		visit()
	}
}

// echoOverSocketPair returns a function that sends a small message through a loop and waits for it to come back.
func echoOverSocketPair(t testing.TB) func() {
	l := started(t)
	near, far := socketPair(t)
	t.Cleanup(func() { _ = unix.Close(far) })
	require.NoError(t, unix.SetNonblock(far, false))
	onLoop(t, l, func() {
		o := echo()
		o.conn = l.NewConn(o, nil)
		require.NoError(t, l.AttachFD(o.conn, near))
	})
	message, reply := []byte("*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n"), make([]byte, 64)
	return func() {
		if _, err := unix.Write(far, message); err != nil {
			t.Fatal(err)
		}
		for got := 0; got < len(message); {
			n, err := unix.Read(far, reply[got:])
			if err != nil || n == 0 {
				t.Fatal(n, err)
			}
			got += n
		}
	}
}
