package sim

import (
	"errors"

	"github.com/sluiceproxy/sluice/internal/loop"
	"github.com/sluiceproxy/sluice/internal/upstream"
	"github.com/sluiceproxy/sluice/pkg/resp"
)

var errReset = errors.New("connection reset by the simulation")

// dialing is a connection that has been asked for.
type dialing struct {
	addr   string
	target upstream.Target
	done   func(upstream.Link, error)
	at     int64 // when it ends
	fails  bool
}

// Dial implements upstream.Dialer.
func (w *world) Dial(_ *loop.Loop, addr string, target upstream.Target, done func(upstream.Link, error)) {
	d := &dialing{addr: addr, target: target, done: done, at: w.loop.Now() + w.someTime(w.profile.connect)}
	d.fails = w.faulty() && chance(w.random, 10)
	w.dials = append(w.dials, d)
	w.stats.Dials++
}

// connect ends the attempts to connect that are due.
func (w *world) connect() {
	now := w.loop.Now()
	for i := 0; i < len(w.dials); i++ {
		d := w.dials[i]
		if d.at > now {
			continue
		}
		w.dials = append(w.dials[:i], w.dials[i+1:]...)
		i--
		n := w.nodeAt(d.addr)
		if d.fails || n == nil || !n.up || n.gone {
			w.tracef("dial %s fails", d.addr)
			d.done(nil, errReset)
			continue
		}
		l := &link{world: w, node: n, target: d.target, id: w.stats.Links, database: d.target.Database()}
		w.stats.Links++
		w.tracef("dial %s makes link %d", n.name, l.id)
		d.done(l, nil)
		if l.fake == nil && !l.dropped {
			w.failf("link %d was neither attached nor dropped", l.id)
		}
	}
}

// link is one connection between the proxy and a node.
type link struct {
	world  *world
	id     int
	node   *node
	target upstream.Target
	fake   *loop.Fake

	in       []byte // has arrived at the node
	out      []byte // replies that have not arrived at the proxy
	asking   bool
	queue    *queue            // since MULTI
	watches  map[*register]int // the versions that the keys had
	blocked  *blocking
	topics   map[topic]bool
	database int  // that is selected
	hole     bool // nothing arrives at the node any more
	mute     bool // nothing arrives at the proxy any more
	narrow   bool // takes little at a time
	late     bool // the proxy has closed it; the node still executes what it has received

	dropped, released bool
}

// Attach implements upstream.Link.
func (l *link) Attach(c *loop.Conn) error {
	w := l.world
	if w.faulty() && chance(w.random, 3) {
		l.fake = &loop.Fake{Closed: true}
		w.tracef("link %d cannot be attached", l.id)
		return errReset
	}
	l.fake = c.Loop().AttachFake(c)
	if l.narrow = w.profile.narrow && !w.calm && chance(w.random, 60); l.narrow {
		l.fake.Room = w.random.IntN(100)
	}
	w.links = append(w.links, l)
	return nil
}

// Drop implements upstream.Link.
func (l *link) Drop() {
	if l.fake != nil || l.dropped {
		l.world.failf("link %d was dropped after it had been attached or dropped", l.id)
	}
	l.dropped = true
}

// Release implements upstream.Link.
func (l *link) Release() {
	if l.fake == nil || l.released {
		l.world.failf("link %d was released twice or without having been attached", l.id)
	}
	l.released = true
}

// play moves some bytes and executes some commands. It reports false when the link has ended.
func (l *link) play() bool {
	w := l.world
	if l.fake.Closed {
		return l.afterClose()
	}
	if l.narrow {
		l.fake.Allow(w.random.IntN(300))
	}
	if w.faulty() && chance(w.random, 2) {
		l.fault()
		return !l.fake.Closed
	}
	if !l.hole {
		l.carry(some(w.random, len(l.fake.Sent)))
		l.serve(some(w.random, 8))
	}
	if !l.mute {
		l.deliver(some(w.random, len(l.out)))
	}
	return true
}

// carry moves n bytes of what the proxy sent to the node.
func (l *link) carry(n int) {
	l.in = append(l.in, l.fake.Sent[:n]...)
	l.fake.Sent = append(l.fake.Sent[:0], l.fake.Sent[n:]...)
}

