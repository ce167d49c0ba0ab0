package session

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/tidwall/redcon"
)

// describe is the session's line in CLIENT LIST, with Redis's fields in Redis's order. The numbers that are about a
// server's memory are 0.
func (s *Session) describe() string {
	now := s.worker.Loop.Now()
	sub, psub, ssub := s.subscriptionCounts()
	_, redirect := s.trackingFlags()
	return fmt.Sprintf("id=%d addr=%s laddr=%s fd=-1 name=%s age=%d idle=%d flags=%s db=%d sub=%d psub=%d ssub=%d multi=%d qbuf=%d qbuf-free=0 "+
		"argv-mem=0 multi-mem=%d rbs=0 rbp=0 obl=0 oll=0 omem=%d tot-mem=0 events=%s cmd=%s user=%s redir=%d resp=%d lib-name=%s lib-ver=%s",
		s.id, s.peer, s.listener, s.name, (now-s.created)/1e9, (now-s.lastActive)/1e9, s.flags(), s.database,
		sub, psub, ssub, s.queued(),
		s.conn.Unread(), s.queuedBytes(), s.conn.Pending(), s.events(), lastCommand(s.lastName), tenantUser(s), redirect, s.protocol,
		s.libName, s.libVersion)
}

// flags are the letters by which CLIENT LIST tells a client's state, in Redis's order.
func (s *Session) flags() string {
	var all []byte
	add := func(letter byte, holds bool) {
		if holds {
			all = append(all, letter)
		}
	}
	add('O', s.monitor != nil)
	add('P', s.subscribed())
	add('x', s.transaction != nil || s.executing != nil)
	add('b', s.blocked != nil || s.postponed)
	tracking, _ := s.trackingFlags()
	all = append(all, tracking...)
	add('U', strings.HasPrefix(s.listener, "/"))
	add('e', s.noEvict)
	if len(all) == 0 {
		return "N"
	}
	return string(all)
}

// queued is the number of commands since MULTI; -1 without one.
func (s *Session) queued() int {
	switch {
	case s.transaction != nil:
		return s.transaction.count
	case s.executing != nil:
		return s.executing.count
	}
	return -1
}

func (s *Session) queuedBytes() int {
	if s.transaction == nil {
		return 0
	}
	return len(s.transaction.queue)
}

// events are what the connection is watched for: r for input, w for room for output.
func (s *Session) events() string {
	if s.conn.Blocked() {
		return "rw"
	}
	return "r"
}

func lastCommand(name string) string {
	if name == "" {
		return "NULL"
	}
	return name
}

func tenantUser(s *Session) string {
	if s.user == nil {
		return "default"
	}
	return s.user.Name
}

// clientList answers with the clients of the session's own tenant, on all loops, oldest first.
func (s *Session) clientList(options [][]byte) {
	filter, problem := s.parseListFilter(options)
	if problem != "" {
		s.appendError(problem)
		return
	}
	type line struct {
		id   uint64
		text string
	}
	var lines []line
	s.askLoops(func(w *Worker) {
		w.Each(func(other *Session) {
			if filter.fits(other) {
				lines = append(lines, line{other.id, other.describe()})
			}
		})
	}, func() []byte {
		slices.SortFunc(lines, func(a, b line) int { return cmp.Compare(a.id, b.id) })
		var all strings.Builder
		for _, l := range lines {
			all.WriteString(l.text + "\n")
		}
		return s.appendText(nil, all.String())
	})
}

// clientKill handles CLIENT KILL addr and CLIENT KILL option value […] for clients of the session's own tenant. One that
// kills itself still gets the reply.
func (s *Session) clientKill(options [][]byte) {
	old := len(options) == 1
	filter := clientFilter{tenant: s.tenant.Name}
	if old {
		filter.address = string(options[0])
	} else if problem := s.parseKillFilter(&filter, options); problem != "" {
		s.appendError(problem)
		return
	}
	killed, self := 0, false
	s.askLoops(func(w *Worker) {
		w.Each(func(other *Session) {
			switch {
			case !filter.fits(other):
				return
			case other == s:
				self = true
			default:
				other.Kill(nil)
			}
			killed++
		})
	}, func() []byte {
		if self {
			s.finish()
		}
		switch {
		case !old:
			return redcon.AppendInt(nil, int64(killed))
		case killed == 0:
			return appendError(nil, errNoSuchClient)
		default:
			return replyOK
		}
	})
}
