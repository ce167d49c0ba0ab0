package sim

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/sluiceproxy/sluice/internal/session"
	"github.com/sluiceproxy/sluice/internal/tenant"
	"github.com/sluiceproxy/sluice/internal/upstream"
)

// profile is what kind of world a seed makes.
type profile struct {
	sharded   bool
	nodes     int
	clients   int // at once
	commands  int // per client
	steps     int
	faults    bool // connections break, nodes fall silent, are slow, down or replaced
	moves     bool // slots move, maps are out of date
	singleKey bool // only commands with one key, so that a move never makes a client wait or fail
	large     bool // values above the stream threshold
	huge      bool // values so large that a client which is slow holds their pipe up
	password  bool
	reloads   bool // the routing table is swapped
	narrow    bool // connections take little at a time
	gaps      bool // maps may leave slots without a primary
	// transactions: clients send WATCH, MULTI and EXEC.
	transactions bool
	pubsub       bool // some clients listen to channels
	blocking     bool // clients wait for elements of lists

	settings  session.Settings
	pipes     upstream.PipesConfig
	dedicated upstream.DedicatedConfig
	crossSlot tenant.CrossSlot
	databases []int
	command   time.Duration // timeouts
	connect   time.Duration
}

func newProfile(r *rand.Rand) profile {
	p := profile{
		sharded: chance(r, 70), nodes: 1, clients: between(r, 1, 5), commands: between(r, 10, 60), steps: between(r, 60, 260),
		faults: chance(r, 55), moves: chance(r, 60), singleKey: chance(r, 40), large: chance(r, 8), password: chance(r, 15),
		reloads: chance(r, 20), narrow: chance(r, 30), gaps: chance(r, 20),
		databases: []int{0}, command: 30 * time.Second, connect: 30 * time.Second,
	}
	p.settings = session.Settings{
		MaxInflight: pick(r, 1, 3, 16, 1024), OutputBuffer: pick(r, 16<<10, 64<<10, 1<<20, 32<<20), OutputGrace: time.Hour,
		RedisVersion: "7.0.15", Version: "sim", StreamThreshold: 1 << 20,
	}
	p.pipes = upstream.PipesConfig{
		Max: pick(r, 1, 2, 4), GrowDelay: time.Duration(pick(r, 100, 1000)) * time.Microsecond,
		IdleTimeout: time.Duration(between(r, 20, 2000)) * time.Millisecond, MaxInflight: 16384,
	}
	if p.sharded {
		p.nodes = between(r, 1, 4)
		p.crossSlot = pick(r, tenant.Split, tenant.Split, tenant.Error)
	} else {
		p.moves, p.gaps = false, false
		p.databases = []int{0, 1, 2}[:between(r, 1, 3)]
	}
	if p.faults {
		p.command = time.Duration(between(r, 20, 400)) * time.Millisecond
		p.connect = time.Duration(between(r, 20, 400)) * time.Millisecond
		p.pipes.MaxInflight = pick(r, 20, 100, 16384)
	}
	p.transactions, p.blocking, p.pubsub = chance(r, 40), chance(r, 30), chance(r, 25)
	p.dedicated = upstream.DedicatedConfig{Max: pick(r, 1, 256), Wait: time.Hour}
	if p.large {
		p.settings.StreamThreshold = 8 << 10
		p.settings.OutputBuffer = pick(r, 256<<10, 32<<20)
		if p.huge = chance(r, 10); p.huge {
			p.settings.OutputBuffer = 32 << 20
			p.commands = between(r, 5, 20)
			p.command = max(p.command, time.Second) // a megabyte takes its time
		}
	}
	if wait := pick(r, 5*time.Millisecond, time.Second, time.Hour); !p.certain() {
		p.dedicated.Wait = wait
	}
	return p
}

// certain tells that nothing happens that may keep a command from being executed at its first attempt: every reply must
// then be that of a sequential execution.
func (p *profile) certain() bool {
	return !p.faults && !p.gaps && (!p.moves || p.singleKey && !p.large && !p.transactions)
}

func (p *profile) String() string {
	kind := "standalone"
	if p.sharded {
		kind = fmt.Sprintf("%d nodes", p.nodes)
	}
	return fmt.Sprintf("%s, %d clients of %d commands, faults=%t moves=%t single-key=%t large=%t huge=%t narrow=%t gaps=%t transactions=%t blocking=%t pubsub=%t reloads=%t inflight=%d pipes=%d dedicated=%d/%v timeouts=%v/%v",
		kind, p.clients, p.commands, p.faults, p.moves, p.singleKey, p.large, p.huge, p.narrow, p.gaps, p.transactions, p.blocking, p.pubsub, p.reloads, p.settings.MaxInflight, p.pipes.Max, p.dedicated.Max, p.dedicated.Wait, p.command, p.connect)
}

// chance is true in percent of 100 cases.
func chance(r *rand.Rand, percent int) bool { return r.IntN(100) < percent }

// between is a number from low to high, both included.
func between(r *rand.Rand, low, high int) int { return low + r.IntN(high-low+1) }

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

// some is how many of n bytes go at once: often all, often few.
func some(r *rand.Rand, n int) int {
	switch {
	case n <= 1 || chance(r, 40):
		return n
	case chance(r, 30):
		return 1
	default:
		return between(r, 1, n)
	}
}
