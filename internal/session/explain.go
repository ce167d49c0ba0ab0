package session

import (
	"fmt"

	"github.com/sluiceproxy/sluice/internal/command"
	"github.com/sluiceproxy/sluice/internal/route"
	"github.com/sluiceproxy/sluice/internal/tenant"
	"github.com/sluiceproxy/sluice/pkg/slot"
)

// Explanation tells how a command of a tenant would be handled.
type Explanation struct {
	Command *command.Command // nil: it is not in the table
	// Served is forward, local, split, fan-out, dedicated, admin or unknown.
	Served  string
	Keys    []string
	Slots   []int // of the keys, each once
	AnyNode bool  // one node of several is enough
	AllNode bool  // every primary is asked
	Refused string
	Notes   []string
}

// Explain finds out how a command would be handled, if a session of the tenant sent it now. Nothing is sent. On the loop.
func (w *Worker) Explain(t *tenant.Tenant, args [][]byte) *Explanation {
	s := w.imagine(t)
	e := &Explanation{Served: "unknown"}
	cmd := command.Lookup(args[0])
	if cmd == nil {
		e.note("the proxy's table does not have the command: when a client sends it, the backend is asked what it is")
		return e
	}
	sub, err := cmd.Resolve(args)
	if err != nil {
		e.Command, e.Refused = cmd, "ERR "+err.Error()
		return e
	}
	e.Command = sub
	if !sub.CheckArity(len(args)) {
		e.Served, e.Refused = servedAs(sub.KindFor(args)), "ERR "+command.WrongArity(sub.Name)
		return e
	}
	s.explain(e, sub, args)
	s.explainHalt(e, sub)
	return e
}

// imagine makes a session of the tenant that no client has.
func (w *Worker) imagine(t *tenant.Tenant) *Session {
	table := w.snapshot()
	local := table.Cluster(t).Local(w.Loop.ID())
	local.Refresh()
	s := &Session{
		worker: w, registry: table.Registry, tenant: t, stats: &tenantStats{}, local: local, epoch: local.Epoch(), protocol: 2,
		sharded: local.Sharded(), fronted: t.Frontend == tenant.FrontCluster, trusted: t.Trusted, database: t.Databases[0],
	}
	s.slotted = s.sharded || s.fronted
	if known := w.tenants[t.Name]; known != nil {
		s.stats.halt, s.stats.pause = known.halt, known.pause
	}
	return s
}

func servedAs(kind command.Kind) string {
	switch kind {
	case command.KindLocal:
		return "local"
	case command.KindDedicated:
		return "dedicated"
	case command.KindFanOut:
		return "fan-out"
	case command.KindAdmin:
		return "admin"
	default:
		return "forward"
	}
}

func (e *Explanation) note(format string, args ...any) {
	e.Notes = append(e.Notes, fmt.Sprintf(format, args...))
}

// explain takes the turns that run takes.
func (s *Session) explain(e *Explanation, cmd *command.Command, args [][]byte) {
	e.findKeys(cmd, args)
	kind := cmd.KindFor(args)
	e.Served = servedAs(kind)
	if s.trusted && ofBackend(cmd) {
		e.Served, e.Refused, e.AnyNode = "forward", s.judgeTrusted(cmd), true
		e.note("the tenant is trusted: its backend answers what is about the backend")
		return
	}
	switch kind {
	case command.KindLocal:
		e.note("the proxy answers it")
		return
	case command.KindAdmin:
		e.Refused = s.adminProblem(cmd.Name)
		return
	case command.KindDedicated:
		e.note("the session gets a connection of its own for it")
	case command.KindFanOut:
		e.AllNode = s.sharded
		e.Refused = s.trespass(cmd, args)
		if s.sharded {
			e.note("every shard is asked and the answers are merged")
		}
		return
	case command.KindPublish:
		e.note("the answer is corrected by the clients that listen through this proxy")
	}
	if cmd.Class == command.ClassGeneric || cmd.Class == command.ClassScripting {
		if e.Refused = s.trespass(cmd, args); e.Refused != "" {
			return
		}
	}
	s.explainRoute(e, cmd, args)
}

func (s *Session) explainRoute(e *Explanation, cmd *command.Command, args [][]byte) {
	if !s.slotted {
		e.AnyNode = true
		e.note("one node has every key")
		return
	}
	decision, at, _ := route.Decide(cmd, args, s.tenant.CrossSlot, nil)
	switch decision {
	case route.CrossSlot:
		e.Refused = errCrossSlot
		e.note("the keys are in several slots; hash tags, as in {user1}:a and {user1}:b, put keys into one")
	case route.OneNode:
		if s.local.Shards() > 1 {
			e.Refused = errOneNode(cmd.Name)
		}
	case route.Split:
		e.Served = "split"
		e.note("a part for each slot, merged into one reply")
	default:
		if e.AnyNode = at == route.NoSlot; e.AnyNode {
			e.note("it has no key: any primary will do, the same one for a session as long as it can be reached")
		}
	}
}

// explainHalt tells of pauses.
func (s *Session) explainHalt(e *Explanation, cmd *command.Command) {
	switch {
	case s.haltRefuses(cmd):
		e.Refused = errHalted
	case s.stats.halt != nil:
		e.note("the tenant is paused by the operator: the command would wait")
	case s.stats.pause != nil:
		e.note("the tenant has paused its clients (CLIENT PAUSE): the command may wait")
	}
}

func (e *Explanation) findKeys(cmd *command.Command, args [][]byte) {
	positions, err := cmd.AppendKeys(nil, args)
	if err != nil {
		e.note("its keys cannot be found: %s", err)
		return
	}
	seen := make(map[int]bool)
	for _, i := range positions {
		e.Keys = append(e.Keys, string(args[i]))
		if at := int(slot.Of(args[i])); !seen[at] {
			seen[at] = true
			e.Slots = append(e.Slots, at)
		}
	}
}
