package upstream

import (
	"time"

	"github.com/tidwall/redcon"

	"github.com/sluiceproxy/sluice/internal/loop"
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
	channelKindNames = [ChannelKinds]string{"channel", "pattern", "shard"}                 //nolint:gochecknoglobals // constant
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

const (
	// feedRetry is how long after a failure a node is asked again.
	feedRetry = 200 * time.Millisecond
	// resumeAtOnce is how many subscriptions are made anew before the loop looks after others.
	resumeAtOnce = 4096
)

// Hub is what one loop has subscribed to at a cluster: one upstream connection per node serves all sessions of the loop,
// however many subscribe to a channel. It belongs to the loop.
type Hub struct {
	local    *Local
	channels [ChannelKinds]map[string]*subscription
	feeds    map[string]*feed // by node address
	orphans  []*subscription  // without a node, to be tried again when retry runs out
	ready    []*subscription  // of those, the ones that are being tried again
	retry    *loop.Timer      // nil: there are no orphans
	pulsing  bool             // the feeds are looked at now and then
}

// subscription is one channel that sessions want.
type subscription struct {
	kind    ChannelKind
	name    string
	slot    int32 // of a shard channel on a cluster; -1: any node will do
	link    *link // nil: no node has been asked
	live    bool  // the node has confirmed; its members are in the audience
	members map[Subscriber]struct{}
	waiting map[*Subscribing]struct{}
}

// Subscribing is a session's wish for several channels, told when the node has confirmed all of them or refused one.
type Subscribing struct {
	kind    ChannelKind
	names   []string
	missing int
	done    func(problem string)
}

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
// them: at once, before it returns nil, when it had before. The session then joins each with Join. If the node refuses,
// done is given its error and the wish is over.
func (h *Hub) Subscribe(kind ChannelKind, names []string, done func(problem string)) *Subscribing {
	w := &Subscribing{kind: kind, names: names, done: done}
	if h.fulfil(w) {
		return nil
	}
	return w
}

// fulfil tells a wish that it has come true, or lets it wait for what is missing: also for a channel that had been there
// and was lost or left by others meanwhile.
func (h *Hub) fulfil(w *Subscribing) bool {
	for _, name := range w.names {
		s := h.channels[w.kind][name]
		if s == nil {
			s = h.newSubscription(w.kind, name)
			h.send(s)
		}
		if _, waits := s.waiting[w]; waits || s.live {
			continue
		}
		if s.waiting == nil {
			s.waiting = make(map[*Subscribing]struct{})
		}
		s.waiting[w] = struct{}{}
		w.missing++
	}
	if w.missing > 0 {
		return false
	}
	w.done("")
	return true
}

func (h *Hub) newSubscription(kind ChannelKind, name string) *subscription {
	s := &subscription{kind: kind, name: name, slot: -1, members: make(map[Subscriber]struct{})}
	if kind == ShardChannel && h.local.Sharded() {
		s.slot = int32(slot.Of([]byte(name)))
	}
	h.channels[kind][name] = s
	return s
}

// Cancel forgets a wish; its done is not called.
func (h *Hub) Cancel(w *Subscribing) {
	for _, name := range w.names {
		if s := h.channels[w.kind][name]; s != nil {
			delete(s.waiting, w)
			h.dropUnused(s)
		}
	}
}

// Join makes a session a member of a channel.
func (h *Hub) Join(kind ChannelKind, name string, member Subscriber) {
	s := h.channels[kind][name]
	if s == nil {
		return
	}
	before := len(s.members)
	s.members[member] = struct{}{}
	h.count(s, len(s.members)-before)
}

// Leave ends a session's membership; the last one ends the subscription.
func (h *Hub) Leave(kind ChannelKind, name string, member Subscriber) {
	s := h.channels[kind][name]
	if s == nil {
		return
	}
	before := len(s.members)
	delete(s.members, member)
	h.count(s, len(s.members)-before)
	h.dropUnused(s)
}

// count notes that sessions have joined or left a channel.
func (h *Hub) count(s *subscription, more int) {
	if s.live && more != 0 {
		h.local.cluster.audience.addListeners(s.kind, s.name, more)
	}
}

// setLive notes whether messages of the channel come.
func (h *Hub) setLive(s *subscription, live bool) {
	if s.live == live {
		return
	}
	s.live = true // count looks at it
	if live {
		h.count(s, len(s.members))
	} else {
		h.count(s, -len(s.members))
	}
	s.live = live
}

func (h *Hub) dropUnused(s *subscription) {
	if len(s.members)+len(s.waiting) > 0 || h.channels[s.kind][s.name] != s {
		return
	}
	delete(h.channels[s.kind], s.name)
	h.setLive(s, false)
	if s.link != nil {
		s.link.feed.unsubscribe(s)
	}
}

// feedFor is the connection that brings a channel's messages: for a shard channel to the node that has its slot, else to
// any node, the same for all.
func (h *Hub) feedFor(s *subscription) *feed {
	lc := h.local
	n := lc.nodeFor(s.slot, uint32(lc.loop.ID()), feedTarget)
	if n == nil || n.retired || lc.closed {
		return nil
	}
	f := h.feeds[n.addr]
	if f == nil {
		f = newFeed(h, n)
		h.feeds[n.addr] = f
		h.startPulse()
	}
	return f
}

// send subscribes at the node, or tries again in a while when there is none.
func (h *Hub) send(s *subscription) {
	h.setLive(s, false)
	f := h.feedFor(s)
	if f == nil {
		h.local.cluster.RequestRefresh()
		h.orphan(s)
		return
	}
	f.subscribe(s)
}

// orphan notes that a channel has no node at the moment. All such channels are tried again together.
func (h *Hub) orphan(s *subscription) {
	s.link = nil
	h.setLive(s, false)
	h.orphans = append(h.orphans, s)
	if h.retry == nil && !h.local.closed {
		h.retry = h.local.loop.After(feedRetry, func() {
			h.retry = nil
			h.local.Refresh()
			h.ready, h.orphans = append(h.ready, h.orphans...), nil
			h.resume()
		})
	}
}

// resume subscribes what was orphaned, some at a time.
func (h *Hub) resume() {
	batch := h.ready[:min(len(h.ready), resumeAtOnce)]
	h.ready = h.ready[len(batch):]
	for _, s := range batch {
		if s.link == nil && h.channels[s.kind][s.name] == s && !h.local.closed {
			h.send(s)
		}
	}
	if len(h.ready) == 0 {
		h.ready = nil
		return
	}
	h.local.loop.Post(h.resume)
}

// confirmed notes that a node has confirmed a subscription.
func (h *Hub) confirmed(s *subscription) {
	h.setLive(s, true)
	waiting := s.waiting
	s.waiting = nil
	for w := range waiting {
		if w.missing--; w.missing == 0 {
			h.fulfil(w)
		}
	}
}

// refused notes that a node does not serve a subscription. What another node or another moment may mend is tried again;
// else those who wait are told.
func (h *Hub) refused(s *subscription, line []byte) {
	s.link = nil
	h.setLive(s, false)
	if !passing(line) {
		waiting := s.waiting
		s.waiting = nil
		for w := range waiting {
			h.Cancel(w)
			w.done(string(line[1 : len(line)-2]))
		}
		h.dropUnused(s)
	}
	if h.channels[s.kind][s.name] == s {
		h.local.cluster.RequestRefresh()
		h.orphan(s)
	}
}

// message gives a message to the members of its channel.
func (h *Hub) message(f *feed, kind ChannelKind, name, b []byte) {
	s := h.channels[kind][string(name)]
	if s == nil || s.link == nil || s.link.feed != f {
		return
	}
	for member := range s.members {
		member.Message(b)
	}
}

// moveAll subscribes anew what another node is responsible for since the topology changed. A channel that any node serves
// stays where it is as long as it can: moving costs messages.
func (h *Hub) moveAll() {
	for kind := range h.channels {
		for _, s := range h.channels[kind] {
			if s.link == nil || !h.misplaced(s) {
				continue
			}
			s.link.feed.unsubscribe(s)
			h.send(s)
		}
	}
}

func (h *Hub) misplaced(s *subscription) bool {
	at := s.link.feed.node
	if s.slot < 0 {
		return at.retired
	}
	return h.local.nodeFor(s.slot, 0, feedTarget) != at
}

// lost subscribes anew what a lost connection carried.
func (h *Hub) lost(f *feed) {
	if h.feeds[f.node.addr] == f {
		delete(h.feeds, f.node.addr)
	}
	for _, l := range f.links {
		l.setCounted(false)
		if l.wanted != nil {
			h.orphan(l.wanted)
		}
	}
	f.links = nil
}

// pulse is how often feeds are looked at: one that brings nothing, not even an answer, is given up.
const pulse = 10 * time.Second

func (h *Hub) startPulse() {
	if h.pulsing {
		return
	}
	h.pulsing = true
	h.local.loop.Every(pulse, func() bool {
		for _, f := range h.feeds {
			f.beat()
		}
		h.pulsing = len(h.feeds) > 0 && !h.local.closed
		return h.pulsing
	})
}

func (h *Hub) close() {
	h.local.loop.Cancel(h.retry)
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
