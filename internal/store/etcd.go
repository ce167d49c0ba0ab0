package store

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

const (
	// etcdTimeout bounds one request.
	etcdTimeout = 3 * time.Second
	// etcdPing is the time between two looks at whether etcd answers.
	etcdPing = time.Second
	// watchRetry is the time before a watch that etcd ended is begun again.
	watchRetry = 200 * time.Millisecond
)

// EtcdConfig says where etcd is and how the proxy introduces itself.
type EtcdConfig struct {
	Endpoints []string // https://host:port or http://host:port
	Prefix    string   // of all keys, such as "/sluice/"
	Username  string
	Password  string
	TLS       *tls.Config
}

// Etcd is a store that a fleet of proxies shares. See https://etcd.io/docs/v3.6/learning/api/.
type Etcd struct {
	cfg     EtcdConfig
	client  atomic.Pointer[clientv3.Client] // nil: not made yet
	prefix  string
	stop    context.CancelFunc
	life    context.Context //nolint:containedctx // of the store's goroutines
	running sync.WaitGroup

	mu struct {
		sync.Mutex
		health
		cluster  uint64        // etcd's id of itself; 0: not known yet
		revision int64         // the latest seen
		reset    chan struct{} // closed when a snapshot was restored
	}
}

// OpenEtcd makes the store. When etcd does not answer now it is reached later: Status tells.
func OpenEtcd(cfg EtcdConfig) (*Etcd, error) {
	if len(cfg.Endpoints) == 0 {
		return nil, errors.New("cannot use etcd: no endpoint is given")
	}
	e := &Etcd{cfg: cfg, prefix: cfg.Prefix}
	e.life, e.stop = context.WithCancel(context.Background())
	e.mu.reset = make(chan struct{})
	e.mu.note(errors.New("not reached yet"))
	_, _ = e.connect()
	e.running.Go(e.ping)
	return e, nil
}

var errNotConnected = fmt.Errorf("%w: etcd: not reached yet", ErrUnavailable)

// connect makes the client unless there is one. With a user it asks for a token, which needs etcd's answer.
func (e *Etcd) connect() (*clientv3.Client, error) {
	if client := e.client.Load(); client != nil {
		return client, nil
	}
	client, err := clientv3.New(clientv3.Config{
		Context: e.life, Endpoints: e.cfg.Endpoints, Username: e.cfg.Username, Password: e.cfg.Password, TLS: e.cfg.TLS,
		DialTimeout: etcdTimeout, DialKeepAliveTime: 2 * etcdPing, DialKeepAliveTimeout: etcdTimeout,
		Logger: zap.NewNop(), // it would log addresses
	})
	if err != nil {
		return nil, e.failed(err)
	}
	e.client.Store(client)
	return client, nil
}

// ping looks again and again whether etcd answers.
func (e *Etcd) ping() {
	ticker := time.NewTicker(etcdPing)
	defer ticker.Stop()
	for {
		e.mu.Lock()
		before := e.mu.revision
		e.mu.Unlock()
		if client, err := e.connect(); err == nil {
			ctx, cancel := context.WithTimeout(e.life, etcdTimeout)
			r, err := client.Get(ctx, e.prefix, clientv3.WithCountOnly())
			cancel()
			if err == nil {
				e.judge(r.Header.ClusterId, before, r.Header.Revision)
			} else {
				_ = e.failed(err)
			}
		}
		select {
		case <-ticker.C:
		case <-e.life.Done():
			return
		}
	}
}

// judge notes what a linearizable read found. A snapshot that was restored shows by an older revision than one known
// before the read, or by another cluster id: what is known and what is watched is void then.
func (e *Etcd) judge(cluster uint64, before, revision int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.mu.note(nil)
	if revision < before || e.mu.cluster != 0 && e.mu.cluster != cluster {
		close(e.mu.reset)
		e.mu.reset = make(chan struct{})
		e.mu.revision = 0
	}
	e.mu.cluster = cluster
	e.mu.revision = max(e.mu.revision, revision)
}

// seen notes that etcd answered at a revision.
func (e *Etcd) seen(revision int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.mu.note(nil)
	e.mu.revision = max(e.mu.revision, revision)
}

// failed notes an error of etcd's or of the way there, and makes it one of this package.
func (e *Etcd) failed(err error) error {
	err = fmt.Errorf("%w: etcd: %s", ErrUnavailable, reason(err))
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.life.Err() == nil {
		e.mu.note(err)
	}
	return err
}

// reason is what an operator can act upon, without addresses.
func reason(err error) string {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "no answer in time"
	case errors.Is(err, rpctypes.ErrAuthFailed), errors.Is(err, rpctypes.ErrPermissionDenied), errors.Is(err, rpctypes.ErrUserEmpty):
		return "it refuses the user, password or certificate"
	case errors.Is(err, rpctypes.ErrNoLeader):
		return "it has no leader"
	case errors.Is(err, rpctypes.ErrNoSpace):
		return "its database is full"
	default:
		return "it cannot be reached or fails"
	}
}

func (e *Etcd) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, etcdTimeout)
}

// Get implements Store.
func (e *Etcd) Get(ctx context.Context, key string) (Entry, error) {
	client := e.client.Load()
	if client == nil {
		return Entry{}, errNotConnected
	}
	ctx, cancel := e.bounded(ctx)
	defer cancel()
	r, err := client.Get(ctx, e.prefix+key)
	if err != nil {
		return Entry{}, e.failed(err)
	}
	e.seen(r.Header.Revision)
	if len(r.Kvs) == 0 {
		return Entry{}, ErrNotFound
	}
	return Entry{Key: key, Value: r.Kvs[0].Value, Revision: r.Kvs[0].ModRevision}, nil
}

