package redistest

import (
	"fmt"
	"sync"
	"testing"
)

// fatalRecorder catches failures that a test wants to see happen.
type fatalRecorder struct {
	testing.TB
	mu   sync.Mutex
	text string
	done []func()
}

func (r *fatalRecorder) Helper() {}

func (r *fatalRecorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	panic("fatal")
}

func (r *fatalRecorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.text += fmt.Sprintf(format, args...)
}

func (r *fatalRecorder) Failed() bool { return r.failure() != "" }

func (r *fatalRecorder) failure() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text
}

func (r *fatalRecorder) Cleanup(f func()) { r.done = append(r.done, f) }

func (r *fatalRecorder) end() {
	for _, f := range r.done {
		f()
	}
}
