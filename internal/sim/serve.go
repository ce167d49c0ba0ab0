package sim

import (
	"strconv"
	"strings"
)

const (
	replyQueued = "+QUEUED\r\n"
	replyAbort  = "-EXECABORT Transaction discarded because of previous errors.\r\n"
)

// queue is what a node has been sent on a link since MULTI.
type queue struct {
	commands [][]string
	broken   bool // one was refused: EXEC aborts
}

// handle answers one command as Redis Cluster would.
func (n *node) handle(l *link, args []string) string {
	asking := l.asking
	l.asking = false
	switch strings.ToLower(args[0]) {
	case "asking":
		l.asking = true
		return replyOK
	case "multi":
		if l.queue != nil {
			n.world.failf("link %d received MULTI within MULTI", l.id)
		}
		l.queue = &queue{}
		return replyOK
	case "exec":
		return n.exec(l, asking)
	case "client":
		return n.clientCommand(l, args)
	case "ping":
		if len(l.topics) > 0 {
			return "*2\r\n$4\r\npong\r\n$0\r\n\r\n"
		}
	}
	refusal := n.refusal(l, [][]string{args}, asking)
	switch {
	case l.queue != nil && refusal != "":
		l.queue.broken = true
		return refusal
	case l.queue != nil:
		l.queue.commands = append(l.queue.commands, args)
		return replyQueued
	case refusal != "":
		return refusal
	}
	return n.run(l, args)
}

// refusal is why the node does not take commands now; empty: it does.
func (n *node) refusal(l *link, commands [][]string, asking bool) string {
	w := n.world
	t, keys := w.tagOfAll(commands)
	switch now := w.loop.Now(); {
	case now < n.loadingUntil && !keyless(commands):
		return "-LOADING Redis is loading the dataset in memory\r\n"
	case t == nil:
		return ""
	case now < n.downUntil:
		return "-CLUSTERDOWN The cluster is down\r\n"
	case !w.profile.sharded:
		return ""
	}
	return n.route(l, t, keys, asking)
}

// keyless reports whether the commands are all of those that a node answers also while it loads.
func keyless(commands [][]string) bool {
	for _, args := range commands {
		switch strings.ToLower(args[0]) {
		case "ping", "echo", "select", "watch", "unwatch":
		default:
			return false
		}
	}
	return true
}

// exec ends a transaction: what happens to its keys happens at once.
func (n *node) exec(l *link, asking bool) string {
	w := n.world
	q, watches := l.queue, l.watches
	if q == nil {
		w.failf("link %d received EXEC without MULTI", l.id)
	}
	l.queue, l.watches = nil, nil
	if q.broken {
		return replyAbort
	}
	if refusal := n.refusal(l, q.commands, asking); refusal != "" {
		if strings.HasPrefix(refusal, "-LOADING") {
			return "-EXECABORT Transaction discarded because of: LOADING Redis is loading the dataset in memory\r\n"
		}
		return refusal
	}
	for r, version := range watches {
		if r.version != version {
			return nullArray(l.target.Protocol())
		}
	}
	w.executesTransaction(l, q, watches)
	var b strings.Builder
	b.WriteString("*" + strconv.Itoa(len(q.commands)) + "\r\n")
	for _, args := range q.commands {
		b.WriteString(n.run(l, args))
	}
	return b.String()
}

func nullArray(protocol int) string {
	if protocol >= 3 {
		return "_\r\n"
	}
	return "*-1\r\n"
}

// run executes a command.
func (n *node) run(l *link, args []string) string {
	w := n.world
	switch strings.ToLower(args[0]) {
	case "watch":
		n.watch(l, args[1:])
		return replyOK
	case "unwatch":
		l.watches = nil
		return replyOK
	case "select":
		l.database, _ = strconv.Atoi(args[1])
		return replyOK
	case "ping":
		return "+PONG\r\n"
	case "echo":
		return bulk(args[1])
	case "blpop", "brpop":
		return n.block(l, args)
	case "lpush", "rpush":
		return n.putBack(l, args)
	}
	if reply := n.subscription(l, args); reply != "" {
		return reply
	}
	w.checkForeign(l, args)
	return w.execute(n, l, args)
}

func (n *node) watch(l *link, keys []string) {
	if l.watches == nil {
		l.watches = make(map[*register]int)
	}
	n.world.checkForeign(l, append([]string{"watch"}, keys...))
	for _, key := range keys {
		r := n.world.registers[registerKey{l.database, key}]
		if r == nil {
			n.world.failf("link %d received WATCH of %q in database %d, which no client sent", l.id, key, l.database)
		}
		if _, watched := l.watches[r]; !watched {
			l.watches[r] = r.version
		}
	}
}

// checkForeign asserts that nobody uses a link on which another client watches keys.
func (w *world) checkForeign(l *link, args []string) {
	r := w.registers[registerKey{l.database, args[1]}]
	for watched := range l.watches {
		if r == nil || watched.client != r.client {
			w.failf("link %d received %q while client %d watches %q on it", l.id, briefly(args), watched.client.id, watched.key)
		}
	}
}
