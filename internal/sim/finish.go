package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/sluiceproxy/sluice/internal/session"
)

const (
	settleTime  = 2 * time.Minute  // within which every command must have its answer
	recoverTime = 15 * time.Second // within which commands must succeed again when nothing is in their way
	settleFeeds = 30 * time.Second // within which a lost feed is noticed and made anew
	idleTime    = 25 * time.Second // after which nothing but what is needed is kept
)

// finish ends the faults and asserts that everything comes to an end: each command has its reply, what was lost is found
// again, and nothing is left over.
func (w *world) finish() {
	w.tracef("calm")
	w.calm = true
	for _, n := range w.nodes {
		n.up, n.slowUntil, n.loadingUntil, n.downUntil = !n.gone, 0, 0, 0
	}
	if w.profile.sharded {
		w.changedMap()
	}
	w.endSilence()
	w.until("every command is answered", settleTime, func() bool {
		return !slices.ContainsFunc(w.clients, func(c *client) bool { return (c.budget > 0 || !c.quiet()) && !c.drained }) && len(w.moves) == 0
	})
	w.recover()
	w.checkMessages()
	w.checkOwed()
	w.checkOrder()
	w.checkData()
	w.leave()
	w.checkElements()
	w.checkNothingLeft()
}

// endSilence breaks the connections that nothing comes through, as the system does in the end: who waits there for an
// element waits without a limit.
func (w *world) endSilence() {
	for _, l := range slices.Clone(w.links) {
		if w.profile.blocking && (l.hole || l.mute) {
			l.reset()
		}
	}
}

// until plays on until done, for at most the given time.
func (w *world) until(what string, most time.Duration, done func() bool) {
	for end := w.loop.Now() + int64(most); !done(); {
		if w.loop.Now() > end {
			w.failf("not within %v: %s; %s", most, what, w.unfinished())
		}
		w.calmTick()
	}
}

// calmTick is a step in which everything moves on.
func (w *world) calmTick() {
	step := 2 * time.Millisecond
	if next, ok := w.loop.NextTimer(); ok && !w.moving() {
		step = max(step, next)
	}
	w.loop.Advance(step)
	w.playBackend()
	w.playClients()
	for i := 0; i < len(w.links); i++ {
		if l := w.links[i]; !l.play() {
			w.links = append(w.links[:i], w.links[i+1:]...)
			i--
		}
	}
	w.loop.Tick()
	w.check()
}

// moving reports whether something happens without a timer of the proxy.
func (w *world) moving() bool {
	return len(w.moves)+len(w.dials) > 0 || slices.ContainsFunc(w.nodes, func(n *node) bool { return len(n.blocked) > 0 }) || w.mapDue != 0 ||
		slices.ContainsFunc(w.clients, func(c *client) bool { return len(c.out)+len(c.plan)+len(c.fake.Sent) > 0 && c.fake.Reading }) ||
		slices.ContainsFunc(w.links, func(l *link) bool { return len(l.in)+len(l.out)+len(l.fake.Sent) > 0 && !l.hole && !l.mute })
}

func (w *world) unfinished() string {
	for _, c := range w.clients {
		if !c.quiet() && len(c.waiting) > 0 {
			commands, held := c.session.Owed()
			conn := c.session.Conn()
			return fmt.Sprintf("client %v waits; it has %d bytes to send, its session %d commands in flight, %d bytes held, %d unread, %d unsent, reading=%t",
				c.waiting[0], len(c.out), commands, held, conn.Unread(), conn.Pending(), c.fake.Reading)
		}
	}
	return "somebody has not sent everything"
}

// recover asserts that after a while commands succeed again, and what they find.
func (w *world) recover() {
	w.newClient()
	w.clients[len(w.clients)-1].budget = 0
	for _, c := range w.clients {
		if c.remains() {
			c.ending = stays
			c.prepare()
		}
	}
	for end := w.loop.Now() + int64(recoverTime); ; {
		before := w.stats.Errors
		for _, c := range w.clients {
			c.tryAll()
		}
		w.until("every command is answered", settleTime, func() bool {
			return !slices.ContainsFunc(w.clients, func(c *client) bool { return c.remains() && !c.quiet() })
		})
		if w.stats.Errors == before {
			return
		}
		if w.loop.Now() > end {
			w.failf("commands fail %v after the last fault", recoverTime)
		}
		w.pause(100 * time.Millisecond)
	}
}

// remains reports whether the client has not sent the last that it will send.
func (c *client) remains() bool {
	return (c.ending == stays || c.ending == breaks || c.ending == drains) && !c.drained && !c.fake.Closed
}

// prepare makes the client one that gets replies from the first database.
func (c *client) prepare() {
	if c.skip > 0 {
		c.local("+PONG\r\n", "PING")
	}
	if c.muted {
		c.local(replyOK, "CLIENT", "REPLY", "ON")
	}
	if !c.known {
		c.local(replyOK, "AUTH", password)
		c.known, c.database = true, c.world.profile.databases[0]
	}
}

