package upstream

import (
	"bytes"
	"time"

	"github.com/sluiceproxy/sluice/internal/pipe"
	"github.com/sluiceproxy/sluice/internal/topology"
)

// tryAgainDelay is the time before a command is tried again that the cluster cannot run at the moment.
const tryAgainDelay = 20 * time.Millisecond

var (
	askingCommand = []byte("*1\r\n$6\r\nASKING\r\n") //nolint:gochecknoglobals // constant

	// backendIsSharded answers for a node that redirects although its cluster is configured as one node. Passing the
	// redirect on would tell the client a backend address.
	backendIsSharded = []byte("-ERR the backend is a Redis Cluster but is configured as standalone; set kind: cluster\r\n") //nolint:gochecknoglobals // constant
)

// badRedirect answers for a redirect to nowhere, which may hold an address that a client must not see.
var badRedirect = []byte("-CLUSTERDOWN a node redirected the command to an address that is none\r\n") //nolint:gochecknoglobals // constant

// execAborted answers for a transaction whose slot is on the move.
var execAborted = []byte("-EXECABORT Transaction discarded because of previous errors.\r\n") //nolint:gochecknoglobals // constant

// answer ends a call that left its pipe with a reply of the proxy's own.
func (lc *Local) answer(c *pipe.Call, reply []byte) {
	c.Receiver.Reply(c, reply, true)
	pipe.Release(lc.loop, c)
}

// ErrorReply implements pipe.Owner: redirects are followed, and what the cluster asks to be tried again is.
func (t *target) ErrorReply(_ *pipe.Pipe, c *pipe.Call, line []byte) bool {
	switch line[1] {
	case 'M', 'A':
		if kind, slot, addr, _ := topology.ParseRedirect(line); kind != topology.RedirectNone {
			return t.redirected(c, kind, slot, addr)
		}
	case 'N':
		if bytes.HasPrefix(line, noScriptPrefix) {
			return t.noScript(c, line)
		}
	case 'T':
		if bytes.HasPrefix(line, []byte("-TRYAGAIN")) {
			t.node.local.Stats.TryAgain++
			return t.later(c)
		}
	case 'C':
		if bytes.HasPrefix(line, []byte("-CLUSTERDOWN")) {
			t.node.local.Stats.ClusterDown++
			t.node.local.cluster.RequestRefresh()
			return t.later(c)
		}
	}
	return false
}

func (t *target) redirected(c *pipe.Call, kind topology.RedirectKind, slot uint16, addr []byte) bool {
	lc := t.node.local
	if !lc.Sharded() {
		lc.answer(c, backendIsSharded)
		return true
	}
	where, ok := t.resolve(addr)
	if !ok {
		lc.cluster.RequestRefresh()
		lc.answer(c, badRedirect)
		return true
	}
	if kind == topology.RedirectMoved {
		lc.Stats.Moved++
		lc.cluster.moved(slot, where)
		lc.Refresh()
	} else {
		lc.Stats.Ask++
		if c.Preface > 0 {
			// ASKING is for one command, and a transaction is several: it waits until the slot has moved.
			if !t.later(c) {
				lc.answer(c, execAborted)
			}
			return true
		}
	}
	n := lc.node(where)
	n.target(Target(c.Target)).trust()
	lc.divert(c).follow(n, kind == topology.RedirectAsk)
	return true
}

// resolve is where a redirect points; an address without a host means the host of the node that sent it.
func (t *target) resolve(addr []byte) (string, bool) {
	from, ok := topology.EndpointAt(t.node.addr, t.node.local.cluster.cfg.TLS != nil)
	if !ok {
		return "", false
	}
	return from.Resolve(addr)
}

// later tries a call again after a while, when nothing of its session is behind it; else the client gets the error, as
// it would from the cluster.
func (t *target) later(c *pipe.Call) bool {
	lc := t.node.local
	now := lc.loop.Now()
	if c.Attempts >= attemptsMax || c.Deadline != 0 && c.Deadline <= now+int64(tryAgainDelay) || !c.Receiver.WaitAlone(c) {
		return false
	}
	lc.loop.After(tryAgainDelay<<(c.Attempts-1), func() {
		lc.Refresh()
		lc.resend(c, pipe.Failure{Reason: pipe.Unavailable})
	})
	return true
}

// asking is the ASKING command in front of a call that follows an ASK redirect; its reply interests nobody.
type asking struct{ pipe.Call }

func newAsking(c *pipe.Call) *pipe.Call {
	a := &asking{}
	a.Receiver = a
	a.Slot = -1
	a.SentAt, a.Deadline = c.SentAt, c.Deadline
	a.Attempts = attemptsMax // never sent again: it is part of the command behind it
	return &a.Call
}

// Reply implements pipe.Receiver.
func (a *asking) Reply(*pipe.Call, []byte, bool) {}

// Failed implements pipe.Receiver.
func (a *asking) Failed(*pipe.Call, pipe.Failure) {}

// WaitAlone implements pipe.Receiver.
func (a *asking) WaitAlone(*pipe.Call) bool { return false }

// Free implements pipe.Receiver.
func (a *asking) Free(*pipe.Call) {}
