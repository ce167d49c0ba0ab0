package e2e

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/redistest"
)

// TestPipelinedSubscriptionsAsRedis sends each batch in one write and compares every byte that comes until its last
// reply, which is to ECHO or ends the connection.
func TestPipelinedSubscriptionsAsRedis(t *testing.T) {
	t.Parallel()
	batches := []string{
		"SUBSCRIBE a|GET k|SUBSCRIBE b a|PING|UNSUBSCRIBE a|SET k v|GET k|UNSUBSCRIBE a|UNSUBSCRIBE b|PUNSUBSCRIBE",
		"SET k v|SUBSCRIBE a|PING x|PING x y|GET k|PSUBSCRIBE a* b*|UNSUBSCRIBE|PUNSUBSCRIBE b* c* a*",
		"CLIENT REPLY SKIP|SUBSCRIBE a b|PING|UNSUBSCRIBE a b c",
		"UNSUBSCRIBE|UNSUBSCRIBE|UNSUBSCRIBE x y|PUNSUBSCRIBE x|SUNSUBSCRIBE|SUNSUBSCRIBE x",
		"SUBSCRIBE a|SSUBSCRIBE a|PSUBSCRIBE a|SUNSUBSCRIBE a|UNSUBSCRIBE a|PUNSUBSCRIBE a",
		"SUBSCRIBE|PSUBSCRIBE|SSUBSCRIBE|MULTI|SUBSCRIBE|EXEC",
		"SUBSCRIBE a|PUBSUB CHANNELS|PUBSUB NUMSUB a|CLIENT GETNAME|SELECT 1|UNSUBSCRIBE",
		"SUBSCRIBE a|MULTI|PING|DISCARD|UNSUBSCRIBE a",
	}
	p := startPair(t)
	for _, protocol := range []int{2, 3} {
		for _, batch := range batches {
			t.Run(fmt.Sprint("RESP", protocol, " ", batch), func(t *testing.T) {
				through, direct := p.dial(t, protocol)
				defer through.Close()
				defer direct.Close()
				require.Equal(t, playBatch(t, direct, batch), playBatch(t, through, batch))
			})
		}
	}
}

func playBatch(t *testing.T, c *redistest.Conn, batch string) string {
	t.Helper()
	var raw strings.Builder
	for _, line := range strings.Split(batch, "|") {
		raw.WriteString(redistest.Command(strings.Fields(line)...))
	}
	c.Send(raw.String() + redistest.Command("ECHO", "the end"))
	var heard strings.Builder
	for {
		reply := c.ReadReply()
		heard.Write(reply)
		if bytes.Contains(reply, []byte("the end")) || bytes.Contains(reply, []byte("'echo'")) {
			return heard.String()
		}
	}
}

// TestThousandsOfChannelsAreSubscribedAnew: when the connection is lost, all channels come back, and the loss is counted.
func TestThousandsOfChannelsAreSubscribedAnew(t *testing.T) {
	t.Parallel()
	const channels = 12_000
	server := redistest.Standalone(t)
	p := startProxy(t, standaloneYAML(server.Addr(), "loops: 1"))
	c, publisher := redistest.Dial(t, p.Addr), redistest.Dial(t, p.Addr)
	args := []string{"SUBSCRIBE"}
	for i := range channels {
		args = append(args, fmt.Sprint("channel:", i))
	}
	c.SendCommand(args...)
	for range channels {
		c.ReadReply()
	}
	server.Do("CLIENT", "KILL", "TYPE", "pubsub")
	await(t, func() bool {
		return string(publisher.Do("PUBLISH", fmt.Sprint("channel:", channels-1), "again")) == ":1\r\n" &&
			string(publisher.Do("PUBLISH", "channel:0", "again")) == ":1\r\n"
	})
	require.Contains(t, string(c.ReadReply()), "again")
	await(t, func() bool {
		return strings.HasPrefix(string(server.Do("PUBSUB", "CHANNELS")), fmt.Sprintf("*%d\r\n", channels))
	})
	require.InDelta(t, 1, p.metric(t, "sluice_subscription_connections_lost_total"), 0)
	require.InDelta(t, channels, p.metric(t, "sluice_subscriptions", `kind="channel"`), 0)
}

