package loop

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTimersRunInTheirOrder(t *testing.T) {
	m := NewManual()
	var ran []int
	for _, ms := range []int{30, 10, 20, 10, 0} {
		m.After(time.Duration(ms)*time.Millisecond, func() { ran = append(ran, ms) })
	}
	same := m.After(10*time.Millisecond, func() { ran = append(ran, 11) })
	wait, ok := m.NextTimer()
	require.True(t, ok)
	require.Zero(t, wait)
	m.Tick()
	require.Equal(t, []int{0}, ran)
	m.Advance(10*time.Millisecond - 1)
	m.Tick()
	require.Equal(t, []int{0}, ran, "early")
	m.Advance(1)
	m.Tick()
	require.Equal(t, []int{0, 10, 10, 11}, ran, "those due at once run in the order in which they were set")
	m.Advance(time.Hour)
	m.Tick()
	require.Equal(t, []int{0, 10, 10, 11, 20, 30}, ran)
	_, ok = m.NextTimer()
	require.False(t, ok)
	m.Cancel(same)
	m.Cancel(nil)
}

func TestCancel(t *testing.T) {
	m := NewManual()
	ran := map[string]int{}
	set := func(name string, d time.Duration) *Timer { return m.After(d, func() { ran[name]++ }) }
	first, second, third := set("first", 1), set("second", 2), set("third", 3)
	m.Cancel(second)
	m.Cancel(second)
	m.After(1, func() { m.Cancel(third) })
	m.Advance(time.Second)
	m.Tick()
	m.Cancel(first)
	require.Equal(t, map[string]int{"first": 1}, ran)
	_, ok := m.NextTimer()
	require.False(t, ok)
}

func TestEvery(t *testing.T) {
	m := NewManual()
	ran := 0
	m.Every(time.Second, func() bool { ran++; return ran < 3 })
	for range 100 {
		m.Advance(time.Second / 4)
		m.Tick()
	}
	require.Equal(t, 3, ran)

	var cancelled *Timer
	ran = 0
	cancelled = m.Every(time.Second, func() bool {
		ran++
		m.Cancel(cancelled)
		return true
	})
	m.Advance(time.Minute)
	m.Tick()
	m.Advance(time.Minute)
	m.Tick()
	require.Equal(t, 1, ran, "runs although cancelled by itself")
}

// TestATimerCannotKeepTheLoop: what a timer sets runs in the next tick at the earliest.
func TestATimerCannotKeepTheLoop(t *testing.T) {
	m := NewManual()
	ran := 0
	var again func()
	again = func() {
		if ran++; ran < 1000 {
			m.After(0, again)
		}
	}
	m.After(0, again)
	m.Tick()
	require.Equal(t, 1, ran)
	require.Zero(t, m.timeout(), "the next tick follows at once")
	m.Tick()
	require.Equal(t, 2, ran)
}

func TestTimersOfARunningLoop(t *testing.T) {
	l := started(t)
	ran := make(chan time.Duration, 3)
	begin := time.Now()
	onLoop(t, l, func() {
		for _, d := range []time.Duration{20 * time.Millisecond, 0, 3 * time.Millisecond} {
			l.After(d, func() { ran <- d })
		}
	})
	for _, d := range []time.Duration{0, 3 * time.Millisecond, 20 * time.Millisecond} {
		require.Equal(t, d, arrives(t, ran, "timer"))
		// The loop's clock may have been read before the test's.
		require.GreaterOrEqual(t, time.Since(begin)+5*time.Millisecond, d)
	}
}

// TestUtilisation drives the clock: ticks that take 3 of every 10 ms.
func TestUtilisation(t *testing.T) {
	m := NewManual()
	tick := func(waits, works time.Duration) {
		m.nanos += int64(waits)
		m.awake()
		m.nanos += int64(works)
		m.account()
	}
	require.Zero(t, m.Utilisation())
	for range 300 {
		tick(7*time.Millisecond, 3*time.Millisecond)
	}
	require.InDelta(t, 0.3, m.Utilisation(), 0.01)
	for range 300 {
		tick(0, 10*time.Millisecond)
	}
	require.InDelta(t, 1, m.Utilisation(), 0.01)
	m.nanos += int64(time.Second)
	require.Zero(t, m.Utilisation(), "a loop that waits is not busy")
	tick(0, time.Millisecond)
	require.Less(t, m.Utilisation(), 0.55)
}
