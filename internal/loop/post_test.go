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
	if _, isTest := t.(*testing.T); isTest { // a benchmark has goroutines of its own
		t.Cleanup(func() { goleak.VerifyNone(t) })
	}
	return another(t)
}

// another is started for one more loop of a test.
func another(t testing.TB) *Loop {
	t.Helper()
	l, err := New(0)
	require.NoError(t, err)
	t.Cleanup(func() {
		stopped := make(chan struct{})
		go func() {
			l.Stop()
			l.Wait()
			close(stopped)
		}()
		arrives(t, stopped, "the end of the loop")
	})
	l.Start()
	return l
}

// onLoop runs fn while the loop stands still, as if on it; but fn may end the test, which no function on a loop may.
func onLoop(t testing.TB, l *Loop, fn func()) {
	t.Helper()
	still, goOn := make(chan struct{}), make(chan struct{})
	l.Post(func() {
		close(still)
		<-goOn
	})
	arrives(t, still, "the loop's attention")
	defer close(goOn)
	fn()
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

func TestCallAfterStop(t *testing.T) {
	l := started(t)
	l.Stop()
	l.Stop()
	l.Wait()
	require.False(t, l.Call(func() { panic("runs on a loop that has stopped") }))
	l.Post(func() { panic("runs on a loop that has stopped") })
}

func TestStopOfALoopThatNeverRan(t *testing.T) {
	l, err := New(7)
	require.NoError(t, err)
	require.Equal(t, 7, l.ID())
	var order []string
	l.OnStop(func() { order = append(order, "first") })
	l.OnStop(func() { order = append(order, "second") })
	l.Stop()
	l.Wait()
	require.Equal(t, []string{"first", "second"}, order)
	goleak.VerifyNone(t)
}

// TestPostFromTheLoop runs what a posted function posts, in a later tick.
func TestPostFromTheLoop(t *testing.T) {
	l := started(t)
	done := make(chan int64, 1)
	depth := 0
	var again func()
	again = func() {
		if depth++; depth == 100 {
			done <- 0
			return
		}
		l.Post(again)
	}
	l.Post(again)
	arrives(t, done, "the last post")
}
