// Package session is one client connection: what it sends is cut into commands, each is answered here or sent to a
// pipe, and the replies leave in the order of the commands. A session is a state machine on a loop: it has no
// goroutine and takes no lock.
package session

import (
	"errors"
	"time"

	"github.com/sluiceproxy/sluice/internal/loop"
	"github.com/sluiceproxy/sluice/internal/pipe"
	"github.com/sluiceproxy/sluice/internal/route"
	"github.com/sluiceproxy/sluice/internal/tenant"
	"github.com/sluiceproxy/sluice/internal/upstream"
	"github.com/sluiceproxy/sluice/pkg/resp"
)

const (
	// unreadMax is how much unconsumed input a waiting session holds before it lets the rest wait in the kernel.
	unreadMax = 64 << 10
	// replyGuess is what the replies of a new session are taken to be on average, until it has had some.
	replyGuess = 32 << 10
)

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

	stream      *streaming   // in ModeStreaming
	transaction *transaction // since MULTI
	pinned      *pinned      // a connection of the session's own
	blocked     *pending     // the blocking command that the session waits for
	waitsFor    *waiting     // WAIT on several shards
	wants       *upstream.Waiter
	wantsSince  int64 // since when the command at hand waits for a connection of its own; 0: it does not
	ended       bool  // the client sends nothing more
	channels    *subscriptions
	monitor     *monitor           // the session is shown its tenant's commands
	tracking    *tracking          // client-side caching is on
	trackers    map[uint64]*Worker // sessions that redirect their invalidations here
	pushes      []byte             // messages that came in the middle of a reply
	holds       []*pending         // whose pipes wait, because the client takes a large reply too slowly

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

// adoptTable follows a swap of the routing table: an unchanged tenant costs a few comparisons, a changed one is taken over
// when nothing is in flight, and a session whose tenant or user is gone is disconnected.
func (s *Session) adoptTable() (wait bool) {
	table := s.worker.snapshot()
	if s.tenant == nil || s.registry == table.Registry {
		return false
	}
	if s.tracking == nil && table.Registry.Tenant(s.tenant.Name) == s.tenant && table.Cluster(s.tenant) == s.local.Cluster() {
		s.registry = table.Registry // nothing about this session is another
		return false
	}
	if s.pinned != nil || s.transaction != nil || s.tracking != nil || s.subscribed() {
		return s.adoptLater(table)
	}
	if s.head != nil || s.mode != ModeNormal {
		return true
	}
	return s.follow(table)
}

// adoptPatience is how long a session may stay on a cluster that is no longer its tenant's, because it has a connection of
// its own there, a transaction or subscriptions. It is less than the time for which such a cluster is kept.
const adoptPatience = 30 * time.Second

// adoptLater keeps a session on the cluster where it has a connection of its own, a transaction or subscriptions, for a
// while, unless its tenant or user is gone.
func (s *Session) adoptLater(table *route.Table) (wait bool) {
	t := table.Registry.Tenant(s.tenant.Name)
	gone := t == nil || s.user == nil && !t.Open() || s.user != nil && t.Users[s.user.Name] == nil
	if !gone && s.tracking != nil && s.tracking.trespasses(s, table) {
		s.conn.Close(nil)
		return true
	}
	if gone {
		return s.head == nil && s.follow(table)
	}
	if table.Cluster(t) == s.local.Cluster() {
		if s.pinned == nil && s.transaction == nil && s.tracking == nil && s.head == nil && s.mode == ModeNormal {
			return s.follow(table) // subscriptions stay where they are
		}
		s.lateSince = 0
		return false
	}
	now := s.worker.Loop.Now()
	if s.lateSince == 0 {
		s.lateSince = now
	}
	if now-s.lateSince >= int64(adoptPatience) {
		s.worker.Stats.LeftBehind++
		s.conn.Close(errLeftBehind)
		return true
	}
	return false
}

var errLeftBehind = errors.New("the tenant is on another cluster now")

