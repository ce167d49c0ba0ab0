// Package store keeps what operators register: versioned values under keys, with a watch. It knows nothing of what the
// values mean. There are three kinds: in memory, in a file (bbolt), and in etcd, which a fleet of proxies shares.
package store

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Entry is one value. It is not changed after it was given out.
type Entry struct {
	Key   string
	Value []byte
	// Revision is the store's revision at which the entry was written: above 0, and growing with every write to the store.
	Revision int64
}

// Event is one change.
type Event struct {
	// Entry's Value is nil when Deleted, its Revision then that of the deletion.
	Entry
	Deleted bool
}

// Any as an expected revision means that whatever is there may be replaced; Absent that nothing may be there.
const (
	Any    int64 = -1
	Absent int64 = 0
)

// MaxValue bounds a value, in bytes: below the limit of etcd's requests.
const MaxValue = 1 << 20

// Store keeps entries. All methods may be used from any goroutine; none from a loop. An error that wraps ErrUnavailable
// may go away by itself.
type Store interface {
	// Get returns an entry, or ErrNotFound.
	Get(ctx context.Context, key string) (Entry, error)
	// List returns the entries whose keys begin with prefix, in the order of their keys, and the revision at which all of
	// them were read at once.
	List(ctx context.Context, prefix string) ([]Entry, int64, error)
	// Put writes an entry when its present revision is the expected one (or Any, or Absent), and returns the new
	// revision once it cannot be lost; else a *ConflictError.
	Put(ctx context.Context, key string, value []byte, expected int64) (int64, error)
	// Delete removes an entry when its present revision is the expected one (or Any); else a *ConflictError, or
	// ErrNotFound. It returns the revision of the deletion.
	Delete(ctx context.Context, key string, expected int64) (int64, error)
	// Watch sends every change of keys that begin with prefix whose revision is above after, in order. It resumes by
	// itself when the connection to the store was lost. The channel is closed when ctx or the store ends, and when
	// changes above after are no longer kept: Err of the watch is ErrCompacted then, and the caller begins again with
	// List.
	Watch(ctx context.Context, prefix string, after int64) *Watch
	// Status tells how the store is.
	Status() Status
	// Close ends all watches and releases the store.
	Close() error
}

// Watch is a stream of changes.
type Watch struct {
	// Events is closed at the end; Err tells why then.
	Events <-chan Event
	err    func() error
}

// Err tells, once Events is closed, why: nil when ctx or the store ended.
func (w *Watch) Err() error { return w.err() }

// Status is how a store is.
type Status struct {
	Kind string // "memory", "bbolt", "etcd"
	// Available is false while writes and reads fail; Reason says why. No address or secret is in it.
	Available bool
	Reason    string
	// Since is when Available became what it is; the zero time: it has always been so.
	Since    time.Time
	Revision int64 // the latest that was seen
}

// health is whether a store can be used. What holds it guards it.
type health struct {
	failure error // of the last attempt; nil: it succeeded
	since   time.Time
}

func (h *health) note(failure error) {
	if (failure == nil) != (h.failure == nil) {
		h.since = time.Now()
	}
	h.failure = failure
}

var (
	// ErrNotFound says that there is no such entry.
	ErrNotFound = errors.New("there is no such entry")
	// ErrCompacted says that a watch asked for changes that are no longer kept.
	ErrCompacted = errors.New("the changes asked for are no longer kept")
	// ErrUnavailable says that the store cannot be reached now.
	ErrUnavailable = errors.New("the store cannot be reached")
)

// ConflictError says that an entry is not at the expected revision.
type ConflictError struct {
	Key              string
	Expected, Actual int64 // Actual is 0 when there is none
}

// Error implements error.
func (e *ConflictError) Error() string {
	return fmt.Sprintf("%s is at revision %d, not %d: it was changed meanwhile", e.Key, e.Actual, e.Expected)
}
