package session

import (
	"strings"

	"github.com/tidwall/redcon"

	"github.com/sluiceproxy/sluice/internal/command"
	"github.com/sluiceproxy/sluice/internal/loop"
	"github.com/sluiceproxy/sluice/internal/upstream"
	"github.com/sluiceproxy/sluice/pkg/slot"
)

// subscriptions are the channels that a session listens to. The messages come by the loop's hub, which has one upstream
// connection for all sessions; see https://redis.io/docs/latest/develop/interact/pubsub/.
type subscriptions struct {
	hub   *upstream.Hub
	names [upstream.ChannelKinds]map[string]struct{}
	wish  *upstream.Subscribing // what the node has not confirmed yet
	limit *loop.Timer           // how long it may take
	carry *carry                // to another cluster; nil: the hub is where they belong
}

// channelsMax bounds the channels, patterns and shard channels of one client: each costs the proxy some hundred bytes.
const channelsMax = 100_000

// count is the number that confirmations tell: channels and patterns together, shard channels by themselves.
func (sub *subscriptions) count(kind upstream.ChannelKind) int {
	if kind == upstream.ShardChannel {
		return len(sub.names[kind])
	}
	return len(sub.names[upstream.Channel]) + len(sub.names[upstream.Pattern])
}

// subscribed reports whether the session listens to anything.
func (s *Session) subscribed() bool {
	sub, psub, ssub := s.subscriptionCounts()
	return sub+psub+ssub > 0
}

// runSubscription handles the subscribe family. It returns false when the command must wait.
func (s *Session) runSubscription(cmd *command.Command, args [][]byte) bool {
	if s.busy() {
		return false
	}
	for kind := range upstream.ChannelKinds {
		switch cmd.Name {
		case kind.SubscribeName():
			s.subscribe(kind, texts(args[1:]))
			return true
		case kind.UnsubscribeName():
			s.unsubscribe(kind, texts(args[1:]))
			return true
		}
	}
	return s.refuse(errNotSupportedYet(cmd.Name))
}

func texts(args [][]byte) []string {
	all := make([]string, len(args))
	for i, arg := range args {
		all[i] = string(arg)
	}
	return all
}

// subscribe asks the hub for channels and confirms them when the node has: a message that is published after the
// confirmation is never missed.
func (s *Session) subscribe(kind upstream.ChannelKind, names []string) {
	if kind == upstream.ShardChannel && s.sharded {
		for _, name := range names[1:] {
			if slot.Of([]byte(name)) != slot.Of([]byte(names[0])) {
				s.refuse(errCrossSlot)
				return
			}
		}
	}
	if sub, psub, ssub := s.subscriptionCounts(); sub+psub+ssub+len(names) > channelsMax {
		s.refuse(errTooManyChannels)
		return
	}
	if s.channels == nil {
		s.channels = &subscriptions{hub: s.local.Hub()}
	}
	s.endCarry()
	sub := s.channels
	s.barrier = true
	sub.wish = sub.hub.Subscribe(kind, names, func(problem string) { s.told(kind, names, problem) })
	if timeout := s.tenant.CommandTimeout; timeout > 0 && sub.wish != nil {
		sub.limit = s.worker.Loop.After(timeout, func() {
			sub.hub.Cancel(sub.wish)
			s.told(kind, names, errNotSent(upstream.Unreachable, false))
		})
	}
}

// told ends the wait for the node, which has confirmed all channels or answered with an error.
func (s *Session) told(kind upstream.ChannelKind, names []string, problem string) {
	sub := s.channels
	s.worker.Loop.Cancel(sub.limit)
	sub.wish, sub.limit = nil, nil
	s.barrier = false
	if problem != "" {
		s.forgetHub()
		s.refuse(problem)
	} else {
		s.confirm(kind, names)
	}
	if s.executing != nil {
		s.executing.resume()
	}
	s.goOn()
	if s.drain {
		s.endIfSettled(s.conn.Unread() > 0)
	}
}

// awaitsChannels reports whether the client waits for a subscription to be confirmed.
func (s *Session) awaitsChannels() bool { return s.channels != nil && s.channels.wish != nil }

