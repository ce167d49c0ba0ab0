package pipe

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/loop"
)

// TestLongCommandIsPassedOnAsItComes and is not known to be whole before Finish.
func TestLongCommandIsPassedOnAsItComes(t *testing.T) {
	whole := echoRequest(strings.Repeat("long", 100_000))
	for _, finished := range []bool{true, false} {
		r := newRig(t)
		c := r.client()
		c.ReadOnly = true
		var pieces []string
		for rest := whole; rest != ""; {
			n := min(30_000, len(rest))
			pieces = append(pieces, rest[:n])
			rest = rest[n:]
		}
		r.pipe.SendOpen(&c.Call, []byte(pieces[0]))
		require.Equal(t, 1, r.pipe.Inflight())
		for _, piece := range pieces[1:] {
			r.pipe.More([]byte(piece))
			r.Tick()
		}
		require.Equal(t, whole, string(r.node.Sent))
		require.Zero(t, r.pipe.Backlog())
		if finished {
			r.pipe.Finish(&c.Call)
		}
		r.node.Break(nil)
		r.Tick()
		require.Equal(t, []LostCall{{Call: &c.Call, InDoubt: finished}}, r.lost, "what is not held cannot be sent again")
	}
}

func TestLongCommandIsAnswered(t *testing.T) {
	r := newRig(t)
	long, next := r.client(), r.client()
	r.pipe.SendOpen(&long.Call, []byte("*2\r\n$4\r\nECHO\r\n$40000\r\n"))
	r.node.Room = 0
	r.pipe.More([]byte(strings.Repeat("x", 40_000)))
	require.Equal(t, 40_000+len("*2\r\n$4\r\nECHO\r\n$40000\r\n"), r.pipe.Backlog())
	r.pipe.More([]byte("\r\n"))
	r.pipe.Finish(&long.Call)
	r.pipe.Send(&next.Call, []byte(echoRequest("next")))
	r.Tick()
	require.Zero(t, r.drains)
	r.node.Allow(-1)
	r.Tick()
	require.Equal(t, 1, r.drains, "the session waits for it")
	require.True(t, strings.HasSuffix(string(r.node.Sent), "x\r\n"+echoRequest("next")))
	r.node.Receive([]byte("+long\r\n+next\r\n"))
	long.requireReply(t, "+long\r\n")
	next.requireReply(t, "+next\r\n")
}

// TestLongCommandRefusedEarly: an error may come while the command is still being passed on.
func TestLongCommandRefusedEarly(t *testing.T) {
	r := newRig(t)
	c := r.client()
	r.pipe.SendOpen(&c.Call, []byte("*2\r\n$4\r\nECHO\r\n$40000\r\nxxx"))
	r.Tick()
	r.node.Receive([]byte("-ERR Protocol error: invalid bulk length\r\n"))
	c.requireReply(t, "-ERR Protocol error: invalid bulk length\r\n")
	r.pipe.More([]byte("xxx"))
	r.Tick()
	require.True(t, r.pipe.Closed())
	require.Empty(t, r.lost)
}

// TestRedirectedCallGoesToAnotherPipe with the same bytes, which are held until it is answered there.
func TestRedirectedCallGoesToAnotherPipe(t *testing.T) {
	r := newRig(t)
	other, otherNode := r.open()
	r.takes = func(c *Call, line []byte) bool {
		if strings.HasPrefix(string(line), "-MOVED") {
			other.Resend(c)
			return true
		}
		return false
	}
	clients := r.sendAll(3)
	r.node.Receive([]byte("-ERR no\r\n-MOVED 1 127.0.0.1:7000\r\n+three\r\n"))
	require.Equal(t, []string{"-ERR no\r\n", "-MOVED 1 127.0.0.1:7000\r\n"}, r.asked)
	clients[0].requireReply(t, "-ERR no\r\n")
	clients[2].requireReply(t, "+three\r\n")
	require.Zero(t, clients[1].pieces)
	require.Same(t, other, clients[1].Pipe())
	require.EqualValues(t, 2, clients[1].Attempts)
	require.Equal(t, 1, r.idles)
	r.Tick()
	require.Equal(t, clients[1].request, string(otherNode.Sent))
	otherNode.Receive([]byte("+two\r\n"))
	clients[1].requireReply(t, "+two\r\n")
	require.Equal(t, 2, r.idles)
}

