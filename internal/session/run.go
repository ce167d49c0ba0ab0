package session

import (
	"bytes"

	"github.com/tidwall/redcon"

	"github.com/sluiceproxy/sluice/internal/command"
	"github.com/sluiceproxy/sluice/internal/route"
	"github.com/sluiceproxy/sluice/internal/upstream"
	"github.com/sluiceproxy/sluice/pkg/resp"
)

// run handles one command, which is whole. It returns false when the command must wait; it is then given again, from its
// first byte. raw and what is cut from it are valid during the call only.
func (s *Session) run(raw []byte) bool {
	w := s.worker
	args := resp.AppendArgs(w.args[:0], raw)
	w.args = args
	if len(args) == 0 {
		return true // Redis skips empty commands
	}
	cmd := command.Lookup(args[0])
	if cmd == nil {
		var done bool
		if cmd, done = s.learn(args); cmd == nil {
			return done
		}
	}
	if len(cmd.Subcommands) > 0 {
		sub, err := cmd.Resolve(args)
		if err != nil {
			var done bool
			if sub, done = s.learnSub(cmd, args, err); sub == nil {
				s.lastName = ""
				return done
			}
		}
		cmd = sub
	}
	s.lastName = cmd.Name
	if !cmd.CheckArity(len(args)) {
		return s.refuse("ERR " + command.WrongArity(cmd.Name))
	}
	if s.tenant == nil && cmd.Flags&command.NoAuth == 0 {
		return s.refuse(errNoAuth)
	}
	if s.channels != nil && s.protocol == 2 && s.subscribed() && !allowedWhileSubscribed(cmd.Name) {
		return s.refuse(errSubscribed(cmd.Name))
	}
	if s.stats != nil && s.stats.attention && !w.attending {
		return s.attend(cmd, args, raw)
	}
	if s.transaction != nil && !endsQueueing(cmd.Name) {
		return s.enqueue(cmd, args, raw)
	}
	if s.trusted && ofBackend(cmd) {
		return s.runTrusted(cmd, args, raw)
	}
	switch cmd.KindFor(args) {
	case command.KindLocal:
		return s.runLocal(cmd, args)
	case command.KindDedicated:
		return s.runDedicated(cmd, args, raw)
	case command.KindFanOut:
		return s.runFanOut(cmd, args, raw)
	case command.KindPublish:
		return s.publish(cmd, args, raw)
	case command.KindAdmin:
		return s.refuse(s.adminProblem(cmd.Name))
	case command.KindLearned:
		return s.runLearned(cmd, args, raw)
	default:
		switch cmd.Class {
		case command.ClassGeneric:
			if problem := s.trespass(cmd, args); problem != "" {
				return s.refuse(problem)
			}
		case command.ClassScripting:
			return s.runScript(cmd, args, raw)
		}
		return s.forward(cmd, args, raw)
	}
}

// unknown refuses a command that does not exist. As Redis does, it closes without a reply what looks like an HTTP
// request: a web page may make a browser send one, with commands in its body.
func (s *Session) unknown(args [][]byte) bool {
	s.lastName = ""
	if looksLikeHTTP(args[0]) {
		s.worker.Stats.ProtocolErrors++
		s.finish()
		return true
	}
	return s.refuse("ERR " + command.UnknownCommand(args))
}

func looksLikeHTTP(name []byte) bool {
	return bytes.EqualFold(name, httpHost) || bytes.EqualFold(name, httpPost)
}

var (
	httpHost = []byte("host:") //nolint:gochecknoglobals // constant
	httpPost = []byte("post")  //nolint:gochecknoglobals // constant
)

// refuse answers the command at hand with an error; the connection stays.
func (s *Session) refuse(text string) bool {
	if s.transaction != nil {
		s.transaction.broken = true
	}
	if s.stats != nil {
		s.stats.refused++
	}
	if s.tracking != nil && s.transaction == nil {
		s.endCaching(nil)
	}
	s.appendError(text)
	return true
}

// forward sends the command to the node that has its keys.
func (s *Session) forward(cmd *command.Command, args [][]byte, raw []byte) bool {
	if s.routesChanged() {
		return false
	}
	w := s.worker
	at := route.NoSlot
	if s.slotted {
		var decision route.Decision
		decision, at, w.keys = route.Decide(cmd, args, s.tenant.CrossSlot, w.keys)
		switch decision {
		case route.CrossSlot:
			return s.refuse(errCrossSlot)
		case route.OneNode:
			if s.local.Shards() > 1 {
				return s.refuse(errOneNode(cmd.Name))
			}
		case route.Split:
			s.split(cmd, args)
			return true
		}
	}
	if s.loose {
		raw = w.encode(args)
	}
	p := s.newPending(cmd.Class)
	p.ReadOnly = cmd.Flags&command.ReadOnly != 0
	s.submit(p, at, raw)
	return true
}

