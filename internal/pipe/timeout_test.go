package pipe

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// expires gives the call a deadline.
func (c *client) expires(after time.Duration) *client {
	c.Deadline = c.rig.Now() + int64(after)
	return c
}

// TestLateReplyReachesNobody, neither its own client nor one that uses the record or the pipe afterwards, whatever its
// shape and however it is cut.
func TestLateReplyReachesNobody(t *testing.T) {
	for _, late := range []string{"+OK\r\n", "-MOVED 1 127.0.0.1:7000\r\n", bulk(strings.Repeat("late", 50_000))} {
		for _, cut := range []int{1, 7, 20_000, len(late)} {
			r := newRig(t)
			first := r.send(echoRequest("first")).expires(time.Second)
			second := r.send(echoRequest("second")).expires(time.Minute)
			r.Tick()
			r.Advance(time.Second)
			expired, _ := r.pipe.Expire(r.Now())
			require.Equal(t, 1, expired)
			expired, _ = r.pipe.Expire(r.Now())
			require.Zero(t, expired, "failed twice")
			require.Equal(t, &Failure{Reason: TimedOut, InDoubt: true}, first.failed)
			require.False(t, first.freed, "the pipe still knows the call")
			require.Equal(t, 2, r.pipe.Inflight())

			for stream := late + "+mine\r\n"; stream != ""; {
				n := min(cut, len(stream))
				r.node.Receive([]byte(stream[:n]))
				stream = stream[n:]
			}
			require.Zero(t, first.pieces)
			require.True(t, first.freed)
			second.requireReply(t, "+mine\r\n")
			require.Equal(t, uint64(1), r.late)
			require.Empty(t, r.asked, "the owner was asked about a reply that belongs to nobody")
		}
	}
}

// TestRecordIsUsedAgainAfterALateReply: nothing of the former call may stick to it.
func TestRecordIsUsedAgainAfterALateReply(t *testing.T) {
	r := newRig(t)
	c := r.send(echoRequest("slow")).expires(time.Second)
	r.Tick()
	r.Advance(time.Second)
	_, _ = r.pipe.Expire(r.Now())
	r.node.Receive([]byte("+late\r\n"))
	require.True(t, c.freed)
	c.failed, c.freed, c.Deadline = nil, false, 0
	r.pipe.Send(&c.Call, []byte(echoRequest("again")))
	r.Tick()
	r.node.Receive([]byte("+mine\r\n"))
	c.requireReply(t, "+mine\r\n")
}

// TestReplyThatIsComingIsNotExpired: a large value takes longer than the timeout, which is for a node that does not
// answer, or that stops in the middle.
func TestReplyThatIsComingIsNotExpired(t *testing.T) {
	r := newRig(t)
	c := r.send(echoRequest("large")).expires(time.Second)
	r.Tick()
	r.node.Receive([]byte("$10000000\r\n" + strings.Repeat("x", 40_000)))
	for range 5 {
		r.Advance(900 * time.Millisecond)
		r.node.Receive([]byte("xxx"))
		expired, silent := r.pipe.Expire(r.Now())
		require.Zero(t, expired)
		require.False(t, silent)
	}
	r.pipe.Hold() // its client takes it slowly
	r.Advance(time.Hour)
	expired, silent := r.pipe.Expire(r.Now())
	require.Zero(t, expired)
	require.False(t, silent)
	r.pipe.Continue()
	r.Tick()
	r.Advance(time.Second - 1)
	expired, _ = r.pipe.Expire(r.Now())
	require.Zero(t, expired)
	r.Advance(1)
	expired, silent = r.pipe.Expire(r.Now())
	require.Equal(t, 1, expired)
	require.True(t, silent)
	require.Equal(t, &Failure{Reason: TimedOut, InDoubt: true}, c.failed)
	pieces := c.pieces
	r.node.Receive([]byte("xxx"))
	require.Equal(t, pieces, c.pieces)
}

// TestWaitingForTheConnectionCountsAsOneAttempt: calls that stay in the queue while others are taken out of it keep
// when they were sent, and their order.
func TestWaitingForTheConnectionCountsAsOneAttempt(t *testing.T) {
	r := newRig(t)
	r.pipe = New(r.Loop, r, r.pipe.cfg)
	first := r.send(echoRequest("first")).expires(time.Minute)
	due := r.send(echoRequest("due")).expires(time.Second)
	connectBy := r.send(echoRequest("connect by"))
	connectBy.ConnectBy = r.Now() + int64(time.Second)
	last := r.send(echoRequest("last"))
	sent := r.Now()
	r.Advance(time.Second)
	expired, silent := r.pipe.Expire(r.Now())
	require.Equal(t, 2, expired)
	require.False(t, silent)
	for _, c := range []*client{due, connectBy} {
		require.Equal(t, &Failure{Reason: TimedOut}, c.failed, "certainly not run")
		require.True(t, c.freed)
	}
	r.node = r.AttachFake(r.pipe.Conn())
	r.Tick()
	require.Equal(t, first.request+last.request, string(r.node.Sent))
	for _, c := range []*client{first, last} {
		require.EqualValues(t, 1, c.Attempts)
		require.Equal(t, sent, c.SentAt)
	}
	require.Zero(t, r.losses)
}
