package session

import (
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/redcon"

	"github.com/sluiceproxy/sluice/internal/command"
	"github.com/sluiceproxy/sluice/internal/pipe"
	"github.com/sluiceproxy/sluice/internal/route"
	"github.com/sluiceproxy/sluice/internal/upstream"
	"github.com/sluiceproxy/sluice/pkg/resp"
)

// runDedicated handles the commands that need a connection of their own. It returns false when the command must wait.
func (s *Session) runDedicated(cmd *command.Command, args [][]byte, raw []byte) bool {
	switch {
	case s.fronted && s.crossesSlots(cmd, args):
		return s.refuse(errCrossSlot)
	case cmd.Class == command.ClassTransactions:
		return s.runTransaction(cmd, args, raw)
	case cmd.Flags&command.Blocking != 0, cmd.Name == "wait", cmd.Name == "waitaof":
		return s.block(cmd, args, raw)
	case cmd.Parent != nil && cmd.Parent.Name == "client":
		return s.runTracking(cmd, args)
	case cmd.Class == command.ClassPubSub:
		if s.tracking != nil {
			s.endCaching(cmd)
		}
		return s.runSubscription(cmd, args)
	}
	return s.refuse(errNotSupportedYet(cmd.Name))
}

// clientIDCommand goes in front of a blocking command: by its answer CLIENT UNBLOCK can name the connection.
var clientIDCommand = []byte("*2\r\n$6\r\nCLIENT\r\n$2\r\nID\r\n") //nolint:gochecknoglobals // constant

// block sends a blocking command over a connection of its own, without a timeout. Nothing else of the session runs until
// it is answered.
func (s *Session) block(cmd *command.Command, args [][]byte, raw []byte) bool {
	if s.head != nil {
		return false
	}
	if s.ended {
		s.finish() // nobody is there to take what comes
		return true
	}
	at := route.NoSlot
	if s.sharded {
		var decision route.Decision
		decision, at, s.worker.keys = route.Decide(cmd, args, s.tenant.CrossSlot, s.worker.keys)
		switch {
		case decision == route.OneNode && s.local.Shards() > 1: // WAIT and WAITAOF
			return s.waitAll(cmd, args, raw)
		case decision == route.CrossSlot, decision == route.Split, s.pinned != nil && s.pinned.slot != at:
			return s.refuse(errCrossSlot)
		}
	}
	watching := s.pinned != nil
	if outcome := s.pin(at, pinBlocked); outcome != upstream.Sent {
		return s.refusePin(at, outcome, true)
	}
	if s.loose {
		raw = s.worker.encode(args)
	}
	p := s.newPending(cmd.Class)
	var preface []byte
	preface, p.Preface = prefaceOf(cmd)
	s.barrier, s.blocked = true, p
	s.pinned.barrierOf, s.pinned.backendID = p, 0
	if !watching {
		s.pinned.releaseAfter = p
	}
	s.sendPinned(p, at, append(preface, raw...))
	p.Deadline = 0
	return true
}

// prefaceOf is what goes in front of a blocking command, and how many commands that is.
func prefaceOf(cmd *command.Command) (request []byte, count uint32) {
	if cmd.Name == "wait" || cmd.Name == "waitaof" {
		return slices.Concat(clientIDCommand, emptyWrite), 2
	}
	return slices.Clip(clientIDCommand), 1
}

// Prefaced implements pipe.PrefaceReceiver: the answer to CLIENT ID names the connection that a command blocks on.
func (p *pending) Prefaced(_ *pipe.Call, reply []byte) {
	id, ok := resp.IntReply(reply)
	switch s := p.session; {
	case !ok:
	case s == nil && p.abandoned != nil:
		p.endAbandoned(id)
	case s != nil && s.blocked == p && s.pinned != nil:
		s.pinned.backendID = id
	}
}

// clientUnblock handles CLIENT UNBLOCK id [TIMEOUT|ERROR] for clients of the session's own tenant.
func (s *Session) clientUnblock(args [][]byte) {
	how := "TIMEOUT"
	if len(args) == 2 {
		how = strings.ToUpper(string(args[1]))
	}
	if len(args) > 2 || how != "TIMEOUT" && how != "ERROR" {
		s.appendError("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR")
		return
	}
	id, ok := parseInteger(args[0])
	if !ok {
		s.appendError(errNotInteger)
		return
	}
	name := s.tenant.Name
	found := 0
	s.askLoops(func(w *Worker) {
		w.Each(func(other *Session) {
			if other.id == uint64(id) && other.tenant != nil && other.tenant.Name == name && other.unblock(how) {
				found = 1
			}
		})
	}, func() []byte { return redcon.AppendInt(nil, int64(found)) })
}

// unblock asks the node to end the blocking command that the session waits for.
func (s *Session) unblock(how string) bool {
	if s.blocked == nil || s.pinned == nil || s.pinned.backendID == 0 {
		return false
	}
	c := newCleanup()
	c.Slot, c.Lane, c.Target = s.pinned.slot, uint32(s.id), uint32(s.target.Shared())
	request := s.worker.encode([][]byte{
		[]byte("CLIENT"), []byte("UNBLOCK"), strconv.AppendInt(nil, s.pinned.backendID, 10), []byte(how),
	})
	if s.local.Send(c, request) != upstream.Sent {
		return false
	}
	s.pinned.dirty = s.pinned.dirty || s.pinned.own == nil // it may come when another session blocks there
	return true
}
