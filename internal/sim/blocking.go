package sim

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// element is what somebody who is no client of the proxy has pushed to a list that all clients share. It must come to one
// of them, or stay in the list.
type element struct {
	name      string
	key       string
	left      bool     // the end where it was taken
	takenFor  *command // nil: it is in the list
	delivered bool
}

// blocking is a pop that waits on a link.
type blocking struct {
	by    *command
	keys  []string
	left  bool
	until int64 // 0: for ever
}

func listKey(t *tag) string { return t.text + "list" }

// pushElement lets a new element come to a list.
func (w *world) pushElement(t *tag) {
	n := w.owner(t)
	database := pick(w.random, w.profile.databases...)
	if to := n.migrating[t.index]; to != nil && len(n.lists[database][listKey(t)]) == 0 {
		n = to // as ASK tells who pushes
	}
	if !n.up {
		return
	}
	e := &element{name: "e" + strconv.Itoa(len(w.elements)+1), key: listKey(t)}
	w.elements[e.name] = e
	w.tracef("element %s is pushed to %s on %s", e.name, e.key, n.name)
	n.push(database, e.key, chance(w.random, 50), e.name)
}

// push puts an element into a list and serves who waits for it.
func (n *node) push(database int, key string, left bool, name string) {
	if n.lists[database] == nil {
		n.lists[database] = make(map[string][]string)
	}
	list := n.lists[database][key]
	if left {
		list = slices.Insert(list, 0, name)
	} else {
		list = append(list, name)
	}
	n.lists[database][key] = list
	for i := 0; i < len(n.blocked); i++ {
		l := n.blocked[i]
		if l.database != database || !slices.Contains(l.blocked.keys, key) {
			continue
		}
		if reply := n.pop(l, l.blocked); reply != "" {
			l.unblock(reply)
			i--
		}
	}
}

// pop takes an element out of the first list that has one; empty: none has.
func (n *node) pop(l *link, b *blocking) string {
	for _, key := range b.keys {
		list := n.lists[l.database][key]
		if len(list) == 0 {
			continue
		}
		at := 0
		if !b.left {
			at = len(list) - 1
		}
		e := n.world.elements[list[at]]
		n.lists[l.database][key] = slices.Delete(list, at, at+1)
		e.takenFor, e.left = b.by, b.left
		return "*2\r\n" + bulk(key) + bulk(e.name)
	}
	return ""
}

// block executes BLPOP or BRPOP; the reply is empty when it has to wait.
func (n *node) block(l *link, args []string) string {
	w := n.world
	keys := slices.DeleteFunc(slices.Clone(args[1:len(args)-1]), isMarker)
	_, id, _ := strings.Cut(args[len(args)-2], "#")
	by := w.byID[id]
	if by == nil || !slices.Equal(by.args, args) || by.database != l.database {
		w.failf("link %d received %q in database %d, which no client sent", l.id, args, l.database)
	}
	for watched := range l.watches {
		if watched.client != by.client {
			w.failf("link %d received %q while client %d watches keys on it", l.id, args, watched.client.id)
		}
	}
	b := &blocking{by: by, keys: keys, left: by.name() == "blpop"}
	if reply := n.pop(l, b); reply != "" {
		return reply
	}
	if seconds, _ := strconv.ParseFloat(args[len(args)-1], 64); seconds > 0 {
		b.until = w.loop.Now() + int64(seconds*float64(time.Second))
	}
	l.blocked = b
	n.blocked = append(n.blocked, l)
	w.tracef("link %d blocks", l.id)
	return ""
}

// unblock ends the wait of a link with a reply; an empty one is sent to nobody.
func (l *link) unblock(reply string) {
	n := l.node
	n.blocked = slices.DeleteFunc(n.blocked, func(other *link) bool { return other == l })
	l.blocked = nil
	l.out = append(l.out, reply...)
	n.world.tracef("link %d blocks no more: %q", l.id, reply)
}

// putBack executes a push of the proxy's: of what was taken for a client that has gone.
func (n *node) putBack(l *link, args []string) string {
	w := n.world
	for _, name := range args[2:] {
		e := w.elements[name]
		left := strings.EqualFold(args[0], "lpush")
		if e == nil || e.key != args[1] || e.takenFor == nil || e.delivered || e.left != left || !e.takenFor.client.gone() {
			w.failf("link %d received %q; the element is %+v", l.id, args, e)
		}
		e.takenFor = nil
		w.stats.PutBack++
		n.push(l.database, e.key, left, name)
	}
	return integer(len(n.lists[l.database][args[1]]))
}