// follow takes the session over to another table. Nothing is in flight.
func (s *Session) follow(table *route.Table) (wait bool) {
	t := table.Registry.Tenant(s.tenant.Name)
	switch {
	case t == nil, s.user == nil && !t.Open(), s.user != nil && t.Users[s.user.Name] == nil:
		s.appendError(errTenantGone)
		s.finish()
		return true
	case s.user != nil:
		s.user = t.Users[s.user.Name]
	}
	if !t.Allows(s.database) {
		s.appendError(errDatabaseGone) // what the client writes next must not end up in another
		s.finish()
		return true
	}
	s.become(t, s.user)
	return false
}

// Data implements loop.Handler.
func (s *Session) Data(b []byte) int {
	s.inData = true
	n := s.take(b)
	s.inData = false
	if s.drain {
		s.endIfSettled(n < len(b))
	}
	return n
}

// take cuts the input into commands and runs them, as long as none has to wait.
func (s *Session) take(b []byte) int {
	w := s.worker
	s.lastActive = w.Loop.Now()
	s.stopped = false
	if s.deaf {
		return s.stop(b, 0)
	}
	if s.mode == ModeStreaming {
		return s.streamOn(b)
	}
	if s.mode == ModeClosing {
		return len(b)
	}
	if s.moveTo != nil && s.mayMove() {
		s.barrier = true
		w.Loop.Post(s.depart)
		return s.stop(b, 0)
	}
	if s.adoptTable() {
		return s.stop(b, 0)
	}
	if s.local != nil {
		s.local.Refresh()
	}
	at := 0
	for at < len(b) {
		if s.mustWait() {
			return s.stop(b, at)
		}
		n, err := s.scan.Scan(b[at:], s.limits)
		if err != nil {
			s.malformed(err)
			return len(b)
		}
		if n == 0 {
			return s.incomplete(b, at)
		}
		s.loose = !s.scan.Verbatim()
		if !s.run(b[at : at+n]) {
			return s.stop(b, at)
		}
		if s.reply != replyOn {
			s.unskip()
		}
		at += n
		if s.mode != ModeNormal || s.conn.Closed() {
			return len(b)
		}
	}
	s.conn.Expect(0)
	return at
}

// incomplete keeps the beginning of a command, or begins to stream one that is too long to be kept.
func (s *Session) incomplete(b []byte, at int) int {
	if _, _, length, _, open := s.scan.OpenBulk(); open && length > s.worker.shared.Settings.StreamThreshold {
		if s.drain {
			s.deaf = true // its rest may never come
			return s.stop(b, at)
		}
		if s.head != nil {
			return s.stop(b, at) // what is in flight is settled first: the dedicated connection could overtake it
		}
		return at + s.beginStream(b[at:])
	}
	if len(b)-at > s.worker.shared.Settings.QueryBuffer {
		// Many arguments, none of them long: as Redis does at its client-query-buffer-limit, the client is closed.
		s.worker.Stats.ProtocolErrors++
		s.conn.Close(errQueryBuffer)
		return len(b)
	}
	s.conn.Expect(s.scan.Need())
	return at
}

var errQueryBuffer = errors.New("query buffer limit reached")

// mustWait reports whether no further command may be begun now. Commands are held back, never refused: too much in
// flight is no error of the client's.
func (s *Session) mustWait() bool {
	limits := &s.worker.shared.Settings
	if s.barrier || s.alone != nil {
		return true
	}
	if s.head == nil {
		return s.conn.Pending() > limits.OutputBuffer/2
	}
	return s.inflight >= limits.MaxInflight || s.held+s.conn.Pending()+s.inflight*s.average > limits.OutputBuffer/2
}

// stop leaves what begins at at for later.
func (s *Session) stop(b []byte, at int) int {
	s.stopped = true
	s.conn.TellDrained() // what waits for the output to be taken is begun then
	if len(b)-at > unreadMax {
		s.conn.Pause()
	}
	return at
}

// goOn looks again at input that was left, after something that it may have waited for.
func (s *Session) goOn() {
	if !s.stopped || s.conn.Closed() {
		return
	}
	s.conn.Resume()
	s.conn.Again()
}

// malformed answers bytes that are not RESP as Redis does and closes.
func (s *Session) malformed(err error) {
	s.worker.Stats.ProtocolErrors++
	s.appendError("ERR " + err.Error())
	s.finish()
}

