package upstream

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// listener is a session that subscribes.
type listener struct{ heard []string }

func (l *listener) Message(b []byte) { l.heard = append(l.heard, string(b)) }

const (
	subscribeNews = "*2\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n"
	newsConfirmed = "*3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n"
	feedPong      = "*2\r\n$4\r\npong\r\n$0\r\n\r\n"
)

// subscribeTo has a member listen to a channel from when the node confirms.
func (b *bench) subscribeTo(kind ChannelKind, name string) (*listener, *string) {
	member, problem := &listener{}, new(string)
	hub := b.local.Hub()
	*problem = "not told"
	hub.Subscribe(kind, []string{name}, func(text string) {
		*problem = text
		hub.Join(kind, name, member)
	})
	b.Tick()
	return member, problem
}

// TestSilentFeedIsSubscribedAnew: a connection whose other end is gone without a word brings no message and no error; it is
// found by what it does not answer.
func TestSilentFeedIsSubscribedAnew(t *testing.T) {
	b := newBench(t, Config{})
	member, problem := b.subscribeTo(Channel, "news")
	first := b.connect()
	require.Equal(t, subscribeNews, string(first.Sent))
	first.Receive([]byte(newsConfirmed))
	require.Empty(t, *problem)
	first.Sent = nil
	for range 3 { // a node that answers is left alone
		b.pass(pulse)
		require.Equal(t, string(pingCommand), string(first.Sent))
		first.Sent = nil
		first.Receive([]byte(feedPong))
	}
	b.pass(pulse)
	require.Equal(t, string(pingCommand), string(first.Sent))
	require.False(t, first.Closed)
	b.pass(pulse + feedRetry)
	require.True(t, first.Closed, "nothing has come since the node was asked for a sign of life")

	second := b.connect()
	require.Equal(t, subscribeNews, string(second.Sent))
	second.Receive([]byte(newsConfirmed))
	message := "*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$2\r\nhi\r\n"
	second.Receive([]byte(message))
	require.Equal(t, []string{message}, member.heard)
	require.EqualValues(t, 1, b.local.Stats.FeedsLost)
}

// TestFeedThatBringsMessagesIsNotSilent: they count as signs of life, whatever becomes of the answer to PING.
func TestFeedThatBringsMessagesIsNotSilent(t *testing.T) {
	b := newBench(t, Config{})
	b.subscribeTo(Channel, "news")
	link := b.connect()
	link.Receive([]byte(newsConfirmed))
	for range 5 {
		b.pass(pulse)
		link.Receive([]byte("*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$2\r\nhi\r\n"))
	}
	b.pass(time.Second)
	require.False(t, link.Closed)
}

// TestShardSubscriptionFollowsItsSlot: a node that has given the slot away answers with MOVED; the channel is subscribed at
// the node that has it once that is known.
func TestShardSubscriptionFollowsItsSlot(t *testing.T) {
	b := newBench(t, Config{Kind: Sharded})
	require.NoError(t, b.cluster.Adopt(mapOf(t, "a:1")))
	b.local.Refresh()
	member, problem := b.subscribeTo(ShardChannel, "news")
	first := b.connect()
	require.Equal(t, "*2\r\n$10\r\nssubscribe\r\n$4\r\nnews\r\n", string(first.Sent))
	require.NoError(t, b.cluster.Adopt(mapOf(t, "b:2")))
	first.Receive([]byte("-MOVED 1 b:2\r\n"))
	b.pass(feedRetry + feedRetry/2)
	require.Equal(t, "not told", *problem, "the client must not see the redirect")
	require.NotEmpty(t, b.dials)
	require.Equal(t, "b:2", b.dials[len(b.dials)-1].addr)
	second := b.connect()
	require.Equal(t, "*2\r\n$10\r\nssubscribe\r\n$4\r\nnews\r\n", string(second.Sent))
	second.Receive([]byte("*3\r\n$10\r\nssubscribe\r\n$4\r\nnews\r\n:1\r\n"))
	require.Empty(t, *problem)
	message := "*3\r\n$8\r\nsmessage\r\n$4\r\nnews\r\n$2\r\nhi\r\n"
	second.Receive([]byte(message))
	require.Equal(t, []string{message}, member.heard)
}