// forgetHub ends the tie to the hub when the session listens to nothing.
func (s *Session) forgetHub() {
	if s.channels != nil && s.channels.wish == nil && !s.subscribed() {
		s.channels = nil
	}
}

// confirm joins the channels and tells the client, as Redis does, one by one.
func (s *Session) confirm(kind upstream.ChannelKind, names []string) {
	sub := s.channels
	if sub.names[kind] == nil {
		sub.names[kind] = make(map[string]struct{})
	}
	for _, name := range names {
		sub.names[kind][name] = struct{}{}
		sub.hub.Join(kind, name, s)
		s.tell(s.appendConfirmation(nil, kind.SubscribeName(), &name, sub.count(kind)))
	}
}

// unsubscribe leaves the named channels, or all of the kind.
func (s *Session) unsubscribe(kind upstream.ChannelKind, names []string) {
	sub := s.channels
	if sub == nil {
		sub = &subscriptions{}
	}
	s.endCarry()
	if len(names) == 0 {
		names = sub.list(kind)
	}
	if len(names) == 0 {
		s.tell(s.appendConfirmation(nil, kind.UnsubscribeName(), nil, sub.count(kind)))
		return
	}
	for _, name := range names {
		if _, member := sub.names[kind][name]; member {
			delete(sub.names[kind], name)
			sub.hub.Leave(kind, name, s)
		}
		s.tell(s.appendConfirmation(nil, kind.UnsubscribeName(), &name, sub.count(kind)))
	}
	s.forgetHub()
}

// leaveChannels ends all that the session listens to, without telling the client.
func (s *Session) leaveChannels() {
	sub := s.channels
	if sub == nil {
		return
	}
	s.endCarry()
	s.channels = nil
	if sub.wish != nil {
		s.worker.Loop.Cancel(sub.limit)
		sub.hub.Cancel(sub.wish)
		s.barrier = false
	}
	for kind := range sub.names {
		for name := range sub.names[kind] {
			sub.hub.Leave(upstream.ChannelKind(kind), name, s)
		}
	}
}

// appendConfirmation appends a subscribe or unsubscribe message as a RESP2 array; name is nil when there was no channel.
func (s *Session) appendConfirmation(dst []byte, kind string, name *string, count int) []byte {
	dst = redcon.AppendArray(dst, 3)
	dst = redcon.AppendBulkString(dst, kind)
	if name == nil {
		dst = s.appendNull(dst)
	} else {
		dst = redcon.AppendBulkString(dst, *name)
	}
	return redcon.AppendInt(dst, int64(count))
}

// Message implements upstream.Subscriber. A client that does not read is disconnected; publishers and others never wait.
func (s *Session) Message(b []byte) {
	if s.conn.Closed() || s.mode == ModeClosing {
		return
	}
	s.push(b)
	if s.conn.Pending()+len(s.pushes) > s.worker.shared.Settings.OutputBuffer {
		s.giveUp()
	}
}

var pushType = []byte(">") //nolint:gochecknoglobals // constant

// push sends a message, given as a RESP2 array: RESP3's differs in the first byte. It goes between replies, never into
// one.
func (s *Session) push(b []byte) {
	if s.head != nil && s.head.begun {
		if s.protocol >= 3 {
			s.pushes = append(append(s.pushes, '>'), b[1:]...)
		} else {
			s.pushes = append(s.pushes, b...)
		}
		return
	}
	if s.protocol >= 3 {
		s.conn.Append(pushType)
		b = b[1:]
	}
	s.conn.Append(b)
}

// tell sends a confirmation: in a transaction it stands in the place of an answer.
func (s *Session) tell(b []byte) {
	if s.executing != nil {
		s.executing.push(b)
		return
	}
	s.push(b)
}

// flushPushes sends the messages that came in the middle of a reply.
func (s *Session) flushPushes() {
	if len(s.pushes) > 0 {
		s.conn.Append(s.pushes)
		s.pushes = nil
	}
}

// allowedWhileSubscribed reports whether a RESP2 client that listens may run a command: its connection carries messages,
// which it could not tell from replies.
func allowedWhileSubscribed(name string) bool {
	switch name {
	case "ping", "quit", "reset":
		return true
	}
	return strings.HasSuffix(name, "subscribe")
}
