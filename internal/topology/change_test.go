package topology

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMovedSlotToAnotherPrimary(t *testing.T) {
	m := mustShards(t, threeShards(resp2))
	moved := m.WithSlotMoved(100, "10.0.0.1:7003")
	requireSound(t, moved)
	require.Equal(t, "c", moved.Nodes[moved.Primary(100)].ID)
	require.Equal(t, "a", m.Nodes[m.Primary(100)].ID, "the former map is not changed")
	require.Equal(t, []Range{{0, 99}, {101, 5460}}, shardOfID(moved, "a").Slots)
	require.Equal(t, []Range{{100, 100}, {10922, 16383}}, shardOfID(moved, "c").Slots)
	require.Equal(t, SlotCount, moved.Covered())
	require.Equal(t, aliases(m), aliases(moved), "the order of shards changed, their aliases did not")
	require.Same(t, moved, moved.WithSlotMoved(100, "10.0.0.1:7003"), "nothing new")
	require.True(t, m.Equal(moved.WithSlotMoved(100, "10.0.0.1:7001")), "and back")
}

func shardOfID(m *Map, id string) *Shard {
	for i := range m.Shards {
		if m.Shards[i].Primary.ID == id {
			return &m.Shards[i]
		}
	}
	return nil
}

func TestMovedSlotToUnknownNode(t *testing.T) {
	m := mustShards(t, threeShards(resp2))
	moved := m.WithSlotMoved(0, "10.0.0.1:7009").WithSlotMoved(1, "10.0.0.1:7009")
	requireSound(t, moved)
	node := moved.Nodes[moved.Primary(1)]
	require.Equal(t, Node{Addr: "10.0.0.1:7009", Alias: "shard-3/primary", Healthy: true}, node)
	require.Equal(t, "a", moved.Nodes[moved.Primary(2)].ID)

	back := moved.WithSlotMoved(0, "10.0.0.1:7001").WithSlotMoved(1, "10.0.0.1:7001")
	require.True(t, m.Equal(back), "a node known from MOVED alone goes with its last slot")
}

func TestMovedSlotToReplicaOfItsShardIsAFailover(t *testing.T) {
	m := mustShards(t, threeShards(resp2))
	moved := m.WithSlotMoved(7, "10.0.0.1:7101")
	requireSound(t, moved)
	require.Equal(t, "ra", moved.Nodes[moved.Primary(7)].ID)
	require.Equal(t, "ra", moved.Nodes[moved.Primary(5460)].ID)
	require.Equal(t, "shard-0/primary", aliases(moved)["ra"])
	require.Equal(t, "shard-0/replica-1", aliases(moved)["a"])
	require.Len(t, moved.Nodes, 6)
}

func TestMovedSlotToReplicaOfAnotherShard(t *testing.T) {
	m := mustShards(t, threeShards(resp2))
	moved := m.WithSlotMoved(7, "10.0.0.1:7102")
	requireSound(t, moved)
	require.Equal(t, "rb", moved.Nodes[moved.Primary(7)].ID)
	require.Equal(t, "a", moved.Nodes[moved.Primary(8)].ID)
	require.Len(t, moved.Nodes, 6)
	require.Empty(t, shardOfID(moved, "b").Replicas)
}

func TestMovedSlotThatNobodyServed(t *testing.T) {
	shards := threeShards(resp2)
	m := mustShards(t, shards[1:])
	require.Equal(t, -1, m.Primary(3))
	moved := m.WithSlotMoved(3, "10.0.0.1:7002")
	requireSound(t, moved)
	require.Equal(t, "b", moved.Nodes[moved.Primary(3)].ID)
	require.Equal(t, m.Covered()+1, moved.Covered())
}

func TestMovedStormStaysBounded(t *testing.T) {
	m := mustShards(t, threeShards(resp2))
	for i := range 300 {
		m = m.WithSlotMoved(5, fmt.Sprintf("10.9.9.9:%d", i+1))
	}
	requireSound(t, m)
	require.Len(t, m.Nodes, 7)
}

func TestAliasesOutliveFailoverAndReorder(t *testing.T) {
	old := mustShards(t, threeShards(resp2)).WithSlotMoved(0, "10.0.0.1:7003")
	refreshed := threeShards(resp2)
	refreshed[0] = resp2("slots", bounds(1, 5460), "nodes", []any{
		simpleNode(resp2, "ra", "master", 7101), // took over
		simpleNode(resp2, "a", "replica", 7001),
		simpleNode(resp2, "0new", "replica", 7201), // sorts before the others
	})
	refreshed[2] = resp2("slots", bounds(0, 0, 10922, 16383), "nodes", []any{
		simpleNode(resp2, "c", "master", 7003),
		simpleNode(resp2, "0rc", "replica", 7203),
		simpleNode(resp2, "rc", "replica", 7103),
	})
	fresh := mustShards(t, refreshed)
	require.Equal(t, "shard-0/primary", aliases(fresh)["c"], "by itself the lowest slot decides")
	kept := fresh.WithAliasesOf(old)
	requireSound(t, kept)
	require.True(t, kept.Equal(fresh))
	require.Equal(t, map[string]string{
		"ra": "shard-0/primary", "0new": "shard-0/replica-1", "a": "shard-0/replica-2",
		"b": "shard-1/primary", "rb": "shard-1/replica-1",
		"c": "shard-2/primary", "rc": "shard-2/replica-1", "0rc": "shard-2/replica-2",
	}, aliases(kept))
	require.Same(t, fresh, fresh.WithAliasesOf(nil))
}

func TestAliasOfANodeThatMovedNamedFirst(t *testing.T) {
	old := mustShards(t, threeShards(resp2)[1:]).WithSlotMoved(0, "10.0.0.1:7001")
	require.Equal(t, "shard-2/primary", aliases(old)["10.0.0.1:7001"])
	kept := mustShards(t, threeShards(resp2)).WithAliasesOf(old)
	require.Equal(t, "shard-2/primary", aliases(kept)["a"])
	require.Equal(t, "shard-0/primary", aliases(kept)["b"])
}

func TestDeadPrimaryLeavesItsAliasToItsSuccessor(t *testing.T) {
	old := mustShards(t, threeShards(resp2))
	refreshed := threeShards(resp2)
	refreshed[0] = resp2("slots", bounds(0, 5460), "nodes", []any{simpleNode(resp2, "ra", "master", 7101)})
	refreshed = append(refreshed, resp2("slots", []any{}, "nodes", []any{ // as Redis 7.0 does
		resp2("id", "a", "role", "master", "health", "fail", "port", int64(7001), "endpoint", "10.0.0.1"),
	}))
	kept := mustShards(t, refreshed).WithAliasesOf(old)
	requireSound(t, kept)
	require.Equal(t, "shard-0/primary", aliases(kept)["ra"])
	require.Equal(t, "shard-3/primary", aliases(kept)["a"])
	require.False(t, kept.Nodes[kept.IndexOf("10.0.0.1:7001")].Healthy)
}