// TestResendOnTheSamePipe: a node may point to itself.
func TestResendOnTheSamePipe(t *testing.T) {
	r := newRig(t)
	r.takes = func(c *Call, _ []byte) bool { r.pipe.Resend(c); return true }
	clients := r.sendAll(1)
	r.node.Receive([]byte("-TRYAGAIN\r\n"))
	require.Zero(t, r.idles)
	r.Tick()
	require.Equal(t, strings.Repeat(clients[0].request, 2), string(r.node.Sent))
	r.node.Receive([]byte("+OK\r\n"))
	clients[0].requireReply(t, "+OK\r\n")
}

// TestHoldStopsReading while the client of a large reply takes it too slowly.
func TestHoldStopsReading(t *testing.T) {
	r := newRig(t)
	c := r.send(echoRequest("large"))
	r.Tick()
	c.onReply = r.pipe.Hold
	reply := bulk(strings.Repeat("x", 100_000))
	r.node.Receive([]byte(reply[:50_000]))
	require.False(t, r.node.Reading)
	require.Equal(t, 1, c.pieces)
	c.onReply = nil
	r.pipe.Continue()
	require.True(t, r.node.Reading)
	r.node.Receive([]byte(reply[50_000:]))
	c.requireReply(t, reply)
}

// TestPrefaceIsNotDelivered: of a transaction only the reply to EXEC counts, and the reason why it was refused.
func TestPrefaceIsNotDelivered(t *testing.T) {
	r := newRig(t)
	run, refused, next := r.client(), r.client(), r.client()
	for _, c := range []*client{run, refused} {
		c.Preface = 2
		r.pipe.Send(&c.Call, []byte("*1\r\n$5\r\nMULTI\r\n"+echoRequest("x")+"*1\r\n$4\r\nEXEC\r\n"))
	}
	r.pipe.Send(&next.Call, []byte(echoRequest("next")))
	r.Tick()
	stream := "+OK\r\n+QUEUED\r\n*1\r\n+x\r\n" + "+OK\r\n-MOVED 1 a:1\r\n-EXECABORT\r\n" + "+next\r\n"
	for i := range len(stream) {
		r.node.Receive([]byte{stream[i]})
	}
	run.requireReply(t, "*1\r\n+x\r\n")
	refused.requireReply(t, "-EXECABORT\r\n")
	next.requireReply(t, "+next\r\n")
	require.Equal(t, []string{"-MOVED 1 a:1\r\n"}, r.asked)
}

// TestQueueDelay is the time in which the connection took nothing, not the time that the node takes.
func TestQueueDelay(t *testing.T) {
	r := newRig(t)
	clients := r.sendAll(10)
	r.Advance(time.Second) // a slow node
	r.node.Receive([]byte(strings.Repeat("+OK\r\n", 9)))
	require.Zero(t, r.pipe.QueueDelay())

	r.node.Room = 0
	waiting := r.send(echoRequest("blocks"))
	r.Tick()
	behind := r.send(echoRequest("waits"))
	r.Tick()
	r.Advance(80 * time.Millisecond)
	r.node.Allow(-1)
	require.Equal(t, 10*time.Millisecond, r.pipe.QueueDelay(), "an eighth of the new sample")
	for range 1000 {
		r.send(echoRequest("more"))
		r.Tick()
		r.node.Receive([]byte("+OK\r\n"))
	}
	require.Less(t, r.pipe.QueueDelay(), time.Microsecond, "it does not fade")
	require.Positive(t, r.pipe.Inflight())
	for _, c := range []*client{clients[9], waiting, behind} {
		c.requireReply(t, "+OK\r\n")
	}

	r.pipe.queueDelay = time.Second
	r.node.Receive([]byte(strings.Repeat("+OK\r\n", r.pipe.Inflight())))
	require.Zero(t, r.pipe.QueueDelay(), "nothing is in flight")
}

