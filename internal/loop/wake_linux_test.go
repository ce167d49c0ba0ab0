package loop

import (
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
	for range 200_000 {
		n, err := unix.EpollWait(p.fd, p.events[:], int(patience.Milliseconds()))
		if err == unix.EINTR { //nolint:errorlint // system calls return errors as they are
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
