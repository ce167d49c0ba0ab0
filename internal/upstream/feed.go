package upstream

import (
	"bytes"
	"errors"
	"io"
	"time"

	"go.uber.org/zap"

	"github.com/sluiceproxy/sluice/internal/loop"
	"github.com/sluiceproxy/sluice/pkg/resp"
)

// feedTarget is what subscriptions are made for: RESP2, whose messages differ from RESP3's in their first byte only, and
// the first database, because channels belong to none.
var feedTarget = MakeTarget(2, 0) //nolint:gochecknoglobals // constant

const (
	// messageMax bounds one message; a longer one closes the connection.
	messageMax = 512<<20 + 64<<10
	// feedLinger is how long a connection without subscriptions is kept: a client that subscribes and unsubscribes in turns
	// must not cost a connection each time.
	feedLinger = 2 * time.Second
)

var errFeed = errors.New("the node sent something that is no message")

// feed is one upstream connection that brings messages. It belongs to the loop.
type feed struct {
	hub     *Hub
	node    *node
	conn    *loop.Conn
	scan    resp.ReplyScanner
	scanned int // bytes of the unconsumed tail that the scanner has seen
	links   map[linkKey]*link
	wanted  int     // links that a subscription wants
	asked   []asked // what the node has not answered, oldest first: it answers in this order
	idle    *loop.Timer
	silent  bool // nothing has come since it was asked for a sign of life
	buf     []byte
	release func()
}

type linkKey struct {
	kind ChannelKind
	name string
}

// link is one channel at one feed, from when it is asked for until the node has confirmed that it sends no more.
type link struct {
	linkKey
	feed    *feed
	wanted  *subscription // nil: it has been unsubscribed
	waiting int           // commands without an answer
	counted bool          // the node counts the feed among the channel's clients
}

// asked is one command without an answer.
type asked struct {
	link       *link
	subscribes bool
}

func newFeed(h *Hub, n *node) *feed {
	f := &feed{hub: h, node: n, links: make(map[linkKey]*link)}
	t := n.target(feedTarget)
	f.conn = h.local.loop.NewConn(f, &t.traffic)
	t.dial(func(link Link, err error) {
		if err != nil {
			if !n.retired && !h.local.closed {
				t.markDown(err)
			}
			f.conn.Close(err)
			return
		}
		if f.conn.Closed() {
			link.Drop()
			return
		}
		t.markUp()
		f.release = link.Release
		if err := link.Attach(f.conn); err != nil {
			f.conn.Close(err)
		}
	})
	return f
}

// subscribe asks the node for a channel.
func (f *feed) subscribe(s *subscription) {
	key := linkKey{s.kind, s.name}
	l := f.links[key]
	if l == nil {
		l = &link{linkKey: key, feed: f}
		f.links[key] = l
	}
	l.wanted, s.link = s, l
	f.wanted++
	f.hub.local.loop.Cancel(f.idle)
	f.idle = nil
	f.ask(l, true)
}

// unsubscribe ends a subscription. The last one ends the connection, after a while.
func (f *feed) unsubscribe(s *subscription) {
	l := s.link
	s.link, l.wanted = nil, nil
	f.ask(l, false)
	f.letGo()
}

// letGo notes that one link is wanted no more.
func (f *feed) letGo() {
	f.wanted--
	if f.wanted > 0 || f.conn.Closed() {
		return
	}
	f.idle = f.hub.local.loop.After(feedLinger, func() { f.conn.Close(nil) })
}

func (f *feed) ask(l *link, subscribes bool) {
	names := &unsubscribeNames
	if subscribes {
		names = &subscribeNames
	}
	l.waiting++
	f.asked = append(f.asked, asked{l, subscribes})
	f.buf = encodeCommand(f.buf[:0], names[l.kind], l.name)
	f.conn.Append(f.buf)
	if cap(f.buf) > 64<<10 {
		f.buf = nil
	}
}

// setCounted notes whether the node counts the feed among a channel's clients.
func (l *link) setCounted(counted bool) {
	if l.counted == counted {
		return
	}
	l.counted = counted
	more := 1
	if !counted {
		more = -1
	}
	l.feed.hub.local.cluster.audience.addFeeds(l.kind, l.name, l.feed.node.addr, more)
}

// expects reports whether the next answer is this one.
func (f *feed) expects(kind ChannelKind, name []byte, subscribes bool) bool {
	return len(f.asked) > 0 && f.asked[0].subscribes == subscribes && f.asked[0].link.kind == kind && f.asked[0].link.name == string(name)
}

// answered takes the node's answer to the oldest command; refusal is an error line, nil for a confirmation.
func (f *feed) answered(refusal []byte) {
	a := f.asked[0]
	f.asked = f.asked[1:]
	if len(f.asked) == 0 {
		f.asked = nil
	}
	l := a.link
	l.waiting--
	l.setCounted(a.subscribes && refusal == nil)
	switch {
	case l.waiting > 0:
	case l.wanted == nil:
		delete(f.links, l.linkKey)
	case refusal != nil:
		s := l.wanted
		l.wanted = nil
		delete(f.links, l.linkKey)
		f.letGo()
		f.hub.refused(s, refusal)
	default:
		f.hub.confirmed(l.wanted)
	}
}