// serve executes up to n commands.
func (l *link) serve(n int) {
	w := l.world
	limits := resp.DefaultLimits()
	for ; n > 0 && len(l.in) > 0 && w.loop.Now() >= l.node.slowUntil && l.blocked == nil; n-- {
		var scan resp.CommandScanner
		length, err := scan.Scan(l.in, &limits)
		if err != nil {
			w.failf("link %d received %q: %v", l.id, brief(string(l.in)), err)
		}
		if length == 0 {
			return
		}
		args := texts(resp.AppendArgs(nil, l.in[:length]))
		l.in = append(l.in[:0], l.in[length:]...)
		reply := l.node.handle(l, args)
		if w.trace != nil {
			w.tracef("%s on link %d: %q -> %q", l.node.name, l.id, briefly(args), brief(reply))
		}
		if l.target.Protocol() == 3 && chance(w.random, 3) {
			l.out = append(l.out, ">2\r\n+message\r\n$7\r\nnothing\r\n"...)
		}
		l.out = append(l.out, reply...)
	}
}

// deliver moves n bytes of replies to the proxy.
func (l *link) deliver(n int) {
	if n == 0 || !l.fake.Reading || l.fake.Closed {
		return
	}
	n = arrive(l.world, l.fake, l.out[:min(n, readMax)])
	l.out = l.out[n:]
}

// readMax is what one read delivers at most.
const readMax = 64 << 10

// arrive lets b arrive at the proxy as from either kind of transport, and returns how much of it did.
func arrive(w *world, at *loop.Fake, b []byte) int {
	if chance(w.random, 60) {
		return at.Read(b)
	}
	at.Conn.Input(b)
	return len(b)
}

// fault makes something happen to the link.
func (l *link) fault() {
	w := l.world
	switch w.random.IntN(6) {
	case 0, 1, 2:
		l.reset()
	case 3:
		l.hole = true
		w.tracef("link %d: nothing arrives at the node any more", l.id)
	case 4:
		l.mute = true
		w.tracef("link %d: nothing arrives at the proxy any more", l.id)
	case 5:
		l.hole, l.mute = true, true
		w.tracef("link %d: nothing arrives at either side any more", l.id)
	}
}

// reset breaks the link. Some of what was sent is executed before, some of the replies arrive.
func (l *link) reset() {
	w := l.world
	if l.fake.Closed {
		return
	}
	if !l.hole {
		l.carry(w.random.IntN(len(l.fake.Sent) + 1))
		l.serve(w.random.IntN(20))
	}
	if !l.mute {
		l.deliver(w.random.IntN(len(l.out) + 1))
	}
	w.tracef("link %d to %s breaks", l.id, l.node.name)
	if l.fake.Closed {
		return
	}
	if chance(w.random, 50) {
		l.fake.End()
	} else {
		l.fake.Break(errReset)
	}
	l.forget()
	l.fake.Sent, l.in, l.out = nil, nil, nil
}

// afterClose plays a link that the proxy has closed: what had arrived may still be executed.
func (l *link) afterClose() bool {
	w := l.world
	left := len(l.in) + len(l.fake.Sent)
	if l.blocked != nil && chance(w.random, 30) {
		l.forget()
	}
	if left == 0 && l.blocked == nil || !l.node.up {
		return false
	}
	if !l.late {
		l.late = true
		if chance(w.random, 50) {
			l.forget()
			return false
		}
	}
	l.carry(len(l.fake.Sent))
	before := len(l.in)
	l.serve(some(w.random, 4))
	return l.blocked != nil || len(l.in) > 0 && (len(l.in) < before || w.loop.Now() < l.node.slowUntil)
}

// forget ends a pop that waits on a link which has ended.
func (l *link) forget() {
	if l.blocked != nil {
		l.unblock("")
	}
}

func texts(args [][]byte) []string {
	all := make([]string, len(args))
	for i, arg := range args {
		all[i] = string(arg)
	}
	return all
}

func briefly(args []string) []string {
	short := make([]string, len(args))
	for i, arg := range args {
		short[i] = brief(arg)
	}
	return short
}
