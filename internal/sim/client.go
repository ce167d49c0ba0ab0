package sim

import (
	"slices"
	"strconv"

	"github.com/sluiceproxy/sluice/internal/loop"
	"github.com/sluiceproxy/sluice/internal/session"
	"github.com/sluiceproxy/sluice/pkg/resp"
)

// client is one connection and who sits behind it. Nobody else uses its keys.
type client struct {
	world     *world
	id        int
	session   *session.Session
	fake      *loop.Fake
	registers []*register
	model     map[int]keyspace // what the databases hold when everything is executed in turn

	out      []byte // has not arrived at the proxy
	in       []byte // has arrived from the proxy, with an incomplete reply at the end
	waiting  []*command
	length   int // of all that it has sent, what is on its way included
	arrived  int // of that, what the proxy has received
	seq      int
	budget   int // commands that it will still send
	slow     bool
	protocol int
	database int
	known    bool // authenticated
	muted    bool // CLIENT REPLY OFF
	skip     int  // CLIENT REPLY SKIP

	plan     []func()     // what it sends next, in this order
	hold     *command     // whose reply it waits for before it sends more
	queueing *transaction // since MULTI
	watched  []watching
	// listening is what a client has that does nothing but listen to channels; nil: it does other things.
	listening *listening
	excused   bool // replies were on their way to it when it left
	outdated  bool // a watched key was changed by the client itself, when everything is executed in turn

	ending    ending
	ended     bool // has sent its end
	last      bool // has sent what makes the proxy close the connection
	drained   bool // the proxy was told to drain the session
	drainedAt int  // what had arrived then
}

// ending is how a client leaves.
type ending uint8

const (
	stays      ending = iota
	halfCloses        // after its last command, without waiting for replies
	quits
	breaks // at any time
	babble // sends what is not RESP
	drains // the proxy ends the session when it owes the client nothing
)

func (w *world) newClient() {
	c := &client{
		world: w, id: len(w.everyone) + 1, budget: w.profile.commands, protocol: 2, known: !w.profile.password,
		slow: chance(w.random, 20), model: make(map[int]keyspace),
		ending: pick(w.random, stays, stays, stays, halfCloses, quits, breaks, babble, drains),
	}
	for _, database := range w.profile.databases {
		c.model[database] = make(keyspace)
		for range between(w.random, 1, 4) {
			t := w.tags[w.random.IntN(len(w.tags))]
			r := &register{client: c, database: database, tag: t, key: t.text + "c" + strconv.Itoa(c.id) + ":" + strconv.Itoa(len(c.registers))}
			c.registers = append(c.registers, r)
			w.registers[registerKey{database, r.key}] = r
			if t.move != nil {
				t.move.keys = append(t.move.keys, r)
			}
		}
	}
	c.session = w.worker.New(session.Origin{Peer: "client", Listener: "sim"})
	c.fake = w.loop.AttachFake(c.session.Conn())
	if c.slow {
		c.fake.Room = w.random.IntN(2000)
	}
	if w.profile.pubsub && !w.calm && chance(w.random, 60) {
		c.listening = &listening{to: make(map[topic]bool), last: make(map[topic]int), due: make(map[topic][]int)}
	}
	w.clients = append(w.clients, c)
	w.everyone = append(w.everyone, c)
	w.tracef("client %d connects", c.id)
}

// play lets the client send and receive something. It reports false when its connection is closed.
func (c *client) play() bool {
	w := c.world
	if chance(w.random, 50) {
		c.receive(some(w.random, len(c.fake.Sent)))
	}
	if c.fake.Closed {
		return c.afterClose()
	}
	if c.slow && (w.calm || chance(w.random, 40)) {
		c.fake.Allow(c.room())
	}
	if c.ending == breaks && (c.budget > 0 && chance(w.random, 3) || c.blocking() && !w.calm && chance(w.random, 15)) {
		c.breakOff()
		return false
	}
	if c.ending == drains && !c.drained && c.arrived > 0 && chance(w.random, 3) {
		c.drain()
	}
	if chance(w.random, 30) {
		c.issueBatch()
	}
	if chance(w.random, 70) {
		c.transmit(some(w.random, len(c.out)))
	}
	return true
}

func (c *client) room() int {
	if c.world.calm {
		return -1
	}
	return c.world.random.IntN(4000)
}

// transmit lets n bytes arrive at the proxy, and the end when nothing follows.
func (c *client) transmit(n int) {
	if n > 0 && c.fake.Reading && !c.fake.Closed && !c.ended {
		n = arrive(c.world, c.fake, c.out[:min(n, readMax)])
		c.out = c.out[n:]
		c.arrived += n
	}
	if len(c.out) == 0 && c.budget == 0 && len(c.plan) == 0 && c.ending == halfCloses && !c.ended && !c.fake.Closed {
		c.ended = true
		c.world.tracef("client %d has sent everything", c.id)
		c.excuse()
		c.fake.End()
	}
}

