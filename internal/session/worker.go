package session

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluiceproxy/sluice/internal/loop"
	"github.com/sluiceproxy/sluice/internal/route"
	"github.com/sluiceproxy/sluice/pkg/resp"
)

// Settings are what all sessions have in common. They do not change while the process runs.
type Settings struct {
	// MaxInflight bounds the commands of one session that have no reply yet.
	MaxInflight int
	// OutputBuffer is how many bytes of replies one client may leave unread; over it for OutputGrace, or over eight times
	// as much at once, it is disconnected.
	OutputBuffer int
	OutputGrace  time.Duration
	// GatherBuffer is how many bytes of replies that are being merged all sessions together may hold; 0 means 256 MiB.
	GatherBuffer int64
	// IdleTimeout disconnects clients that send nothing and wait for nothing; 0 means never.
	IdleTimeout time.Duration
	// RedisVersion is what HELLO and INFO say as long as the backend has not told its own.
	RedisVersion string
	// Version is the proxy's own.
	Version string
	// StreamThreshold is the length of one argument above which a command is passed on while it is received.
	StreamThreshold int64
	// SlowlogThreshold is the time from which a command is kept in its tenant's slow log; 0 keeps every command.
	SlowlogThreshold time.Duration
	// SlowlogLength is how many commands each tenant's slow log keeps; 0 turns it off.
	SlowlogLength int
	// MonitorRate is how many commands a client that monitors is shown in a second; 0 means 10,000.
	MonitorRate int
	// MoveTimeout is how long a session may stay on a cluster that is no longer its tenant's, because it has a connection of
	// its own there, a transaction or subscriptions that are refused elsewhere; 0 means 30 s. Such a cluster is kept for longer.
	MoveTimeout time.Duration
	// QueryBuffer is how long a command may be that is received whole; 0 means Redis's own bound, 1 GiB.
	QueryBuffer int
}

// Shared is what the workers of a process share. All of it may be used from any goroutine.
type Shared struct {
	Settings Settings
	Table    atomic.Pointer[route.Table]
	Workers  []*Worker // set once, before the first client

	clients  atomic.Int64
	gathered atomic.Int64 // bytes that the loops may hold of replies that are being merged
	nextID   atomic.Uint64
	auth     chan struct{}  // one token per password check that may run off the loops
	checks   atomic.Int64   // password checks that run or wait
	slow     sync.Map       // of tenants: the number of entries that their slow logs have had
	checking sync.WaitGroup // their goroutines
	started  time.Time
	runID    string
}

// NewShared makes what workers share.
func NewShared(s Settings, runID string) *Shared {
	if s.MonitorRate == 0 {
		s.MonitorRate = 10_000
	}
	if s.MoveTimeout == 0 {
		s.MoveTimeout = 30 * time.Second
	}
	if s.GatherBuffer == 0 {
		s.GatherBuffer = 256 << 20
	}
	if s.QueryBuffer == 0 {
		s.QueryBuffer = 1 << 30
	}
	return &Shared{Settings: s, auth: make(chan struct{}, authParallel), started: time.Now(), runID: runID}
}

// Wait waits for what runs off the loops, after the loops have stopped.
func (s *Shared) Wait() { s.checking.Wait() }

// Clients is the number of clients of all loops. For any goroutine.
func (s *Shared) Clients() int { return int(s.clients.Load()) }

// Worker is the sessions of one loop and what they use in turns. Only its loop touches it.
type Worker struct {
	Loop      *loop.Loop
	shared    *Shared
	table     *route.Table
	sessions  list
	free      *pending
	freeCount int
	made      int // records that are free or in use
	tenants   map[string]*tenantStats
	targets   map[uint64]*Session // that invalidations are redirected to
	limits    resp.CommandLimits
	strict    resp.CommandLimits // before authentication
	Stats     Stats
	scripts   scriptViews
	gathered  gatheredBytes

	args     [][]byte // of the command at hand; valid until the next
	slowArgs [][]byte // room for those of a slow command
	keys     []int
	// factName is the key of what the cluster is asked about; valid until the next.
	factName []byte
	buf      []byte // for replies and requests made here; valid until the next

	slowAfter int64 // nanoseconds from which a command is slow
	attending bool  // run is called for a command that attend has looked at
}

// Stats counts what the sessions of a loop did.
type Stats struct {
	Traffic        loop.Traffic
	Accepted       uint64
	ProtocolErrors uint64
	OutputLimit    uint64 // clients disconnected because they did not read
	IdleClosed     uint64
	AuthFailures   uint64
	Pinned         [pinReasons]int
	Moved          uint64 // clients that went to another loop
	GatherRefused  uint64 // commands refused because the process held too many bytes of replies that are being merged
	LeftBehind     uint64 // clients disconnected because they stayed on a cluster that was no longer their tenant's
}

// NewWorker makes the worker of a loop. It sweeps its sessions once a second.
func NewWorker(l *loop.Loop, shared *Shared) *Worker {
	w := &Worker{
		Loop: l, shared: shared, slowAfter: shared.Settings.slowAfter(), tenants: make(map[string]*tenantStats),
		limits: resp.DefaultLimits(), strict: resp.UnauthenticatedLimits(),
		args: make([][]byte, 0, 64), keys: make([]int, 0, 64), buf: make([]byte, 0, 4096),
	}
	w.table = shared.Table.Load()
	return w
}

// Begin starts the worker's periodic work. On its loop.
func (w *Worker) Begin() {
	w.Loop.Every(sweepInterval, func() bool { w.sweep(); return true })
}

// sweepInterval is how often idle and over-limit clients are looked for.
const sweepInterval = time.Second

// sweep disconnects clients that are idle or do not read for too long, and those whose tenant or user is gone.
func (w *Worker) sweep() {
	now := w.Loop.Now()
	for s := w.sessions.first; s != nil; {
		next := s.next
		s.adoptTable()
		s.checkLimits(now)
		s = next
	}
}

// Sessions is the number of clients of the loop.
func (w *Worker) Sessions() int { return w.sessions.n }

// Each calls fn for every session of the loop. On the loop.
func (w *Worker) Each(fn func(*Session)) {
	for s := w.sessions.first; s != nil; {
		next := s.next
		fn(s)
		s = next
	}
}

// snapshot takes over the routing table in force.
func (w *Worker) snapshot() *route.Table {
	if t := w.shared.Table.Load(); t != w.table {
		w.table = t
	}
	return w.table
}

// list is a doubly linked list of sessions.
type list struct {
	first *Session
	n     int
}

func (l *list) add(s *Session) {
	s.prev, s.next = nil, l.first
	if l.first != nil {
		l.first.prev = s
	}
	l.first = s
	l.n++
}

func (l *list) remove(s *Session) {
	if s.prev != nil {
		s.prev.next = s.next
	} else {
		l.first = s.next
	}
	if s.next != nil {
		s.next.prev = s.prev
	}
	s.prev, s.next = nil, nil
	l.n--
}
