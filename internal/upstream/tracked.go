package upstream

import (
	"bytes"
	"errors"
	"strconv"

	"github.com/sluiceproxy/sluice/internal/pipe"
	"github.com/sluiceproxy/sluice/internal/topology"
	"github.com/sluiceproxy/sluice/pkg/resp"
)

var (
	errNotTracking = errors.New("the node did not turn tracking on")
	errFeedLost    = errors.New("the connection that brings the invalidations was lost")
)

// tracked is a Tracker's connection to one node, with a second one for the messages if the Tracker wants that.
type tracked struct {
	tracker *Tracker
	node    *node
	pipe    *pipe.Pipe
	feed    *pipe.Pipe // nil: the messages come over pipe
	feedID  int64      // the node's number of feed

	on      bool // the node tracks
	asked   bool // the Tracker's done waits for an answer
	retired bool // to be closed when nothing is in flight
}

// connect begins to connect to a node. What is sent waits behind the command that turns tracking on.
func (tr *Tracker) connect(n *node) (*tracked, Outcome) {
	lc := tr.local
	t := n.target(tr.base)
	switch {
	case t.down || n.retired || lc.closed:
		return nil, t.outcome()
	case n.lent() >= lc.cluster.cfg.Dedicated.Max:
		return nil, Full
	}
	c := &tracked{tracker: tr, node: n}
	n.tracked++
	tr.conns[n] = c
	c.pipe = lc.newPipe(t, c)
	if tr.how.Feed {
		c.connectFeed()
	} else {
		c.begin()
	}
	lc.watch()
	return c, Sent
}

// begin sends the command that turns tracking on.
func (c *tracked) begin() {
	c.pipe.Precede(c.newQuestion(c.told), c.tracker.how.Command(nil, c.feedID, false))
	c.shared().connect(c.pipe)
}

// connectFeed makes the connection for the messages and asks for its number.
func (c *tracked) connectFeed() {
	t := c.node.target(MakeTarget(3, 0))
	c.feed = c.tracker.local.newPipe(t, &trackedFeed{c})
	c.feed.Send(c.newQuestion(c.named), []byte("*2\r\n$6\r\nCLIENT\r\n$2\r\nID\r\n"))
	t.connect(c.feed)
}

func (c *tracked) named(reply []byte, f pipe.Failure) {
	id, ok := resp.IntReply(reply)
	if !ok {
		c.failed(reply, f)
		return
	}
	c.feedID = id
	c.begin()
}

// told takes the node's answer to the command that turns tracking on.
func (c *tracked) told(reply []byte, f pipe.Failure) {
	if len(reply) == 0 || reply[0] != '+' {
		c.failed(reply, f)
		return
	}
	again := !c.on
	c.on = true
	switch {
	case c.asked:
		c.asked = false
		c.tracker.answered(TrackingProblem{})
	case again && c.tracker.how.Everywhere && !c.tracker.ended:
		c.tracker.user.CacheLost() // what changed while there was no connection has not been told
	}
}

// adapted takes the node's answer to a change of protocol version or database.
func (c *tracked) adapted(reply []byte, _ pipe.Failure) {
	if len(reply) == 0 || reply[0] == '-' {
		c.close(errAbandoned) // it would answer otherwise, or from another database
	}
}

// failed gives the connection up.
func (c *tracked) failed(reply []byte, f pipe.Failure) {
	c.close(errNotTracking)
	if !c.asked {
		return
	}
	c.asked = false
	problem := TrackingProblem{Reply: append([]byte(nil), reply...), Failure: f}
	if len(reply) == 0 {
		problem.Reply = nil
		problem.Failure.Reason = max(f.Reason, pipe.Lost)
	}
	c.tracker.answered(problem)
}

func (c *tracked) close(err error) {
	c.pipe.Conn().Close(err)
	if c.feed != nil {
		c.feed.Conn().Close(err)
	}
}

// retire closes the connection as soon as nothing is in flight.
func (c *tracked) retire() {
	c.retired = true
	c.Idle(c.pipe)
}

func (c *tracked) shared() *target { return c.node.target(c.tracker.base) }

// Push implements pipe.PushReceiver.
func (c *tracked) Push(_ *pipe.Pipe, message []byte) {
	if !c.tracker.ended {
		c.tracker.user.Invalidated(message)
	}
}

