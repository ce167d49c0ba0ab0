package loop

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestNoWakeIsLost lets wakes come while the loop takes earlier ones. A wake that came between the two steps of taking
// and was lost would be the last one that the poller ever sees.
func TestNoWakeIsLost(t *testing.T) {
	l := newLoop(0, monotonic)
	made, err := newPoller(l)
	require.NoError(t, err)
	p := made.(*epoll)
	var enough atomic.Bool
	var wakers sync.WaitGroup
	for range 2 {
		wakers.Go(func() {
			for !enough.Load() {
				p.wake()
			}
		})
	}
	for range 50_000 {
		n, err := unix.EpollWait(p.fd, p.events[:], int(patience.Milliseconds()))
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if n != 1 {
			enough.Store(true)
			require.FailNow(t, "a wake was lost", "%v", err)
		}
		p.dispatch(&p.events[0])
	}
	enough.Store(true)
	wakers.Wait()
	p.close()
}

// TestWakeAfterCloseTouchesNoDescriptor: a goroutine may post to a loop that has stopped, when the number of the loop's
// eventfd belongs to something else.
func TestWakeAfterCloseTouchesNoDescriptor(t *testing.T) {
	for _, pending := range []bool{false, true} {
		made, err := newPoller(newLoop(0, monotonic))
		require.NoError(t, err)
		p := made.(*epoll)
		if pending {
			p.wake()
		}
		p.close()
		reused, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
		require.NoError(t, err)
		if reused != p.wakeFD {
			require.NoError(t, unix.Dup3(reused, p.wakeFD, unix.O_CLOEXEC))
			require.NoError(t, unix.Close(reused))
		}
		p.wake()
		_, errno := rawRead(p.wakeFD, make([]byte, 8))
		require.Equal(t, unix.EAGAIN, errno)
		require.NoError(t, unix.Close(p.wakeFD))
	}
}