// routesChanged reports whether a command must wait because what is in flight went by other routes: it is settled first,
// so that order holds.
func (s *Session) routesChanged() bool {
	if s.epoch == s.local.Epoch() {
		return false
	}
	if s.busy() {
		return true
	}
	s.epoch = s.local.Epoch()
	return false
}

// busy reports whether anything of the session is under way, other than the EXEC that the command at hand is a part of.
func (s *Session) busy() bool { return s.head != nil && s.executing == nil }

// submit sends p's request, or answers p with the reason why no node could take it.
func (s *Session) submit(p *pending, at int32, request []byte) {
	s.prepare(p, at)
	if s.tracking != nil {
		request = s.prefaceCaching(p, request)
	}
	if outcome := s.local.Send(&p.Call, request); outcome != upstream.Sent {
		p.notSent(outcome)
		return
	}
	p.others++
	p.limitConnect()
}

// limitConnect sets how long a call that was sent may wait for a connection.
func (p *pending) limitConnect() {
	if limit := p.session.tenant.ConnectTimeout; limit > 0 && !p.Pipe().Conn().Attached() {
		p.ConnectBy = p.since + int64(limit)
	}
}

// prepare fills in where a call goes and how long it may take.
func (s *Session) prepare(p *pending, at int32) {
	p.Origin, p.Slot, p.Lane, p.Target = &s.origin, at, uint32(s.id), uint32(s.target)
	if timeout := s.tenant.CommandTimeout; timeout > 0 {
		p.Deadline = p.since + int64(timeout)
	}
}

// notSent answers a call that no pipe has taken.
func (p *pending) notSent(outcome upstream.Outcome) {
	p.stats.notSent++
	p.selects = 0
	reply := appendError(nil, p.session.notSentText(outcome, p.partOfWrite()))
	if outcome == upstream.Full && p.session.tracking != nil {
		reply = appendError(nil, errDedicatedFull)
	}
	if p.parent != nil {
		p.partReply(reply, true)
		return
	}
	p.session.deliver(p, reply, true)
}

// encode writes a command as an array of bulk strings, as nodes expect it.
func (w *Worker) encode(args [][]byte) []byte {
	b := redcon.AppendArray(w.buf[:0], len(args))
	for _, arg := range args {
		b = redcon.AppendBulk(b, arg)
	}
	w.buf = keepSmall(b)
	return b
}

// keepSmall drops a buffer that one large use made large.
func keepSmall(b []byte) []byte {
	if cap(b) > 64<<10 {
		return nil
	}
	return b
}

// split sends a command in parts, one for each slot.
func (s *Session) split(cmd *command.Command, args [][]byte) {
	s.scatter(cmd, route.SplitCommand(cmd, args, s.worker.keys))
}

// scatter sends the parts of g and answers when all are answered.
func (s *Session) scatter(cmd *command.Command, g *route.Gather) {
	s.scatterFor(s.newPending(cmd.Class), g, cmd.Class, cmd.Flags&command.ReadOnly != 0)
}

// scatterFor is scatter for a command that has its place in the order already.
func (s *Session) scatterFor(parent *pending, g *route.Gather, class command.Class, readOnly bool) {
	parent.gather = g
	parent.others = len(g.Parts)
	for i := range g.Parts {
		p := s.worker.take()
		p.session, p.parent, p.part, p.class, p.stats, p.since = s, parent, i, class, s.stats, parent.since
		p.ReadOnly = readOnly
		s.prepare(p, g.Parts[i].Slot)
		request := g.Parts[i].Request
		if s.tracking != nil {
			request = s.prefaceCaching(p, request)
			s.tracking.caching = p.Preface > 0 // it is for each part
		}
		if outcome := s.local.Send(&p.Call, request); outcome != upstream.Sent {
			p.others = 1
			p.notSent(outcome)
			p.Free(nil)
			continue
		}
		p.others = 1
		p.limitConnect()
	}
	if s.tracking != nil {
		s.tracking.caching = false
	}
}

// partOfWrite reports whether other parts of the command may change something, whatever becomes of this one.
func (p *pending) partOfWrite() bool { return p.parent != nil && !p.ReadOnly }

// partReply takes bytes of the reply to a part; the last part's end answers the command.
func (p *pending) partReply(b []byte, last bool) {
	parent := p.parent
	s := parent.session
	if s == nil {
		return
	}
	done := parent.gather.Add(p.part, b, last)
	parent.countGathered(p.ReadOnly)
	if done {
		parent.releaseGathered()
		s.deliver(parent, parent.gather.AppendReply(nil), true)
	}
}

// partFailed answers a part with an error in the place of whatever came of its reply.
func (p *pending) partFailed(reply []byte) {
	parent := p.parent
	if s := parent.session; s != nil && parent.gather.Fail(p.part, reply) {
		parent.releaseGathered()
		s.deliver(parent, parent.gather.AppendReply(nil), true)
	}
}
