package upstream

import (
	"errors"

	"go.uber.org/zap"

	"github.com/sluiceproxy/sluice/internal/pipe"
)

var errSilent = errors.New("the node sent nothing within the command timeout")

// The methods of this file are how a target owns its pipes (pipe.Owner).

// LargeReply implements pipe.Owner: the pipe is taken out of use, so that new commands do not wait behind the value.
func (t *target) LargeReply(p *pipe.Pipe) {
	for i, lane := range t.lanes {
		if lane == p {
			t.lanes[i] = t.takeSpare()
			t.node.local.epoch++
			t.beside = append(t.beside, p)
			return
		}
	}
}

// Idle implements pipe.Owner.
func (t *target) Idle(p *pipe.Pipe) {
	list, found := remove(t.beside, p)
	if !found {
		return
	}
	t.beside = list
	if p.Closed() {
		return
	}
	t.keepSpare(p)
}

// Drained implements pipe.Owner.
func (t *target) Drained(*pipe.Pipe) {}

// Lost implements pipe.Owner: what may be sent again is, in its order; the rest fails.
func (t *target) Lost(p *pipe.Pipe, calls []pipe.LostCall, err error) {
	for i, lane := range t.lanes {
		if lane == p {
			t.lanes[i] = nil
		}
	}
	t.beside, _ = remove(t.beside, p)
	t.node.forgetProvided()
	lc := t.node.local
	reason := pipe.Lost
	switch {
	case t.down:
		reason = t.reason()
	case pipe.IsMalformed(err):
		reason = pipe.Malformed
	}
	if err != nil && !lc.closed {
		lc.cluster.log.Warn("connection to node lost", zap.String("node", t.node.alias), zap.Int("in_flight", len(calls)),
			zap.Error(hideAddress("connection", err)))
		lc.cluster.RequestRefresh()
	}
	for _, lost := range calls {
		f := pipe.Failure{Reason: reason, InDoubt: lost.InDoubt}
		if lost.Retry && !lost.Call.Stay && reason != pipe.Malformed && !lc.closed {
			lc.resend(lost.Call, f)
		} else {
			lc.fail(lost.Call, f)
		}
	}
}
