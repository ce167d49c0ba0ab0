package upstream

import (
	"sync"
	"sync/atomic"

	"github.com/sluiceproxy/sluice/internal/pipe"
)

// audience counts who listens to a cluster's channels through the proxy: the sessions, and the feeds by which their
// messages come. A node counts the feeds, clients want to know of the sessions. It is shared by all loops; while nobody
// listens, looking at it costs one atomic load.
type audience struct {
	channels atomic.Int64 // entries in tallies

	mu struct {
		sync.RWMutex
		tallies [ChannelKinds]map[string]*tally
	}
}

// tally is who listens to one channel or pattern.
type tally struct {
	listeners int // sessions that get the messages
	feeds     []feedsAt
}

// feedsAt is how many feeds have subscribed at one node.
type feedsAt struct {
	addr string
	n    int
}

func (t *tally) at(addr string) int {
	for _, f := range t.feeds {
		if f.addr == addr {
			return f.n
		}
	}
	return 0
}

func (t *tally) all() (n int) {
	for _, f := range t.feeds {
		n += f.n
	}
	return n
}

func (t *tally) add(addr string, more int) {
	for i := range t.feeds {
		if f := &t.feeds[i]; f.addr == addr {
			if f.n += more; f.n == 0 {
				t.feeds = append(t.feeds[:i], t.feeds[i+1:]...)
			}
			return
		}
	}
	t.feeds = append(t.feeds, feedsAt{addr, more})
}

func (a *audience) addListeners(kind ChannelKind, name string, more int) {
	a.change(kind, name, func(t *tally) { t.listeners += more })
}

func (a *audience) addFeeds(kind ChannelKind, name, addr string, more int) {
	a.change(kind, name, func(t *tally) { t.add(addr, more) })
}

func (a *audience) change(kind ChannelKind, name string, fn func(*tally)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.mu.tallies[kind] == nil {
		a.mu.tallies[kind] = make(map[string]*tally)
	}
	t := a.mu.tallies[kind][name]
	if t == nil {
		t = &tally{}
		a.mu.tallies[kind][name] = t
		a.channels.Add(1)
	}
	fn(t)
	if t.listeners == 0 && len(t.feeds) == 0 {
		delete(a.mu.tallies[kind], name)
		a.channels.Add(-1)
	}
}

// Receivers is what a client that published is told: n is the node's answer, which counts the feeds that have subscribed
// at that node in the place of the sessions behind all feeds. kind is Channel or ShardChannel; c is the call that n answers;
// match compares a pattern with the channel.
func (lc *Local) Receivers(c *pipe.Call, kind ChannelKind, channel []byte, n int64, match func(pattern string, channel []byte) bool) int64 {
	a := &lc.cluster.audience
	if a.channels.Load() == 0 || n == 0 && (kind == ShardChannel || !lc.Sharded()) {
		return n // at no other node could anybody have got it: a feed that is on its way there has not
	}
	addr := lc.addressOf(c.Node())
	listeners := int64(0)
	count := func(t *tally) {
		n -= int64(t.at(addr))
		listeners += int64(t.listeners)
	}
	a.mu.RLock()
	defer a.mu.RUnlock()
	if t := a.mu.tallies[kind][string(channel)]; t != nil {
		count(t)
	}
	if kind == Channel {
		for pattern, t := range a.mu.tallies[Pattern] {
			if match(pattern, channel) {
				count(t)
			}
		}
	}
	return max(n, 0) + listeners // n is less than 0 when a feed has come since
}

// addressOf finds a node by its alias; empty: there is none.
func (lc *Local) addressOf(alias string) string {
	for _, n := range lc.nodes {
		if n.alias == alias {
			return n.addr
		}
	}
	return ""
}

// Subscribers is how many clients have subscribed to a channel; n is the sum of what the primaries say.
func (lc *Local) Subscribers(kind ChannelKind, channel string, n int64) int64 {
	a := &lc.cluster.audience
	a.mu.RLock()
	defer a.mu.RUnlock()
	t := a.mu.tallies[kind][channel]
	if t == nil {
		return n
	}
	return max(n-int64(t.all()), 0) + int64(t.listeners)
}

// Patterns is how many patterns clients have subscribed to; n is the sum of what the primaries say, each of which counts
// the patterns of its own clients once. A pattern of the proxy's clients is counted once, however many nodes have it.
func (lc *Local) Patterns(n int64) int64 {
	a := &lc.cluster.audience
	a.mu.RLock()
	defer a.mu.RUnlock()
	own := int64(0)
	for _, t := range a.mu.tallies[Pattern] {
		n -= int64(len(t.feeds))
		if t.listeners > 0 {
			own++
		}
	}
	return max(n, 0) + own
}
