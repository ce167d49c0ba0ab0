package session

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/sluiceproxy/sluice/internal/command"
)

const (
	// monitorsMax bounds the monitors of one tenant: each of its commands is written to all of them.
	monitorsMax = 16
	// monitorBytes bounds what a monitor is shown in a second.
	monitorBytes = 8 << 20
	// monitorArgument and monitorLine bound one argument and all arguments of a line; Redis shows them whole.
	monitorArgument = 16 << 10
	monitorLine     = 64 << 10
)

// monitor is a session that is shown the commands of its tenant, those of its own included. Every loop has a watcher for
// it. The session does not move to another loop.
type monitor struct {
	session *Session
	worker  *Worker
	tenant  string
	over    atomic.Bool // set by the session's loop, so that no loop begins to watch for it any more
	live    bool        // MONITOR has been answered
	rate    lineRate
}

// watcher is one loop's way to a monitor. Lines for a monitor of another loop go there once per tick.
type watcher struct {
	to     *monitor
	out    []byte
	rate   lineRate
	posted bool
}

// lineRate is what has been shown in a second, and how much has not for lack of room.
type lineRate struct {
	since   int64
	lines   int
	bytes   int
	dropped int
}

func (r *lineRate) admit(now int64, limit, size int) bool {
	if now-r.since >= int64(time.Second) {
		r.since, r.lines, r.bytes = now, 0, 0
	}
	if r.lines >= limit || r.bytes+size > monitorBytes {
		r.dropped++
		return false
	}
	r.lines++
	r.bytes += size
	return true
}

// startMonitor handles MONITOR: when it is answered, every loop shows the session what its tenant's clients send. It
// returns false when the command must wait.
func (s *Session) startMonitor() bool {
	switch {
	case s.head != nil:
		return false
	case s.monitor != nil:
		return true // as in Redis, there is no answer
	case len(s.stats.watchers) >= monitorsMax:
		return s.refuse(errMonitors)
	}
	m := &monitor{session: s, worker: s.worker, tenant: s.tenant.Name}
	s.monitor = m
	s.askLoops(func(w *Worker) {
		if m.over.Load() {
			return
		}
		stats := w.statsOf(m.tenant)
		stats.watchers = append(stats.watchers, &watcher{to: m})
		stats.noteAttention()
	}, func() []byte {
		m.live = true
		return replyOK
	})
	return true
}

// stopMonitor makes the session an ordinary one again. A loop that has not heard of it yet will not begin: what is posted
// here comes after what it does now.
func (s *Session) stopMonitor() {
	m := s.monitor
	if m == nil {
		return
	}
	s.monitor = nil
	m.over.Store(true)
	for _, w := range s.worker.shared.Workers {
		w.Loop.Post(func() {
			stats := w.statsOf(m.tenant)
			stats.watchers = slices.DeleteFunc(stats.watchers, func(x *watcher) bool { return x.to == m })
			stats.noteAttention()
		})
	}
}

// mayRunAsMonitor reports whether a monitor may run a command: none that reads or may write, as in Redis.
func (s *Session) mayRunAsMonitor(cmd *command.Command, args [][]byte) bool {
	return cmd.Flags&command.ReadOnly == 0 && !s.mayWrite(cmd, args)
}

// shown reports whether monitors are shown a command at all: not what concerns the server's operation, as in Redis.
func shown(cmd *command.Command) bool {
	return cmd.Flags&command.Admin == 0 && (cmd.Flags&command.SkipMonitor == 0 || cmd.Class == command.ClassScripting)
}

// show tells the tenant's monitors of a command that has been begun; of a transaction at EXEC, command by command.
func (s *Session) show(stats *tenantStats, tx *transaction, cmd *command.Command, args [][]byte) {
	now := time.Now()
	if tx != nil {
		if !endsQueueing(cmd.Name) {
			return
		}
		if cmd.Name == "exec" && !tx.broken {
			tx.each(func(queued [][]byte) { s.showLine(stats, now, queued) })
		}
	}
	s.showLine(stats, now, args)
}

func (s *Session) showLine(stats *tenantStats, now time.Time, args [][]byte) {
	line := appendMonitorHead(nil, now, s.database, s.peer)
	line = appendMonitorArgs(line, args)
	for _, x := range stats.watchers {
		x.show(s.worker, line)
	}
}

