package control

import (
	"cmp"
	"context"
	"crypto/subtle"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/sluiceproxy/sluice/pkg/api"
)

// eventsAhead is how many events a slow listener may be behind; what comes then it misses.
const eventsAhead = 256

// feed gives events to listeners.
type feed struct {
	mu        sync.Mutex
	listeners map[chan api.Changed]struct{}
}

func (f *feed) send(e api.Changed) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for listener := range f.listeners {
		select {
		case listener <- e:
		default:
		}
	}
}

// Events sends changes until ctx ends. A listener that is too slow misses some.
func (c *Control) Events(ctx context.Context) <-chan api.Changed {
	listener := make(chan api.Changed, eventsAhead)
	c.events.mu.Lock()
	if c.events.listeners == nil {
		c.events.listeners = make(map[chan api.Changed]struct{})
	}
	c.events.listeners[listener] = struct{}{}
	c.events.mu.Unlock()
	context.AfterFunc(ctx, func() {
		c.events.mu.Lock()
		delete(c.events.listeners, listener)
		c.events.mu.Unlock()
		close(listener)
	})
	return listener
}

func changeEvent(key string, v *version) api.Changed {
	kinds := map[string]api.Kind{"clusters": api.KindCluster, "tenants": api.KindTenant, "users": api.KindUser, "tokens": api.KindToken}
	prefix, name, _ := strings.Cut(key, "/")
	return api.Changed{Kind: kinds[prefix], Name: name, Change: v.Change}
}

func equalHash(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// ChangeKey orders changes: the newest comes first.
func ChangeKey(e *api.Changed) string {
	return fmt.Sprintf("%020d/%s/%s/%d", math.MaxInt64-e.Change.At.UnixNano(), e.Kind, e.Name, e.Change.Version)
}

// Changes lists the changes that are kept of the entities that match, the newest first. Deleted entities have some, too.
func (c *Control) Changes(match func(kind api.Kind, name string) bool) []api.Changed {
	all := []api.Changed{}
	c.mu.Lock()
	for key, r := range c.mu.cache {
		if e := changeEvent(key, r.record.last()); !match(e.Kind, e.Name) {
			continue
		}
		for i := range r.record.Versions {
			all = append(all, changeEvent(key, &r.record.Versions[i]))
		}
	}
	c.mu.Unlock()
	slices.SortFunc(all, func(a, b api.Changed) int {
		return cmp.Or(b.Change.At.Compare(a.Change.At), strings.Compare(ChangeKey(&a), ChangeKey(&b)))
	})
	return all
}