// gone reports whether the client cannot be given anything more.
func (c *client) gone() bool { return c.fake.Closed || c.ended }

// clientCommand executes CLIENT ID and CLIENT UNBLOCK.
func (n *node) clientCommand(l *link, args []string) string {
	if strings.EqualFold(args[1], "id") {
		return integer(l.id + 1)
	}
	for _, other := range n.blocked {
		if strconv.Itoa(other.id+1) != args[2] {
			continue
		}
		reply := nullArray(other.target.Protocol())
		if len(args) > 3 && strings.EqualFold(args[3], "error") {
			reply = "-UNBLOCKED client unblocked via CLIENT UNBLOCK\r\n"
		}
		other.unblock(reply)
		return integer(1)
	}
	return integer(0)
}

// playBlocked ends pops whose time is over, and those that another node has to serve now.
func (n *node) playBlocked() {
	w := n.world
	for _, l := range slices.Clone(n.blocked) {
		t, _ := w.tagOfAll([][]string{l.blocked.by.args})
		switch {
		case l.blocked.until != 0 && l.blocked.until <= w.loop.Now():
			l.unblock(nullArray(l.target.Protocol()))
		case w.profile.sharded && !n.owns[t.index] && n.importing[t.index] == nil:
			l.unblock("-MOVED " + t.toward(n.knows[t.index]))
		}
	}
}

// playElements lets elements come: in the end as long as somebody waits for one.
func (w *world) playElements() {
	for _, n := range w.nodes {
		n.playBlocked()
	}
	switch {
	case !w.calm && chance(w.random, 10):
		w.pushElement(pick(w.random, w.tags...))
	case w.calm && chance(w.random, 30):
		for _, n := range w.nodes {
			if len(n.blocked) > 0 {
				t, _ := w.tagOfAll([][]string{n.blocked[0].blocked.by.args})
				w.pushElement(t)
			}
		}
	}
}

// pop sends a blocking pop.
func (c *client) pop() {
	w := c.world
	cmd := c.next()
	cmd.blocks = true
	tags := slices.Clone(w.tags)
	w.random.Shuffle(len(tags), func(i, j int) { tags[i], tags[j] = tags[j], tags[i] })
	if w.profile.sharded {
		tags = tags[:1]
	}
	cmd.args = []string{pick(w.random, "BLPOP", "BRPOP")}
	for _, t := range tags[:between(w.random, 1, len(tags))] {
		cmd.args = append(cmd.args, listKey(t))
	}
	cmd.args = append(cmd.args, markerKey(tags[0].text, cmd), pick(w.random, "0", "0", "0.01", "0.2"))
	cmd.judge = func(reply string) { w.judgePop(cmd, reply) }
	c.send(cmd)
}

func (w *world) judgePop(cmd *command, reply string) {
	switch {
	case reply == nullArray(cmd.protocol):
		if cmd.args[len(cmd.args)-1] == "0" {
			w.failf("%v was answered %q", cmd, reply)
		}
	case reply[0] == '-':
		if cmd.outcome = classify(reply); cmd.outcome == answered {
			w.failf("%v was answered %q", cmd, reply)
		}
		w.failed(cmd, reply)
	default:
		parts := strings.Split(reply, "\r\n")
		e := w.elements[parts[4]]
		if len(parts) != 6 || e == nil || e.takenFor != cmd || e.key != parts[2] || e.delivered {
			w.failf("%v was answered %q; the element is %+v", cmd, reply, e)
		}
		e.delivered = true
		w.stats.Popped++
	}
}

// excuse notes that replies were on their way to a client that has gone: what they hold is lost, as with a server.
func (c *client) excuse() {
	c.excused = c.excused || len(c.in)+len(c.fake.Sent) > 0 || c.session.Conn().Pending() > 0
}

// checkElements asserts that no element is lost and none is there twice.
func (w *world) checkElements() {
	held := make(map[string]int)
	for _, n := range w.nodes {
		for _, lists := range n.lists {
			for _, list := range lists {
				for _, name := range list {
					held[name]++
				}
			}
		}
	}
	for _, e := range w.elements {
		switch {
		case held[e.name] > 1, held[e.name] == 1 && e.delivered:
			w.failf("element %s is there twice", e.name)
		case held[e.name] == 1, e.delivered:
		case e.takenFor.client.excused:
			w.stats.Lost++
		case w.profile.faults, w.profile.gaps: // no node could be asked to take it back
			w.stats.Lost++
		default:
			w.failf("element %s, which was taken for %v, is lost", e.name, e.takenFor)
		}
	}
}