func (x *watcher) show(w *Worker, line []byte) {
	if x.to.worker == w {
		x.to.take(line, 0)
		return
	}
	if x.rate.admit(w.Loop.Now(), w.shared.Settings.MonitorRate, len(line)) {
		x.out = append(x.out, line...)
	}
	if !x.posted {
		x.posted = true
		w.Loop.Post(x.pass)
	}
}

// pass hands over what has been collected in a tick.
func (x *watcher) pass() {
	m, lines, dropped := x.to, x.out, x.rate.dropped
	x.out, x.rate.dropped, x.posted = nil, 0, false
	m.worker.Loop.Post(func() { m.take(lines, dropped) })
}

// take shows lines to the client, as many as the rate allows. On the monitor's loop.
func (m *monitor) take(lines []byte, dropped int) {
	s := m.session
	if s.monitor != m || !m.live {
		return
	}
	m.rate.dropped += dropped
	limit := s.worker.shared.Settings.MonitorRate
	for len(lines) > 0 {
		n := bytes.IndexByte(lines, '\n') + 1
		if m.rate.admit(s.worker.Loop.Now(), limit, n) {
			m.tellDropped()
			s.between(lines[:n])
		}
		lines = lines[n:]
	}
}

// tellDropped tells the client how many lines it has not been shown, in a line of the same kind.
func (m *monitor) tellDropped() {
	if m.rate.dropped == 0 {
		return
	}
	count := strconv.Itoa(m.rate.dropped)
	m.rate.dropped = 0
	line := appendMonitorHead(nil, time.Now(), 0, "sluice")
	m.session.between(appendMonitorArgs(line, [][]byte{[]byte("MONITOR"), []byte("dropped"), []byte(count)}))
}

// sweepMonitor tells of dropped lines when no more come.
func (s *Session) sweepMonitor(now int64) {
	if m := s.monitor; m != nil && now-m.rate.since >= int64(time.Second) {
		m.tellDropped()
	}
}

// between sends a line between two replies; a monitor has one command in flight at a time. A client that does not read is disconnected; nobody waits for it.
func (s *Session) between(line []byte) {
	switch {
	case s.conn.Closed(), s.mode == ModeClosing, s.reply == replyOff:
		return
	case s.head != nil: // the line of a command of its own comes behind the reply
		s.pushes = append(s.pushes, line...)
	default:
		s.conn.Append(line)
	}
	if s.conn.Pending()+len(s.pushes) > s.worker.shared.Settings.OutputBuffer {
		s.giveUp()
	}
}

func appendMonitorHead(dst []byte, now time.Time, database int, peer string) []byte {
	return fmt.Appendf(dst, "+%d.%06d [%d %s]", now.Unix(), now.Nanosecond()/1000, database, peer)
}

func appendMonitorArgs(dst []byte, args [][]byte) []byte {
	secret := secrets(args)
	start := len(dst)
	for i, arg := range args {
		if len(dst)-start > monitorLine {
			dst = fmt.Appendf(dst, ` "... (%d more arguments)"`, len(args)-i)
			break
		}
		dst = append(dst, ' ')
		if secret(i) {
			arg = []byte(redacted)
		}
		dst = appendQuoted(dst, arg)
	}
	return append(dst, '\r', '\n')
}

// appendQuoted writes an argument as Redis does: printable ASCII as it is, the rest escaped.
func appendQuoted(dst, arg []byte) []byte {
	cut := arg[:min(len(arg), monitorArgument)]
	dst = append(dst, '"')
	for _, c := range cut {
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c >= ' ' && c <= '~':
			dst = append(dst, c)
		default:
			dst = appendEscaped(dst, c)
		}
	}
	return append(append(dst, more(len(arg)-len(cut))...), '"')
}

func appendEscaped(dst []byte, c byte) []byte {
	const hexadecimal = "0123456789abcdef"
	switch c {
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	case '\a':
		return append(dst, '\\', 'a')
	case '\b':
		return append(dst, '\\', 'b')
	}
	return append(dst, '\\', 'x', hexadecimal[c>>4], hexadecimal[c&15])
}
