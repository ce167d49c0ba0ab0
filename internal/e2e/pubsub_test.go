package e2e

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/redistest"
)

// TestSubscriptionsAsRedis plays dialogues through the proxy and directly and compares every byte. "<" reads one more
// message, ">" publishes from another client.
func TestSubscriptionsAsRedis(t *testing.T) {
	t.Parallel()
	dialogues := []string{
		"SUBSCRIBE a|> a hello|<|UNSUBSCRIBE a|PING",
		"SUBSCRIBE a b|<|> b x|<|> a y|<|UNSUBSCRIBE a b|<",
		"SUBSCRIBE a a|<|UNSUBSCRIBE",
		"PSUBSCRIBE n.*|> n.1 x|<|PUNSUBSCRIBE|PING",
		"PSUBSCRIBE n.*|SUBSCRIBE n.1|> n.1 x|<|<|UNSUBSCRIBE|PUNSUBSCRIBE",
		"SSUBSCRIBE s|SUNSUBSCRIBE s",
		"UNSUBSCRIBE|PUNSUBSCRIBE|SUNSUBSCRIBE|UNSUBSCRIBE nope",
		"SUBSCRIBE a|PING|PING x|GET k|SET k v|UNSUBSCRIBE|GET k",
		"SUBSCRIBE a|RESET|GET k",
		"SUBSCRIBE a|QUIT",
		"SUBSCRIBE",
	}
	direct, backend := redistest.Standalone(t), redistest.Standalone(t)
	p := startProxy(t, standaloneYAML(backend.Addr()))
	for _, hello := range []string{"HELLO 2", "HELLO 3"} {
		for _, dialogue := range dialogues {
			t.Run(hello+" "+dialogue, func(t *testing.T) {
				require.Equal(t, playSubscription(t, direct.Addr(), hello, dialogue), playSubscription(t, p.Addr, hello, dialogue))
			})
		}
	}
}

func playSubscription(t *testing.T, addr, hello, dialogue string) string {
	t.Helper()
	c, publisher := redistest.Dial(t, addr), redistest.Dial(t, addr)
	defer c.Close()
	defer publisher.Close()
	c.Do(strings.Fields(hello)...)
	c.Do("DEL", "k")
	var heard strings.Builder
	for _, step := range strings.Split(dialogue, "|") {
		switch {
		case step == "<":
			heard.Write(c.ReadReply())
		case strings.HasPrefix(step, "> "):
			publisher.Do(append([]string{"PUBLISH"}, strings.Fields(step)[1:]...)...)
		default:
			heard.Write(c.Do(strings.Fields(step)...))
		}
	}
	return heard.String()
}

// TestManySubscribersShareAConnection counts the connections of the backend while hundreds listen.
func TestManySubscribersShareAConnection(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	p := startProxy(t, standaloneYAML(server.Addr(), "loops: 1"))
	publisher := redistest.Dial(t, p.Addr)
	p.awaitReady(t)
	publisher.Do("GET", "k") // opens the shared pipe
	before := connectedClients(server)
	const subscribers = 300
	conns := make([]*redistest.Conn, subscribers)
	for i := range conns {
		conns[i] = redistest.Dial(t, p.Addr)
		require.Equal(t, "*3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n", string(conns[i].Do("SUBSCRIBE", "news")))
	}
	require.LessOrEqual(t, connectedClients(server), before+1, "one connection for all subscribers")
	publisher.Do("PUBLISH", "news", "hello")
	for _, c := range conns {
		require.Equal(t, "*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$5\r\nhello\r\n", string(c.ReadReply()))
		c.Close()
	}
	await(t, func() bool { return string(server.Do("PUBSUB", "NUMSUB", "news")) == "*2\r\n$4\r\nnews\r\n:0\r\n" })
	await(t, func() bool { return connectedClients(server) <= before })
}

// TestSubscriptionsSurviveALostConnection kills the proxy's connections at the backend.
func TestSubscriptionsSurviveALostConnection(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	p := startProxy(t, standaloneYAML(server.Addr()))
	c := redistest.Dial(t, p.Addr)
	c.Do("SUBSCRIBE", "news")
	server.Do("CLIENT", "KILL", "TYPE", "pubsub")
	await(t, func() bool { return string(server.Do("PUBLISH", "news", "again")) == ":1\r\n" })
	require.Contains(t, string(c.ReadReply()), "again")
}

func TestShardSubscriptionsOnACluster(t *testing.T) {
	t.Parallel()
	servers := redistest.Cluster(t, 3, 0)
	p := startProxy(t, clusterYAML(servers.Addrs()))
	c, publisher := redistest.Dial(t, p.Addr), redistest.Dial(t, p.Addr)
	await(t, func() bool { return string(publisher.Do("SET", "a", "1")) == "+OK\r\n" })
	for _, channel := range []string{"a", "b", "c", "d"} {
		require.Contains(t, string(c.Do("SSUBSCRIBE", channel)), "ssubscribe")
		require.Equal(t, ":1\r\n", string(publisher.Do("SPUBLISH", channel, "to "+channel)))
		require.Contains(t, string(c.ReadReply()), "to "+channel)
	}
	require.Contains(t, string(c.Do("SSUBSCRIBE", "x", "y")), "CROSSSLOT")
	require.Contains(t, string(c.Do("SUBSCRIBE", "everywhere")), "subscribe")
	publisher.Do("PUBLISH", "everywhere", "to all")
	require.Contains(t, string(c.ReadReply()), "to all")
	from, to := servers.NodeFor("a"), servers.NodeFor("b")
	if from == to {
		to = servers.NodeFor("c")
	}
	if from != to {
		servers.MoveSlot(servers.Slot("a"), from, to)
		publisher.Do("GET", "a")
		await(t, func() bool { return string(publisher.Do("SPUBLISH", "a", "after the move")) == ":1\r\n" })
		require.Contains(t, string(c.ReadReply()), "after the move")
	}
}
