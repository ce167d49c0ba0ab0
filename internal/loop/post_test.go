package loop

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// patience is how long a test waits for what must come.
const patience = 20 * time.Second

// started returns a running loop that is stopped, and waited for, at the end of the test. Every such test is a leak check.
func started(t testing.TB) *Loop {
	t.Helper()
	l, err := New(0)
	require.NoError(t, err)
	t.Cleanup(func() { goleak.VerifyNone(t) })
	t.Cleanup(func() {
		l.Stop()
		l.Wait()
	})
	l.Start()
	return l
}

// onLoop runs fn on the loop and waits for it.
func onLoop(t testing.TB, l *Loop, fn func()) {
	t.Helper()
	require.True(t, l.Call(fn), "the loop has stopped")
}

// arrives waits for one value.
func arrives[T any](t testing.TB, from <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(patience):
		require.FailNow(t, "did not come: "+what)
		panic("unreachable")
	}
}

func TestPostsRunInTheirOrder(t *testing.T) {
	l := started(t)
	const each = 2000
	got := map[int][]int{}
	var posters sync.WaitGroup
	for poster := range 8 {
		posters.Go(func() {
			for i := range each {
				l.Post(func() { got[poster] = append(got[poster], i) })
			}
		})
	}
	posters.Wait()
	onLoop(t, l, func() {
		require.Len(t, got, 8)
		for _, sequence := range got {
			require.Len(t, sequence, each)
			require.IsIncreasing(t, sequence)
		}
	})
}

// TestEveryPostWakesTheLoop would hang if a wake could be lost between the loop's look at the posts and its next wait:
// each goroutine waits for its own post, so that the loop is about to sleep all the time.
func TestEveryPostWakesTheLoop(t *testing.T) {
	l := started(t)
	const callers, calls = 4, 20_000
	finished := make(chan bool, callers)
	for range callers {
		go func() {
			ok := true
			for range calls {
				ok = ok && l.Call(func() {})
			}
			finished <- ok
		}()
	}
	for range callers {
		require.True(t, arrives(t, finished, "the end of a caller: a wake was lost"))
	}
}