// ended notes that a node has ended a subscription by itself, as it does when a slot moves away.
func (f *feed) ended(kind ChannelKind, name []byte) {
	l := f.links[linkKey{kind, string(name)}]
	if l == nil {
		return
	}
	l.setCounted(false)
	if l.wanted == nil || l.waiting > 0 {
		return // the answer to what is under way decides
	}
	s := l.wanted
	l.wanted = nil
	delete(f.links, l.linkKey)
	f.letGo()
	f.hub.local.cluster.RequestRefresh()
	f.hub.orphan(s)
}

// beat asks for a sign of life, and gives the connection up when none has come since the last time.
func (f *feed) beat() {
	if !f.conn.Attached() {
		return // dialling has a timeout of its own
	}
	if f.silent {
		f.conn.Close(errSilentFeed)
		return
	}
	f.silent = true
	f.conn.Append(pingCommand)
}

var (
	errSilentFeed = errors.New("the node sent nothing, not even an answer to PING")
	pingCommand   = []byte("*1\r\n$4\r\nPING\r\n") //nolint:gochecknoglobals // constant
)

// Data implements loop.Handler: it cuts the input into messages and confirmations.
func (f *feed) Data(b []byte) int {
	f.silent = false
	start := 0
	for start < len(b) {
		n, done, err := f.scan.Feed(b[start+f.scanned:])
		if err != nil {
			f.conn.Close(errFeed)
			return len(b)
		}
		end := start + f.scanned + n
		f.scanned = 0
		if !done {
			f.scanned = len(b) - start
			if f.scanned > messageMax {
				f.conn.Close(errFeed)
				return len(b)
			}
			if rest := f.scan.BulkRemaining(); rest > 0 {
				f.conn.Expect(f.scanned + int(rest))
			}
			return start
		}
		f.whole(b[start:end])
		if f.conn.Closed() {
			return len(b)
		}
		start = end
	}
	return start
}

// whole handles one message, confirmation or error.
func (f *feed) whole(b []byte) {
	switch {
	case b[0] == '+': // PONG, while nothing is subscribed
		return
	case b[0] == '-' && len(f.asked) > 0: // MOVED to a shard subscription, or no permission
		f.answered(b)
		return
	}
	what, name, ok := splitMessage(b)
	if !ok || !f.heard(string(what), name, b) {
		f.conn.Close(errFeed)
	}
}

// heard handles what a node sends to subscribers. It returns false when that makes no sense.
func (f *feed) heard(what string, name, b []byte) bool {
	switch what {
	case "pong":
		return true
	case "message":
		f.hub.message(f, Channel, name, b)
		return true
	case "pmessage":
		f.hub.message(f, Pattern, name, b)
		return true
	case "smessage":
		f.hub.message(f, ShardChannel, name, b)
		return true
	}
	for kind := range ChannelKinds {
		subscribes := what == subscribeNames[kind]
		switch {
		case !subscribes && what != unsubscribeNames[kind]:
		case f.expects(kind, name, subscribes):
			f.answered(nil)
			return true
		case !subscribes:
			f.ended(kind, name)
			return true
		}
	}
	return false
}

// passing reports whether an error may be gone after a while, or at another node.
func passing(line []byte) bool {
	for _, prefix := range []string{"-MOVED ", "-ASK ", "-TRYAGAIN", "-CLUSTERDOWN", "-LOADING", "-MASTERDOWN", "-BUSY"} {
		if bytes.HasPrefix(line, []byte(prefix)) {
			return true
		}
	}
	return false
}

// splitMessage reads the first two elements of a message: its kind and the channel or pattern.
func splitMessage(b []byte) (kind, name []byte, ok bool) {
	_, n, ok := resp.ArrayHeader(b)
	if !ok {
		return nil, nil, false
	}
	kind, rest, ok := cutBulk(b[n:])
	if !ok {
		return nil, nil, false
	}
	name, _, ok = cutBulk(rest)
	return kind, name, ok
}

// cutBulk takes one bulk string off b; a null is empty.
func cutBulk(b []byte) (content, rest []byte, ok bool) {
	n, err := resp.ReplyLen(b)
	if err != nil || n < 5 || b[0] != '$' {
		return nil, nil, false
	}
	header := bytes.IndexByte(b, '\n') + 1
	if header == n {
		return nil, b[n:], true
	}
	return b[header : n-2], b[n:], true
}

// Drained implements loop.Handler.
func (f *feed) Drained() {}

// EOF implements loop.Handler.
func (f *feed) EOF() { f.conn.Close(io.ErrUnexpectedEOF) }

// Closed implements loop.Handler.
func (f *feed) Closed(err error) {
	lc := f.hub.local
	lc.loop.Cancel(f.idle)
	if f.release != nil {
		f.release()
		if err != nil {
			lc.Stats.FeedsLost++
		}
	}
	if err != nil && !lc.closed {
		lc.cluster.log.Warn("subscription connection lost; subscribing again", zap.String("node", f.node.alias), zap.Error(hideAddress("connection", err)))
	}
	f.hub.lost(f)
}
