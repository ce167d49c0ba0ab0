// Package loop is the event loop: one goroutine that owns a poller, its connections and whatever its posted functions
// touch. Nothing on a loop is locked or shared; a loop never blocks. One tick reads what is readable, runs the owners'
// state machines, posted functions and timers, and then writes once per connection that has output: all that arrives
// for a node within a tick leaves in one write.
package loop

import (
	"math"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// scratchSize is what one read can deliver. The scratch buffer is the loop's only one, so it stays in cache.
	scratchSize = 128 << 10
	// utilisationWindow is the span over which a loop's utilisation is averaged.
	utilisationWindow = 100 * time.Millisecond
	housekeeping      = time.Second
)

// poller waits for events and hands them to connections.
type poller interface {
	// wait blocks until an event, a wake or the timeout (negative: none) and dispatches what it got.
	wait(timeout time.Duration)
	wake()
	// eachConn calls fn for each connection that the poller watches; fn may close it.
	eachConn(fn func(*Conn))
	close()
}

// Loop is one event loop. Its methods are for its own goroutine except where they say otherwise.
type Loop struct {
	id      int
	poller  poller
	clock   func() int64
	now     int64 // nanoseconds of the loop's monotonic clock at the start of the current phase
	scratch []byte
	chunks  chunkPool

	dirty   []*Conn // have output; written at the end of the tick
	again   []*Conn // have unconsumed input to be delivered again
	closing []*Conn // closed; their handlers are told in this tick
	timers  timerHeap

	timersSet uint64 // timers ever set

	streams   map[*stream]struct{} // open ones
	streaming sync.WaitGroup       // their goroutines

	discarded Traffic // counts of connections whose owner does not want them

	posts    atomic.Pointer[post] // newest first; pushed by anyone, taken whole by the loop
	stopping bool
	done     chan struct{}
	started  sync.Once
	onStop   []func()

	busy struct {
		since   int64
		nanos   int64
		ratio   float64
		public  atomic.Uint64 // float64 bits of ratio, for other goroutines
		updated atomic.Int64  // when public was stored
	}
	nextChores int64
}

type post struct {
	fn   func()
	next *post
}

// New makes a loop with the machine's best poller. Start runs it; Stop ends it, also when it was never started.
func New(id int) (*Loop, error) {
	l := newLoop(id, monotonic)
	p, err := newPoller(l)
	if err != nil {
		return nil, err
	}
	l.poller = p
	return l, nil
}

func newLoop(id int, clock func() int64) *Loop {
	l := &Loop{id: id, clock: clock, scratch: make([]byte, scratchSize), done: make(chan struct{})}
	l.streams = make(map[*stream]struct{})
	l.now = clock()
	l.busy.since = l.now
	return l
}

var processStart = time.Now() //nolint:gochecknoglobals // the zero of the monotonic clock; written once

func monotonic() int64 { return int64(time.Since(processStart)) }

// ID is the loop's number, from 0.
func (l *Loop) ID() int { return l.id }

// Now is the loop's clock in nanoseconds, read once per phase of a tick.
func (l *Loop) Now() int64 { return l.now }

// Start runs the loop on a goroutine of its own. Wait (after Stop) waits for its end.
func (l *Loop) Start() { l.started.Do(func() { go l.run() }) }

// Wait blocks until the loop has stopped and the goroutines of its stream transports have ended; these may take until
// streamDrain to send what a connection owed when it was closed. For other goroutines.
func (l *Loop) Wait() {
	<-l.done
	l.streaming.Wait()
}

// Stop ends the loop after the current tick: it runs the OnStop functions and closes the connections that are left. For
// any goroutine; a loop that was never started is ended by it at once.
func (l *Loop) Stop() {
	l.started.Do(func() { go l.run() })
	l.Post(func() { l.stopping = true })
}

// OnStop registers fn to be called on the loop when it has ended.
func (l *Loop) OnStop(fn func()) { l.onStop = append(l.onStop, fn) }

// Post runs fn on the loop, after what was posted before it. For any goroutine; never blocks.
// What is posted after the loop has stopped is not run.
func (l *Loop) Post(fn func()) {
	p := &post{fn: fn}
	for {
		head := l.posts.Load()
		p.next = head
		if l.posts.CompareAndSwap(head, p) {
			if head == nil {
				l.poller.wake()
			}
			return
		}
	}
}

