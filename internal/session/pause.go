package session

import (
	"bytes"
	"strings"
	"time"

	"github.com/sluiceproxy/sluice/internal/command"
	"github.com/sluiceproxy/sluice/internal/loop"
	"github.com/sluiceproxy/sluice/pkg/resp"
)

// pause is what one loop knows of the pause of a tenant's commands: they wait in their clients' input, none is refused.
type pause struct {
	until      int64 // on the loop's clock
	writesOnly bool
	timer      *loop.Timer
}

// PauseTenant holds the tenant's commands, or those alone that may write, until a moment of the loop's clock. A pause that
// is in force already is made longer and stricter, never the opposite. What is in flight goes on. It is about one loop; on
// that loop.
func (w *Worker) PauseTenant(name string, until int64, writesOnly bool) {
	stats := w.statsOf(name)
	p := stats.pause
	if p == nil {
		p = &pause{writesOnly: true}
		stats.pause = p
	}
	p.writesOnly = p.writesOnly && writesOnly
	p.until = max(p.until, until)
	if p.timer != nil {
		w.Loop.Cancel(p.timer)
	}
	p.timer = w.Loop.After(time.Duration(p.until-w.Loop.Now()), func() { w.endPause(stats) })
	stats.noteAttention()
}

// UnpauseTenant ends the pause of the tenant's commands. On the loop.
func (w *Worker) UnpauseTenant(name string) { w.endPause(w.tenants[name]) }

// endPause lets the sessions go on that have been waiting.
func (w *Worker) endPause(stats *tenantStats) {
	if stats == nil || stats.pause == nil {
		return
	}
	w.Loop.Cancel(stats.pause.timer)
	stats.pause = nil
	stats.noteAttention()
	w.wakePostponed(stats)
}

// wakePostponed looks again at the commands that a pause of the tenant has held.
func (w *Worker) wakePostponed(stats *tenantStats) {
	w.Each(func(s *Session) {
		if s.postponed && s.stats == stats {
			s.postponed = false
			s.goOn()
		}
	})
}

// heldByPause reports whether a command must wait for the end of its tenant's pause. A client that monitors is not paused,
// as in Redis.
func (s *Session) heldByPause(cmd *command.Command, args [][]byte) bool {
	if s.stats.halt != nil && cmd.Flags&command.NoAuth == 0 {
		return true
	}
	p := s.stats.pause
	return p != nil && (!p.writesOnly || s.mayWrite(cmd, args))
}

// mayWrite reports whether a command may change something or make a server tell its replicas of it.
func (s *Session) mayWrite(cmd *command.Command, args [][]byte) bool {
	if cmd.Flags&(command.Write|command.MayReplicate) != 0 {
		return true
	}
	switch cmd.Name {
	case "publish", "spublish", "pfcount", "evalsha", "fcall":
		return true
	case "eval":
		return !declaresNoWrites(args)
	case "exec":
		return s.transaction != nil && s.transaction.writes(s)
	}
	return false
}

// declaresNoWrites reports whether a script says in its first line that it only reads.
func declaresNoWrites(args [][]byte) bool {
	if len(args) < 2 || !bytes.HasPrefix(args[1], []byte("#!")) {
		return false
	}
	line, _, _ := bytes.Cut(args[1], []byte("\n"))
	return bytes.Contains(line, []byte("no-writes"))
}

// writes reports whether one of the queued commands may change something.
func (tx *transaction) writes(s *Session) (found bool) {
	tx.each(func(args [][]byte) {
		cmd := command.Lookup(args[0])
		if cmd != nil {
			cmd, _ = cmd.Resolve(args)
		}
		found = found || cmd == nil || s.mayWrite(cmd, args) // nil: what only the backend knows
	})
	return found
}

// each calls fn for every command of the transaction.
func (tx *transaction) each(fn func(args [][]byte)) { eachCommand(tx.queue, fn) }

// eachCommand calls fn for every command of a request of the proxy's own making; the arguments are valid during the call.
func eachCommand(request []byte, fn func(args [][]byte)) {
	var scan resp.CommandScanner
	limits := resp.DefaultLimits()
	var args [][]byte
	for len(request) > 0 {
		n, err := scan.Scan(request, &limits)
		if err != nil || n == 0 {
			return
		}
		if args = resp.AppendArgs(args[:0], request[:n]); len(args) > 0 {
			fn(args)
		}
		request = request[n:]
	}
}

// pauseMax bounds a pause: what is longer could not be told from one without end.
const pauseMax = int64(100 * 365 * 24 * time.Hour / time.Millisecond)

// clientPause handles CLIENT PAUSE milliseconds [WRITE|ALL] for the session's own tenant, at this proxy.
func (s *Session) clientPause(args [][]byte) {
	writesOnly := false
	if len(args) > 4 {
		s.appendError(errSubcommandSyntax("CLIENT", args[1]))
		return
	}
	if len(args) == 4 {
		switch strings.ToLower(string(args[3])) {
		case "write":
			writesOnly = true
		case "all":
		default:
			s.appendError(errPauseMode)
			return
		}
	}
	milliseconds, ok := parseInteger(args[2])
	switch {
	case !ok:
		s.appendError(errPauseTimeout)
		return
	case milliseconds < 0:
		s.appendError(errPauseNegative)
		return
	case milliseconds > pauseMax:
		s.appendError(errPauseTooLong)
		return
	}
	until := s.worker.Loop.Now() + milliseconds*int64(time.Millisecond)
	name := s.tenant.Name
	s.askLoops(func(w *Worker) { w.PauseTenant(name, until, writesOnly) }, func() []byte { return replyOK })
}

func (s *Session) clientUnpause() {
	name := s.tenant.Name
	s.askLoops(func(w *Worker) { w.UnpauseTenant(name) }, func() []byte { return replyOK })
}
