package store

import (
	"context"
	"strings"
	"sync"
)

// journalMax is how many of the latest changes a journal keeps. A watch that falls further behind begins again.
const journalMax = 4096

// journal keeps the latest changes of a store of this process and lets watches follow them.
type journal struct {
	mu      sync.Mutex
	events  []Event       // ascending revisions
	first   int64         // changes at and below it are not kept
	changed chan struct{} // closed and replaced with every change
	closed  bool
}

func newJournal(revision int64) *journal {
	return &journal{first: revision, changed: make(chan struct{})}
}

// append adds a change.
func (j *journal) append(e Event) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.events) == journalMax {
		drop := journalMax / 4
		j.first = j.events[drop-1].Revision
		j.events = append(j.events[:0:0], j.events[drop:]...)
	}
	j.events = append(j.events, e)
	close(j.changed)
	j.changed = make(chan struct{})
}

// close ends all watches.
func (j *journal) close() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.closed {
		j.closed = true
		close(j.changed)
	}
}

// since returns the changes above after, and what is closed when there may be more.
func (j *journal) since(after int64) (events []Event, more <-chan struct{}, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return nil, nil, nil
	}
	if after < j.first {
		return nil, nil, ErrCompacted
	}
	i := len(j.events)
	for i > 0 && j.events[i-1].Revision > after {
		i--
	}
	return j.events[i:len(j.events):len(j.events)], j.changed, nil
}

// watch follows the journal on a goroutine that ends with ctx or the journal.
func (j *journal) watch(ctx context.Context, prefix string, after int64, running *sync.WaitGroup) *Watch {
	out := make(chan Event)
	var failure error
	running.Go(func() {
		defer close(out)
		for {
			events, more, err := j.since(after)
			if err != nil {
				failure = err
				return
			}
			if more == nil {
				return
			}
			for _, e := range events {
				after = e.Revision
				if !strings.HasPrefix(e.Key, prefix) {
					continue
				}
				select {
				case out <- e:
				case <-ctx.Done():
					return
				}
			}
			select {
			case <-more:
			case <-ctx.Done():
				return
			}
		}
	})
	return &Watch{Events: out, err: func() error { return failure }}
}