// TestARefusedSubscriptionIsTold: the client gets the node's error, and others keep what they listen to.
func TestARefusedSubscriptionIsTold(t *testing.T) {
	t.Parallel()
	p := startPair(t)
	listener, _ := p.dial(t, 2)
	listener.Do("SUBSCRIBE", "open:1")
	for _, s := range []*redistest.Server{p.backend, p.direct} {
		require.Equal(t, "+OK\r\n", string(s.Do("ACL", "SETUSER", "default", "resetchannels", "&open:*")))
	}
	through, direct := p.dial(t, 3)
	for _, line := range []string{"SUBSCRIBE secret", "SUBSCRIBE open:2 secret", "PSUBSCRIBE *", "SUBSCRIBE open:2", "SET k v"} {
		require.Equal(t, string(direct.Do(strings.Fields(line)...)), string(through.Do(strings.Fields(line)...)), line)
	}
	require.Equal(t, ":1\r\n", string(through.Do("PUBLISH", "open:1", "x")))
	require.Contains(t, string(listener.ReadReply()), "x")
	require.InDelta(t, 0, p.proxy.metric(t, "sluice_subscription_connections_lost_total"), 0)
	await(t, func() bool {
		return string(p.backend.Do("PUBSUB", "NUMSUB", "open:2")) == "*2\r\n$6\r\nopen:2\r\n:1\r\n"
	})
}

// TestSubscribeDoesNotWaitForever: while no node can be reached, the client gets an error and may go on.
func TestSubscribeDoesNotWaitForever(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	relay := redistest.NewFaultyProxy(t, server.Addr())
	p := startProxy(t, tenantYAML("standalone", []string{relay.Addr()}, "command_timeout: 1s"))
	p.awaitReady(t)
	c := hello(t, p.Addr, 3)
	relay.RefuseNew()
	relay.Cut()
	require.Contains(t, string(within(t, 5*time.Second, func() []byte { return c.Do("SUBSCRIBE", "a") })), "-ERR upstream unavailable")
	require.Equal(t, "+PONG\r\n", string(c.Do("PING")))
	relay.Heal()
	await(t, func() bool { return strings.Contains(string(c.Do("SUBSCRIBE", "a")), "subscribe") })
	publisher := redistest.Dial(t, p.Addr)
	await(t, func() bool { return string(publisher.Do("PUBLISH", "a", "x")) == ":1\r\n" })
	require.InDelta(t, 1, p.metric(t, "sluice_subscriptions", `kind="channel"`), 0)
}

// TestSubscribedClientsMayBeSilent: an idle timeout is for clients that wait for nothing.
func TestSubscribedClientsMayBeSilent(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	p := startProxy(t, standaloneYAML(server.Addr(), "clients: {idle_timeout: 1s}"))
	p.awaitReady(t)
	c, idle := redistest.Dial(t, p.Addr), redistest.Dial(t, p.Addr)
	c.Do("SUBSCRIBE", "a")
	idle.Do("PING")
	idle.RequireClosed() // by then the other would be, too: it has been silent for longer
	server.Do("PUBLISH", "a", "still there")
	require.Contains(t, string(c.ReadReply()), "still there")
	c.Do("UNSUBSCRIBE")
	c.RequireClosed()
}

// TestAnotherTenantLeavesTheChannels: messages of one tenant's cluster must not reach a client that has become another's.
func TestAnotherTenantLeavesTheChannels(t *testing.T) {
	t.Parallel()
	first, second := redistest.Standalone(t), redistest.Standalone(t)
	p := startProxy(t, fmt.Sprintf(`
listeners: [{address: "127.0.0.1:0"}]
admin: {address: "127.0.0.1:0"}
clusters: [{name: one, kind: standalone, addresses: ["%s"]}, {name: two, kind: standalone, addresses: ["%s"]}]
tenants:
- {name: acme, cluster: one, users: [{name: ann, sha256: "%s"}]}
- {name: bolt, cluster: two, users: [{name: bob, sha256: "%s"}]}
`, first.Addr(), second.Addr(), sha256Hex("a"), sha256Hex("b")))
	p.awaitReady(t)
	c := redistest.Dial(t, p.Addr)
	c.Do("HELLO", "3", "AUTH", "ann", "a")
	require.Contains(t, string(c.Do("SUBSCRIBE", "news")), "subscribe")
	require.Equal(t, "+OK\r\n", string(c.Do("AUTH", "bob", "b")))
	require.Equal(t, "*0\r\n", string(c.Do("PUBSUB", "CHANNELS")))
	await(t, func() bool { return string(first.Do("PUBLISH", "news", "for acme")) == ":0\r\n" })
	require.Contains(t, string(c.Do("SUBSCRIBE", "news")), ":1\r\n")
	require.Equal(t, ":1\r\n", string(second.Do("PUBLISH", "news", "for bolt")))
	require.Contains(t, string(c.ReadReply()), "for bolt")
}