// finish stops reading and closes when what is owed has been sent.
func (s *Session) finish() {
	s.mode = ModeClosing
	if s.head == nil {
		s.conn.CloseFlushed()
	}
}

// Drain closes the session as soon as nothing of it is in flight. On its loop.
func (s *Session) Drain() {
	s.drain = true
	s.worker.endPause(s.stats)
	s.worker.endHalt(s.stats)
	s.endIfSettled(s.conn.Unread() > 0)
}

// StopReading ends a drain that takes too long, because the client keeps sending: what is in flight gets its replies,
// what came later is not begun. On its loop.
func (s *Session) StopReading() {
	s.deaf = true
	s.Drain()
}

// Ended reports whether the client has got all that it is owed; only the end of its own side is waited for.
func (s *Session) Ended() bool {
	return s.mode == ModeClosing && s.head == nil && s.conn.Pending() == 0
}

// endIfSettled closes a session that is to be drained when nothing is owed to the client. unread tells that input is
// left: a command that waits for something, which is served first, or the beginning of one, which never was.
func (s *Session) endIfSettled(unread bool) {
	if s.inData || s.head != nil || s.mode != ModeNormal || unread && s.stopped && !s.deaf {
		return
	}
	s.finish()
}

// Owed is what the client has not been given yet: the number of commands without a reply, and the bytes of replies that
// wait for an earlier one. On its loop.
func (s *Session) Owed() (commands, bytes int) { return s.inflight, s.held }

// Kill closes the session at once. On its loop.
func (s *Session) Kill(err error) { s.conn.Close(err) }

// EOF implements loop.Handler: commands that were sent before the end still get their replies.
func (s *Session) EOF() {
	s.ended = true
	if s.blocked != nil || s.wants != nil {
		s.conn.Close(nil) // nobody is there to take what comes
		return
	}
	if s.mode == ModeStreaming {
		s.abandonStream() // in the middle of a command
		s.finish()
		return
	}
	if s.conn.Unread() > 0 && s.stopped {
		s.drain = true // whole commands wait in the input
		return
	}
	s.finish()
}

// Drained implements loop.Handler.
func (s *Session) Drained() {
	s.continuePipes()
	s.overSince = 0
	s.goOn()
}

// Closed implements loop.Handler: what is in flight is nobody's now.
func (s *Session) Closed(error) {
	s.continuePipes()
	s.abandonStream()
	s.stopWanting()
	s.salvage()
	s.stopWaiting()
	s.dropPin()
	s.dropTracking()
	s.leaveTrackers()
	s.leaveChannels()
	s.stopMonitor()
	if s.check != nil {
		s.check.abandoned.Store(true)
	}
	for s.head != nil {
		p := s.head
		s.unlink()
		p.session = nil
		s.worker.recycle(p)
	}
	s.leave()
	s.worker.sessions.remove(s)
	s.worker.shared.clients.Add(-1)
}

// checkLimits disconnects a client that is idle, or that leaves too much unread for too long.
func (s *Session) checkLimits(now int64) {
	s.sweepMonitor(now)
	limits := &s.worker.shared.Settings
	switch {
	case limits.IdleTimeout > 0 && now-s.lastActive > int64(limits.IdleTimeout) && s.waitsForClient() && !s.postponed && s.monitor == nil:
		s.worker.Stats.IdleClosed++
		s.conn.Close(nil)
	case s.overSince != 0 && now-s.overSince > int64(limits.OutputGrace),
		s.mode == ModeClosing && s.head == nil && now-s.lastActive > int64(closeGrace):
		s.giveUp()
	case len(s.holds) > 0 && s.blocksTooLong(now):
		s.giveUp()
	}
}

// waitsForClient reports whether it is the client's turn: to send a command, or the rest of one.
func (s *Session) waitsForClient() bool {
	switch s.mode {
	case ModeNormal:
		return s.head == nil && s.wants == nil && s.channels == nil // a client that listens may be silent
	case ModeStreaming:
		return s.stream.line == nil || s.stream.line.Backlog() == 0
	default:
		return false
	}
}

// closeGrace is how long a client may take to read the last replies of a connection that is to be closed.
const closeGrace = 30 * time.Second
