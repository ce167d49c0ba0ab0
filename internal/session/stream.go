package session

import (
	"bytes"
	"errors"
	"time"

	"github.com/sluiceproxy/sluice/internal/command"
	"github.com/sluiceproxy/sluice/internal/pipe"
	"github.com/sluiceproxy/sluice/internal/route"
	"github.com/sluiceproxy/sluice/internal/upstream"
	"github.com/sluiceproxy/sluice/pkg/resp"
	"github.com/sluiceproxy/sluice/pkg/slot"
)

const (
	// streamAhead is how much of a streamed command may wait for the node before the client is held back.
	streamAhead = 1 << 20
	// dedicatedRetry is the time between two attempts to get a connection when all are lent.
	dedicatedRetry = 5 * time.Millisecond
)

var errCutShort = errors.New("a command ended before it was whole")

// streaming is a command too long to be held: it goes to a dedicated connection as it arrives. Nothing else of the
// session is in flight until it is answered, because commands on other connections could overtake it.
type streaming struct {
	rest    resp.CommandRest
	line    *pipe.Pipe          // nil: what comes is read and dropped, because the command has been answered
	conn    *upstream.Dedicated // that line is of; nil: it is the session's own anyway
	pending *pending            // nil: answered
	front   []string            // the arguments in front of the long one, for the slow log
	whole   int64               // when the command had come whole; 0: it has not
	ended   bool                // the command has been passed on whole
}

// beginStream starts to pass on a command of which b holds the beginning, up to within a long argument. It returns how
// many bytes it took: all, or none when no connection is free and the client has to wait.
func (s *Session) beginStream(b []byte) int {
	_, start, length, argc, _ := s.scan.OpenBulk()
	cmd, at, problem := s.judgeStream(b[:start], argc)
	if s.barrier { // the backend is asked about the command
		s.stopped = true
		s.conn.Pause()
		return 0
	}
	if problem == "" && s.stats.attention {
		switch {
		case s.haltRefuses(cmd):
			problem = errHalted
		case s.monitor != nil && !s.mayRunAsMonitor(cmd, nil):
			problem = errMonitorKeyspace
		case s.monitor == nil && s.heldByPause(cmd, nil):
			s.postponed, s.stopped = true, true
			s.conn.Pause()
			return 0
		}
	}
	var conn *upstream.Dedicated
	var line *pipe.Pipe
	if problem == "" {
		s.epoch = s.local.Epoch()
		var outcome upstream.Outcome
		conn, line, outcome = s.streamTo(at)
		switch {
		case outcome == upstream.Sent:
		case outcome != upstream.Full:
			problem = s.notSentText(outcome, false)
		case s.waitToStream(at):
			s.stopped = true
			s.conn.Pause()
			return 0
		default:
			problem = errDedicatedFull
		}
		s.wantsSince = 0
	}
	s.stream = &streaming{rest: s.scan.Rest(b, *s.limits), line: line, conn: conn}
	s.mode = ModeStreaming
	s.scan.Reset()
	s.conn.Expect(0)
	defer s.unskip()
	if problem != "" {
		s.refuse(problem)
		return len(b)
	}
	p := s.newPending(cmd.Class)
	s.prepare(p, at)
	p.Deadline = 0 // set when the command is whole
	p.others++
	s.stream.pending = p
	if cmd.Kind == command.KindPublish {
		p.amend = amendStreamed(b[:start])
	}
	s.noteStream(b[:start], length)
	if s.tracking != nil && s.tracking.caching {
		line.Send(newCleanup(), s.tracking.cachingCommand())
		s.tracking.caching = false
	}
	line.SendOpen(&p.Call, b)
	return len(b)
}

// waitToStream lets a command wait until there is a connection for it; false: it has waited long enough.
func (s *Session) waitToStream(at int32) bool {
	if s.tracking != nil {
		s.worker.Loop.After(dedicatedRetry, s.goOn) // its own connection is being made
		return true
	}
	return s.await(at, false)
}

// streamTo finds a connection for a command that is streamed: that of the session when it has one, else one that is lent.
func (s *Session) streamTo(at int32) (conn *upstream.Dedicated, line *pipe.Pipe, outcome upstream.Outcome) {
	if pin := s.pinned; pin != nil && pin.own == nil && pin.slot == at && !pin.line().Conn().Closed() {
		return nil, pin.line(), upstream.Sent
	}
	if s.tracking != nil {
		line, outcome = s.tracking.tracker.Pipe(at)
		if outcome == upstream.Sent && !line.Conn().Attached() {
			outcome = upstream.Full // something may have to be sent first
		}
		return nil, line, outcome
	}
	if conn, outcome = s.local.Dedicate(at, uint32(s.id), s.target, s); outcome == upstream.Sent {
		line = conn.Pipe()
	}
	return conn, line, outcome
}

