package pipe

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/loop"
)

// bench is a pipe on a loop driven by hand.
type bench struct {
	*loop.Manual
	pipe *Pipe
	node *loop.Fake
	late uint64
	loss uint64
	lost []LostCall
}

func newBench() *bench {
	b := &bench{Manual: loop.NewManual()}
	b.pipe = New(b.Loop, b, Config{StreamThreshold: 1 << 20, LossID: &b.loss, Late: &b.late})
	return b
}

func (b *bench) connect() { b.node = b.AttachFake(b.pipe.Conn()) }

// ErrorReply, LargeReply, Lost, Idle and Drained implement Owner.
func (b *bench) ErrorReply(*Pipe, *Call, []byte) bool { return false }
func (b *bench) LargeReply(*Pipe)                     {}
func (b *bench) Idle(*Pipe)                           {}
func (b *bench) Drained(*Pipe)                        {}

func (b *bench) Lost(_ *Pipe, calls []LostCall, _ error) {
	b.lost = append(b.lost, calls...)
	for _, lost := range calls {
		Discard(b.Loop, lost.Call, Failure{Reason: Lost, InDoubt: lost.InDoubt})
	}
}

// caller is a call and what became of it.
type caller struct {
	Call
	got    string
	failed *Failure
	freed  int
}

func (b *bench) send(request string, timeout time.Duration) *caller {
	c := &caller{}
	c.Receiver = c
	if timeout > 0 {
		c.Deadline = b.Now() + int64(timeout)
	}
	b.pipe.Send(&c.Call, []byte(request))
	return c
}

func (c *caller) Reply(_ *Call, b []byte, _ bool) { c.got += string(b) }
func (c *caller) Failed(_ *Call, f Failure)       { c.failed = &f }
func (c *caller) WaitAlone(*Call) bool            { return false }
func (c *caller) Free(*Call)                      { c.freed++ }

// A command that timed out before there was a connection must not reach the node once there is one: its client was told
// that it was not executed.
func TestCommandThatTimedOutBeforeTheConnectionIsNeverSent(t *testing.T) {
	b := newBench()
	first := b.send("*1\r\n$1\r\nA\r\n", 0)
	due := b.send("*1\r\n$1\r\nB\r\n", 10*time.Millisecond)
	last := b.send("*1\r\n$1\r\nC\r\n", time.Second)
	b.Advance(10 * time.Millisecond)
	expired, silent := b.pipe.Expire(b.Now())
	require.Equal(t, 1, expired)
	require.False(t, silent)
	require.Equal(t, &Failure{Reason: TimedOut}, due.failed)
	require.Equal(t, 1, due.freed)
	require.Equal(t, 2, b.pipe.Inflight())

	b.connect()
	b.Tick()
	require.Equal(t, "*1\r\n$1\r\nA\r\n*1\r\n$1\r\nC\r\n", string(b.node.Sent))
	b.node.Receive([]byte("+a\r\n+c\r\n"))
	require.Equal(t, "+a\r\n", first.got)
	require.Equal(t, "+c\r\n", last.got)
	require.Empty(t, due.got)
	require.Zero(t, b.late)
	require.EqualValues(t, 1, last.Attempts)
	b.pipe.Conn().Close(nil)
	b.Tick()
	require.Empty(t, b.lost)
}

func TestLateReplyIsDropped(t *testing.T) {
	b := newBench()
	b.connect()
	slow := b.send("*1\r\n$1\r\nA\r\n", 10*time.Millisecond)
	next := b.send("*1\r\n$1\r\nB\r\n", time.Second)
	b.Tick()
	b.Advance(10 * time.Millisecond)
	expired, _ := b.pipe.Expire(b.Now())
	require.Equal(t, 1, expired)
	require.Equal(t, &Failure{Reason: TimedOut, InDoubt: true}, slow.failed)
	require.Zero(t, slow.freed, "the reply is still to come")
	b.node.Receive([]byte("-MOVED 1 127.0.0.1:1\r\n+b\r\n"))
	require.Empty(t, slow.got)
	require.Equal(t, 1, slow.freed)
	require.Equal(t, "+b\r\n", next.got)
	require.EqualValues(t, 1, b.late)
}

// A node is silent when a command waited all its time without a byte coming, also when others were sent before it whose
// replies never came.
func TestSilentNode(t *testing.T) {
	const timeout = 100 * time.Millisecond
	b := newBench()
	b.connect()
	b.send("*1\r\n$1\r\nA\r\n", timeout)
	b.send("*1\r\n$1\r\nB\r\n", timeout)
	b.Tick()
	b.Advance(time.Millisecond)
	b.node.Receive([]byte("+a\r\n")) // the last that ever comes; B was sent before it
	b.send("*1\r\n$1\r\nC\r\n", timeout)
	b.Tick()
	b.Advance(timeout - time.Millisecond)
	expired, silent := b.pipe.Expire(b.Now())
	require.Equal(t, 1, expired, "B")
	require.False(t, silent, "the node has answered while B waited")
	b.Advance(time.Millisecond)
	expired, silent = b.pipe.Expire(b.Now())
	require.Equal(t, 1, expired, "C")
	require.True(t, silent)
}

// A slow command on a connection over which others are answered does not make the node silent.
func TestSlowCommandBehindAnsweredOnesIsNotSilence(t *testing.T) {
	const timeout = 100 * time.Millisecond
	b := newBench()
	b.connect()
	b.send("*1\r\n$1\r\nA\r\n", time.Second)
	b.send("*1\r\n$1\r\nB\r\n", timeout)
	b.Tick()
	b.Advance(timeout / 2)
	b.node.Receive([]byte("+a\r\n"))
	b.Advance(timeout / 2)
	expired, silent := b.pipe.Expire(b.Now())
	require.Equal(t, 1, expired)
	require.False(t, silent)
}

// A reply that comes before its command has been sent belongs to nobody; with it all later ones would be shifted.
func TestReplyBeforeTheCommandWasSentEndsTheConnection(t *testing.T) {
	for _, early := range []string{"+early\r\n", "$3\r\nabc\r\n", "*1\r\n:1\r\n", "$50000\r\n" + string(make([]byte, 40000))} {
		b := newBench()
		b.connect()
		b.Tick()
		c := b.send("*1\r\n$1\r\nA\r\n", 0) // still in the queue: the tick has not ended
		b.node.Receive([]byte(early))
		b.Tick()
		require.True(t, b.pipe.Closed(), early)
		require.Empty(t, c.got)
		require.Equal(t, &Failure{Reason: Lost}, c.failed)
	}
}
