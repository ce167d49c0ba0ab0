package pipe

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRepliesReachTheirCallsInOrder(t *testing.T) {
	r := newRig(t)
	clients := r.sendAll(50)
	require.Equal(t, 50, r.pipe.Inflight())
	var requests, replies strings.Builder
	for i, c := range clients {
		requests.WriteString(c.request)
		require.Equal(t, c.request, string(c.Request()))
		require.Same(t, r.pipe, c.Pipe())
		replies.WriteString(bulk(strings.Repeat("x", i)))
	}
	require.Equal(t, requests.String(), string(r.node.Sent))
	r.node.Receive([]byte(replies.String()))
	for i, c := range clients {
		c.requireReply(t, bulk(strings.Repeat("x", i)))
		require.Equal(t, 1, c.pieces)
	}
	require.Zero(t, r.pipe.Inflight())
	require.Zero(t, r.pipe.Backlog())
	require.Equal(t, 1, r.idles, "calls of Idle")
	require.Equal(t, uint64(requests.Len()), r.traffic.Out)
	require.Equal(t, uint64(replies.Len()), r.traffic.In)
}

// replies of every shape; "" is what is not delivered: an out-of-band message.
var replies = []struct{ bytes, delivered string }{ //nolint:gochecknoglobals // the table of the tests
	{bytes: "+OK\r\n"},
	{bytes: "-ERR no\r\n"},
	{bytes: ":-17\r\n"},
	{bytes: "$0\r\n\r\n"},
	{bytes: "$-1\r\n"},
	{bytes: "$11\r\n+not\r\n-this\r\n"},
	{bytes: ">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n", delivered: "none"},
	{bytes: "*0\r\n"},
	{bytes: "*-1\r\n"},
	{bytes: "*3\r\n:1\r\n*2\r\n$1\r\na\r\n*0\r\n-ERR within\r\n"},
	{bytes: "_\r\n"},
	{bytes: "#t\r\n"},
	{bytes: ",3.14\r\n"},
	{bytes: "(12345678901234567890\r\n"},
	{bytes: "=7\r\ntxt:abc\r\n"},
	{bytes: "!5\r\nERR x\r\n"},
	{bytes: "%2\r\n+a\r\n:1\r\n+b\r\n~2\r\n:1\r\n:2\r\n"},
	{bytes: "|1\r\n+ttl\r\n:3\r\n$1\r\nv\r\n"},
	{bytes: ">1\r\n+gone\r\n", delivered: "none"},
	{bytes: "$?\r\n;4\r\npart\r\n;1\r\ns\r\n;0\r\n"},
	{bytes: "*?\r\n:1\r\n:2\r\n.\r\n"},
	{bytes: "+last\r\n"},
}

func allReplies() (stream string, delivered []string) {
	for _, reply := range replies {
		stream += reply.bytes
		if reply.delivered == "" {
			delivered = append(delivered, reply.bytes)
		}
	}
	return stream, delivered
}

func TestEverySplitPoint(t *testing.T) {
	stream, want := allReplies()
	for i := range len(stream) + 1 {
		r := newRig(t)
		clients := r.sendAll(len(want))
		if i > 0 {
			r.node.Receive([]byte(stream[:i]))
		}
		if i < len(stream) {
			r.node.Receive([]byte(stream[i:]))
		}
		for j, c := range clients {
			c.requireReply(t, want[j])
		}
		require.Equal(t, []string{"-ERR no\r\n"}, r.asked, "split at %d", i)
	}
}

func TestByteByByte(t *testing.T) {
	stream, want := allReplies()
	r := newRig(t)
	clients := r.sendAll(len(want))
	for i := range len(stream) {
		r.node.Receive([]byte{stream[i]})
	}
	for j, c := range clients {
		c.requireReply(t, want[j])
		require.Equal(t, 1, c.pieces)
	}
	require.Zero(t, r.pipe.Conn().Unread())
}

// TestRedeliveryScansNothingTwice: Continue gives the same bytes again.
func TestRedeliveryScansNothingTwice(t *testing.T) {
	r := newRig(t)
	clients := r.sendAll(2)
	r.node.Receive([]byte("*2\r\n:1\r\n"))
	for range 3 {
		r.pipe.Hold()
		r.pipe.Continue()
		r.Tick()
	}
	r.node.Receive([]byte(":2\r\n:3\r\n"))
	clients[0].requireReply(t, "*2\r\n:1\r\n:2\r\n")
	clients[1].requireReply(t, ":3\r\n")
}

func TestLargeRepliesComeInParts(t *testing.T) {
	for _, c := range []struct {
		size, larges int
	}{{holdMax - 20, 0}, {2 * holdMax, 0}, {2 * testThreshold, 1}, {20 * testThreshold, 1}} {
		r := newRig(t)
		clients := r.sendAll(3)
		want := bulk(strings.Repeat("large", c.size/5))
		stream := ":1\r\n" + want + ":3\r\n"
		for len(stream) > 0 {
			n := min(len(stream), 10_000)
			r.node.Receive([]byte(stream[:n]))
			stream = stream[n:]
			require.LessOrEqual(t, r.pipe.Conn().Unread(), holdMax, "held without bound")
			if clients[1].pieces > 0 && !clients[1].whole {
				require.Equal(t, c.larges > 0, r.pipe.Large())
			}
		}
		clients[0].requireReply(t, ":1\r\n")
		clients[1].requireReply(t, want)
		clients[2].requireReply(t, ":3\r\n")
		require.Equal(t, c.larges, r.larges, "calls of LargeReply for %d bytes", c.size)
		require.Equal(t, c.size > holdMax, clients[1].pieces > 1)
		require.False(t, r.pipe.Large())
		require.Equal(t, 1, r.idles)
	}
}