// tryAll reads every key of the client and writes one.
func (c *client) tryAll() {
	if !c.remains() || c.listening != nil {
		return
	}
	for _, database := range c.world.profile.databases {
		if !c.world.profile.sharded {
			c.local(replyOK, "SELECT", itoa(database))
			c.database = database
		}
		for _, r := range c.registersNow() {
			for _, name := range []string{"GET", "APPEND", "GET"} {
				cmd := c.next()
				if name == "GET" {
					cmd.on(false, []*register{r}, name, r.key)
				} else {
					cmd.on(true, []*register{r}, name, r.key, c.value(cmd))
				}
				c.expect(cmd)
				c.send(cmd)
			}
		}
	}
}

// checkOwed asserts that nothing is owed to clients which have all their replies.
func (w *world) checkOwed() {
	for _, c := range w.clients {
		if commands, held := c.session.Owed(); c.remains() && (commands != 0 || held != 0) {
			w.failf("the session of client %d, which has all replies, holds %d commands and %d bytes", c.id, commands, held)
		}
	}
}

// pause lets the world go on for a time.
func (w *world) pause(d time.Duration) {
	for end := w.loop.Now() + int64(d); w.loop.Now() < end; {
		w.calmTick()
	}
}

// checkData asserts that every key has the value that its last write gave it, on the node that has its slot, alone.
func (w *world) checkData() {
	for _, c := range w.everyone {
		for _, r := range c.registers {
			want := change{}
			if len(r.history) > 0 {
				want = r.history[len(r.history)-1]
			}
			holders := 0
			for _, n := range w.nodes {
				value, exists := n.data[r.database][r.key]
				if !exists || n.gone {
					continue
				}
				holders++
				if !want.exists || value != want.value {
					w.failf("key %q is %q on %s; it was written %q last", r.key, brief(value), n.name, brief(want.value))
				}
			}
			if want.exists != (holders == 1) || holders > 1 {
				w.failf("key %q is on %d nodes", r.key, holders)
			}
		}
	}
}

// leave disconnects all clients.
func (w *world) leave() {
	for _, c := range slices.Clone(w.clients) {
		switch {
		case !c.drained && chance(w.random, 30):
			c.drain()
		case chance(w.random, 50):
			c.ending = halfCloses
			c.transmit(0)
		default:
			c.breakOff()
			w.clients = slices.DeleteFunc(w.clients, func(other *client) bool { return other == c })
		}
	}
	w.until("every client is gone", settleTime, func() bool { return len(w.clients) == 0 && w.worker.Sessions() == 0 })
	w.pause(idleTime)
}

// checkNothingLeft asserts that everything which was taken has been given back.
func (w *world) checkNothingLeft() {
	if n := w.shared.Clients(); n != 0 {
		w.failf("%d clients are counted after all have gone", n)
	}
	if n := w.worker.Pending(); n != 0 {
		w.failf("%d records of commands are in use after all clients have gone", n)
	}
	w.worker.Each(func(*session.Session) { w.failf("a session is left over") })
	for reason, n := range w.worker.Stats.Pinned {
		if n != 0 {
			w.failf("%d connections are lent for reason %d after all clients have gone", n, reason)
		}
	}
	w.checkTimers()
	w.checkLinks()
	for _, l := range slices.Clone(w.links) {
		l.fake.Break(errReset)
	}
	w.loop.Tick()
	if n := w.loop.BuffersInUse(); n != 0 {
		w.failf("%d buffers are in use after all connections have been closed", n)
	}
}

// checkTimers asserts that the proxy does nothing but its sweep once a second.
func (w *world) checkTimers() {
	const seconds = 3
	woken := 0
	for end := w.loop.Now() + int64(seconds*time.Second); ; woken++ {
		next, ok := w.loop.NextTimer()
		if !ok || w.loop.Now()+int64(next) > end {
			break
		}
		w.loop.Advance(next)
		w.loop.Tick()
	}
	if woken > seconds {
		w.failf("the loop woke up %d times in %d idle seconds", woken, seconds)
	}
}

// checkLinks asserts that the connections to the nodes were given back, but for one for each purpose.
func (w *world) checkLinks() {
	type purpose struct {
		node   *node
		target uint32
	}
	kept := make(map[purpose]bool)
	for _, l := range w.links {
		p := purpose{l.node, uint32(l.target)}
		if kept[p] {
			w.failf("an idle proxy keeps several connections to %s", l.node.name)
		}
		kept[p] = true
		if l.queue != nil || len(l.watches) > 0 || l.blocked != nil || len(l.topics) > 0 || l.database != l.target.Database() {
			w.failf("link %d is kept with something of a client on it", l.id)
		}
		if l.released {
			w.failf("link %d is released and open", l.id)
		}
	}
}
