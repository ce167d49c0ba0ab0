package session

import (
	"slices"
	"strings"

	"github.com/tidwall/redcon"

	"github.com/sluiceproxy/sluice/internal/command"
	"github.com/sluiceproxy/sluice/pkg/resp"
)

const (
	// elementMax bounds an answer that is looked at; a longer one is none of those that are, and is passed on.
	elementMax = 32 << 10
	// stepsAtOnce bounds what one transaction has the proxy do before others on the loop have their turn.
	stepsAtOnce = 128
)

// execution is what is done with the reply to EXEC while it passes, however long it is: what the proxy answers itself is run
// and put in its place, what the node has answered is passed on, and some of it corrected. So nothing is run unless the
// node has run the transaction.
//
// With steps that the proxy runs, EXEC is the only command of its session that is under way (Session.alone), from before it
// is sent to its end. What such a step answers goes behind EXEC in the session's order as ever, and is taken from there.
type execution struct {
	p       *pending // EXEC
	steps   []step   // those to come
	count   int      // of the transaction's commands
	added   int      // how many elements the node does not know of
	within  bool     // EXEC is being begun at this moment
	headed  bool     // the array has begun
	scan    resp.ReplyScanner
	passed  int    // elements of the node
	element []byte // the beginning of one that is looked at
	kept    []byte // what came while a step was run
	last    bool   // the reply has come whole
	running bool   // a step is begun at this moment
	waits   bool   // for the end of a step, or for its turn
	begun   bool   // the next step is: what it answers is waited for
}

// stands reports whether the client is still there to be answered.
func (x *execution) stands() bool { return x.p.execution == x && x.p.session != nil }

// take gets the next bytes of the node's reply.
func (x *execution) take(b []byte, last bool) {
	x.last = last
	if x.waits {
		x.kept = append(x.kept, b...)
		x.p.session.holdPipe(x.p, last)
		return
	}
	x.goOn(b)
}

// resume is called when what a step waited for may have come.
func (x *execution) resume() {
	if x.running || !x.waits || !x.stands() || x.begun && !x.collect() {
		return
	}
	x.waits = false
	if x.begun {
		x.next()
	}
	x.p.session.continuePipes()
	x.goOn(x.kept)
}

// next ends the step at hand.
func (x *execution) next() { x.steps, x.begun = x.steps[1:], false }

// goOn passes b on and runs the steps that are due. It ends early when a step is waited for.
func (x *execution) goOn(b []byte) {
	b = x.begin(b)
	for ran := 0; len(x.steps) > 0; {
		b = x.passTo(x.steps[0].at, b)
		if !x.stands() || !x.last && (x.passed < x.steps[0].at || len(b) == 0 && x.steps[0].kind.ofNode()) {
			x.keep(nil)
			return
		}
		switch kind := x.steps[0].kind; {
		case kind == stepNothing:
			x.next()
			continue
		case kind.ofNode():
			b = x.look(b)
			continue
		}
		x.p.session.executing = x
		if ran++; !x.mayRun(ran) || !x.run() {
			x.waits = true
			x.keep(b)
			return
		}
	}
	x.out(b)
	x.keep(nil)
	if x.last && x.stands() {
		x.end()
	}
}

// keep holds b, which may be a part of what is held already, for later.
func (x *execution) keep(b []byte) {
	if len(b) == 0 {
		x.kept = nil
		return
	}
	if end := len(x.kept) - len(b); end >= 0 && &x.kept[end] == &b[0] {
		x.kept = b
		return
	}
	x.kept = slices.Clone(b)
}

// begin passes on the beginning of the array, with the elements that the node does not know of. An EXEC that has run nothing
// is passed on as it is.
func (x *execution) begin(b []byte) (rest []byte) {
	if x.headed {
		return b
	}
	x.headed = true
	count, n, ok := resp.ArrayHeader(b)
	if !ok || count < 0 {
		x.steps = nil
		return b
	}
	x.out(redcon.AppendArray(nil, count+x.added))
	return b[n:]
}

// passTo passes on the elements in front of one.
func (x *execution) passTo(at int, b []byte) (rest []byte) {
	whole := 0
	for x.passed < at && whole < len(b) {
		n, done := x.feed(b[whole:])
		whole += n
		if done {
			x.passed++
		}
	}
	x.out(b[:whole])
	return b[whole:]
}

// look takes the element that the step at hand is about, or as much of it as has come.
func (x *execution) look(b []byte) (rest []byte) {
	n, done := x.feed(b)
	x.element = append(x.element, b[:n]...)
	element, st := x.element, &x.steps[0]
	switch {
	case done:
		x.element = nil
		x.passed++
	case len(element) <= elementMax && !x.last:
		return b[n:]
	default: // none of those that are looked at is as long
		x.element = nil
		x.out(element)
		st.kind, st.at = stepNothing, x.passed+1
		if x.last {
			x.next()
		}
		return b[n:]
	}
	if st.kind == stepHello && (element[0] == '%' || element[0] == '*') {
		st.kind = stepRun // the proxy's own answer, instead of that of the node, which speaks the other version now
		return b[n:]
	}
	x.out(x.corrected(st, element))
	x.next()
	return b[n:]
}

