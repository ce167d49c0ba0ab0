package session

import (
	"bytes"

	"github.com/tidwall/redcon"

	"github.com/sluiceproxy/sluice/internal/command"
	"github.com/sluiceproxy/sluice/internal/route"
	"github.com/sluiceproxy/sluice/internal/upstream"
	"github.com/sluiceproxy/sluice/pkg/resp"
	"github.com/sluiceproxy/sluice/pkg/slot"
)

// publish sends PUBLISH or SPUBLISH. The node's answer is a number of clients, of whom the proxy's own connections stand
// for any number: it is corrected when it comes. It returns false when the command must wait.
func (s *Session) publish(cmd *command.Command, args [][]byte, raw []byte) bool {
	if s.routesChanged() {
		return false
	}
	at := route.NoSlot
	if s.sharded && channelKindOf(args[0]) == upstream.ShardChannel {
		at = int32(slot.Of(args[1]))
	}
	if s.loose {
		raw = s.worker.encode(args)
	}
	p := s.newPending(cmd.Class)
	p.amend = amendPublished
	s.submit(p, at, raw)
	return true
}

// channelKindOf is the kind of channel that PUBLISH or SPUBLISH, in any case, publishes to.
func channelKindOf(name []byte) upstream.ChannelKind {
	if name[0]|0x20 == 's' {
		return upstream.ShardChannel
	}
	return upstream.Channel
}

// amendPublished corrects the answer to PUBLISH and SPUBLISH.
func amendPublished(p *pending, reply []byte) []byte {
	n, ok := resp.IntReply(reply)
	if !ok {
		return reply
	}
	var room [4][]byte
	return p.appendReceivers(p.worker.buf[:0], resp.AppendArgs(room[:0], p.commands()), n)
}

// amendStreamed is amendPublished for a message that is too long to be kept; front is the command up to that.
func amendStreamed(front []byte) func(*pending, []byte) []byte {
	args := resp.AppendArgs(nil, front[:bytes.LastIndexByte(front, '$')])
	if len(args) < 2 {
		return nil // it is the channel that is long
	}
	args = [][]byte{bytes.Clone(args[0]), bytes.Clone(args[1])}
	return func(p *pending, reply []byte) []byte {
		if n, ok := resp.IntReply(reply); ok {
			return p.appendReceivers(p.worker.buf[:0], args, n)
		}
		return reply
	}
}

// appendReceivers appends the answer to the command of args, to which the node has answered n.
func (p *pending) appendReceivers(dst []byte, args [][]byte, n int64) []byte {
	return redcon.AppendInt(dst, p.session.local.Receivers(&p.Call, channelKindOf(args[0]), args[1], n, command.MatchGlob))
}

// cutReply takes the first value off b; it is empty when there is none. A request is a value, too.
func cutReply(b []byte) (first, rest []byte) {
	n, err := resp.ReplyLen(b)
	if err != nil {
		return nil, nil
	}
	return b[:n], b[n:]
}

// runPubSub handles what PUBSUB tells of channels. It returns false when the command must wait.
func (s *Session) runPubSub(cmd *command.Command, args [][]byte, raw []byte) bool {
	if s.routesChanged() {
		return false
	}
	local := s.local
	kind := upstream.Channel
	switch cmd.Name {
	case "pubsub|channels", "pubsub|shardchannels":
		if !s.sharded {
			return s.forward(cmd, args, raw)
		}
		return s.fanOut(cmd, args, raw, route.MergeUnion)
	case "pubsub|numpat":
		return s.fanOut(cmd, args, raw, route.MergeTotal(local.Patterns))
	case "pubsub|shardnumsub":
		kind = upstream.ShardChannel
	}
	names := texts(args[2:])
	return s.fanOut(cmd, args, raw, route.MergeTotals(func(i int, sum int64) int64 {
		if i >= len(names) {
			return sum
		}
		return local.Subscribers(kind, names[i], sum)
	}))
}