// TestRequestsAreLetGoOf counts the bytes in the loop's free chunks; what a call keeps would be missing there.
func TestRequestsAreLetGoOf(t *testing.T) {
	m := loop.NewManual()
	before := m.FreeBytes()
	var free []int
	for range 5 {
		r := &rig{Manual: m, t: t}
		r.pipe, r.node = r.open()
		other, otherNode := r.open()
		moved := 0
		r.takes = func(c *Call, _ []byte) bool {
			if moved++; moved%2 == 0 {
				other.Resend(c)
				return true
			}
			return false
		}
		clients := r.sendAll(2000)
		for _, c := range clients[:100] {
			c.expires(1)
		}
		m.Advance(1)
		_, _ = r.pipe.Expire(m.Now())
		r.node.Receive([]byte(strings.Repeat("+OK\r\n", 500) + strings.Repeat("-MOVED\r\n", 500)))
		long := r.client()
		r.pipe.SendOpen(&long.Call, []byte("*2\r\n$4\r\nECHO\r\n"))
		r.pipe.More([]byte("$1\r\nx\r\n"))
		m.Tick()
		otherNode.Break(nil)
		r.node.Break(nil)
		m.Tick()
		for _, lost := range r.lost {
			Discard(m.Loop, lost.Call, Failure{Reason: Lost})
		}
		for i, c := range append(clients, long) {
			require.True(t, c.freed, "call %d", i)
		}
		free = append(free, m.FreeBytes()-before)
		// All of them were in flight at once, so what held them lies free now.
		require.GreaterOrEqual(t, free[0], int(r.pipe.Conn().Appended()+other.Conn().Appended()), "chunks were not given back")
	}
	for _, bytes := range free {
		require.Equal(t, free[0], bytes)
	}
}

// counter is a receiver that costs nothing.
type counter struct {
	Call
	replies int
}

func (c *counter) Reply(*Call, []byte, bool) { c.replies++ }
func (c *counter) Failed(*Call, Failure)     {}
func (c *counter) WaitAlone(*Call) bool      { return false }
func (c *counter) Free(*Call)                {}

// TestACallAllocatesNothing is the budget of the hot path.
func TestACallAllocatesNothing(t *testing.T) {
	r := newRig(t)
	c := &counter{}
	c.Receiver = c
	request, reply := []byte(echoRequest("a key")), []byte("$5\r\na key\r\n")
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		for range 3 {
			c.Attempts = 0
			r.pipe.Send(&c.Call, request)
			r.Tick()
			r.node.Sent = r.node.Sent[:0]
			r.node.Receive(reply)
		}
	}))
	require.Equal(t, 3*1001, c.replies)
}

// BenchmarkCall is one command through a pipe: 32 to a tick, as under load.
func BenchmarkCall(b *testing.B) {
	r := newRig(b)
	calls := make([]counter, 32)
	for i := range calls {
		calls[i].Receiver = &calls[i]
	}
	request := []byte("*2\r\n$3\r\nGET\r\n$16\r\nmemtier-12345678\r\n")
	replies := []byte(strings.Repeat(bulk(strings.Repeat("x", 32)), len(calls)))
	b.ReportAllocs()
	for done := 0; done < b.N; done += len(calls) {
		for i := range calls {
			r.pipe.Send(&calls[i].Call, request)
		}
		r.Tick()
		r.node.Sent = r.node.Sent[:0]
		r.node.Receive(replies)
	}
}

// TestPrefaceComesEarly: a node answers to the first commands of a transaction while the last ones are on their way.
func TestPrefaceComesEarly(t *testing.T) {
	r := newRig(t)
	r.node.Room = 40
	c := r.client()
	c.Preface = 3
	r.pipe.Send(&c.Call, []byte("*1\r\n$5\r\nMULTI\r\n"+echoRequest(strings.Repeat("x", 100))+echoRequest("y")+"*1\r\n$4\r\nEXEC\r\n"))
	r.Tick()
	r.node.Receive([]byte("+OK\r\n-ERR refused\r\n"))
	require.False(t, r.node.Closed)
	r.node.Allow(-1)
	r.node.Receive([]byte("+QUEUED\r\n-EXECABORT\r\n"))
	c.requireReply(t, "-EXECABORT\r\n")

	r.node.Room = 40
	early := r.client()
	early.Preface = 1
	r.pipe.Send(&early.Call, []byte("*1\r\n$5\r\nMULTI\r\n"+echoRequest(strings.Repeat("x", 100))))
	r.Tick()
	r.node.Receive([]byte("+OK\r\n*0\r\n"))
	require.True(t, r.node.Closed, "the reply that counts comes when the request is whole")
}
