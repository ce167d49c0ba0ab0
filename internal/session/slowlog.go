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
	at     int64 // when it ended, by the loop's clock
	second int64 // the same as a time of day, for those that are shown
	micros int64
	line   slowLine
	peer   string
	name   string
}

// slowlog is the newest slow commands of one tenant on one loop: a ring.
type slowlog struct {
	entries []slowEntry
	oldest  int
	ids     *atomic.Int64 // of the tenant, on all loops
}

// next makes room for one more entry, in the place of the oldest one when there are as many as the limit. What the place
// held is still there, so that its memory is used again: while a node is slow, every command has an entry.
func (l *slowlog) next(limit int) *slowEntry {
	if len(l.entries) < limit {
		l.entries = append(l.entries, slowEntry{})
		return &l.entries[len(l.entries)-1]
	}
	e := &l.entries[l.oldest]
	l.oldest = (l.oldest + 1) % limit
	return e
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
	switch {
	case s.stream != nil && s.stream.pending == p:
		if len(s.stream.front) > 0 {
			s.addSlow(p.stats, took).set(s.stream.front)
		}
	case p.gather != nil:
		if args := p.gather.Command(); len(args) > 0 {
			s.addSlow(p.stats, took).shorten(args)
		}
	case !p.HasRequest(): // it was not sent
	case p.class == command.ClassTransactions:
		if all := executedLines(p.commands()); len(all) > 0 {
			s.addSlow(p.stats, took).set(all)
		}
	default:
		w := s.worker
		if w.slowArgs = appendLastArgs(w.slowArgs[:0], p.commands()); len(w.slowArgs) > 0 {
			s.addSlow(p.stats, took).shorten(w.slowArgs)
			w.slowArgs = dropLarge(w.slowArgs)
		}
	}
}

// executedLines is what an entry shows of a transaction: EXEC, and what it executed.
func executedLines(request []byte) []string {
	var lines [][]string
	eachCommand(request, func(args [][]byte) {
		var line slowLine
		line.shorten(args)
		lines = append(lines, line.args())
	})
	if len(lines) == 0 {
		return nil
	}
	last := lines[len(lines)-1]
	if len(lines) < 3 {
		return last
	}
	all := last
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
		s.addSlow(s.stats, 0).shorten(args)
	}
}

// addSlow adds an entry, whose command line the caller sets.
func (s *Session) addSlow(stats *tenantStats, took int64) *slowLine {
	shared := s.worker.shared
	if stats.slow == nil {
		stats.slow = &slowlog{ids: shared.slowIDs(s.tenant.Name)}
	}
	e := stats.slow.next(shared.Settings.SlowlogLength)
	e.id, e.at, e.micros, e.peer, e.name = stats.slow.ids.Add(1)-1, s.worker.Loop.Now(), took/1000, s.peer, s.name
	return &e.line
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
		stats := w.tenants[name]
		if stats == nil || stats.slow == nil {
			return
		}
		now, clock := time.Now(), w.Loop.Now()
		for _, e := range stats.slow.entries {
			e.line = e.line.clone() // the loop goes on writing into its own
			e.second = now.Add(time.Duration(e.at - clock)).Unix()
			*found = append(*found, e)
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
	args := e.line.args()
	b = redcon.AppendArray(b, len(args))
	for _, arg := range args {
		b = redcon.AppendBulkString(b, arg)
	}
	b = redcon.AppendBulkString(b, e.peer)
	return redcon.AppendBulkString(b, e.name)
}
