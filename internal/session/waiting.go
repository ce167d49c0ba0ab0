package session

import (
	"github.com/sluiceproxy/sluice/internal/command"
	"github.com/sluiceproxy/sluice/internal/route"
	"github.com/sluiceproxy/sluice/internal/upstream"
)

// emptyWrite makes WAIT right on a connection that is not the one of the session's writes: a node counts from the last
// write on the connection (before Redis 7.2: from the last command), and this is one. All that the session has written
// before is older. It restores no functions, from what FUNCTION DUMP gives where there are none, so it changes nothing,
// and yet goes to the replicas and into the append-only file. A node that refuses it counts without it.
var emptyWrite = []byte("*3\r\n$8\r\nFUNCTION\r\n$7\r\nRESTORE\r\n$10\r\n\n\x00]\x9b\\@\x0f\x7f\xa2\xda\r\n") //nolint:gochecknoglobals // constant

// waiting is a WAIT or WAITAOF on a cluster: the session's writes may have gone to any shard, so all of them are waited
// for, each over a connection lent for that, and the least of their answers counts.
type waiting struct {
	parent *pending
	conns  []*upstream.Dedicated
}

// waitAll sends WAIT or WAITAOF to the primary of every shard. It returns false when the command must wait.
func (s *Session) waitAll(cmd *command.Command, args [][]byte, raw []byte) bool {
	if s.ended {
		s.finish() // nobody is there to wait
		return true
	}
	merge := route.MergeLeast
	if cmd.Name == "waitaof" {
		merge = route.MergeLeastEach
	}
	if s.routesChanged() {
		return false
	}
	slots := s.local.ServingSlots()
	if len(slots) == 0 {
		return s.refuse(errNotSent(upstream.Uncovered, false))
	}
	all := &waiting{}
	for _, slot := range slots {
		conn, outcome := s.local.Dedicate(slot, uint32(s.id), s.target, s)
		if outcome != upstream.Sent {
			all.giveBack()
			return s.refusePin(slot, outcome, true)
		}
		all.conns = append(all.conns, conn)
	}
	s.wantsSince = 0
	if s.loose {
		raw = s.worker.encode(args)
	}
	request, prefaced := prefaceOf(cmd)
	request = append(request, raw...)
	g := route.FanOut(request, slots, 0, merge)
	all.parent = s.newPending(cmd.Class)
	all.parent.gather, all.parent.others = g, len(slots)
	s.barrier, s.blocked, s.waitsFor = true, all.parent, all
	for i, conn := range all.conns {
		p := s.worker.take()
		p.session, p.parent, p.part, p.class, p.stats, p.since = s, all.parent, i, cmd.Class, s.stats, all.parent.since
		p.others = 1
		s.prepare(p, slots[i])
		p.Deadline, p.Preface, p.ReadOnly = 0, prefaced, true
		conn.Fresh = true
		conn.Pipe().Send(&p.Call, request)
	}
	return true
}

// waited is called when p has been answered.
func (s *Session) waited(p *pending) {
	all := s.waitsFor
	if all == nil || all.parent != p {
		return
	}
	s.waitsFor, s.blocked, s.barrier = nil, nil, false
	all.giveBack()
}

// stopWaiting ends a WAIT whose client has gone. What is in flight closes its connection.
func (s *Session) stopWaiting() {
	if s.waitsFor != nil {
		s.waitsFor.giveBack()
		s.waitsFor, s.blocked = nil, nil
	}
}

func (all *waiting) giveBack() {
	for _, conn := range all.conns {
		conn.GiveBack()
	}
}
