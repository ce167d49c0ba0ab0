package pipe

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// lossCase is one command of a session and what is to be judged of it when the connection is lost.
type lossCase struct {
	origin   int // the session
	readOnly bool
	doubt    bool
	retry    bool
}

// TestJudgementOfLostCalls is law 5: a command that was never written may always be sent again; one that was written and
// not answered only if it changes nothing, and no other command of its session that may change something was lost too.
func TestJudgementOfLostCalls(t *testing.T) {
	const read, write = true, false
	const inDoubt, unsent = true, false
	const again, fails = true, false
	for name, c := range map[string]struct {
		written int // requests that the connection has taken whole
		extra   int // bytes of the next one
		calls   []lossCase
	}{
		"nothing was written":                  {0, 0, []lossCase{{1, write, unsent, again}, {1, read, unsent, again}, {2, write, unsent, again}}},
		"partly written":                       {0, 10, []lossCase{{1, write, unsent, again}, {1, read, unsent, again}}},
		"all but one byte":                     {0, -1, []lossCase{{1, write, unsent, again}}},
		"a read was written":                   {1, 0, []lossCase{{1, read, inDoubt, again}, {1, write, unsent, again}}},
		"a write was written":                  {1, 0, []lossCase{{1, write, inDoubt, fails}, {1, write, unsent, again}}},
		"a read behind a write of its session": {2, 0, []lossCase{{1, write, inDoubt, fails}, {1, read, inDoubt, fails}}},
		"a read before a write of its session": {2, 0, []lossCase{{1, read, inDoubt, fails}, {1, write, inDoubt, fails}}},
		"the write of another session":         {2, 0, []lossCase{{1, write, inDoubt, fails}, {2, read, inDoubt, again}}},
		"a read with an unsent write behind":   {1, 5, []lossCase{{1, read, inDoubt, again}, {1, write, unsent, again}}},
		"no session":                           {2, 0, []lossCase{{0, read, inDoubt, again}, {0, write, inDoubt, fails}}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			origins := []*Origin{nil, {}, {}}
			room := 0
			clients := make([]*client, len(c.calls))
			for i, call := range c.calls {
				clients[i] = r.client()
				clients[i].Origin, clients[i].ReadOnly = origins[call.origin], call.readOnly
				request := echoRequest(name)
				r.pipe.Send(&clients[i].Call, []byte(request))
				if i < c.written || i == c.written && c.extra < 0 {
					room += len(request)
				}
			}
			r.node.Room = room + c.extra
			r.Tick()
			r.node.Break(errors.New("reset"))
			r.Tick()
			require.Equal(t, 1, r.losses)
			require.Len(t, r.lost, len(c.calls))
			for i, lost := range r.lost {
				require.Same(t, &clients[i].Call, lost.Call)
				require.Nil(t, lost.Call.Pipe())
				require.Equal(t, c.calls[i].doubt, lost.InDoubt, "InDoubt of call %d", i)
				require.Equal(t, c.calls[i].retry, lost.Retry, "Retry of call %d", i)
			}
		})
	}
}

// TestAnEarlierLossDoesNotCount: what was in doubt then has been told, and is over.
func TestAnEarlierLossDoesNotCount(t *testing.T) {
	r := newRig(t)
	origin := &Origin{}
	for _, readOnly := range []bool{false, true} {
		c := r.client()
		c.Origin, c.ReadOnly = origin, readOnly
		r.pipe.Send(&c.Call, []byte(echoRequest("x")))
		r.Tick()
		r.node.Break(nil)
		r.Tick()
		require.Equal(t, LostCall{Call: &c.Call, InDoubt: true, Retry: readOnly}, r.lost[len(r.lost)-1])
		r.pipe, r.node = r.open()
	}
}

// TestLossInTheMiddleOfAReply: its first part has gone to the client, so it cannot begin anew.
func TestLossInTheMiddleOfAReply(t *testing.T) {
	for _, c := range []struct {
		received int
		retry    bool
	}{{1, true}, {holdMax - 1, true}, {holdMax, false}} {
		r := newRig(t)
		large := r.send(echoRequest("large"))
		behind := r.send(echoRequest("behind"))
		large.ReadOnly, behind.ReadOnly = true, true
		r.Tick()
		r.node.Receive([]byte(bulk(strings.Repeat("x", 100_000))[:c.received]))
		r.node.End()
		r.Tick()
		require.ErrorIs(t, r.lostErr, io.ErrUnexpectedEOF)
		require.Equal(t, []LostCall{
			{Call: &large.Call, InDoubt: true, Retry: c.retry},
			{Call: &behind.Call, InDoubt: true, Retry: true},
		}, r.lost)
	}
}

// TestTimedOutCallsAreNotLostAgain: they have had their failure.
func TestTimedOutCallsAreNotLostAgain(t *testing.T) {
	r := newRig(t)
	origin := &Origin{}
	timedOut := r.send(echoRequest("write")).expires(time.Second)
	timedOut.Origin = origin
	read := r.send(echoRequest("read"))
	read.Origin, read.ReadOnly = origin, true
	r.Tick()
	r.Advance(time.Second)
	_, _ = r.pipe.Expire(r.Now())
	r.node.Break(nil)
	r.Tick()
	require.True(t, timedOut.freed)
	// The session has been told that the write is in doubt; the read may be answered with or without it.
	require.Equal(t, []LostCall{{Call: &read.Call, InDoubt: true, Retry: true}}, r.lost)
	require.NoError(t, r.lostErr)
}

func TestSendBetweenLossAndNotice(t *testing.T) {
	r := newRig(t)
	closed := 0
	r.pipe.SetOnClosed(func() { closed++ })
	r.node.Break(errors.New("reset"))
	c := r.send(echoRequest("too late"))
	r.Tick()
	require.Equal(t, []LostCall{{Call: &c.Call, Retry: true}}, r.lost)
	require.True(t, r.pipe.Closed())
	require.Equal(t, 1, closed)
	require.Empty(t, r.node.Sent)
	require.Panics(t, func() { r.send(echoRequest("closed")) })
}

func TestDiscard(t *testing.T) {
	r := newRig(t)
	c := r.send(echoRequest("x"))
	r.Tick()
	r.node.Break(nil)
	r.Tick()
	Discard(r.Loop, r.lost[0].Call, Failure{Reason: Lost, InDoubt: true})
	require.Equal(t, &Failure{Reason: Lost, InDoubt: true}, c.failed)
	require.True(t, c.freed)
}

func TestReasonsHaveNames(t *testing.T) {
	seen := map[string]bool{}
	for reason := Lost; reason < Reasons; reason++ {
		require.NotContains(t, reason.String(), "reason_")
		require.False(t, seen[reason.String()])
		seen[reason.String()] = true
	}
	require.Equal(t, "reason_99", Reason(99).String())
}
