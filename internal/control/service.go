package control

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/sluiceproxy/sluice/internal/config"
	"github.com/sluiceproxy/sluice/internal/store"
	"github.com/sluiceproxy/sluice/pkg/api"
)

const (
	// followRetry is the time before the store is read again after it could not be.
	followRetry = 500 * time.Millisecond
	// tombstonesMax is how many deleted entities of a kind keep their history.
	tombstonesMax = 1000
)

// Control keeps the desired state. All methods may be used from any goroutine.
type Control struct {
	store  store.Store
	sealer *Sealer
	log    *zap.Logger
	file   atomic.Pointer[File]
	impact atomic.Pointer[Impact]
	settle atomic.Pointer[func()]
	wrote  bool // since lock; guarded by writing

	clusters *entities[api.Cluster]
	tenants  *entities[api.Tenant]
	users    *entities[api.User]
	tokens   *entities[api.Token]

	writing sync.Mutex // one change at a time on this proxy: each is validated against what the one before left

	mu struct {
		sync.Mutex
		cache    map[string]cached // by key
		revision int64
		synced   bool // the store has been read whole once
	}
	changed chan struct{}
	events  feed
}

// cached is a record as the store has it.
type cached struct {
	record   *record
	revision int64
}

// File is what the configuration file declares.
type File struct {
	Config   *config.Config
	clusters []api.Cluster
	tenants  []api.Tenant
	users    []api.User
	tokens   []api.Token
}

// Impact tells what a change would do to connected clients: how many it touches, and how in words.
type Impact func(kind api.Kind, name string, before, after json.RawMessage) (sessions int, effects []string)

// New makes the desired state of a store and what the file declares. A nil sealer cannot keep passwords of clusters.
// Follow must run for it to see other proxies' changes.
func New(s store.Store, sealer *Sealer, file *File, log *zap.Logger) *Control {
	c := &Control{store: s, sealer: sealer, log: log, changed: make(chan struct{}, 1)}
	c.mu.cache = make(map[string]cached)
	c.file.Store(file)
	c.clusters = &entities[api.Cluster]{clusterKind(c), c}
	c.tenants = &entities[api.Tenant]{tenantKind(c), c}
	c.users = &entities[api.User]{userKind(c), c}
	c.tokens = &entities[api.Token]{tokenKind(c), c}
	return c
}

// Clusters are the registered clusters.
func (c *Control) Clusters() Entities[api.Cluster] { return c.clusters }

// Tenants are the registered tenants.
func (c *Control) Tenants() Entities[api.Tenant] { return c.tenants }

// Users are the registered users of all tenants; their names are "tenant/user".
func (c *Control) Users() Entities[api.User] { return c.users }

// Tokens are the tokens of the admin API.
func (c *Control) Tokens() Entities[api.Token] { return c.tokens }

// SetFile takes over what the configuration file declares now.
func (c *Control) SetFile(f *File) {
	c.file.Store(f)
	c.notify()
}

// SetImpact sets what judges the effects of changes.
func (c *Control) SetImpact(f Impact) { c.impact.Store(&f) }

// SetSettle sets what a change waits for, when it is kept, before it is answered: that the proxy has put it in force.
func (c *Control) SetSettle(f func()) { c.settle.Store(&f) }

// Revision is the store's, as far as State knows it.
func (c *Control) Revision() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.revision
}

func (c *Control) judgeImpact(kind api.Kind, name string, before, after json.RawMessage, plan *api.Plan) {
	if f := c.impact.Load(); f != nil {
		sessions, effects := (*f)(kind, name, before, after)
		plan.Sessions, plan.Effects = sessions, append(plan.Effects, effects...)
	}
}

// Changed receives whenever State may be another.
func (c *Control) Changed() <-chan struct{} { return c.changed }

func (c *Control) notify() {
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// Status tells how the store is.
func (c *Control) Status() store.Status { return c.store.Status() }

// Synced reports whether the store has been read.
func (c *Control) Synced() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.synced
}

// lock begins a change; what it returns ends it.
func (c *Control) lock() (unlock func()) {
	c.writing.Lock()
	return func() {
		wrote := c.wrote
		c.wrote = false
		c.writing.Unlock()
		if f := c.settle.Load(); wrote && f != nil {
			(*f)()
		}
	}
}