// judgeStream finds out from the arguments in front of the long one where the command goes, or why it cannot.
func (s *Session) judgeStream(front []byte, argc int) (cmd *command.Command, at int32, problem string) {
	at = route.NoSlot
	args := resp.AppendArgs(s.worker.args[:0], front[:bytes.LastIndexByte(front, '$')])
	if len(args) == 0 {
		return nil, at, "ERR unknown command: its name is too long"
	}
	if cmd = command.Lookup(args[0]); cmd == nil {
		if cmd, problem = s.learnStream(args); cmd == nil {
			return nil, at, problem
		}
	}
	cmd, err := cmd.Resolve(args)
	if err != nil {
		return nil, at, "ERR " + err.Error()
	}
	switch kind := cmd.KindFor(args); {
	case !cmd.CheckArity(argc):
		return nil, at, "ERR " + command.WrongArity(cmd.Name)
	case s.tenant == nil:
		return nil, at, errNoAuth
	case s.transaction != nil:
		return nil, at, errTransactionLong
	case s.channels != nil && s.protocol == 2 && s.subscribed() && !allowedWhileSubscribed(cmd.Name):
		return nil, at, errSubscribed(cmd.Name)
	case cmd.Class == command.ClassScripting && s.trespassScripting(cmd) != "":
		return nil, at, s.trespassScripting(cmd)
	case s.trusted && ofBackend(cmd):
		return cmd, at, s.judgeTrusted(cmd)
	case kind == command.KindLearned && s.judgeLearned(cmd) != "":
		return nil, at, s.judgeLearned(cmd)
	case kind == command.KindLearned && cmd.Flags&command.Blocking != 0, kind == command.KindDedicated:
		return nil, at, errArgumentTooLong
	case kind == command.KindAdmin:
		return nil, at, errAdmin(cmd.Name)
	case kind == command.KindLocal:
		return nil, at, errArgumentTooLong
	case cmd.Name == "copy" || cmd.Name == "move" || cmd.Name == "migrate":
		return nil, at, errArgumentTooLong // the database that they name may come behind the long argument
	case kind == command.KindFanOut && s.sharded:
		return nil, at, errArgumentTooLong
	case !s.sharded, cmd.AnyNode && !cmd.HasKeys():
		return cmd, at, ""
	}
	if cmd.Class == command.ClassScripting {
		return s.judgeScriptStream(cmd, args)
	}
	first := cmd.FirstKey
	if first <= 0 || first >= len(args) {
		return nil, at, errKeyAfterLong
	}
	return cmd, int32(slot.Of(args[first])), ""
}

// streamOn takes the next bytes of the streamed command.
func (s *Session) streamOn(b []byte) int {
	st := s.stream
	n, done, err := st.rest.Feed(b)
	if err != nil {
		s.abandonStream()
		s.malformed(err)
		return len(b)
	}
	if st.line != nil {
		st.line.More(b[:n])
	}
	if done {
		s.endStream()
		if s.mode == ModeNormal {
			s.stopped = true
			s.conn.Again()
		}
		return n
	}
	if st.line != nil && st.line.Backlog() > streamAhead {
		s.holdBack(st)
	}
	return n
}

// holdBack makes the client wait until the node has taken what it has been sent, for which it has as long as for a command.
func (s *Session) holdBack(st *streaming) {
	s.conn.Pause()
	st.line.Conn().TellDrained()
	if timeout := s.tenant.CommandTimeout; timeout > 0 {
		st.pending.Deadline = s.worker.Loop.Now() + int64(timeout)
	}
}

// endStream is called when the command has been passed on, or dropped, whole.
func (s *Session) endStream() {
	st := s.stream
	st.ended, st.whole = true, s.worker.Loop.Now()
	s.mode = ModeNormal
	if st.line == nil {
		s.stream = nil
		return
	}
	s.barrier = true // until it is answered
	st.line.Finish(&st.pending.Call)
	if timeout := s.tenant.CommandTimeout; timeout > 0 {
		st.pending.Deadline = s.worker.Loop.Now() + int64(timeout)
	}
}

// streamSettled is called when the streamed command has its answer, which may be a failure before it was whole.
func (s *Session) streamSettled() {
	st := s.stream
	st.pending = nil
	s.barrier = false
	s.releaseDedicated(st)
	if st.ended {
		s.stream = nil
		return
	}
	s.conn.Resume()
}

// releaseDedicated gives the connection back, or closes it when a part of a command is on it.
func (s *Session) releaseDedicated(st *streaming) {
	if st.line == nil {
		return
	}
	if !st.ended {
		st.line.Conn().Close(errCutShort)
	}
	if st.conn != nil {
		st.conn.GiveBack()
	}
	st.line, st.conn = nil, nil
}

// abandonStream gives up a streamed command, because the client is gone or sent something malformed.
func (s *Session) abandonStream() {
	if s.stream == nil {
		return
	}
	st := s.stream
	s.stream = nil
	if st.pending != nil {
		st.pending.silent = true
	}
	s.releaseDedicated(st)
}

// DedicatedDrained implements upstream.DedicatedUser.
func (s *Session) DedicatedDrained() {
	if s.mode != ModeStreaming {
		return
	}
	if p := s.stream.pending; p != nil {
		p.Deadline = 0 // it is the client's turn
	}
	s.conn.Resume()
}
