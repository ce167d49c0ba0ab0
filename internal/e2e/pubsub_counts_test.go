package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/redistest"
)

// TestReceiversAreCountedAsRedis plays dialogues of several clients through the proxy and directly. "1: SUBSCRIBE a" is
// sent by client 1, whose answer is compared; "1<" reads one more message of it. Clients from 5 on speak RESP3.
func TestReceiversAreCountedAsRedis(t *testing.T) {
	t.Parallel()
	dialogues := []string{
		"9: PUBLISH a x|9: PUBSUB NUMSUB a|9: PUBSUB CHANNELS|9: PUBSUB NUMPAT|9: SPUBLISH a x|9: PUBSUB SHARDCHANNELS|9: PUBSUB SHARDNUMSUB a",
		"1: SUBSCRIBE a|2: SUBSCRIBE a|5: SUBSCRIBE a|9: PUBLISH a x|1<|2<|5<|9: PUBLISH b x|9: PUBSUB NUMSUB a b a|9: PUBSUB CHANNELS",
		"1: PSUBSCRIBE a*|2: PSUBSCRIBE a*|5: PSUBSCRIBE [ab]|9: PUBLISH a x|9: PUBLISH A x|9: PUBLISH b x|9: PUBSUB NUMPAT|9: PUBSUB NUMSUB a|9: PUBSUB CHANNELS",
		"1: SUBSCRIBE a|1: PSUBSCRIBE ?|2: PSUBSCRIBE [^b]*|9: PUBLISH a x|1<|1<|2<|9: PUBSUB NUMPAT|1: PUNSUBSCRIBE ?|9: PUBLISH b x",
		"1: SSUBSCRIBE s|2: SSUBSCRIBE s|2: SSUBSCRIBE t|9: SPUBLISH s x|1<|2<|9: PUBLISH s x|9: PUBSUB SHARDNUMSUB s t u|9: PUBSUB SHARDCHANNELS t*|9: PUBSUB CHANNELS",
		"1: SUBSCRIBE a|2: SUBSCRIBE a|1: UNSUBSCRIBE a|9: PUBLISH a x|2<|9: PUBSUB NUMSUB a",
		"1: SUBSCRIBE a|2: SUBSCRIBE a|9: MULTI|9: PUBLISH a x|9: SET k v|9: publish b y|9: PUBLISH a|9: DISCARD",
		"1: SUBSCRIBE a|2: SUBSCRIBE a|9: MULTI|9: PUBLISH a x|9: SET k v|9: publish b y|9: LPUSH k v|9: SPUBLISH a x|9: EXEC|1<|2<",
		"1: SUBSCRIBE a|2: SUBSCRIBE a|8: WATCH k|8: MULTI|8: PUBLISH a x|8: GET k|8: EXEC|1<|2<",
		"9: PUBSUB|9: PUBSUB NOPE|9: PUBSUB CHANNELS a b|9: PUBSUB NUMPAT x|9: PUBSUB NUMSUB|9: PUBSUB SHARDNUMSUB|9: PUBLISH a|9: SPUBLISH a b c|9: PUBSUB HELP",
		"1: SUBSCRIBE a|1: PUBSUB NUMSUB a|1: PUBLISH a x|1: PING",
		"1: SUBSCRIBE a|1: SUBSCRIBE a b a|1<|1<|1: UNSUBSCRIBE b x a|1<|1<|9: PUBLISH a x",
	}
	p := startPair(t, "loops: 2")
	for _, dialogue := range dialogues {
		t.Run(dialogue, func(t *testing.T) {
			p.flush(t)
			want := playClients(t, p.direct.Addr(), dialogue)
			got := playClients(t, p.proxy.Addr, dialogue)
			require.Equal(t, want, got)
			await(t, func() bool {
				return string(p.backend.Do("PUBSUB", "CHANNELS"))+string(p.backend.Do("PUBSUB", "NUMPAT")) == "*0\r\n:0\r\n"
			})
		})
	}
}

