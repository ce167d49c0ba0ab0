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

// Event is a change of an entity, made on this proxy or another.
type Event struct {
	Kind   api.Kind   `json:"kind"`
	Name   string     `json:"name"`
	Change api.Change `json:"change"`
}

// eventsAhead is how many events a slow listener may be behind; what comes then it misses.
const eventsAhead = 256

// feed gives events to listeners.
type feed struct {
	mu        sync.Mutex
	listeners map[chan Event]struct{}
}

func (f *feed) send(e Event) {
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
func (c *Control) Events(ctx context.Context) <-chan Event {
	listener := make(chan Event, eventsAhead)
	c.events.mu.Lock()
	if c.events.listeners == nil {
		c.events.listeners = make(map[chan Event]struct{})
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

func changeEvent(key string, v *version) Event {
	kinds := map[string]api.Kind{"clusters": api.KindCluster, "tenants": api.KindTenant, "users": api.KindUser, "tokens": api.KindToken}
	prefix, name, _ := strings.Cut(key, "/")
	return Event{Kind: kinds[prefix], Name: name, Change: v.Change}
}

func equalHash(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// Key orders changes: the newest comes first.
func (e *Event) Key() string {
	return fmt.Sprintf("%020d/%s/%s/%d", math.MaxInt64-e.Change.At.UnixNano(), e.Kind, e.Name, e.Change.Version)
}

// Changes lists the changes that are kept of the entities that match, the newest first. Deleted entities have some, too.
func (c *Control) Changes(match func(kind api.Kind, name string) bool) []Event {
	all := []Event{}
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
	slices.SortFunc(all, func(a, b Event) int {
		return cmp.Or(b.Change.At.Compare(a.Change.At), strings.Compare(a.Key(), b.Key()))
	})
	return all
}
