package session

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/sluiceproxy/sluice/internal/command"
	"github.com/sluiceproxy/sluice/internal/loop"
	"github.com/sluiceproxy/sluice/internal/tenant"
)

// halt is what one loop knows of an operator's pause of a tenant. It is apart from the tenant's own, CLIENT PAUSE, which the
// tenant ends as it likes.
type halt struct {
	refuse bool        // answer commands with an error; else they wait
	timer  *loop.Timer // nil: until it is ended
}

// Halt holds the tenant's commands, or refuses them, for a while or, when limit is 0, until EndHalt. What is in flight goes
// on, and so does what a client needs to log in and to leave. It is about one loop; on that loop.
func (w *Worker) Halt(name string, refuse bool, limit time.Duration) {
	stats := w.statsOf(name)
	w.endHalt(stats)
	h := &halt{refuse: refuse}
	if limit > 0 {
		h.timer = w.Loop.After(limit, func() { w.endHalt(stats) })
	}
	stats.halt = h
	stats.noteAttention()
}

// EndHalt lets the tenant's commands run again. On the loop.
func (w *Worker) EndHalt(name string) { w.endHalt(w.tenants[name]) }

func (w *Worker) endHalt(stats *tenantStats) {
	if stats == nil || stats.halt == nil {
		return
	}
	if stats.halt.timer != nil {
		w.Loop.Cancel(stats.halt.timer)
	}
	stats.halt = nil
	stats.noteAttention()
	w.wakePostponed(stats)
}

// haltRefuses reports whether the operator's pause answers the command with an error.
func (s *Session) haltRefuses(cmd *command.Command) bool {
	return s.stats.halt != nil && s.stats.halt.refuse && cmd.Flags&command.NoAuth == 0
}

// refuseHalted answers a command of a tenant that is paused. EXEC ends its transaction, as it does when it fails.
func (s *Session) refuseHalted(cmd *command.Command) bool {
	if cmd.Name == "exec" && s.transaction != nil && s.head == nil {
		s.transaction = nil
		s.unpin()
	}
	return s.refuse(errHalted)
}

// Halted are the tenants that an operator has paused on this loop. On the loop.
func (w *Worker) Halted() (names []string) {
	for name, t := range w.tenants {
		if t.halt != nil {
			names = append(names, name)
		}
	}
	return names
}

// Client is what operators are told of a session.
type Client struct {
	ID                       uint64
	Tenant, User             string
	Peer, Listener           string
	Name, Library            string
	Protocol, Database, Loop int
	Age, Idle                time.Duration
	LastCommand              string
	Pinned                   string // why it has a connection of its own; empty: it has none
	Inflight, Unread         int
}

// Describe tells of the session. On its loop.
func (s *Session) Describe() Client {
	now := s.worker.Loop.Now()
	c := Client{
		ID: s.id, Peer: s.peer, Listener: s.listener, Name: s.name, Library: s.libName, Protocol: int(s.protocol),
		Database: s.database, Loop: s.worker.Loop.ID(), Age: time.Duration(now - s.created), Idle: time.Duration(now - s.lastActive),
		LastCommand: s.lastName, Inflight: s.inflight, Unread: s.conn.Pending() + s.held,
	}
	if s.tenant != nil {
		c.Tenant, c.User = s.tenant.Name, tenant.DefaultUser
	}
	if s.user != nil {
		c.User = s.user.Name
	}
	switch {
	case s.pinned != nil:
		c.Pinned = pinNames[s.pinned.reason]
	case s.mode == ModeStreaming:
		c.Pinned = "stream"
	}
	return c
}

// TenantNumbers are what all loops counted for a tenant.
type TenantNumbers struct {
	Name             string
	Clients          int
	Commands, Errors uint64
	Latency          Histogram
	// ByClass are commands and their time, by class.
	ByClass [command.ClassCount]struct{ Commands, Nanos uint64 }
}

// Numbers are those of all tenants, in the order of their names. For any goroutine but loops.
func (s *Shared) Numbers() []TenantNumbers {
	all := make(map[string]*TenantNumbers)
	for _, w := range s.Workers {
		w.Loop.Call(func() {
			for name, t := range w.tenants {
				sum := all[name]
				if sum == nil {
					sum = &TenantNumbers{Name: name}
					all[name] = sum
				}
				t.sumInto(sum)
			}
		})
	}
	list := make([]TenantNumbers, 0, len(all))
	for _, name := range slices.SortedFunc(maps.Keys(all), cmp.Compare[string]) {
		list = append(list, *all[name])
	}
	return list
}

func (t *tenantStats) sumInto(sum *TenantNumbers) {
	sum.Clients += t.clients
	sum.Errors += t.refused + t.notSent
	for _, v := range t.failed {
		sum.Errors += v
	}
	for class, h := range t.latency {
		if h == nil {
			continue
		}
		sum.Commands += h.Count
		sum.ByClass[class].Commands += h.Count
		sum.ByClass[class].Nanos += h.Nanos
		sum.Latency.add(h)
	}
}

// Quantile is the duration that a share of the observations did not exceed, as its bucket's upper bound tells it; 0 without
// observations.
func (h *Histogram) Quantile(share float64) time.Duration {
	if h.Count == 0 {
		return 0
	}
	rank := uint64(share * float64(h.Count))
	var below uint64
	for i, n := range &h.Buckets {
		if below += n; below > rank || below == h.Count {
			return time.Duration(upperBound(i))
		}
	}
	return time.Duration(upperBound(histogramBuckets - 1))
}

// Since is what was observed after an earlier state of the same histogram; all of it when that is not an earlier one.
func (h *Histogram) Since(earlier *Histogram) Histogram {
	if earlier.Count > h.Count {
		return *h
	}
	later := Histogram{Count: h.Count - earlier.Count, Nanos: h.Nanos - earlier.Nanos}
	for i := range later.Buckets {
		later.Buckets[i] = h.Buckets[i] - earlier.Buckets[i]
	}
	return later
}
