package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// lockWait is how long another process may keep the file before the store gives up.
const lockWait = time.Second

var (
	entriesBucket = []byte("entries")  //nolint:gochecknoglobals // constant
	metaBucket    = []byte("meta")     //nolint:gochecknoglobals // constant
	revisionKey   = []byte("revision") //nolint:gochecknoglobals // constant
)

// Bolt is a store in one file, of one process. A write is on the disk when it returns. A value is kept behind eight bytes
// of its revision, big-endian.
type Bolt struct {
	db      *bbolt.DB
	journal *journal
	running sync.WaitGroup

	mu struct { // writes are in the journal in the order in which they are in the file
		sync.Mutex
		revision int64
		health   // of the last write
	}
}

// OpenBolt opens the file, or makes it, readable by its owner only.
func OpenBolt(file string) (*Bolt, error) {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return nil, fmt.Errorf("cannot make the store's folder: %w", err)
	}
	db, err := bbolt.Open(file, 0o600, &bbolt.Options{Timeout: lockWait})
	if errors.Is(err, bolterrors.ErrTimeout) {
		return nil, fmt.Errorf("cannot open the store %s: another process has it open; stop that one, or use another data directory", file)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot open the store %s: %w; if the file is damaged, put a backup in its place", file, err)
	}
	b := &Bolt{db: db}
	err = db.Update(func(tx *bbolt.Tx) error {
		if _, err := tx.CreateBucketIfNotExists(entriesBucket); err != nil {
			return err
		}
		meta, err := tx.CreateBucketIfNotExists(metaBucket)
		if err != nil {
			return err
		}
		if v := meta.Get(revisionKey); len(v) == revisionSize {
			b.mu.revision = int64(binary.BigEndian.Uint64(v))
		}
		return nil
	})
	if err != nil {
		_ = db.Close()
		return nil, fmt.Errorf("cannot prepare the store %s: %w", file, err)
	}
	b.journal = newJournal(b.mu.revision)
	return b, nil
}

const revisionSize = 8

func pack(revision int64, value []byte) []byte {
	return append(binary.BigEndian.AppendUint64(make([]byte, 0, revisionSize+len(value)), uint64(revision)), value...)
}

// unpack copies, because what bbolt returns is valid within the transaction only.
func unpack(key, packed []byte) Entry {
	if len(packed) < revisionSize {
		return Entry{}
	}
	return Entry{
		Key: string(key), Value: bytes.Clone(packed[revisionSize:]), Revision: int64(binary.BigEndian.Uint64(packed)),
	}
}

// Get implements Store.
func (b *Bolt) Get(_ context.Context, key string) (e Entry, err error) {
	err = b.db.View(func(tx *bbolt.Tx) error {
		packed := tx.Bucket(entriesBucket).Get([]byte(key))
		if packed == nil {
			return ErrNotFound
		}
		e = unpack([]byte(key), packed)
		return nil
	})
	return e, unavailable(err)
}

// List implements Store.
func (b *Bolt) List(_ context.Context, prefix string) (all []Entry, revision int64, err error) {
	err = b.db.View(func(tx *bbolt.Tx) error {
		if v := tx.Bucket(metaBucket).Get(revisionKey); len(v) == revisionSize {
			revision = int64(binary.BigEndian.Uint64(v))
		}
		c := tx.Bucket(entriesBucket).Cursor()
		for k, v := c.Seek([]byte(prefix)); k != nil && bytes.HasPrefix(k, []byte(prefix)); k, v = c.Next() {
			all = append(all, unpack(k, v))
		}
		return nil
	})
	return all, revision, unavailable(err)
}

// Put implements Store.
func (b *Bolt) Put(_ context.Context, key string, value []byte, expected int64) (int64, error) {
	if err := checkPut(key, value); err != nil {
		return 0, err
	}
	return b.write(key, expected, bytes.Clone(value))
}

// Delete implements Store.
func (b *Bolt) Delete(_ context.Context, key string, expected int64) (int64, error) {
	return b.write(key, expected, nil)
}

// write puts a value, or deletes when there is none.
func (b *Bolt) write(key string, expected int64, value []byte) (int64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	next := b.mu.revision + 1
	err := b.db.Update(func(tx *bbolt.Tx) error {
		entries := tx.Bucket(entriesBucket)
		actual := unpack(nil, entries.Get([]byte(key))).Revision
		if value == nil && actual == 0 && expected == Any {
			return ErrNotFound
		}
		if err := checkExpected(key, expected, actual); err != nil {
			return err
		}
		if err := tx.Bucket(metaBucket).Put(revisionKey, pack(next, nil)); err != nil {
			return err
		}
		if value == nil {
			return entries.Delete([]byte(key))
		}
		return entries.Put([]byte(key), pack(next, value))
	})
	if conflict := (*ConflictError)(nil); errors.As(err, &conflict) || errors.Is(err, ErrNotFound) {
		return 0, err
	}
	b.mu.note(err)
	if err != nil {
		return 0, unavailable(err)
	}
	b.mu.revision = next
	b.journal.append(Event{Entry: Entry{Key: key, Value: value, Revision: next}, Deleted: value == nil})
	return next, nil
}

func unavailable(err error) error {
	if err == nil || errors.Is(err, ErrNotFound) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}

// Watch implements Store.
func (b *Bolt) Watch(ctx context.Context, prefix string, after int64) *Watch {
	return b.journal.watch(ctx, prefix, after, &b.running)
}

// Status implements Store.
func (b *Bolt) Status() Status {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := Status{Kind: "bbolt", Available: b.mu.failure == nil, Since: b.mu.since, Revision: b.mu.revision}
	if b.mu.failure != nil {
		s.Reason = "the last write failed: " + b.mu.failure.Error()
	}
	return s
}

// Close implements Store.
func (b *Bolt) Close() error {
	b.journal.close()
	b.running.Wait()
	return b.db.Close()
}
