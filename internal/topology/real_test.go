package topology_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/topology"
)

// ask gives the maps that one node's three commands lead to.
func ask(t *testing.T, server *redistest.Server, protocol int) (shards, slots, nodes *topology.Map) {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), Protocol: protocol})
	defer func() { require.NoError(t, client.Close()) }()
	do := func(args ...any) any {
		v, err := client.Do(context.Background(), args...).Result()
		require.NoError(t, err)
		return v
	}
	from, ok := topology.EndpointAt(server.Addr(), false)
	require.True(t, ok)
	info, ok := topology.ParseInfo(do("CLUSTER", "INFO").(string))
	require.True(t, ok)
	shards, err := topology.ParseShards(do("CLUSTER", "SHARDS"), from)
	require.NoError(t, err)
	slots, err = topology.ParseSlots(do("CLUSTER", "SLOTS"), from)
	require.NoError(t, err)
	nodes, err = topology.ParseNodes(do("CLUSTER", "NODES").(string), from)
	require.NoError(t, err)
	return shards.WithInfo(info), slots.WithInfo(info), nodes
}

func requireServes(t *testing.T, m *topology.Map, slot int, server *redistest.Server) {
	t.Helper()
	primary := m.Primary(uint16(slot))
	require.GreaterOrEqual(t, primary, 0)
	require.Equal(t, server.Addr(), m.Nodes[primary].Addr)
}

func TestMapsOfARealCluster(t *testing.T) {
	c := redistest.Cluster(t, 3, 3)
	var first *topology.Map
	for _, server := range c.Servers() {
		for _, protocol := range []int{2, 3} {
			shards, slots, nodes := ask(t, server, protocol)
			require.NoError(t, shards.Validate())
			require.Equal(t, topology.SlotCount, shards.Covered())
			require.Len(t, shards.Nodes, 6)
			require.True(t, shards.Equal(slots), "CLUSTER SHARDS and SLOTS agree")
			require.True(t, shards.Equal(nodes), "CLUSTER SHARDS and NODES agree")
			require.False(t, shards.Minority)
			require.NotZero(t, nodes.Epoch)
			if first == nil {
				first = shards
			}
			require.True(t, first.Equal(shards), "all nodes agree")
		}
	}
	requireServes(t, first, 0, c.Primaries[0])
	requireServes(t, first, 16383, c.Primaries[2])

	t.Run("a moved slot", func(t *testing.T) { followMove(t, c, first) })
	t.Run("a failover", func(t *testing.T) { followFailover(t, c) })
}

func followMove(t *testing.T, c *redistest.ClusterServers, before *topology.Map) {
	const key = "{moved}"
	slot := c.Slot(key)
	from := c.NodeForSlot(slot)
	to := c.Primaries[0]
	if from == to {
		to = c.Primaries[1]
	}
	c.MoveSlot(slot, from, to)
	kind, told, addr, ok := topology.ParseRedirect(from.Do("GET", key))
	require.True(t, ok)
	require.Equal(t, topology.RedirectMoved, kind)
	require.Equal(t, slot, int(told))
	endpoint, _ := topology.EndpointAt(from.Addr(), false)
	target, ok := endpoint.Resolve(addr)
	require.True(t, ok)
	require.Equal(t, to.Addr(), target)

	after, _, _ := ask(t, to, 3)
	require.True(t, after.Equal(before.WithSlotMoved(told, target)), "the patch foretells the refresh")
	require.True(t, after.Supersedes(before))
	require.False(t, before.Supersedes(after), "the map from before the move is recognised as old")
}

func followFailover(t *testing.T, c *redistest.ClusterServers) {
	before, _, nodesBefore := ask(t, c.Primaries[1], 3)
	dead := c.Primaries[2]
	dead.Kill()
	successor := c.AwaitFailover(dead)
	shards, _, nodes := ask(t, c.Primaries[0], 3)
	requireServes(t, shards, 16383, successor)
	requireServes(t, nodes, 16383, successor)
	require.True(t, shards.Supersedes(before))
	require.False(t, before.Supersedes(shards))
	require.True(t, nodes.Supersedes(nodesBefore))
	require.False(t, nodesBefore.Supersedes(nodes))

	kept := shards.WithAliasesOf(before)
	alias := func(m *topology.Map) string { return m.Nodes[m.Primary(16383)].Alias }
	require.Equal(t, alias(before), alias(kept), "the shard keeps its alias through a failover")
	require.False(t, kept.Nodes[kept.IndexOf(dead.Addr())].Healthy)
}

func TestMapsOfACutOffNode(t *testing.T) {
	c := redistest.Cluster(t, 3, 0)
	whole, _, wholeNodes := ask(t, c.Primaries[0], 2)
	c.Primaries[1].Stop()
	c.Primaries[2].Stop()
	require.Eventually(t, func() bool {
		cut, _, cutNodes := ask(t, c.Primaries[0], 2)
		return cut.Minority && cutNodes.Minority && !cut.Supersedes(whole) && !cutNodes.Supersedes(wholeNodes)
	}, waitLimit, pollEvery)
	c.Primaries[1].Continue()
	c.Primaries[2].Continue()
	c.AwaitSettled()
	healed, _, healedNodes := ask(t, c.Primaries[0], 2)
	require.True(t, healed.Supersedes(whole))
	require.True(t, healedNodes.Supersedes(wholeNodes))
}

const (
	waitLimit = 30 * time.Second
	pollEvery = 50 * time.Millisecond
)
