package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Memory is a store that is gone with the process.
type Memory struct {
	mu       sync.Mutex
	entries  map[string]Entry
	revision int64
	journal  *journal
	running  sync.WaitGroup
	closed   bool
}

var errClosed = fmt.Errorf("%w: it is closed", ErrUnavailable)

// NewMemory makes an empty store.
func NewMemory() *Memory {
	return &Memory{entries: make(map[string]Entry), journal: newJournal(0)}
}

// Get implements Store.
func (m *Memory) Get(_ context.Context, key string) (Entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, found := m.entries[key]
	switch {
	case m.closed:
		return Entry{}, errClosed
	case !found:
		return Entry{}, ErrNotFound
	}
	return e, nil
}

// List implements Store.
func (m *Memory) List(_ context.Context, prefix string) ([]Entry, int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, 0, errClosed
	}
	var all []Entry
	for key, e := range m.entries {
		if strings.HasPrefix(key, prefix) {
			all = append(all, e)
		}
	}
	slices.SortFunc(all, func(a, b Entry) int { return strings.Compare(a.Key, b.Key) })
	return all, m.revision, nil
}

// Put implements Store.
func (m *Memory) Put(_ context.Context, key string, value []byte, expected int64) (int64, error) {
	if err := checkPut(key, value); err != nil {
		return 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.check(key, expected); err != nil {
		return 0, err
	}
	m.revision++
	e := Entry{Key: key, Value: bytes.Clone(value), Revision: m.revision}
	m.entries[key] = e
	m.journal.append(Event{Entry: e})
	return m.revision, nil
}

// Delete implements Store.
func (m *Memory) Delete(_ context.Context, key string, expected int64) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, found := m.entries[key]; !found && !m.closed && expected == Any {
		return 0, ErrNotFound
	}
	if err := m.check(key, expected); err != nil {
		return 0, err
	}
	m.revision++
	delete(m.entries, key)
	m.journal.append(Event{Entry: Entry{Key: key, Revision: m.revision}, Deleted: true})
	return m.revision, nil
}

func (m *Memory) check(key string, expected int64) error {
	if m.closed {
		return errClosed
	}
	return checkExpected(key, expected, m.entries[key].Revision)
}

// Watch implements Store.
func (m *Memory) Watch(ctx context.Context, prefix string, after int64) *Watch {
	return m.journal.watch(ctx, prefix, after, &m.running)
}

// Status implements Store.
func (m *Memory) Status() Status {
	m.mu.Lock()
	defer m.mu.Unlock()
	return Status{Kind: "memory", Available: !m.closed, Revision: m.revision}
}

// Close implements Store.
func (m *Memory) Close() error {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	m.journal.close()
	m.running.Wait()
	return nil
}

// checkExpected compares the present revision of an entry, 0 for none, with the expected one.
func checkExpected(key string, expected, actual int64) error {
	if expected != Any && expected != actual {
		return &ConflictError{Key: key, Expected: expected, Actual: actual}
	}
	return nil
}

// checkPut refuses what some store could not keep.
func checkPut(key string, value []byte) error {
	switch {
	case key == "" || len(key) > maxKey:
		return fmt.Errorf("cannot store under a key of %d bytes: it must have 1 to %d", len(key), maxKey)
	case len(value) > MaxValue:
		return fmt.Errorf("cannot store %s: %d bytes are more than %d", key, len(value), MaxValue)
	case value == nil:
		return errors.New("cannot store " + key + ": no value")
	}
	return nil
}

const maxKey = 1024