// receive takes n bytes of replies.
func (c *client) receive(n int) {
	c.in = append(c.in, c.fake.Sent[:n]...)
	c.fake.Sent = append(c.fake.Sent[:0], c.fake.Sent[n:]...)
	for {
		length, err := resp.ReplyLen(c.in)
		if err != nil {
			c.world.failf("client %d received what is no reply: %q", c.id, brief(string(c.in)))
		}
		if length == 0 {
			return
		}
		reply := string(c.in[:length])
		c.in = append(c.in[:0], c.in[length:]...)
		c.take(reply)
	}
}

// take is given the next reply, which is that of the oldest command without one.
func (c *client) take(reply string) {
	for len(c.waiting) > 0 && c.waiting[0].silent {
		c.waiting[0].forget()
		c.waiting = c.waiting[1:]
	}
	if reply[0] == '>' {
		reply = "*" + reply[1:]
	}
	if c.heard(reply) {
		return
	}
	if len(c.waiting) == 0 {
		c.world.failf("client %d received %q, which it did not ask for", c.id, brief(reply))
	}
	cmd := c.waiting[0]
	if cmd.topics != nil {
		c.world.tracef("client %d: %v -> %q", c.id, cmd, brief(reply))
		if c.confirmed(cmd, reply) {
			c.waiting = c.waiting[1:]
		}
		return
	}
	c.waiting = c.waiting[1:]
	cmd.outcome = answered
	if c.hold == cmd {
		c.hold = nil
	}
	c.world.tracef("client %d: %v -> %q", c.id, cmd, brief(reply))
	c.world.judge(cmd, reply)
}

// forget notes that nobody will know what became of the command.
func (cmd *command) forget() {
	cmd.outcome = unknown
	if cmd.whole != nil {
		cmd.whole.settle(unknown)
	}
}

// owed is the number of replies that are still to come.
func (c *client) owed() (n int) {
	for _, cmd := range c.waiting {
		if !cmd.silent {
			n++
		}
	}
	return n
}

// afterClose receives the rest of what the proxy sent before it closed the connection.
func (c *client) afterClose() bool {
	c.receive(len(c.fake.Sent))
	w := c.world
	if !c.mayBeClosed() {
		w.failf("the proxy closed the connection of client %d", c.id)
	}
	if c.drained {
		c.waiting = slices.DeleteFunc(c.waiting, func(cmd *command) bool { return cmd.end > c.drainedAt })
	}
	if c.owed() > 0 && (!c.ended || !c.blocking()) && (!w.profile.large || !w.profile.faults) {
		w.failf("the proxy closed the connection of client %d and owes it %d replies, the first to %v", c.id, c.owed(), c.waiting[0])
	}
	c.forget()
	w.tracef("client %d: connection closed", c.id)
	return false
}

// blocking reports whether the client waits for a pop: when it ends its side, nobody is there to take what comes.
func (c *client) blocking() bool {
	return slices.ContainsFunc(c.waiting, func(cmd *command) bool { return cmd.blocks })
}

// mayBeClosed reports whether the proxy has a reason to close the connection.
func (c *client) mayBeClosed() bool {
	w := c.world
	return c.ended || c.last || c.drained ||
		w.profile.large && w.profile.faults // a large reply was cut off
}

// drain has the proxy end the session. What has arrived is still answered.
func (c *client) drain() {
	c.world.tracef("client %d is drained", c.id)
	c.drained, c.drainedAt = true, c.arrived
	c.session.Drain()
}

// breakOff ends the connection without a word.
func (c *client) breakOff() {
	c.world.tracef("client %d breaks off", c.id)
	c.excuse()
	if chance(c.world.random, 50) {
		c.fake.End()
	}
	c.fake.Break(errReset)
	c.forget()
}

func (c *client) forget() {
	for _, cmd := range c.waiting {
		cmd.forget()
	}
	c.waiting, c.out, c.plan, c.hold = nil, nil, nil, nil
	c.dropTransaction()
}

// quiet reports whether the client has sent all and received all.
func (c *client) quiet() bool {
	return len(c.out)+len(c.plan) == 0 && c.owed() == 0 && len(c.fake.Sent) == 0
}

// registersNow are the keys of the database that it has selected.
func (c *client) registersNow() []*register {
	return slices.DeleteFunc(slices.Clone(c.registers), func(r *register) bool { return r.database != c.database })
}
