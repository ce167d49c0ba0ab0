package upstream

import (
	"time"

	"github.com/tidwall/redcon"

	"github.com/sluiceproxy/sluice/pkg/slot"
)

// ChannelKind is the kind of a subscription: a channel, a pattern or a shard channel.
type ChannelKind uint8

// The kinds, see https://redis.io/docs/latest/develop/interact/pubsub/.
const (
	Channel ChannelKind = iota
	Pattern
	ShardChannel
	ChannelKinds
)

var (
	subscribeNames   = [ChannelKinds]string{"subscribe", "psubscribe", "ssubscribe"}       //nolint:gochecknoglobals // constant
	unsubscribeNames = [ChannelKinds]string{"unsubscribe", "punsubscribe", "sunsubscribe"} //nolint:gochecknoglobals // constant
)

// SubscribeName is the command that subscribes to channels of the kind, in lower case.
func (k ChannelKind) SubscribeName() string { return subscribeNames[k] }

// UnsubscribeName is the command that ends a subscription.
func (k ChannelKind) UnsubscribeName() string { return unsubscribeNames[k] }

// Subscriber is a session that gets messages.
type Subscriber interface {
	// Message is given a message as a RESP2 array, valid only during the call.
	Message(b []byte)
}

// Hub is what one loop has subscribed to at a cluster: one upstream connection per node serves all sessions of the loop,
// however many subscribe to a channel. It belongs to the loop.
type Hub struct {
	local    *Local
	channels [ChannelKinds]map[string]*subscription
	feeds    map[string]*feed // by node address
}

// subscription is one channel that sessions want.
type subscription struct {
	kind        ChannelKind
	name        string
	feed        *feed // nil: no node can be reached
	confirmed   bool
	outstanding int // SUBSCRIBE commands that the node has not confirmed
	members     map[Subscriber]struct{}
	waiting     []*Subscribing
}

// Subscribing is a session's wish for several channels, told when the node has confirmed all of them.
type Subscribing struct {
	missing int
	done    func()
	dropped bool
}

// Cancel forgets the wish; done is not called.
func (w *Subscribing) Cancel() { w.dropped = true }

const feedRetry = 200 * time.Millisecond

// Hub returns the loop's subscriptions at the cluster.
func (lc *Local) Hub() *Hub {
	if lc.hub == nil {
		lc.hub = &Hub{local: lc, feeds: make(map[string]*feed)}
		for kind := range lc.hub.channels {
			lc.hub.channels[kind] = make(map[string]*subscription)
		}
	}
	return lc.hub
}

// Subscribe makes sure that the node sends the messages of the channels, and calls done when it has confirmed all of
// them: at once, before it returns nil, when it had before. The session then joins each with Join. It holds the
// channels until Leave or, before Join, Release.
func (h *Hub) Subscribe(kind ChannelKind, names []string, done func()) *Subscribing {
	w := &Subscribing{done: done}
	for _, name := range names {
		s := h.channels[kind][name]
		if s == nil {
			s = &subscription{kind: kind, name: name, members: make(map[Subscriber]struct{})}
			h.channels[kind][name] = s
			h.send(s)
		}
		if !s.confirmed {
			s.waiting = append(s.waiting, w)
			w.missing++
		}
	}
	if w.missing == 0 {
		done()
		return nil
	}
	return w
}

// Join makes a session a member of a channel.
func (h *Hub) Join(kind ChannelKind, name string, member Subscriber) {
	if s := h.channels[kind][name]; s != nil {
		s.members[member] = struct{}{}
	}
}

// Leave ends a session's membership; the last one ends the subscription.
func (h *Hub) Leave(kind ChannelKind, name string, member Subscriber) {
	if s := h.channels[kind][name]; s != nil {
		delete(s.members, member)
		h.dropUnused(s)
	}
}

// Release gives up channels that a cancelled wish has asked for.
func (h *Hub) Release(kind ChannelKind, names []string) {
	for _, name := range names {
		if s := h.channels[kind][name]; s != nil {
			h.dropUnused(s)
		}
	}
}

