package ctl

import (
	"sync"
	"time"

	"github.com/jedib0t/go-pretty/v6/progress"
)

// showAfter is how long something may take before a person is told that it goes on.
const showAfter = time.Second

// work is something that may take its time.
type work struct {
	mu      sync.Mutex
	timer   *time.Timer
	writer  progress.Writer
	tracker *progress.Tracker
	ended   sync.WaitGroup
	over    bool
}

// working begins to show that something goes on, at a terminal and once it takes more than a second: a bar of total
// steps, or a mark that moves when total is 0. done must be called, before anything else is printed.
func (c *cli) working(text string, total int) *work {
	w := new(work)
	if !c.env.ErrTerminal {
		return w
	}
	w.tracker = &progress.Tracker{Message: text, Total: int64(total)}
	w.timer = time.AfterFunc(showAfter, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.over {
			return
		}
		w.writer = progress.NewWriter()
		w.writer.SetOutputWriter(c.env.Err)
		w.writer.SetTrackerPosition(progress.PositionRight)
		w.writer.SetUpdateFrequency(100 * time.Millisecond)
		w.writer.Style().Visibility.Value = total > 0
		w.writer.Style().Visibility.Percentage = total > 0
		w.writer.AppendTracker(w.tracker)
		w.ended.Go(w.writer.Render) // until done
	})
	return w
}

// step counts one step.
func (w *work) step() {
	if w.tracker != nil {
		w.tracker.Increment(1)
	}
}

// done takes the progress away and waits for that.
func (w *work) done() {
	if w.timer == nil {
		return
	}
	w.timer.Stop()
	w.mu.Lock()
	w.over = true
	writer := w.writer
	w.mu.Unlock()
	if writer != nil {
		w.tracker.MarkAsDone()
		writer.Stop()
		w.ended.Wait()
	}
}
