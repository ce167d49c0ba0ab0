package load

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Hooks are called at both ends of the measured window, while the load goes on: the place to read CPU clocks.
type Hooks struct {
	Start func()
	End   func()
}

func (h Hooks) start() {
	if h.Start != nil {
		h.Start()
	}
}

func (h Hooks) end() {
	if h.End != nil {
		h.End()
	}
}

// Driver runs a workload against an address.
type Driver interface {
	Name() string
	// InProcess tells whether the load's own CPU time is that of this process.
	InProcess() bool
	Run(ctx context.Context, addr string, w Workload, hooks Hooks) (Result, error)
}

// Generator is the load generator of this package. The zero value takes the cheapest transport of the platform.
type Generator struct {
	// Goroutines asks for a goroutine per connection where event loops would be possible.
	Goroutines bool
}

// drainTime bounds the wait for the replies to what was sent before the end.
const drainTime = 2 * time.Second

// Name tells the generator in reports.
func (g Generator) Name() string {
	if g.Goroutines || !hasEventLoops {
		return "own (goroutine per connection)"
	}
	return "own (event loops)"
}

// InProcess is true: the threads are this process's.
func (g Generator) InProcess() bool { return true }

// fleet is the connections of one thread.
type fleet interface {
	// run drives them until the run's end and returns when the last reply came or none can come any more.
	run(r *run, rec *recorder)
	// close closes those that are open.
	close()
}

// run is what the threads of one run share; only cancelled changes after the start.
type run struct {
	began     time.Time
	end       time.Duration // nothing is sent from then on
	cancelled atomic.Bool
}

func (r *run) now() time.Duration { return time.Since(r.began) }

func (r *run) over(now time.Duration) bool { return now >= r.end || r.cancelled.Load() }

// abandoned says that even replies are not waited for any more.
func (r *run) abandoned(now time.Duration) bool {
	return now >= r.end+drainTime || r.cancelled.Load()
}

// thread is one thread's share of a run.
type thread struct {
	fleet    fleet
	flows    []flow
	failures failures
	recorder *recorder
}

// failures counts connections that were lost, by their first cause.
type failures struct {
	lost  uint64
	first error
}

func (f *failures) add(err error) {
	f.lost++
	if f.first == nil {
		f.first = err
	}
}

// Run opens all connections, sends for the warm-up and the measured duration, and returns after the last reply, at most
// drainTime later. An error means that there is no result; error replies and lost connections are part of the result.
func (g Generator) Run(ctx context.Context, addr string, w Workload, hooks Hooks) (Result, error) {
	if err := w.Validate(); err != nil {
		return Result{}, fmt.Errorf("cannot run the workload: %w", err)
	}
	threads, err := g.open(ctx, addr, w)
	defer func() {
		for _, t := range threads {
			t.fleet.close()
		}
	}()
	if err != nil {
		return Result{}, err
	}
	// A thread that sleeps in its poll must find its processor free on return.
	procs := runtime.GOMAXPROCS(0)
	runtime.GOMAXPROCS(max(procs, w.Threads+2))
	defer runtime.GOMAXPROCS(procs)

	shared := &run{began: time.Now(), end: w.Warmup + w.Duration}
	defer context.AfterFunc(ctx, func() { shared.cancelled.Store(true) })()
	var running sync.WaitGroup
	for _, t := range threads {
		running.Go(func() { t.fleet.run(shared, t.recorder) })
	}
	elapsed := window(ctx, w, hooks)
	running.Wait()
	if err := ctx.Err(); err != nil {
		return Result{}, fmt.Errorf("cannot finish the run: %w", err)
	}
	return collect(threads, elapsed), nil
}

// window calls the hooks at the ends of the measured part and returns its length.
func window(ctx context.Context, w Workload, hooks Hooks) time.Duration {
	pause(ctx, w.Warmup)
	hooks.start()
	pause(ctx, w.Duration)
	hooks.end()
	return w.Duration
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

func (g Generator) open(ctx context.Context, addr string, w Workload) ([]*thread, error) {
	requests := newRequests(w)
	threads := make([]*thread, 0, w.Threads)
	for i := range w.Threads {
		t := &thread{flows: make([]flow, w.Clients), recorder: newRecorder(w)}
		for j := range t.flows {
			// Threads take turns in the schedule, so that no thread has all its commands at once.
			number := j*w.Threads + i
			t.flows[j] = newFlow(requests, w, newSchedule(w, number), number*7919)
			t.flows[j].login = w.login(number)
		}
		var err error
		if g.Goroutines || !hasEventLoops {
			t.fleet, err = openStreams(ctx, addr, t.flows, &t.failures)
		} else {
			t.fleet, err = openEventLoop(ctx, addr, t.flows, &t.failures)
		}
		if err != nil {
			return threads, fmt.Errorf("cannot connect to %s: %w", addr, err)
		}
		threads = append(threads, t)
	}
	return threads, nil
}

func collect(threads []*thread, elapsed time.Duration) Result {
	var result Result
	var histograms []*hdrhistogram.Histogram
	for _, t := range threads {
		histograms = append(histograms, t.recorder.histogram)
		result.Errors += t.failures.lost
		if t.failures.first != nil && result.FirstError == "" {
			result.FirstError = t.failures.first.Error()
		}
		for i := range t.flows {
			replies := &t.flows[i].replies
			result.Misses += replies.misses
			result.Errors += replies.failed
			if result.FirstError == "" {
				result.FirstError = replies.firstError
			}
		}
	}
	result.summarize(elapsed, histograms...)
	return result
}
