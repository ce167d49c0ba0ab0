package upstream

import (
	"errors"

	"github.com/sluiceproxy/sluice/internal/pipe"
	"github.com/sluiceproxy/sluice/internal/topology"
)

// movedMeanwhile answers for a redirect of a command that cannot follow it: its bytes are gone, or it belongs to what is
// on the connection.
var movedMeanwhile = []byte("-TRYAGAIN the key has moved to another node meanwhile; send the command again\r\n") //nolint:gochecknoglobals // constant

// errAbandoned closes a dedicated connection whose state is not known to be clean.
var errAbandoned = errors.New("given up with a command in flight")

// Dedicated is a connection lent to one session. It belongs to the session's loop.
type Dedicated struct {
	target *target
	pipe   *pipe.Pipe
	user   DedicatedUser
	// Fresh tells that nothing is left on the connection but the call in flight, so that a redirect may move it.
	Fresh     bool
	done      bool
	returning bool // given back when what is in flight has been answered
}

// DedicatedUser is the session that a dedicated connection is lent to.
type DedicatedUser interface {
	// DedicatedDrained tells that output which the node had not taken at once has been taken.
	DedicatedDrained()
}

// Dedicate lends a connection to the node that has the slot. It may still be connecting; what is sent waits. When the
// outcome is Full, all that the node may have are lent: try again later.
func (lc *Local) Dedicate(slot int32, lane uint32, key Target, user DedicatedUser) (*Dedicated, Outcome) {
	n := lc.nodeFor(slot, lane, key)
	if n == nil {
		lc.cluster.RequestRefresh()
		return nil, Uncovered
	}
	t := n.target(key)
	if t.down || n.retired || lc.closed {
		return nil, t.outcome()
	}
	if n.lent() >= lc.cluster.cfg.Dedicated.Max {
		return nil, Full
	}
	d := &Dedicated{user: user}
	t.lend(d)
	lc.watch()
	return d, Sent
}

// Provide has the node given a script first that a call will run there; see Local.Provide.
func (d *Dedicated) Provide(c *pipe.Call, s *Script) {
	if !d.pipe.Closed() {
		d.target.node.provide(d.pipe, c, s)
	}
}

// Pipe is the connection.
func (d *Dedicated) Pipe() *pipe.Pipe { return d.pipe }

// GiveBack ends the loan. The connection is kept for another only when nothing is in flight on it.
func (d *Dedicated) GiveBack() {
	if d.done {
		return
	}
	d.done = true
	t := d.target
	for i, other := range t.lent {
		if other == d {
			t.lent = append(t.lent[:i], t.lent[i+1:]...)
			break
		}
	}
	switch {
	case d.pipe.Conn().Closed(): // its end may be told later in this tick
	case d.pipe.Inflight() > 0 || !d.pipe.Conn().Attached():
		d.pipe.Conn().Close(errAbandoned)
	default:
		d.pipe.SetOwner(t)
		t.keepSpare(d.pipe)
	}
	t.node.freed()
}

// GiveBackAfter is GiveBack as soon as what is in flight has been answered.
func (d *Dedicated) GiveBackAfter() { d.returning = true }

// Discard ends the loan and closes the connection, because something of the session may be left on it.
func (d *Dedicated) Discard() {
	if !d.pipe.Closed() {
		d.pipe.Conn().Close(errAbandoned)
	}
	d.GiveBack()
}

// ErrorReply implements pipe.Owner.
func (d *Dedicated) ErrorReply(_ *pipe.Pipe, c *pipe.Call, line []byte) bool {
	kind, slot, addr, _ := topology.ParseRedirect(line)
	if kind == topology.RedirectNone {
		return false
	}
	lc := d.target.node.local
	where, ok := d.target.resolve(addr)
	switch {
	case !lc.Sharded():
		lc.answer(c, backendIsSharded)
		return true
	case !ok:
		lc.cluster.RequestRefresh()
		lc.answer(c, badRedirect)
		return true
	case kind == topology.RedirectMoved:
		lc.Stats.Moved++
		lc.cluster.moved(slot, where)
	default:
		lc.Stats.Ask++
	}
	switch {
	case d.Fresh && !d.done && c.Attempts < attemptsMax:
		d.follow(lc.node(where), c, kind == topology.RedirectAsk)
	case c.Preface > 0:
		lc.answer(c, execAborted)
	default:
		lc.answer(c, movedMeanwhile)
	}
	return true
}

// follow moves the loan, with the one call on it, to another node.
func (d *Dedicated) follow(n *node, c *pipe.Call, asking bool) {
	old, from := d.pipe, d.target
	for i, other := range from.lent {
		if other == d {
			from.lent = append(from.lent[:i], from.lent[i+1:]...)
			break
		}
	}
	t := n.target(Target(c.Target))
	t.lend(d)
	old.SetOwner(from)
	from.keepSpare(old)
	from.node.freed()
	if asking {
		d.pipe.Send(newAsking(c), askingCommand)
	}
	d.pipe.Resend(c)
}

// lend gives the loan a connection to the node: a spare one or a new one.
func (t *target) lend(d *Dedicated) {
	d.target = t
	if d.pipe = t.takeSpare(); d.pipe != nil {
		d.pipe.SetOwner(d)
	} else {
		d.pipe = t.node.local.newPipe(t, d)
		t.connect(d.pipe)
	}
	t.lent = append(t.lent, d)
}

// LargeReply implements pipe.Owner: nobody waits behind it here.
func (d *Dedicated) LargeReply(*pipe.Pipe) {}

// Idle implements pipe.Owner.
func (d *Dedicated) Idle(*pipe.Pipe) {
	if d.returning {
		d.GiveBack()
	}
}

// Drained implements pipe.Owner.
func (d *Dedicated) Drained(*pipe.Pipe) {
	if !d.done {
		d.user.DedicatedDrained()
	}
}

// Lost implements pipe.Owner. A command whose bytes were streamed cannot be sent again.
func (d *Dedicated) Lost(_ *pipe.Pipe, calls []pipe.LostCall, err error) {
	lc := d.target.node.local
	reason := pipe.Lost
	if pipe.IsMalformed(err) {
		reason = pipe.Malformed
	} else if d.target.down {
		reason = d.target.reason()
	}
	for _, lost := range calls {
		lc.fail(lost.Call, pipe.Failure{Reason: reason, InDoubt: lost.InDoubt})
	}
	if d.returning {
		d.GiveBack()
	}
}