// Call runs fn on the loop and waits for it; it reports false when the loop has stopped. For other goroutines only.
func (l *Loop) Call(fn func()) bool {
	ran := make(chan struct{})
	l.Post(func() { fn(); close(ran) })
	select {
	case <-ran:
		return true
	case <-l.done:
	}
	select {
	case <-ran: // in the last tick
		return true
	default:
		return false
	}
}

func (l *Loop) run() {
	for !l.stopping {
		l.poller.wait(l.timeout())
		l.finishTick()
		l.account()
	}
	for _, fn := range l.onStop {
		fn()
	}
	l.settle()
	l.closeRest()
	l.poller.close()
	close(l.done)
}

// closeRest closes what the owners left open.
func (l *Loop) closeRest() {
	l.poller.eachConn(func(c *Conn) { c.Close(ErrClosed) })
	for s := range l.streams {
		s.conn.Close(ErrClosed)
	}
	l.settle()
}

// finishTick runs what a tick does after its events: posts, timers, redelivery, writes, closes.
func (l *Loop) finishTick() {
	l.runPosts()
	l.runTimers()
	l.settle()
	if l.now >= l.nextChores {
		l.chunks.trim()
		l.nextChores = l.now + int64(housekeeping)
	}
}

// settle alternates between redelivery, writes and closes until nothing is left; each may cause the others.
func (l *Loop) settle() {
	for len(l.again)+len(l.dirty)+len(l.closing) > 0 {
		for i := 0; i < len(l.again); i++ {
			l.again[i].redeliver()
		}
		l.again = emptied(l.again)
		for i := 0; i < len(l.dirty); i++ {
			c := l.dirty[i]
			c.dirty = false
			c.flush()
		}
		l.dirty = emptied(l.dirty)
		for i := 0; i < len(l.closing); i++ {
			l.closing[i].finish()
		}
		l.closing = emptied(l.closing)
	}
}

// emptied returns s with length 0 and without pointers that would keep connections alive.
func emptied(s []*Conn) []*Conn {
	clear(s)
	if cap(s) > 4096 {
		return nil
	}
	return s[:0]
}

func (l *Loop) runPosts() {
	head := l.posts.Swap(nil)
	if head == nil {
		return
	}
	var first *post // oldest first
	for head != nil {
		head.next, first, head = first, head, head.next
	}
	for ; first != nil; first = first.next {
		first.fn()
	}
}

// account measures the share of time that the loop was not waiting, which began when the poller called awake.
func (l *Loop) account() {
	end := l.clock()
	l.busy.nanos += end - l.now
	if span := end - l.busy.since; span >= int64(utilisationWindow) {
		sample := float64(l.busy.nanos) / float64(span)
		l.busy.ratio += (sample - l.busy.ratio) / 2
		l.busy.public.Store(math.Float64bits(l.busy.ratio))
		l.busy.updated.Store(end)
		l.busy.since, l.busy.nanos = end, 0
	}
}

// awake reads the clock; pollers call it when their wait returns.
func (l *Loop) awake() { l.now = l.clock() }

// Utilisation is the share of recent time that the loop was busy, 0 to 1. For any goroutine.
func (l *Loop) Utilisation() float64 {
	if l.clock()-l.busy.updated.Load() > int64(2*utilisationWindow) {
		return 0 // no tick ended a window since: the loop waits
	}
	return math.Float64frombits(l.busy.public.Load())
}

// BuffersInUse is the number of buffers that hold output, or requests that may have to be sent again.
func (l *Loop) BuffersInUse() int { return l.chunks.used }

// FreeBytes is what the loop keeps in free buffers.
func (l *Loop) FreeBytes() int { return l.chunks.held() + len(l.scratch) }

// timeout is how long the poller may wait: until the next timer, or until free buffers are to be given back.
func (l *Loop) timeout() time.Duration {
	if l.posts.Load() != nil {
		return 0
	}
	due := int64(math.MaxInt64)
	if len(l.timers) > 0 {
		due = l.timers[0].at
	}
	if !l.chunks.empty() {
		due = min(due, l.nextChores)
	}
	if due == math.MaxInt64 {
		return -1
	}
	return max(0, time.Duration(due-l.clock()))
}