// List implements Store.
func (e *Etcd) List(ctx context.Context, prefix string) ([]Entry, int64, error) {
	client := e.client.Load()
	if client == nil {
		return nil, 0, errNotConnected
	}
	ctx, cancel := e.bounded(ctx)
	defer cancel()
	r, err := client.Get(ctx, e.prefix+prefix, clientv3.WithPrefix(), clientv3.WithSort(clientv3.SortByKey, clientv3.SortAscend))
	if err != nil {
		return nil, 0, e.failed(err)
	}
	e.seen(r.Header.Revision)
	all := make([]Entry, 0, len(r.Kvs))
	for _, kv := range r.Kvs {
		all = append(all, Entry{Key: string(kv.Key[len(e.prefix):]), Value: kv.Value, Revision: kv.ModRevision})
	}
	return all, r.Header.Revision, nil
}

// Put implements Store.
func (e *Etcd) Put(ctx context.Context, key string, value []byte, expected int64) (int64, error) {
	if err := checkPut(key, value); err != nil {
		return 0, err
	}
	return e.write(ctx, key, expected, clientv3.OpPut(e.prefix+key, string(value)))
}

// Delete implements Store.
func (e *Etcd) Delete(ctx context.Context, key string, expected int64) (int64, error) {
	if expected != Any {
		return e.write(ctx, key, expected, clientv3.OpDelete(e.prefix+key))
	}
	client := e.client.Load()
	if client == nil {
		return 0, errNotConnected
	}
	ctx, cancel := e.bounded(ctx)
	defer cancel()
	r, err := client.Delete(ctx, e.prefix+key)
	if err != nil {
		return 0, e.failed(err)
	}
	e.seen(r.Header.Revision)
	if r.Deleted == 0 {
		return 0, ErrNotFound
	}
	return r.Header.Revision, nil
}

func (e *Etcd) write(ctx context.Context, key string, expected int64, op clientv3.Op) (int64, error) {
	client := e.client.Load()
	if client == nil {
		return 0, errNotConnected
	}
	ctx, cancel := e.bounded(ctx)
	defer cancel()
	tx := client.Txn(ctx)
	if expected != Any {
		tx = tx.If(clientv3.Compare(clientv3.ModRevision(e.prefix+key), "=", expected))
	}
	r, err := tx.Then(op).Else(clientv3.OpGet(e.prefix + key)).Commit()
	if err != nil {
		return 0, e.failed(err)
	}
	e.seen(r.Header.Revision)
	if r.Succeeded {
		return r.Header.Revision, nil
	}
	conflict := &ConflictError{Key: key, Expected: expected}
	if found := r.Responses[0].GetResponseRange().Kvs; len(found) > 0 {
		conflict.Actual = found[0].ModRevision
	}
	return 0, conflict
}

// Watch implements Store.
func (e *Etcd) Watch(ctx context.Context, prefix string, after int64) *Watch {
	out := make(chan Event)
	var failure error
	e.running.Go(func() {
		defer close(out)
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(e.life, cancel)() //nolint:contextcheck // the watch ends with either
		e.mu.Lock()
		reset := e.mu.reset
		if after > e.mu.revision { // from before a snapshot was restored
			failure = ErrCompacted
		}
		e.mu.Unlock()
		if failure != nil {
			return
		}
		for ctx.Err() == nil {
			if after, failure = e.follow(ctx, prefix, after, reset, out); failure != nil {
				return
			}
			select {
			case <-time.After(watchRetry):
			case <-ctx.Done():
			}
		}
	})
	return &Watch{Events: out, err: func() error { return failure }}
}

// follow watches until etcd or ctx ends it. It returns the revision up to which changes were sent.
func (e *Etcd) follow(ctx context.Context, prefix string, after int64, reset <-chan struct{}, out chan<- Event) (int64, error) {
	client := e.client.Load()
	if client == nil {
		return after, nil
	}
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	changes := client.Watch(ctx, e.prefix+prefix, clientv3.WithPrefix(), clientv3.WithRev(after+1))
	for {
		select {
		case <-reset:
			return after, ErrCompacted
		case r, more := <-changes:
			if !more || r.CompactRevision != 0 || r.Err() != nil {
				if r.CompactRevision != 0 {
					return after, ErrCompacted
				}
				return after, nil
			}
			for _, change := range r.Events {
				event := Event{
					Entry:   Entry{Key: string(change.Kv.Key[len(e.prefix):]), Revision: change.Kv.ModRevision},
					Deleted: change.Type == clientv3.EventTypeDelete,
				}
				if !event.Deleted {
					event.Value = change.Kv.Value
				}
				select {
				case out <- event:
				case <-ctx.Done():
					return after, nil
				}
			}
			after = max(after, r.Header.Revision)
			e.seen(r.Header.Revision)
		}
	}
}

// Status implements Store.
func (e *Etcd) Status() Status {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := Status{Kind: "etcd", Available: e.mu.failure == nil, Since: e.mu.since, Revision: e.mu.revision}
	if e.mu.failure != nil {
		s.Reason = e.mu.failure.Error()
	}
	return s
}

// Close implements Store.
func (e *Etcd) Close() error {
	e.stop()
	e.running.Wait()
	if client := e.client.Load(); client != nil {
		return client.Close()
	}
	return nil
}
