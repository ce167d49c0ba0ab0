package loop

import (
	"container/heap"
	"time"
)

// Timer calls a function on the loop once. It belongs to the loop.
type Timer struct {
	at        int64
	number    uint64 // of two that are due at once, the one that was set first runs first
	fn        func()
	index     int // in the heap; -1 when not waiting
	cancelled bool
}

// After runs fn on the loop when d has passed.
func (l *Loop) After(d time.Duration, fn func()) *Timer {
	t := &Timer{fn: fn}
	l.set(t, d)
	return t
}

func (l *Loop) set(t *Timer, d time.Duration) {
	l.timersSet++
	t.at, t.number = l.now+int64(d), l.timersSet
	heap.Push(&l.timers, t)
}

// Every runs fn on the loop each time d has passed, until fn returns false or the timer is cancelled.
func (l *Loop) Every(d time.Duration, fn func() bool) *Timer {
	var t *Timer
	t = l.After(d, func() {
		if fn() && !t.cancelled {
			l.set(t, d)
		}
	})
	return t
}

// Cancel takes a timer back; a nil timer or one that has run is left alone.
func (l *Loop) Cancel(t *Timer) {
	if t == nil {
		return
	}
	t.cancelled = true
	if t.index >= 0 {
		heap.Remove(&l.timers, t.index)
	}
}

// runTimers runs what is due. What a timer sets waits for the next tick, so that none can keep the loop from its events.
func (l *Loop) runTimers() {
	last := l.timersSet
	for len(l.timers) > 0 && l.timers[0].at <= l.now && l.timers[0].number <= last {
		heap.Pop(&l.timers).(*Timer).fn()
	}
}

type timerHeap []*Timer

func (h timerHeap) Len() int { return len(h) }
func (h timerHeap) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].number < h[j].number
}
func (h timerHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push is for container/heap.
func (h *timerHeap) Push(x any) {
	t := x.(*Timer)
	t.index = len(*h)
	*h = append(*h, t)
}

// Pop is for container/heap.
func (h *timerHeap) Pop() any {
	last := len(*h) - 1
	t := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	t.index = -1
	return t
}