// feed finds the end of an element.
func (x *execution) feed(b []byte) (n int, done bool) {
	n, done, err := x.scan.Feed(b)
	if err != nil {
		panic("BUG: a reply that was framed cannot be: " + err.Error())
	}
	return n, done
}

// corrected is what the client is told instead of the node's answer.
func (x *execution) corrected(st *step, element []byte) []byte {
	p := x.p
	switch number, isInteger := resp.IntReply(element); {
	case st.kind == stepReceivers && isInteger:
		return p.appendReceivers(nil, st.args, number)
	case st.kind == stepSelect && element[0] == '+':
		p.selects = st.database + 1
		p.session.database = int(st.database)
		if p.session.tracking == nil {
			p.session.retarget() // what the proxy asks for next is of that database
		}
	}
	return element
}

// mayRun reports whether the next step is run now: neither in front of others who wait for the loop, nor while the client
// leaves too much unread.
func (x *execution) mayRun(n int) bool {
	s := x.p.session
	switch {
	case n > stepsAtOnce:
		s.worker.Loop.Post(x.resume)
		return false
	case s.conn.Pending() > s.worker.shared.Settings.OutputBuffer/2:
		s.conn.TellDrained()
		return false
	}
	return true
}

// run begins the step at hand. It returns false when that is to be waited for.
func (x *execution) run() (done bool) {
	s, st := x.p.session, &x.steps[0]
	x.running, x.begun = true, true
	if st.problem != "" {
		s.refuse(st.problem)
	} else {
		s.runStep(st)
	}
	x.running = false
	if !x.stands() || !x.collect() {
		return false
	}
	x.next()
	return true
}

// collect takes what the step at hand has answered from behind EXEC. It returns false when more is to come.
func (x *execution) collect() (done bool) {
	s, p := x.p.session, x.p
	for p.next != nil && p.next.done {
		q := s.unlinkBehind(p)
		x.out(q.written)
		if q.stats != nil {
			q.stats.observe(q.class, s.worker.Loop.Now()-q.since)
		}
		s.worker.recycle(q)
		if !x.stands() {
			return false
		}
	}
	return p.next == nil && (s.channels == nil || s.channels.wish == nil)
}

// out sends a part of the reply.
func (x *execution) out(b []byte) {
	if len(b) > 0 && x.stands() {
		x.p.session.deliver(x.p, b, false)
	}
}

// push sends the confirmation of a subscription, given as a RESP2 array, in its place.
func (x *execution) push(b []byte) {
	if x.p.session.protocol >= 3 {
		b = append(slices.Clone(pushType), b[1:]...)
	}
	x.out(b)
}

// end answers EXEC.
func (x *execution) end() {
	s := x.p.session
	if s.executing == x {
		s.executing = nil
		if s.reply == replySkipNext && !x.within {
			s.unskip() // by CLIENT REPLY SKIP, which is about the command behind EXEC
		}
	}
	s.deliver(x.p, nil, true)
}

// unlinkBehind takes the command behind p off the session's order.
func (s *Session) unlinkBehind(p *pending) *pending {
	q := p.next
	p.next = q.next
	if p.next == nil {
		s.tail = p
	}
	q.next, q.queued = nil, false
	s.held -= len(q.written)
	s.inflight--
	return q
}

// runStep runs a command that was queued.
func (s *Session) runStep(st *step) {
	line := slices.Clone(st.line) // what is kept of the arguments may be changed
	args := resp.AppendArgs(nil, line)
	s.loose = false
	ran := true
	switch st.cmd.KindFor(args) {
	case command.KindLocal:
		ran = s.runLocal(st.cmd, args)
	case command.KindDedicated:
		ran = s.runDedicated(st.cmd, args, line)
	case command.KindFanOut:
		ran = s.runFanOut(st.cmd, args, line)
	case command.KindPublish:
		ran = s.publish(st.cmd, args, line)
	}
	if !ran {
		s.refuse(errInMulti(st.cmd.Name))
	}
	if st.cmd.Name == "client|reply" {
		s.replyInExecution(string(args[2]))
	}
}

// replyInExecution does what CLIENT REPLY says about the rest of the transaction's replies. SKIP is about what is behind EXEC.
func (s *Session) replyInExecution(mode string) {
	switch strings.ToLower(mode) {
	case "on":
		s.head.silent = false
	case "off":
		s.head.silent = true
	}
}
