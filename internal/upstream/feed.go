package upstream

import (
	"bytes"
	"errors"
	"io"

	"go.uber.org/zap"

	"github.com/sluiceproxy/sluice/internal/loop"
	"github.com/sluiceproxy/sluice/pkg/resp"
)

// feedTarget is what subscriptions are made for: RESP2, whose messages differ from RESP3's in their first byte only, and
// the first database, because channels belong to none.
var feedTarget = MakeTarget(2, 0) //nolint:gochecknoglobals // constant

// messageMax bounds one message; a longer one closes the connection.
const messageMax = 512<<20 + 64<<10

var errFeed = errors.New("the node sent something that is no message")

// feed is one upstream connection that brings messages. It belongs to the loop.
type feed struct {
	hub     *Hub
	node    *node
	conn    *loop.Conn
	scan    resp.ReplyScanner
	scanned int              // bytes of the unconsumed tail that the scanner has seen
	count   int              // subscriptions
	stale   map[staleKey]int // confirmations to come for subscriptions that have been forgotten
	buf     []byte
	release func()
}

func newFeed(h *Hub, n *node) *feed {
	f := &feed{hub: h, node: n}
	t := n.target(feedTarget)
	f.conn = h.local.loop.NewConn(f, &t.traffic)
	t.dial(func(link Link, err error) {
		if err != nil {
			f.conn.Close(err)
			return
		}
		if f.conn.Closed() {
			link.Drop()
			return
		}
		f.release = link.Release
		if err := link.Attach(f.conn); err != nil {
			f.conn.Close(err)
		}
	})
	return f
}

func (f *feed) send(command, channel string) {
	f.buf = encodeCommand(f.buf[:0], command, channel)
	f.conn.Append(f.buf)
}

// forget ends a subscription; the last one ends the connection.
func (f *feed) forget(s *subscription) {
	f.count--
	if f.count == 0 {
		delete(f.hub.feeds, f.node.addr)
		f.conn.Close(nil)
		return
	}
	f.send(unsubscribeNames[s.kind], s.name)
	if s.outstanding > 0 {
		if f.stale == nil {
			f.stale = make(map[staleKey]int)
		}
		f.stale[staleKey{s.kind, s.name}] += s.outstanding
	}
}

// isStale reports whether a confirmation is for a subscription that has been forgotten since it was asked for.
func (f *feed) isStale(kind ChannelKind, name []byte) bool {
	if len(f.stale) == 0 {
		return false
	}
	key := staleKey{kind, string(name)}
	if f.stale[key] == 0 {
		return false
	}
	if f.stale[key]--; f.stale[key] == 0 {
		delete(f.stale, key)
	}
	return true
}

type staleKey struct {
	kind ChannelKind
	name string
}

// Data implements loop.Handler: it cuts the input into messages and confirmations.
func (f *feed) Data(b []byte) int {
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
	if b[0] == '-' { // -MOVED to a shard subscription, or no permission
		f.hub.local.cluster.RequestRefresh()
		f.conn.Close(errFeed)
		return
	}
	kind, name, ok := splitMessage(b)
	if !ok {
		f.conn.Close(errFeed)
		return
	}
	switch string(kind) {
	case "message":
		f.hub.message(Channel, name, b)
	case "pmessage":
		f.hub.message(Pattern, name, b)
	case "smessage":
		f.hub.message(ShardChannel, name, b)
	case "subscribe":
		f.hub.confirmedBy(f, Channel, name)
	case "psubscribe":
		f.hub.confirmedBy(f, Pattern, name)
	case "ssubscribe":
		f.hub.confirmedBy(f, ShardChannel, name)
	case "sunsubscribe":
		f.hub.ended(f, ShardChannel, name)
	}
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
	if f.release != nil {
		f.release()
	}
	if err != nil && !f.hub.local.closed {
		f.hub.local.cluster.log.Warn("subscription connection lost; subscribing again", zap.String("node", f.node.alias), zap.Error(hideAddress("connection", err)))
	}
	f.hub.lost(f)
}
