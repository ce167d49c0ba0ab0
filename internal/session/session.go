// Package session is one client connection: what it sends is cut into commands, each is answered here or sent to a
// pipe, and the replies leave in the order of the commands. A session is a state machine on a loop: it has no
// goroutine and takes no lock.
package session

import (
	"github.com/sluiceproxy/sluice/internal/loop"
	"github.com/sluiceproxy/sluice/internal/pipe"
	"github.com/sluiceproxy/sluice/internal/tenant"
	"github.com/sluiceproxy/sluice/internal/upstream"
	"github.com/sluiceproxy/sluice/pkg/resp"
)

// replyGuess is what the replies of a new session are taken to be on average, until it has had some.
const replyGuess = 32 << 10

// Mode says who reads what the client sends.
type Mode uint8

// The modes. Pinned and subscribed sessions have a dedicated connection.
const (
	ModeNormal    Mode = iota // commands go to shared pipes
	ModeStreaming             // a command too long to be held goes to a dedicated connection as it arrives
	ModeClosing               // nothing more is read; what is owed is sent
)

// Session is one client. Everything in it belongs to its loop.
type Session struct {
	worker *Worker
	conn   *loop.Conn
	scan   resp.CommandScanner
	limits *resp.CommandLimits

	id        uint64
	protocol  int8 // 2 or 3
	mode      Mode
	barrier   bool // a command waits for an answer from off the loop, or must be alone: nothing is consumed
	stopped   bool // unconsumed input may be left: look again when something is settled
	loose     bool // the command at hand must be encoded anew
	reply     replyMode
	drain     bool // close as soon as nothing is owed and nothing that has come waits
	deaf      bool // nothing more of what comes is begun; set after drain
	postponed bool // the next command waits for the end of a pause
	noEvict   bool // what CLIENT NO-EVICT said
	inData    bool // Data is running: what is owed is not known before its end

	registry *tenant.Registry // of the table that tenant was taken from
	tenant   *tenant.Tenant   // nil: not authenticated
	user     *tenant.User
	stats    *tenantStats
	local    *upstream.Local // the loop's part of the tenant's cluster
	epoch    uint32          // of local, under which the calls in flight were sent
	sharded  bool            // the backend divides its keys by slot
	fronted  bool            // the client is shown a cluster
	slotted  bool            // one of the two: the keys of a command must be in one slot
	trusted  bool            // the tenant operates its backend
	target   upstream.Target
	database int

	origin   pipe.Origin
	head     *pending // commands without a reply, oldest first
	tail     *pending
	alone    *pending // to be tried again; nothing may overtake it
	inflight int
	held     int // bytes of replies that wait for an earlier one
	average  int // of a reply's length, smoothed

	stream       *streaming   // in ModeStreaming
	transaction  *transaction // since MULTI
	executing    *execution   // of an EXEC, once it has the proxy do something
	pinned       *pinned      // a connection of the session's own
	blocked      *pending     // the blocking command that the session waits for
	waitsFor     *waiting     // WAIT on several shards
	wants        *upstream.Waiter
	wantsToBlock bool  // the command that waits for it blocks then
	wantsSince   int64 // since when the command at hand waits for a connection of its own; 0: it does not
	ended        bool  // the client sends nothing more
	channels     *subscriptions
	monitor      *monitor           // the session is shown its tenant's commands
	tracking     *tracking          // client-side caching is on
	trackers     map[uint64]*Worker // sessions that redirect their invalidations here
	pushes       []byte             // messages that came in the middle of a reply
	holds        []*pending         // whose pipes wait, because the client takes a large reply too slowly

	check  *passwordCheck // that the session waits for
	lesson *lesson        // about the command at hand

	moveTo     *Worker // another loop that the session has been asked to go to
	bound      string  // tenant of the listener
	name       string
	libName    string
	libVersion string
	peer       string
	listener   string
	entry      int    // number of the listener
	lastName   string // of the last command
	created    int64
	lastActive int64
	lateSince  int64 // since when it stays behind on a cluster that is no longer its tenant's; 0: it does not
	overSince  int64 // since when more than the output bound is unread; 0: it is not

	next, prev *Session
}

// Origin is where a client came from.
type Origin struct {
	// Peer and Listener are addresses, for CLIENT LIST and for what a client in cluster mode is told.
	Peer, Listener string
	// Number is the listener's place in the configuration.
	Number int
	// Tenant is the one that the listener is bound to; empty: by AUTH.
	Tenant string
}

// New makes the session of a new client. The caller attaches a transport to Conn.
func (w *Worker) New(from Origin) *Session {
	s := &Session{
		worker: w, id: w.shared.nextID.Add(1), protocol: 2, average: replyGuess, limits: &w.strict,
		bound: from.Tenant, peer: from.Peer, listener: from.Listener, entry: from.Number,
		created: w.Loop.Now(), lastActive: w.Loop.Now(),
	}
	s.conn = w.Loop.NewConn(s, &w.Stats.Traffic)
	w.sessions.add(s)
	w.shared.clients.Add(1)
	w.Stats.Accepted++
	s.become(w.snapshot().Registry.ForListener(from.Tenant), nil)
	return s
}

// ID is what CLIENT ID tells the client.
func (s *Session) ID() uint64 { return s.id }

// Conn is the client's connection.
func (s *Session) Conn() *loop.Conn { return s.conn }

// become makes the session a tenant's: at once when the tenant needs no password, else by AUTH.
func (s *Session) become(t *tenant.Tenant, user *tenant.User) {
	if t == nil || user == nil && !t.Open() {
		return
	}
	w := s.worker
	if s.tenant == nil || s.tenant.Name != t.Name {
		s.database = t.Databases[0]
	}
	s.leave()
	s.registry, s.tenant, s.user = w.table.Registry, t, user
	s.lateSince = 0
	s.stats = w.statsOf(t.Name)
	s.stats.clients++
	cluster := w.table.Cluster(t)
	local := cluster.Local(w.Loop.ID())
	if s.tracking != nil && s.local != local {
		s.CacheLost()
		s.dropTracking()
	}
	s.local = local
	s.local.Refresh()
	s.local.Users++
	s.epoch = s.local.Epoch()
	s.sharded, s.fronted = s.local.Sharded(), t.Frontend == tenant.FrontCluster
	s.slotted = s.sharded || s.fronted
	s.trusted = t.Trusted
	s.limits = &w.limits
	s.retarget()
}

// leave takes the session out of its tenant's counts.
func (s *Session) leave() {
	if s.stats == nil {
		return
	}
	s.stats.clients--
	s.stats = nil
	s.local.Users--
}

// retarget fits the upstream connections to the protocol version and database.
func (s *Session) retarget() {
	s.target = upstream.MakeTarget(int(s.protocol), s.database)
	if s.tracking == nil {
		return
	}
	if s.tracking.tracker != nil {
		s.tracking.tracker.Retarget(s.target)
	}
	s.target = s.target.Own()
}