// ErrorReply implements pipe.Owner: as on a shared connection, but for what belongs to the state of this one.
func (c *tracked) ErrorReply(p *pipe.Pipe, call *pipe.Call, line []byte) bool {
	lc := c.tracker.local
	kind, slot, addr, _ := topology.ParseRedirect(line)
	switch {
	case kind == topology.RedirectNone || !lc.Sharded():
	case call.Stay:
		if where, ok := c.shared().resolve(addr); ok && kind == topology.RedirectMoved {
			lc.Stats.Moved++
			lc.cluster.moved(slot, where)
		}
		if call.Preface > 0 {
			lc.answer(call, execAborted)
		} else {
			lc.answer(call, movedMeanwhile)
		}
		return true
	case kind == topology.RedirectAsk && call.Preface > 0 && !isTransaction(call):
		// ASKING is for one command, and so is CLIENT CACHING in front: the two exclude each other.
		lc.Stats.Ask++
		if !c.shared().later(call) {
			lc.answer(call, movedMeanwhile)
		}
		return true
	}
	return c.shared().ErrorReply(p, call, line)
}

// isTransaction tells MULTI … EXEC from a command behind CLIENT CACHING or CLIENT ID.
func isTransaction(call *pipe.Call) bool {
	request := call.Request()
	return bytes.Contains(request[:min(len(request), 64)], multiCommand)
}

var multiCommand = []byte("*1\r\n$5\r\nMULTI\r\n") //nolint:gochecknoglobals // constant

// LargeReply implements pipe.Owner: nobody else waits behind it.
func (c *tracked) LargeReply(*pipe.Pipe) {}

// Idle implements pipe.Owner.
func (c *tracked) Idle(p *pipe.Pipe) {
	if c.retired && p.Inflight() == 0 {
		c.close(nil)
	}
}

// Drained implements pipe.Owner.
func (c *tracked) Drained(*pipe.Pipe) {
	if !c.tracker.ended {
		c.tracker.user.DedicatedDrained()
	}
}

// Lost implements pipe.Owner: what was tracked over the connection is forgotten by the node.
func (c *tracked) Lost(p *pipe.Pipe, calls []pipe.LostCall, err error) {
	tr := c.tracker
	c.node.tracked--
	if tr.conns[c.node] == c {
		delete(tr.conns, c.node)
	}
	c.close(nil)
	if c.on && !tr.ended {
		tr.user.CacheLost()
	}
	c.on = false
	c.shared().Lost(p, calls, err)
	tr.connectLater()
	c.node.freed()
}

// trackedFeed owns the connection that brings the messages of a tracked one.
type trackedFeed struct{ of *tracked }

// Push implements pipe.PushReceiver.
func (f *trackedFeed) Push(p *pipe.Pipe, message []byte) { f.of.Push(p, message) }

// ErrorReply implements pipe.Owner.
func (f *trackedFeed) ErrorReply(*pipe.Pipe, *pipe.Call, []byte) bool { return false }

// LargeReply implements pipe.Owner.
func (f *trackedFeed) LargeReply(*pipe.Pipe) {}

// Idle implements pipe.Owner.
func (f *trackedFeed) Idle(*pipe.Pipe) {}

// Drained implements pipe.Owner.
func (f *trackedFeed) Drained(*pipe.Pipe) {}

// Lost implements pipe.Owner. The other connection is given up with it: its messages have nowhere to go.
func (f *trackedFeed) Lost(p *pipe.Pipe, calls []pipe.LostCall, err error) {
	f.of.pipe.Conn().Close(errFeedLost)
	f.of.shared().Lost(p, calls, err)
}

// question is a command of the proxy's own.
type question struct {
	pipe.Call
	answer func(reply []byte, f pipe.Failure)
}

// newQuestion makes a command whose answer, or failure, is given to answer, on its connection only.
func (c *tracked) newQuestion(answer func(reply []byte, f pipe.Failure)) *pipe.Call {
	q := &question{answer: answer}
	q.Receiver, q.Slot, q.Stay = q, -1, true
	if timeout := c.tracker.how.Timeout; timeout > 0 {
		q.Deadline = c.tracker.local.loop.Now() + int64(timeout)
	}
	return &q.Call
}

// Reply implements pipe.Receiver. What is asked has short answers.
func (q *question) Reply(_ *pipe.Call, b []byte, last bool) {
	if last {
		q.answer(b, pipe.Failure{})
	}
}

// Failed implements pipe.Receiver.
func (q *question) Failed(_ *pipe.Call, f pipe.Failure) { q.answer(nil, f) }

// WaitAlone implements pipe.Receiver.
func (q *question) WaitAlone(*pipe.Call) bool { return false }

// Free implements pipe.Receiver.
func (q *question) Free(*pipe.Call) {}

func helloCommand(protocol int) []byte {
	return encodeCommand(nil, "HELLO", strconv.Itoa(protocol))
}

func selectCommand(database int) []byte {
	return encodeCommand(nil, "SELECT", strconv.Itoa(database))
}