// TestLargeArrayOfSmallElements is passed on as it comes, too.
func TestLargeArrayOfSmallElements(t *testing.T) {
	r := newRig(t)
	clients := r.sendAll(2)
	want := "*40000\r\n" + strings.Repeat("$3\r\nkey\r\n", 40_000)
	stream := want + "+OK\r\n"
	for len(stream) > 0 {
		n := min(len(stream), 16_001)
		r.node.Receive([]byte(stream[:n]))
		stream = stream[n:]
	}
	clients[0].requireReply(t, want)
	clients[1].requireReply(t, "+OK\r\n")
	require.Greater(t, clients[0].pieces, 10)
}

func TestPushWithoutACall(t *testing.T) {
	r := newRig(t)
	push := ">3\r\n$7\r\nmessage\r\n$2\r\nch\r\n$5\r\nhello\r\n"
	for i := range push {
		r.node.Receive([]byte{push[i]})
	}
	require.Zero(t, r.pipe.Conn().Unread())
	clients := r.sendAll(1)
	r.node.Receive([]byte(push + "+OK\r\n" + push))
	clients[0].requireReply(t, "+OK\r\n")
	require.False(t, r.pipe.Conn().Closed())
}

// TestNodeThatBreaksTheProtocol: what came whole before is delivered, the rest is lost with the connection.
func TestNodeThatBreaksTheProtocol(t *testing.T) {
	for name, bytes := range map[string]string{
		"not RESP":              "HTTP/1.1 400 Bad Request\r\n",
		"bad length":            "$x\r\n",
		"hostile length":        "$9223372036854775807\r\n",
		"endless out of band":   ">1\r\n$2000000\r\n" + strings.Repeat("x", pushMax+1),
		"element is not RESP":   "*2\r\n:1\r\nx",
		"streamed end too soon": ".\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			clients := r.sendAll(3)
			r.node.Receive([]byte(":1\r\n" + bytes))
			r.Tick()
			clients[0].requireReply(t, ":1\r\n")
			require.Equal(t, 1, r.losses)
			require.True(t, IsMalformed(r.lostErr), "%v", r.lostErr)
			require.NotContains(t, r.lostErr.Error(), "\n")
			require.Len(t, r.lost, 2)
			for i, lost := range r.lost {
				require.Same(t, &clients[i+1].Call, lost.Call)
				Discard(r.Loop, lost.Call, Failure{Reason: Malformed, InDoubt: lost.InDoubt})
				require.True(t, clients[i+1].freed)
			}
			require.True(t, r.node.Closed)
		})
	}
}

// TestReplyWithoutACommand: bytes that nobody asked for show that replies and calls have come apart.
func TestReplyWithoutACommand(t *testing.T) {
	r := newRig(t)
	clients := r.sendAll(1)
	r.node.Receive([]byte("+OK\r\n+OK\r\n"))
	r.Tick()
	clients[0].requireReply(t, "+OK\r\n")
	require.True(t, IsMalformed(r.lostErr))
	require.Empty(t, r.lost)
}

// TestReplyToACommandThatWasNotSent would give another client's reply to a call whose request still waits.
func TestReplyToACommandThatWasNotSent(t *testing.T) {
	for _, reply := range []string{"+OK\r\n", "-ERR no\r\n", "$100000\r\n" + strings.Repeat("x", holdMax)} {
		r := newRig(t)
		r.node.Room = 0
		c := r.send(echoRequest("waits"))
		c.ReadOnly = true
		r.Tick()
		r.node.Receive([]byte(reply))
		r.Tick()
		require.Zero(t, c.pieces)
		require.True(t, IsMalformed(r.lostErr))
		require.Equal(t, []LostCall{{Call: &c.Call, Retry: true}}, r.lost)
	}
}

// TestErrorToACommandHalfSent: a node may refuse an argument by its announced length. It reads nothing after that.
func TestErrorToACommandHalfSent(t *testing.T) {
	r := newRig(t)
	r.node.Room = 20
	refused, behind := r.send(echoRequest("a large argument")), r.send(echoRequest("behind"))
	r.Tick()
	r.node.Receive([]byte("-ERR Protocol error: invalid bulk length\r\n"))
	r.Tick()
	refused.requireReply(t, "-ERR Protocol error: invalid bulk length\r\n")
	require.Error(t, r.lostErr)
	require.False(t, IsMalformed(r.lostErr))
	require.Equal(t, []LostCall{{Call: &behind.Call, Retry: true}}, r.lost)
}

// TestReplyMaySendMore: a receiver sends the next command from within the reply to the last.
func TestReplyMaySendMore(t *testing.T) {
	r := newRig(t)
	var second *client
	first := r.send(echoRequest("first"))
	first.onReply = func() { second = r.send(echoRequest("second")) }
	r.Tick()
	r.node.Receive([]byte("+1\r\n"))
	require.Zero(t, r.idles, "Idle with a call in flight")
	r.Tick()
	r.node.Receive([]byte("+2\r\n"))
	first.requireReply(t, "+1\r\n")
	second.requireReply(t, "+2\r\n")
	require.Equal(t, 1, r.idles)
}