func (h *Hub) dropUnused(s *subscription) {
	if len(s.members) > 0 {
		return
	}
	for _, w := range s.waiting {
		if !w.dropped {
			return
		}
	}
	delete(h.channels[s.kind], s.name)
	if s.feed != nil {
		s.feed.forget(s)
	}
}

// feedFor is the connection that brings a channel's messages: for a shard channel to the node that has its slot, else to
// any node, the same for all.
func (h *Hub) feedFor(s *subscription) *feed {
	lc := h.local
	at := int32(-1)
	if s.kind == ShardChannel && lc.Sharded() {
		at = int32(slot.Of([]byte(s.name)))
	}
	n := lc.nodeFor(at, uint32(lc.loop.ID()), feedTarget)
	if n == nil || n.retired || lc.closed {
		return nil
	}
	f := h.feeds[n.addr]
	if f == nil {
		f = newFeed(h, n)
		h.feeds[n.addr] = f
	}
	return f
}

// send subscribes at the node, or tries again in a while when there is none.
func (h *Hub) send(s *subscription) {
	s.confirmed = false
	s.feed = h.feedFor(s)
	if s.feed == nil {
		h.local.cluster.RequestRefresh()
		h.local.loop.After(feedRetry, func() {
			if h.channels[s.kind][s.name] == s && s.feed == nil && !h.local.closed {
				h.send(s)
			}
		})
		return
	}
	s.outstanding++
	s.feed.count++
	s.feed.send(subscribeNames[s.kind], s.name)
}

// confirmedBy notes that a node has confirmed a subscription.
func (h *Hub) confirmedBy(f *feed, kind ChannelKind, name []byte) {
	s := h.channels[kind][string(name)]
	if f.isStale(kind, name) || s == nil || s.feed != f || s.outstanding == 0 {
		return
	}
	if s.outstanding--; s.outstanding > 0 {
		return
	}
	s.confirmed = true
	waiting := s.waiting
	s.waiting = nil
	for _, w := range waiting {
		if w.missing--; w.missing == 0 && !w.dropped {
			w.done()
		}
	}
}

// message gives a message to the members of its channel.
func (h *Hub) message(kind ChannelKind, name, b []byte) {
	if s := h.channels[kind][string(name)]; s != nil {
		for member := range s.members {
			member.Message(b)
		}
	}
}

// ended notes that a node has ended a subscription by itself, as it does when a slot moves away.
func (h *Hub) ended(f *feed, kind ChannelKind, name []byte) {
	s := h.channels[kind][string(name)]
	if s == nil || s.feed != f || s.outstanding > 0 {
		return
	}
	h.local.cluster.RequestRefresh()
	s.feed.count--
	s.feed = nil
	h.local.loop.After(feedRetry, func() {
		h.local.Refresh()
		if h.channels[s.kind][s.name] == s && s.feed == nil {
			h.send(s)
		}
	})
}

// moveAll subscribes anew what another node is responsible for since the topology changed.
func (h *Hub) moveAll() {
	for kind := range h.channels {
		for _, s := range h.channels[kind] {
			if s.feed == nil || h.feedFor(s) == s.feed {
				continue
			}
			s.feed.forget(s)
			s.outstanding = 0
			h.send(s)
		}
	}
}

// lost subscribes anew what a lost connection carried.
func (h *Hub) lost(f *feed) {
	if h.feeds[f.node.addr] == f {
		delete(h.feeds, f.node.addr)
	}
	if h.local.closed {
		return
	}
	for kind := range h.channels {
		for _, s := range h.channels[kind] {
			if s.feed == f {
				s.feed, s.outstanding = nil, 0
				h.local.loop.After(feedRetry, func() {
					if h.channels[s.kind][s.name] == s && s.feed == nil {
						h.send(s)
					}
				})
			}
		}
	}
}

func (h *Hub) close() {
	for _, f := range h.feeds {
		f.conn.Close(nil)
	}
}

// encodeCommand is a command of one argument in RESP.
func encodeCommand(dst []byte, name, arg string) []byte {
	dst = redcon.AppendArray(dst, 2)
	dst = redcon.AppendBulkString(dst, name)
	return redcon.AppendBulkString(dst, arg)
}
