package store

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

const (
	eventually = 20 * time.Second
	tick       = 10 * time.Millisecond
)

// suite is what every store must do. open makes an empty one.
func suite(t *testing.T, open func(*testing.T) Store) {
	for name, test := range map[string]func(*testing.T, Store){
		"get, put, delete":              testEntries,
		"expected revisions":            testExpected,
		"list":                          testList,
		"bounds":                        testBounds,
		"watch":                         testWatch,
		"watch from a revision":         testWatchFrom,
		"watch ends with its context":   testWatchEnds,
		"one of many writers wins":      testWriters,
		"watch sees all of many writes": testWatchMany,
		"status":                        testStatus,
	} {
		t.Run(name, func(t *testing.T) {
			goleak.VerifyNone(t, goleak.IgnoreCurrent())
			s := open(t)
			test(t, s)
			require.NoError(t, s.Close())
		})
	}
}

func put(t *testing.T, s Store, key, value string, expected int64) int64 {
	t.Helper()
	revision, err := s.Put(t.Context(), key, []byte(value), expected)
	require.NoError(t, err)
	return revision
}

func testEntries(t *testing.T, s Store) {
	_, err := s.Get(t.Context(), "a")
	require.ErrorIs(t, err, ErrNotFound)
	first := put(t, s, "a", "1", Absent)
	require.Positive(t, first)
	e, err := s.Get(t.Context(), "a")
	require.NoError(t, err)
	require.Equal(t, Entry{"a", []byte("1"), first}, e)
	second := put(t, s, "a", "", Any)
	require.Greater(t, second, first)
	e, err = s.Get(t.Context(), "a")
	require.NoError(t, err)
	require.Empty(t, e.Value, "an empty value is a value")
	third, err := s.Delete(t.Context(), "a", second)
	require.NoError(t, err)
	require.Greater(t, third, second)
	_, err = s.Get(t.Context(), "a")
	require.ErrorIs(t, err, ErrNotFound)
	_, err = s.Delete(t.Context(), "a", Any)
	require.ErrorIs(t, err, ErrNotFound)
}

func testExpected(t *testing.T, s Store) {
	requireConflict := func(err error, expected, actual int64) {
		t.Helper()
		var conflict *ConflictError
		require.ErrorAs(t, err, &conflict)
		require.Equal(t, ConflictError{"a", expected, actual}, *conflict)
		require.Contains(t, err.Error(), "changed meanwhile")
	}
	_, err := s.Put(t.Context(), "a", []byte("x"), 7)
	requireConflict(err, 7, 0)
	first := put(t, s, "a", "1", Absent)
	_, err = s.Put(t.Context(), "a", []byte("2"), Absent)
	requireConflict(err, Absent, first)
	second := put(t, s, "a", "2", first)
	_, err = s.Put(t.Context(), "a", []byte("3"), first)
	requireConflict(err, first, second)
	_, err = s.Delete(t.Context(), "a", first)
	requireConflict(err, first, second)
	e, err := s.Get(t.Context(), "a")
	require.NoError(t, err)
	require.Equal(t, Entry{"a", []byte("2"), second}, e)
	_, err = s.Delete(t.Context(), "a", second)
	require.NoError(t, err)
	_, err = s.Put(t.Context(), "a", []byte("4"), second)
	requireConflict(err, second, 0)
}

func testList(t *testing.T, s Store) {
	all, before, err := s.List(t.Context(), "")
	require.NoError(t, err)
	require.Empty(t, all)
	for _, key := range []string{"b/2", "a/1", "b/1", "b", "c/1", "b0"} {
		put(t, s, key, "of "+key, Absent)
	}
	all, revision, err := s.List(t.Context(), "b/")
	require.NoError(t, err)
	require.Equal(t, before+6, revision)
	require.Len(t, all, 2)
	require.Equal(t, []string{"b/1", "b/2"}, []string{all[0].Key, all[1].Key})
	require.Equal(t, "of b/2", string(all[1].Value))
	all, _, err = s.List(t.Context(), "")
	require.NoError(t, err)
	require.Len(t, all, 6)
}

func testBounds(t *testing.T, s Store) {
	_, err := s.Put(t.Context(), "", []byte("x"), Any)
	require.ErrorContains(t, err, "key of 0 bytes")
	_, err = s.Put(t.Context(), strings.Repeat("k", maxKey+1), []byte("x"), Any)
	require.ErrorContains(t, err, "key of 1025 bytes")
	_, err = s.Put(t.Context(), "a", nil, Any)
	require.ErrorContains(t, err, "no value")
	_, err = s.Put(t.Context(), "a", make([]byte, MaxValue+1), Any)
	require.ErrorContains(t, err, "are more than")
	put(t, s, strings.Repeat("k", maxKey), strings.Repeat("v", MaxValue), Any)
	e, err := s.Get(t.Context(), strings.Repeat("k", maxKey))
	require.NoError(t, err)
	require.Len(t, e.Value, MaxValue)
}

