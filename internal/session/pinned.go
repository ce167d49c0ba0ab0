package session

import (
	"time"

	"github.com/sluiceproxy/sluice/internal/pipe"
	"github.com/sluiceproxy/sluice/internal/upstream"
)

// pinReason says why a session has a connection of its own.
type pinReason uint8

const (
	pinWatch pinReason = iota
	pinBlocked
	pinTracking
	pinReasons
)

var pinNames = [pinReasons]string{"watch", "blocked", "tracking"} //nolint:gochecknoglobals // constant

// pinned is the connection that a session has of its own, and what is on it.
type pinned struct {
	conn   *upstream.Dedicated
	own    *pipe.Pipe // instead of conn, of a session that has connections of its own anyway
	slot   int32
	reason pinReason
	// backendID is the node's number of the connection while a command blocks on it; 0: not known.
	backendID int64
	// clean tells that nothing of the session is left on the connection, so that another may have it.
	clean bool
	// dirty tells that it has selected another database than it was made for, or that something may still happen to it:
	// nobody else may have it.
	dirty bool
	// settled tells that something of the session may be on the connection.
	settled bool
	// barrierOf is the command whose reply ends a barrier, releaseAfter the one whose reply ends the pin.
	barrierOf, releaseAfter *pending
}

// pin gets the session a connection of its own to the node that has the slot, unless it has one.
func (s *Session) pin(slot int32, reason pinReason) upstream.Outcome {
	if s.pinned != nil {
		return upstream.Sent
	}
	s.epoch = s.local.Epoch()
	if s.tracking != nil {
		return s.pinOwn(slot)
	}
	conn, outcome := s.local.Dedicate(slot, uint32(s.id), s.target, s)
	if outcome != upstream.Sent {
		return outcome
	}
	conn.Fresh = true
	s.wantsSince = 0
	s.pinned = &pinned{conn: conn, slot: slot, reason: reason}
	s.worker.Stats.Pinned[reason]++
	return upstream.Sent
}

// refusePin deals with a command that needs a connection of its own when there is none: it waits its turn for a while, in
// which case false is returned, or gets an error.
func (s *Session) refusePin(slot int32, outcome upstream.Outcome, blocks bool) bool {
	if outcome != upstream.Full {
		s.wantsSince = 0
		return s.refuse(s.notSentText(outcome, false))
	}
	if s.await(slot, blocks) {
		return false
	}
	return s.refuse(errDedicatedFull)
}

// await has the command at hand given again when a connection may be free; false: it has waited as long as it may. blocks
// tells that the command is one that waits for something itself.
func (s *Session) await(slot int32, blocks bool) bool {
	now := s.worker.Loop.Now()
	if s.wantsSince == 0 {
		s.wantsSince = now
	}
	left := int64(s.local.Cluster().DedicatedWait()) - (now - s.wantsSince)
	if left <= 0 {
		s.wantsSince = 0
		s.local.Stats.Exhausted++
		return false
	}
	s.barrier, s.wantsToBlock = true, blocks
	s.wants = s.local.Await(slot, uint32(s.id), s.target, time.Duration(left), func() {
		s.wants, s.barrier = nil, false
		s.goOn()
	})
	return true
}

// stopWanting ends the wait for a connection of the session's own.
func (s *Session) stopWanting() {
	if s.wants != nil {
		s.wants.Cancel()
		s.wants, s.barrier = nil, false
	}
}

// sendPinned sends a command over the session's own connection.
func (s *Session) sendPinned(p *pending, slot int32, request []byte) {
	s.prepare(p, slot)
	line := s.pinned.line()
	if line.Closed() {
		p.notSent(upstream.Unreachable)
		return
	}
	if s.tracking != nil {
		p.Stay = s.pinned.settled
		request = s.prefaceCaching(p, request)
	}
	p.others++
	line.Send(&p.Call, request)
}

// unpin ends what the session has on its own connection and gives it back. Nothing of the session is in flight.
func (s *Session) unpin() {
	pin := s.pinned
	if pin == nil {
		return
	}
	s.pinned = nil
	if pin.own == nil {
		s.worker.Stats.Pinned[pin.reason]--
	}
	switch {
	case !pin.dirty:
	case pin.own == nil:
		pin.conn.Discard()
		return
	default:
		s.tracking.tracker.Reselect()
	}
	conn := pin.line()
	unclean := !pin.clean && !conn.Closed()
	if unclean && pin.own == nil {
		pin.conn.GiveBackAfter()
	}
	if unclean {
		c := newCleanup()
		c.Deadline = s.worker.Loop.Now() + int64(cleanupTime)
		conn.Send(c, unwatchCommand)
	}
	if pin.own == nil && !unclean {
		pin.conn.GiveBack()
	}
}

// dropPin gives the connection up with whatever is on it.
func (s *Session) dropPin() {
	pin := s.pinned
	if pin == nil {
		return
	}
	s.pinned, s.blocked = nil, nil
	if pin.own != nil {
		return // it ends with tracking
	}
	s.worker.Stats.Pinned[pin.reason]--
	pin.conn.Discard()
}

// pinSettled is called when p has been answered.
func (s *Session) pinSettled(p *pending) {
	pin := s.pinned
	if p.selects > 0 {
		s.database = int(p.selects - 1)
		s.retarget()
	}
	if pin.barrierOf == p {
		pin.barrierOf = nil
		s.barrier, s.blocked = false, nil
		pin.settled = true
		switch {
		case pin.own == nil:
			pin.conn.Fresh = false
		case p.Pipe() != nil:
			pin.own = p.Pipe() // a redirect may have led to another node
		}
	}
	if pin.releaseAfter == p {
		pin.clean = true
		s.unpin()
	}
}

// cleanupTime is how long a node may take to clean a connection before it is taken to be silent, and the connection closed.
const cleanupTime = 5 * time.Second

// cleanup is a command of the proxy's own whose reply interests nobody.
type cleanup struct{ pipe.Call }

func newCleanup() *pipe.Call {
	c := &cleanup{}
	c.Receiver, c.Slot = c, -1
	return &c.Call
}

// Reply implements pipe.Receiver.
func (c *cleanup) Reply(*pipe.Call, []byte, bool) {}

// Failed implements pipe.Receiver.
func (c *cleanup) Failed(*pipe.Call, pipe.Failure) {}

// WaitAlone implements pipe.Receiver.
func (c *cleanup) WaitAlone(*pipe.Call) bool { return false }

// Free implements pipe.Receiver.
func (c *cleanup) Free(*pipe.Call) {}
