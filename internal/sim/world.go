package sim

import (
	"fmt"
	"io"
	"math/rand/v2"
	"runtime/debug"
	"time"

	"go.uber.org/zap"

	"github.com/sluiceproxy/sluice/internal/loop"
	"github.com/sluiceproxy/sluice/internal/route"
	"github.com/sluiceproxy/sluice/internal/session"
	"github.com/sluiceproxy/sluice/internal/tenant"
	"github.com/sluiceproxy/sluice/internal/topology"
	"github.com/sluiceproxy/sluice/internal/upstream"
)

const (
	tenantName   = "tenant"
	clusterName  = "cluster"
	password     = "secret"
	clientsAll   = 3 // times profile.clients: how many there may be in all, one after the other
	standaloneAt = "10.0.0.1:7000"
)

// Stats is what was played, to see that a simulation does what it is meant to do.
type Stats struct {
	Commands, Answered, Errors, Links, Dials, Moves, Maps, Replaced, Clients int
	Executed, Aborted                                                        int // transactions
	Messages                                                                 int
	Popped, PutBack, Lost                                                    int // elements of lists
	Redirected, Asked, Retried, TimedOut, Late                               uint64
}

// Add sums up.
func (s *Stats) Add(o *Stats) {
	s.Commands += o.Commands
	s.Answered += o.Answered
	s.Errors += o.Errors
	s.Links += o.Links
	s.Dials += o.Dials
	s.Moves += o.Moves
	s.Maps += o.Maps
	s.Replaced += o.Replaced
	s.Clients += o.Clients
	s.Messages += o.Messages
	s.Executed += o.Executed
	s.Aborted += o.Aborted
	s.Popped += o.Popped
	s.PutBack += o.PutBack
	s.Lost += o.Lost
	s.Redirected += o.Redirected
	s.Asked += o.Asked
	s.Retried += o.Retried
	s.TimedOut += o.TimedOut
	s.Late += o.Late
}

// world is all there is: the proxy's loop, the clients and the cluster.
type world struct {
	seed    uint64
	random  *rand.Rand
	profile profile
	trace   io.Writer
	stats   Stats

	loop     *loop.Manual
	shared   *session.Shared
	worker   *session.Worker
	cluster  *upstream.Cluster
	registry *tenant.Registry

	tags      []*tag
	tagByText map[string]*tag
	nodes     []*node
	links     []*link // attached, not ended
	dials     []*dialing
	moves     []*move
	maps      []*topology.Map // that were true once
	drawn     map[string]*topology.Map
	mapDue    int64 // when the proxy gets to know of a change

	clients   []*client // connected
	everyone  []*client
	registers map[registerKey]*register
	byID      map[string]*command
	elements  map[string]*element
	published int // messages
	// transactions are all that clients have begun, by name.
	transactions map[string]*transaction

	calm bool // no faults any more
}

// violation is thrown where something that must hold does not.
type violation struct{ text string }

func (w *world) failf(format string, args ...any) {
	panic(violation{fmt.Sprintf(format, args...)})
}

func (w *world) tracef(format string, args ...any) {
	if w.trace != nil {
		fmt.Fprintf(w.trace, "%9.3fms ", float64(w.loop.Now())/1e6)
		fmt.Fprintf(w.trace, format, args...)
		fmt.Fprintln(w.trace)
	}
}

// Run plays one seed. The error says which law was broken; trace, when not nil, is told what happens.
func Run(seed uint64, trace io.Writer) (stats Stats, err error) {
	w := newWorld(seed, trace)
	defer func() {
		w.collect()
		stats = w.stats
		switch thrown := recover().(type) {
		case nil:
		case violation:
			err = fmt.Errorf("%s (%s)", thrown.text, &w.profile)
		default:
			err = fmt.Errorf("panic: %v (%s)\n%s", thrown, &w.profile, debug.Stack())
		}
		if err != nil {
			w.tracef("%v", err)
		}
	}()
	w.tracef("%s", &w.profile)
	for range w.profile.steps {
		w.step()
	}
	w.finish()
	return stats, nil
}

func newRandom(seed uint64) *rand.Rand {
	return rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // repeatable on purpose
}

func newWorld(seed uint64, trace io.Writer) *world {
	w := &world{
		seed: seed, random: newRandom(seed), trace: trace,
		registers: make(map[registerKey]*register), byID: make(map[string]*command), elements: make(map[string]*element), transactions: make(map[string]*transaction), drawn: make(map[string]*topology.Map), tagByText: make(map[string]*tag),
	}
	w.profile = newProfile(w.random)
	w.loop = loop.NewManual()
	w.makeCluster()
	w.shared = session.NewShared(w.profile.settings, "sim")
	w.swapTable(w.profile.command)
	w.worker = session.NewWorker(w.loop.Loop, w.shared)
	w.shared.Workers = []*session.Worker{w.worker}
	w.worker.Begin()
	return w
}