func next(t *testing.T, w *Watch) Event {
	t.Helper()
	select {
	case e, more := <-w.Events:
		require.True(t, more, "the watch has ended: %v", w.Err)
		return e
	case <-time.After(eventually):
		require.FailNow(t, "no event")
		return Event{}
	}
}

func testWatch(t *testing.T, s Store) {
	_, revision, err := s.List(t.Context(), "")
	require.NoError(t, err)
	all, some := s.Watch(t.Context(), "", revision), s.Watch(t.Context(), "b/", revision)
	first := put(t, s, "a/1", "x", Any)
	require.Equal(t, Event{Entry: Entry{"a/1", []byte("x"), first}}, next(t, all))
	second := put(t, s, "b/1", "y", Any)
	third, err := s.Delete(t.Context(), "b/1", second)
	require.NoError(t, err)
	for _, w := range []*Watch{all, some} {
		require.Equal(t, Event{Entry: Entry{"b/1", []byte("y"), second}}, next(t, w))
		require.Equal(t, Event{Entry: Entry{Key: "b/1", Revision: third}, Deleted: true}, next(t, w))
	}
}

func testWatchFrom(t *testing.T, s Store) {
	var revisions []int64
	for i := range 5 {
		revisions = append(revisions, put(t, s, "k", fmt.Sprint(i), Any))
	}
	w := s.Watch(t.Context(), "", revisions[2])
	require.Equal(t, "3", string(next(t, w).Value))
	require.Equal(t, "4", string(next(t, w).Value))
}

func testWatchEnds(t *testing.T, s Store) {
	ctx, cancel := context.WithCancel(t.Context())
	w := s.Watch(ctx, "", s.Status().Revision)
	cancel()
	select {
	case _, more := <-w.Events:
		require.False(t, more)
		require.NoError(t, w.Err())
	case <-time.After(eventually):
		require.FailNow(t, "the watch goes on")
	}
}

func testWriters(t *testing.T, s Store) {
	const writers, each = 8, 10
	start := put(t, s, "counter", "", Any)
	require.Positive(t, start)
	var all sync.WaitGroup
	for range writers {
		all.Go(func() {
			for range each {
				for {
					e, err := s.Get(t.Context(), "counter")
					if err != nil {
						t.Error(err)
						return
					}
					if _, err = s.Put(t.Context(), "counter", append(bytes.Clone(e.Value), 'x'), e.Revision); err == nil {
						break
					}
				}
			}
		})
	}
	all.Wait()
	e, err := s.Get(t.Context(), "counter")
	require.NoError(t, err)
	require.Equal(t, strings.Repeat("x", writers*each), string(e.Value), "an increment was lost")
}

func testWatchMany(t *testing.T, s Store) {
	_, revision, err := s.List(t.Context(), "")
	require.NoError(t, err)
	w := s.Watch(t.Context(), "k", revision)
	const writes = 200
	var writer sync.WaitGroup
	defer writer.Wait()
	writer.Go(func() {
		for i := range writes {
			if _, err := s.Put(t.Context(), fmt.Sprint("k", i%7), fmt.Append(nil, i), Any); err != nil {
				t.Error(err)
			}
		}
	})
	last := revision
	for i := range writes {
		e := next(t, w)
		require.Equal(t, fmt.Sprint(i), string(e.Value))
		require.Greater(t, e.Revision, last)
		last = e.Revision
	}
}

func testStatus(t *testing.T, s Store) {
	revision := put(t, s, "a", "x", Any)
	require.Eventually(t, func() bool { return s.Status().Available }, eventually, tick)
	status := s.Status()
	require.Equal(t, revision, status.Revision)
	require.Empty(t, status.Reason)
	require.Contains(t, []string{"memory", "bbolt", "etcd"}, status.Kind)
}

func TestMemory(t *testing.T) {
	suite(t, func(*testing.T) Store { return NewMemory() })
}

// A watch that is asked for changes which are no longer kept says so, and one that falls too far behind as well.
func TestJournalIsBounded(t *testing.T) {
	s := NewMemory()
	w := s.Watch(t.Context(), "", 0)
	for i := range 2*journalMax + 1 {
		put(t, s, "k", fmt.Sprint(i), Any)
	}
	require.LessOrEqual(t, len(s.journal.events), journalMax)
	late := s.Watch(t.Context(), "", 1)
	_, more := <-late.Events
	require.False(t, more)
	require.ErrorIs(t, late.Err(), ErrCompacted)
	for range w.Events {
	}
	require.ErrorIs(t, w.Err(), ErrCompacted)
	require.NoError(t, s.Close())
}
