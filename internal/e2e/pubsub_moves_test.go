package e2e

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/redistest"
)

// TestShardSubscriptionsFollowTheirSlots: the proxy learns of a move from the node that it asks, whether the subscription
// was there before or comes after.
func TestShardSubscriptionsFollowTheirSlots(t *testing.T) {
	t.Parallel()
	servers := redistest.Cluster(t, 2, 0)
	p := clusterProxy(t, servers, "")
	before, after := hello(t, p.Addr, 3), hello(t, p.Addr, 2)
	const channel = "{moving}.early"
	require.Contains(t, string(before.Do("SSUBSCRIBE", channel)), "ssubscribe")
	number := servers.Slot(channel)
	from := servers.NodeForSlot(number)
	to := servers.Primaries[0]
	if to == from {
		to = servers.Primaries[1]
	}
	servers.MoveSlot(number, from, to)

	reply := string(after.Do("SSUBSCRIBE", "{moving}.late"))
	require.Equal(t, "*3\r\n$10\r\nssubscribe\r\n$13\r\n{moving}.late\r\n:1\r\n", reply)
	for _, of := range []struct {
		c    *redistest.Conn
		name string
	}{{before, channel}, {after, "{moving}.late"}} {
		// The new owner's own clients are heard: the subscription is there, and nothing else brings the message.
		require.Eventually(t, func() bool { return string(to.Do("SPUBLISH", of.name, "hi")) == ":1\r\n" }, eventually, tick)
		message := string(of.c.ReadReply())
		require.Contains(t, message, "smessage")
		require.Contains(t, message, of.name)
	}
	require.Equal(t, "*0\r\n", string(from.Do("PUBSUB", "SHARDCHANNELS")))
}