// swapTable puts a new routing table in force, as a reload of the configuration does.
func (w *world) swapTable(timeout time.Duration) {
	t := &tenant.Tenant{
		Name: tenantName, Cluster: clusterName, Databases: w.profile.databases, CrossSlot: w.profile.crossSlot,
		CommandTimeout: timeout, ConnectTimeout: w.profile.connect,
	}
	if w.profile.password {
		t.Users = map[string]*tenant.User{tenant.DefaultUser: tenant.NewUser(tenant.DefaultUser, tenant.VerifierOf(password))}
	}
	var err error
	if w.registry, err = tenant.NewRegistry([]*tenant.Tenant{t}, tenant.Adopt(w.registry)); err != nil {
		w.failf("%v", err)
	}
	table, err := route.NewTable(w.registry, map[string]*upstream.Cluster{clusterName: w.cluster})
	if err != nil {
		w.failf("%v", err)
	}
	w.shared.Table.Store(table)
}

func (w *world) makeCluster() {
	cfg := upstream.Config{
		Name: clusterName, Kind: upstream.Standalone, Addresses: []string{standaloneAt}, ConnectTimeout: w.profile.connect,
		Pipes: w.profile.pipes, StreamThreshold: w.profile.settings.StreamThreshold, Dedicated: w.profile.dedicated,
		Dialer: w, Seed: w.seed + 1,
	}
	if w.profile.sharded {
		cfg.Kind = upstream.Sharded
	}
	for i := range between(w.random, 1, 4) {
		t := newTag(i)
		w.tags = append(w.tags, t)
		w.tagByText[t.text] = t
	}
	w.cluster = upstream.NewCluster(cfg, []*loop.Loop{w.loop.Loop}, zap.NewNop())
	for range w.profile.nodes {
		w.newNode()
	}
	for _, t := range w.tags {
		owner := w.nodes[int(t.slot)*len(w.nodes)/topology.SlotCount]
		w.learn(t, owner)
		owner.owns[t.index] = true
	}
	if w.profile.sharded {
		w.adopt(w.trueMap())
	}
}

// faulty reports whether something may go wrong now.
func (w *world) faulty() bool { return w.profile.faults && !w.calm }

// step is one tick of the proxy's loop and what happens before it.
func (w *world) step() {
	w.pass()
	w.playBackend()
	w.playClients()
	w.playLinks()
	w.loop.Tick()
	w.check()
}

// pass lets time pass: mostly little.
func (w *world) pass() {
	switch {
	case chance(w.random, 70):
		w.loop.Advance(time.Duration(w.random.IntN(300)) * time.Microsecond)
	case chance(w.random, 80):
		w.loop.Advance(time.Duration(w.random.IntN(3000)) * time.Microsecond)
	case w.faulty():
		w.loop.Advance(time.Duration(w.random.IntN(60)) * time.Millisecond)
	}
}

func (w *world) playLinks() {
	for i := 0; i < len(w.links); i++ {
		if chance(w.random, 40) {
			continue
		}
		if l := w.links[i]; !l.play() {
			w.links = append(w.links[:i], w.links[i+1:]...)
			i--
		}
	}
}

func (w *world) playClients() {
	if !w.calm && len(w.clients) < w.profile.clients && len(w.everyone) < clientsAll*w.profile.clients && chance(w.random, 20) {
		w.newClient()
	}
	for i := 0; i < len(w.clients); i++ {
		if !w.clients[i].play() {
			w.clients = append(w.clients[:i], w.clients[i+1:]...)
			i--
		}
	}
}

// check asserts the bounds after each tick.
func (w *world) check() {
	limits := &w.profile.settings
	w.worker.Each(func(s *session.Session) {
		commands, held := s.Owed()
		if commands > limits.MaxInflight {
			w.failf("a session has %d commands in flight; %d are allowed", commands, limits.MaxInflight)
		}
		if unsent := s.Conn().Pending(); held+unsent > limits.OutputBuffer+limits.MaxInflight*replyMax(&w.profile) {
			w.failf("a session holds %d bytes of replies and its connection %d; the bound is %d", held, unsent, limits.OutputBuffer)
		}
	})
}

// replyMax is more than a reply is long.
func replyMax(p *profile) int {
	switch {
	case p.huge:
		return 16 << 20
	case p.large:
		return 1 << 20
	}
	return 32 << 10
}

// someTime is how long something takes that may take most.
func (w *world) someTime(most time.Duration) int64 {
	switch {
	case w.faulty() && chance(w.random, 10):
		return w.random.Int64N(int64(most))
	case chance(w.random, 30):
		return 0
	default:
		return w.random.Int64N(int64(2 * time.Millisecond))
	}
}

// collect takes the proxy's own counts over.
func (w *world) collect() {
	local := w.cluster.Local(w.loop.ID())
	w.stats.Redirected, w.stats.Asked, w.stats.Retried = local.Stats.Moved, local.Stats.Ask, local.Stats.Retried
	w.stats.Clients, w.stats.Late = len(w.everyone), local.Stats.Late
	for _, c := range w.byID {
		switch c.outcome {
		case timedOut:
			w.stats.TimedOut++
		case answered:
			w.stats.Answered++
		}
	}
	w.stats.Commands = len(w.byID)
}
