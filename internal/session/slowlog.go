package session

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tidwall/redcon"

	"github.com/sluiceproxy/sluice/internal/command"
)

const (
	slowArguments = 32  // most arguments of an entry, as in Redis
	slowArgument  = 128 // most bytes of one of them
	// slowDefault is how many entries SLOWLOG GET shows unless it is told.
	slowDefault = 10
)

// slowEntry is a command that took long, from when it was read until its reply was whole.
type slowEntry struct {
	id     int64
	second int64
	micros int64
	args   []string
	peer   string
	name   string
}

// slowlog is the newest slow commands of one tenant on one loop: a ring.
type slowlog struct {
	entries []slowEntry
	oldest  int
	ids     *atomic.Int64 // of the tenant, on all loops
}

func (l *slowlog) add(e slowEntry, limit int) {
	if len(l.entries) < limit {
		l.entries = append(l.entries, e)
		return
	}
	l.entries[l.oldest] = e
	l.oldest = (l.oldest + 1) % limit
}

func (l *slowlog) reset() { l.entries, l.oldest = nil, 0 }

// slowAfter is the time in nanoseconds from which a command is slow.
func (s *Settings) slowAfter() int64 {
	if s.SlowlogLength <= 0 {
		return math.MaxInt64
	}
	return int64(s.SlowlogThreshold)
}

// slowIDs counts the entries of a tenant.
func (s *Shared) slowIDs(tenant string) *atomic.Int64 {
	ids, _ := s.slow.LoadOrStore(tenant, new(atomic.Int64))
	return ids.(*atomic.Int64)
}

// noteSlow remembers p, whose reply is whole by now and whose request is still there. How long a command was blocked does
// not count, nor how long a client took to send one that streams.
func (s *Session) noteSlow(p *pending) {
	if p.stats == nil || s.blocked == p {
		return
	}
	since := p.since
	if st := s.stream; st != nil && st.pending == p {
		since = st.whole
	}
	took := s.worker.Loop.Now() - since
	if since == 0 || took < s.worker.slowAfter {
		return
	}
	if args := s.argumentsOf(p); len(args) > 0 {
		s.addSlow(p.stats, args, took)
	}
}

// argumentsOf is the command line that p is about, as an entry shows it.
func (s *Session) argumentsOf(p *pending) []string {
	switch {
	case s.stream != nil && s.stream.pending == p:
		return s.stream.front
	case p.gather != nil:
		return shorten(p.gather.Command())
	case !p.HasRequest():
		return nil // it was not sent
	}
	var lines [][]string
	eachCommand(p.commands(), func(args [][]byte) { lines = append(lines, shorten(args)) })
	if len(lines) == 0 {
		return nil
	}
	last := lines[len(lines)-1]
	if p.class != command.ClassTransactions || len(lines) < 3 {
		return last
	}
	all := last // EXEC, and what it executed
	for i, line := range lines[1 : len(lines)-1] {
		if i == slowArguments-2 && len(lines)-2 > i+1 {
			return append(all, fmt.Sprintf("... (%d more commands)", len(lines)-2-i))
		}
		all = append(all, shortenText(strings.Join(line, " ")))
	}
	return all
}

// noteLocal remembers a command that is answered at once, where every command is.
func (s *Session) noteLocal(cmd *command.Command, args [][]byte) {
	if s.stats != nil && !strings.HasPrefix(cmd.Name, "slowlog") {
		s.addSlow(s.stats, shorten(args), 0)
	}
}

func (s *Session) addSlow(stats *tenantStats, args []string, took int64) {
	shared := s.worker.shared
	if stats.slow == nil {
		stats.slow = &slowlog{ids: shared.slowIDs(s.tenant.Name)}
	}
	stats.slow.add(slowEntry{
		id: stats.slow.ids.Add(1) - 1, second: time.Now().Unix(), micros: took / 1000, args: args, peer: s.peer, name: s.name,
	}, shared.Settings.SlowlogLength)
}

// shorten copies a command line as Redis does for its slow log: not all of a long one, and no secrets.
func shorten(args [][]byte) []string {
	secret := secrets(args)
	n := min(len(args), slowArguments)
	all := make([]string, n)
	for i := range all {
		switch {
		case i == n-1 && n < len(args):
			all[i] = fmt.Sprintf("... (%d more arguments)", len(args)-n+1)
		case secret(i):
			all[i] = redacted
		default:
			all[i] = shortenText(string(args[i][:min(len(args[i]), slowArgument)])) + more(len(args[i])-slowArgument)
		}
	}
	return all
}

func shortenText(text string) string {
	return text[:min(len(text), slowArgument)] + more(len(text)-slowArgument)
}

func more(bytes int) string {
	if bytes <= 0 {
		return ""
	}
	return fmt.Sprintf("... (%d more bytes)", bytes)
}

// slowlogCommand handles SLOWLOG: the tenant's own, kept by the proxy.
func (s *Session) slowlogCommand(cmd *command.Command, args [][]byte) bool {
	switch cmd.Name {
	case "slowlog|get":
		s.slowlogGet(args)
	case "slowlog|len":
		var found []slowEntry
		s.gatherSlow(&found, func() []byte { return redcon.AppendInt(nil, int64(len(found))) })
	case "slowlog|reset":
		name := s.tenant.Name
		s.askLoops(func(w *Worker) {
			if stats := w.tenants[name]; stats != nil && stats.slow != nil {
				stats.slow.reset()
			}
		}, func() []byte { return replyOK })
	case "slowlog|help":
		s.replyLines(slowlogHelp)
	default:
		return s.refuse(errNotSupportedYet(cmd.Name))
	}
	return true
}

func (s *Session) slowlogGet(args [][]byte) {
	count := int64(slowDefault)
	if len(args) > 3 {
		s.appendError(errSubcommandSyntax("SLOWLOG", args[1]))
		return
	}
	if len(args) == 3 {
		n, ok := parseInteger(args[2])
		if !ok || n < -1 {
			s.appendError(errSlowCount)
			return
		}
		count = n
	}
	var found []slowEntry
	s.gatherSlow(&found, func() []byte {
		if count >= 0 && count < int64(len(found)) {
			found = found[:count]
		}
		b := redcon.AppendArray(nil, len(found))
		for i := range found {
			b = found[i].append(b)
		}
		return b
	})
}

// gatherSlow collects the entries of all loops, newest first, and answers.
func (s *Session) gatherSlow(found *[]slowEntry, answer func() []byte) {
	name := s.tenant.Name
	s.askLoops(func(w *Worker) {
		if stats := w.tenants[name]; stats != nil && stats.slow != nil {
			*found = append(*found, stats.slow.entries...)
		}
	}, func() []byte {
		slices.SortFunc(*found, func(a, b slowEntry) int { return cmp.Compare(b.id, a.id) })
		*found = (*found)[:min(len(*found), s.worker.shared.Settings.SlowlogLength)]
		return answer()
	})
}

func (e *slowEntry) append(b []byte) []byte {
	b = redcon.AppendArray(b, 6)
	b = redcon.AppendInt(b, e.id)
	b = redcon.AppendInt(b, e.second)
	b = redcon.AppendInt(b, e.micros)
	b = redcon.AppendArray(b, len(e.args))
	for _, arg := range e.args {
		b = redcon.AppendBulkString(b, arg)
	}
	b = redcon.AppendBulkString(b, e.peer)
	return redcon.AppendBulkString(b, e.name)
}