// Sync reads the whole store once.
func (c *Control) Sync(ctx context.Context) (revision int64, err error) {
	entries, revision, err := c.store.List(ctx, "")
	if err != nil {
		return 0, err
	}
	fresh := make(map[string]cached, len(entries))
	for _, e := range entries {
		r, err := parseRecord(e.Value)
		if err != nil {
			c.log.Error("an entry of the store cannot be read and is left out", zap.String("key", e.Key), zap.Error(err))
			continue
		}
		fresh[e.Key] = cached{r, e.Revision}
	}
	c.mu.Lock()
	c.mu.cache, c.mu.revision, c.mu.synced = fresh, revision, true
	c.mu.Unlock()
	c.notify()
	return revision, nil
}

// Follow keeps up with the store until ctx ends. While the store is away, what was known last stays.
func (c *Control) Follow(ctx context.Context) {
	for ctx.Err() == nil {
		revision, err := c.Sync(ctx)
		if err == nil {
			err = c.follow(ctx, revision)
		}
		if err != nil && ctx.Err() == nil && !errors.Is(err, store.ErrCompacted) {
			c.log.Warn("the store cannot be followed; its last state stays in force", zap.Error(err))
		}
		select {
		case <-ctx.Done():
		case <-time.After(followRetry):
		}
	}
}

func (c *Control) follow(ctx context.Context, revision int64) error {
	w := c.store.Watch(ctx, "", revision)
	for e := range w.Events {
		if e.Deleted {
			c.apply(e.Key, nil, e.Revision)
			continue
		}
		r, err := parseRecord(e.Value)
		if err != nil {
			c.log.Error("an entry of the store cannot be read; what it was before stays", zap.String("key", e.Key), zap.Error(err))
			continue
		}
		c.apply(e.Key, r, e.Revision)
	}
	return w.Err()
}

// apply takes a change over, unless a newer one has been.
func (c *Control) apply(key string, r *record, revision int64) {
	c.mu.Lock()
	before, known := c.mu.cache[key]
	c.mu.revision = max(c.mu.revision, revision)
	if known && before.revision >= revision {
		c.mu.Unlock()
		return
	}
	if r == nil {
		delete(c.mu.cache, key)
	} else {
		c.mu.cache[key] = cached{r, revision}
	}
	c.mu.Unlock()
	c.notify()
	if r != nil {
		c.events.send(changeEvent(key, r.last()))
	}
}

func (c *Control) cached(key string) (cached, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r, found := c.mu.cache[key]
	return r, found
}

// records are those whose keys begin with prefix.
func (c *Control) records(prefix string) (all []cached) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, r := range c.mu.cache {
		if strings.HasPrefix(key, prefix) {
			all = append(all, r)
		}
	}
	return all
}

// dropTombstones forgets the oldest deleted entities of a kind when there are too many.
func (c *Control) dropTombstones(ctx context.Context, prefix string) {
	type tombstone struct {
		key      string
		revision int64
	}
	var all []tombstone
	c.mu.Lock()
	for key, r := range c.mu.cache {
		if strings.HasPrefix(key, prefix) && r.record.deleted() {
			all = append(all, tombstone{key, r.revision})
		}
	}
	c.mu.Unlock()
	if len(all) <= tombstonesMax {
		return
	}
	slices.SortFunc(all, func(a, b tombstone) int { return int(a.revision - b.revision) })
	for _, t := range all[:len(all)-tombstonesMax] {
		if revision, err := c.store.Delete(ctx, t.key, t.revision); err == nil {
			c.apply(t.key, nil, revision)
		}
	}
}

// Authenticate finds the token with this secret; false: there is none, or it has expired.
func (c *Control) Authenticate(secret string) (api.Token, bool) {
	hash := HashToken(secret)
	found := func(t *api.Token, meta api.Meta) (api.Token, bool) {
		shown := c.tokens.show(t, meta)
		return shown, t.Expires.IsZero() || time.Now().Before(t.Expires)
	}
	for _, t := range c.file.Load().tokens {
		if equalHash(t.Secret, hash) {
			return found(&t, api.Meta{Source: api.SourceFile})
		}
	}
	for _, r := range c.records(c.tokens.prefix) {
		if r.record.deleted() {
			continue
		}
		if t, err := c.tokens.of(r.record); err == nil && equalHash(t.Secret, hash) {
			return found(t, r.record.last().meta())
		}
	}
	return api.Token{}, false
}
