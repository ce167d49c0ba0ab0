package session

import (
	"bytes"
	"slices"
	"strconv"
	"time"

	"github.com/sluiceproxy/sluice/internal/pipe"
	"github.com/sluiceproxy/sluice/internal/upstream"
	"github.com/sluiceproxy/sluice/pkg/resp"
)

const (
	// salvageTime is how long the end of an abandoned pop is waited for.
	salvageTime = 5 * time.Second
	// salvageMax bounds the bytes of an abandoned pop's elements.
	salvageMax = 64 << 20
)

// abandoned is a blocking pop whose client has gone. The node learns that later than from a client of its own, and may
// meanwhile have taken an element out: so the command is ended by CLIENT UNBLOCK rather than by closing the connection,
// and what it has taken is put back where it was. Without that, an element would be lost that a direct client, gone at
// the same moment, would have left in the list.
type abandoned struct {
	conn      *upstream.Dedicated
	tracker   *upstream.Tracker // instead of conn, of a session that tracks
	local     *upstream.Local
	clean     bool // nothing else of the session is on the connection
	unblocked bool
	unblocks  int  // CLIENT UNBLOCK without an answer: whoever blocks on the connection would be hit
	ended     bool // the pop has been answered
}

// popsElements lists the blocking commands that take elements out and give them to nobody but the client.
func popsElements(name string) bool {
	switch name {
	case "blpop", "brpop", "blmpop", "bzpopmin", "bzpopmax", "bzmpop":
		return true
	}
	return false
}

// salvage leaves the connection of a blocking pop to the pop, whose client has gone.
func (s *Session) salvage() {
	p, pin := s.blocked, s.pinned
	if p == nil || pin == nil || p.begun || !popsElements(s.lastName) || pin.line().Closed() {
		return
	}
	s.blocked, s.pinned = nil, nil
	p.abandoned = &abandoned{conn: pin.conn, local: s.local, clean: pin.releaseAfter == p && !pin.dirty}
	if pin.own != nil {
		p.abandoned.tracker = s.tracking.tracker
		s.tracking.left = true
	} else {
		s.worker.Stats.Pinned[pin.reason]--
	}
	p.Deadline = s.worker.Loop.Now() + int64(salvageTime)
	p.written = p.written[:0]
	if pin.backendID != 0 {
		p.endAbandoned(pin.backendID)
	}
}

// salvageLate is salvage for a reply that comes between the end of the client's connection and what follows from it.
func (s *Session) salvageLate() bool {
	p := s.blocked
	if s.conn.Closed() {
		s.salvage()
	}
	return p.abandoned != nil
}

// endAbandoned asks the node to end the pop.
func (p *pending) endAbandoned(backendID int64) {
	a := p.abandoned
	if a.unblocked {
		return
	}
	a.unblocked = true
	u := &unblocking{abandoned: a}
	u.Receiver, u.Deadline = u, p.worker.Loop.Now()+int64(salvageTime)
	a.unblocks++
	if !p.sendAside(&u.Call, []byte("CLIENT"), []byte("UNBLOCK"), strconv.AppendInt(nil, backendID, 10)) {
		a.unblocks--
	}
}

// unblocking is a CLIENT UNBLOCK of the proxy's own.
type unblocking struct {
	cleanup
	abandoned *abandoned
}

// Reply implements pipe.Receiver.
func (u *unblocking) Reply(_ *pipe.Call, _ []byte, last bool) {
	if last {
		u.abandoned.unblocks--
		u.abandoned.giveBack()
	}
}

// Failed implements pipe.Receiver: the node may still run it.
func (u *unblocking) Failed(*pipe.Call, pipe.Failure) {
	if u.abandoned.tracker == nil {
		u.abandoned.discard()
	}
}

// sendAside sends a command of the proxy's own to the node of p's slot over a shared pipe.
func (p *pending) sendAside(c *pipe.Call, args ...[]byte) bool {
	c.Slot, c.Lane, c.Target = p.Slot, p.Lane, uint32(upstream.Target(p.Target).Shared())
	return p.abandoned.local.Send(c, p.worker.encode(args)) == upstream.Sent
}

// replyAbandoned takes bytes of the pop's reply.
func (p *pending) replyAbandoned(b []byte, last bool) {
	if len(p.written)+len(b) <= salvageMax {
		p.written = append(p.written, b...)
	} else {
		p.begun = true // and lost
	}
	if !last {
		return
	}
	a := p.abandoned
	if line := restoring(p.Request(), p.written); line != nil && !p.begun {
		p.sendAside(newCleanup(), line...)
	}
	a.ended = true
	if a.clean && a.tracker == nil {
		a.giveBack()
		return
	}
	a.discard()
}

// giveBack gives the connection back when nothing more can happen to it.
func (a *abandoned) giveBack() {
	if !a.ended || a.unblocks > 0 || a.tracker != nil {
		return
	}
	if a.conn.Pipe().Inflight() > 0 {
		a.conn.GiveBackAfter()
		return
	}
	a.conn.GiveBack()
}

// discard closes the connection.
func (a *abandoned) discard() {
	if a.tracker != nil {
		a.tracker.End()
		return
	}
	a.conn.Discard()
}

// failAbandoned gives up.
func (p *pending) failAbandoned(pipe.Failure) { p.abandoned.discard() }

// restoring is the command that puts back what a pop has taken; nil: it has taken nothing. request is the pop, behind its
// preface, which may begin with CLIENT CACHING.
func restoring(request, reply []byte) [][]byte {
	_, pop, _ := bytes.Cut(request, clientIDCommand)
	args := resp.AppendArgs(nil, pop)
	taken := leaves(reply)
	if len(taken) < 2 || len(args) == 0 {
		return nil
	}
	key, elements := taken[0], taken[1:]
	switch name := bytes.ToLower(args[0]); {
	case name[1] == 'z' && len(elements)%2 == 0:
		line := [][]byte{[]byte("ZADD"), key, []byte("NX")}
		for i := 0; i < len(elements); i += 2 {
			line = append(line, elements[i+1], elements[i])
		}
		return line
	case name[1] != 'z':
		slices.Reverse(elements) // the one that was taken first goes back last
		return append([][]byte{pushBack(name, args), key}, elements...)
	}
	return nil
}

// pushBack is the command that puts an element back to the end of the list where it was taken.
func pushBack(name []byte, args [][]byte) []byte {
	right := string(name) == "brpop"
	if string(name) == "blmpop" && len(args) > 3 {
		if keys, err := strconv.Atoi(string(args[2])); err == nil && keys > 0 && 3+keys < len(args) {
			right = bytes.EqualFold(args[3+keys], []byte("right"))
		}
	}
	if right {
		return []byte("RPUSH")
	}
	return []byte("LPUSH")
}

// leaves are the strings and numbers of a whole reply in their order, copied; none of a null or an error.
func leaves(reply []byte) (all [][]byte) {
	for len(reply) > 0 {
		end := bytes.IndexByte(reply, '\n')
		if end < 2 {
			return nil
		}
		line, rest := reply[:end-1], reply[end+1:]
		switch line[0] {
		case '*':
		case '$':
			n, err := strconv.Atoi(string(line[1:]))
			if err != nil || n < 0 || n+2 > len(rest) {
				return nil
			}
			all = append(all, bytes.Clone(rest[:n]))
			rest = rest[n+2:]
		case ',', ':':
			all = append(all, bytes.Clone(line[1:]))
		default:
			return nil
		}
		reply = rest
	}
	return all
}