func playClients(t *testing.T, addr, dialogue string) (heard []string) {
	t.Helper()
	clients := make(map[byte]*redistest.Conn)
	client := func(name byte) *redistest.Conn {
		if clients[name] == nil {
			clients[name] = hello(t, addr, 2+int(name-'0')/5)
		}
		return clients[name]
	}
	for _, step := range strings.Split(dialogue, "|") {
		c := client(step[0])
		if step[1] == '<' {
			heard = append(heard, step+" "+string(c.ReadReply()))
			continue
		}
		heard = append(heard, step+" "+string(c.Do(strings.Fields(step[2:])...)))
	}
	for _, c := range clients {
		c.Close()
	}
	return heard
}

// TestDirectSubscribersAreCountedToo: clients that are not the proxy's are in the numbers as well.
func TestDirectSubscribersAreCountedToo(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	p := startProxy(t, standaloneYAML(server.Addr()))
	p.awaitReady(t)
	publisher := redistest.Dial(t, p.Addr)
	for i := range 3 {
		redistest.Dial(t, server.Addr()).Do("SUBSCRIBE", "news")
		require.Equal(t, fmt.Sprintf(":%d\r\n", 2*i+1), string(publisher.Do("PUBLISH", "news", "x")))
		redistest.Dial(t, p.Addr).Do("SUBSCRIBE", "news")
		require.Equal(t, fmt.Sprintf(":%d\r\n", 2*i+2), string(publisher.Do("PUBLISH", "news", "x")))
	}
	require.Equal(t, "*2\r\n$4\r\nnews\r\n:6\r\n", string(publisher.Do("PUBSUB", "NUMSUB", "news")))
	require.Equal(t, ":6\r\n", string(publisher.Do("PUBLISH", "news", strings.Repeat("x", 400_000))), "also where the message is passed on as it comes")
}

// TestChannelsOfAWholeCluster: what PUBSUB tells is of all nodes, and each channel is named and counted once.
func TestChannelsOfAWholeCluster(t *testing.T) {
	t.Parallel()
	servers := redistest.Cluster(t, 3, 0)
	p := clusterProxy(t, servers, "", "loops: 2")
	publisher := redistest.Dial(t, p.Addr)
	subscribers := make([]*redistest.Conn, 3)
	for i := range subscribers {
		c := hello(t, p.Addr, 3)
		subscribers[i] = c
		require.Contains(t, string(c.Do("SUBSCRIBE", "everywhere")), "subscribe")
		require.Contains(t, string(c.Do("PSUBSCRIBE", "every*")), "subscribe")
		require.Contains(t, string(c.Do("SSUBSCRIBE", keyOfShard(i, "s"))), "subscribe")
	}
	require.Equal(t, ":6\r\n", string(publisher.Do("PUBLISH", "everywhere", "x")))
	require.Equal(t, ":6\r\n", string(publisher.Do("PUBLISH", "everywhere", strings.Repeat("x", 400_000))))
	direct := redistest.Dial(t, servers.Servers()[0].Addr())
	direct.Do("SUBSCRIBE", "everywhere")
	redistest.Dial(t, servers.Servers()[1].Addr()).Do("SUBSCRIBE", "elsewhere")
	require.Equal(t, "*4\r\n$10\r\neverywhere\r\n:4\r\n$9\r\nelsewhere\r\n:1\r\n", string(publisher.Do("PUBSUB", "NUMSUB", "everywhere", "elsewhere")))
	require.Equal(t, ":1\r\n", string(publisher.Do("PUBSUB", "NUMPAT")))
	require.Equal(t, renderUnordered([]byte("*2\r\n$9\r\nelsewhere\r\n$10\r\neverywhere\r\n")), renderUnordered(publisher.Do("PUBSUB", "CHANNELS", "e*")))
	require.Equal(t, "*0\r\n", string(publisher.Do("PUBSUB", "CHANNELS", "x")))
	require.Contains(t, string(publisher.Do("PUBSUB", "SHARDCHANNELS")), "*3\r\n")
	for i := range subscribers {
		channel := keyOfShard(i, "s")
		require.Equal(t, ":1\r\n", string(publisher.Do("SPUBLISH", channel, "x")))
		require.Equal(t, fmt.Sprintf("*2\r\n$%d\r\n%s\r\n:1\r\n", len(channel), channel), string(publisher.Do("PUBSUB", "SHARDNUMSUB", channel)))
	}
}
