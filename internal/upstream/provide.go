package upstream

import (
	"bytes"

	"github.com/tidwall/redcon"

	"github.com/sluiceproxy/sluice/internal/pipe"
)

const (
	// provideAttempts is how often a call may have been sent when it is still tried again after NOSCRIPT.
	provideAttempts = 4
	// providedMax bounds what a loop notes of the scripts that a node has.
	providedMax = 1 << 14
)

// ScriptUser is a Receiver whose call runs a script by its name. It is asked when the call must be sent again.
type ScriptUser interface {
	// Script is the script; nil: the call runs none that is remembered.
	Script() *Script
}

// provided names a script that a node has been given: over which pipe, while it has not answered; nil: it has the script.
type provided struct {
	script uint64
	over   *pipe.Pipe
}

// Provide has the node that a call will be sent to given the script first, unless it has it from this loop already. It is
// called right before Send: what goes over the same pipe is run in that order. Nodes keep scripts in memory only, and a
// node may be new, so whoever sends EVALSHA cannot rely on an earlier SCRIPT LOAD as he could with one server.
func (lc *Local) Provide(c *pipe.Call, s *Script) {
	n := lc.nodeFor(c.Slot, c.Lane, Target(c.Target))
	if n == nil {
		return
	}
	if p, outcome := n.pipe(Target(c.Target), c.Lane); outcome == Sent {
		n.provide(p, c, s)
	}
}

func (n *node) provide(p *pipe.Pipe, c *pipe.Call, s *Script) {
	n.checkProvided()
	if n.provided[provided{s.id, nil}] || n.provided[provided{s.id, p}] {
		return
	}
	if n.provided == nil || len(n.provided) >= providedMax {
		n.provided = make(map[provided]bool)
	}
	n.provided[provided{s.id, p}] = true
	n.local.Stats.ScriptsProvided++
	g := &gift{node: n, script: s.id, over: p, flushes: n.flushes}
	g.Receiver, g.Slot, g.Deadline = g, -1, c.Deadline
	g.Attempts = attemptsMax // never sent again: the call behind it is, with another in front
	p.Send(&g.Call, s.loadCommand())
}

// checkProvided forgets what the node has been given when the cluster's caches have been emptied meanwhile.
func (n *node) checkProvided() {
	if now := n.local.cluster.scripts.flushes.Load(); n.flushes != now {
		n.flushes = now
		n.provided = nil
	}
}

// forgetProvided is called when a connection to the node ends: it may be another process when it comes back.
func (n *node) forgetProvided() { n.provided = nil }

func (s *Script) loadCommand() []byte {
	b := make([]byte, 0, len(s.Body)+64)
	b = redcon.AppendArray(b, 3)
	b = redcon.AppendBulkString(b, "SCRIPT")
	b = redcon.AppendBulkString(b, "LOAD")
	return redcon.AppendBulkString(b, s.Body)
}

// gift is the SCRIPT LOAD in front of a call.
type gift struct {
	pipe.Call
	node    *node
	script  uint64
	over    *pipe.Pipe
	flushes uint64
}

// Reply implements pipe.Receiver: from now on the node has the script, whichever pipe asks for it.
func (g *gift) Reply(_ *pipe.Call, b []byte, _ bool) {
	mine := provided{g.script, g.over}
	if !g.node.provided[mine] || g.flushes != g.node.flushes {
		return // forgotten meanwhile
	}
	delete(g.node.provided, mine)
	if b[0] == '$' {
		g.node.provided[provided{g.script, nil}] = true
	}
}

// Failed implements pipe.Receiver.
func (g *gift) Failed(*pipe.Call, pipe.Failure) {
	delete(g.node.provided, provided{g.script, g.over})
}

// WaitAlone implements pipe.Receiver.
func (g *gift) WaitAlone(*pipe.Call) bool { return false }

// Free implements pipe.Receiver.
func (g *gift) Free(*pipe.Call) {}

// scriptOf is the script that a call runs by its name, nil if none is remembered.
func scriptOf(c *pipe.Call) *Script {
	r := c.Receiver
	if d := detourOf(c); d != nil {
		r = d.Receiver
	}
	if user, ok := r.(ScriptUser); ok {
		return user.Script()
	}
	return nil
}

var noScriptPrefix = []byte("-NOSCRIPT No matching script") //nolint:gochecknoglobals // constant

// noScript handles a node that has lost a script which it was given: its cache was emptied behind the proxy's back. The
// call has not been run. When nothing of its session is behind it, it is sent again with the script in front; otherwise
// the client gets the error, as it would from Redis: what is behind has been run and must not be overtaken.
//
// The node is asked first whether it lacks the script, because a script may answer with these very words by itself, and
// that one has been run.
func (t *target) noScript(c *pipe.Call, line []byte) bool {
	s := scriptOf(c)
	if s == nil {
		return false
	}
	t.node.forgetProvided()
	if c.Preface > 0 || c.Attempts >= provideAttempts {
		return false
	}
	p, outcome := t.pipe(c.Lane)
	if outcome != Sent || !c.Receiver.WaitAlone(c) {
		return false
	}
	q := &inquiry{local: t.node.local, call: c, line: bytes.Clone(line)}
	q.Receiver, q.Slot, q.Deadline = q, -1, c.Deadline
	q.Attempts = attemptsMax
	b := redcon.AppendArray(nil, 3)
	b = redcon.AppendBulkString(b, "SCRIPT")
	b = redcon.AppendBulkString(b, "EXISTS")
	p.Send(&q.Call, redcon.AppendBulkString(b, s.SHA))
	return true
}

// inquiry is the question whether a node has a script, on behalf of a call that waits for the answer.
type inquiry struct {
	pipe.Call
	local *Local
	call  *pipe.Call
	line  []byte // what the call got
}

var doesNotExist = []byte("*1\r\n:0\r\n") //nolint:gochecknoglobals // constant

// Reply implements pipe.Receiver.
func (q *inquiry) Reply(_ *pipe.Call, b []byte, _ bool) {
	if bytes.Equal(b, doesNotExist) {
		q.local.resend(q.call, pipe.Failure{Reason: pipe.Unavailable})
		return
	}
	q.local.answer(q.call, q.line)
}

// Failed implements pipe.Receiver.
func (q *inquiry) Failed(_ *pipe.Call, f pipe.Failure) {
	q.local.fail(q.call, pipe.Failure{Reason: f.Reason})
}

// WaitAlone implements pipe.Receiver.
func (q *inquiry) WaitAlone(*pipe.Call) bool { return false }

// Free implements pipe.Receiver.
func (q *inquiry) Free(*pipe.Call) {}
