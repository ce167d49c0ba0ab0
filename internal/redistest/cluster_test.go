package redistest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestClusterServesMovesAndFailsOver(t *testing.T) {
	LeakCheck(t)
	c := Cluster(t, 3, 3)
	require.Len(t, c.Addrs(), 6)

	t.Run("keys live where NodeFor says", func(t *testing.T) {
		for i := range 20 {
			key := fmt.Sprint("key-", i)
			require.Equal(t, "+OK\r\n", string(c.NodeFor(key).Do("SET", key, "v")))
		}
		other := c.Primaries[0]
		if c.NodeFor("key-1") == other {
			other = c.Primaries[1]
		}
		require.True(t, strings.HasPrefix(string(other.Do("GET", "key-1")), "-MOVED "))
	})
	t.Run("a slot in the middle of its move", func(t *testing.T) { migrateStepwise(t, c) })
	t.Run("a whole slot moves", func(t *testing.T) {
		slot := c.Slot("{m}")
		from := c.NodeForSlot(slot)
		to := c.Primaries[0]
		if from == to {
			to = c.Primaries[1]
		}
		for i := range migrateBatch + 5 {
			from.Do("SET", fmt.Sprint("{m}", i), "v")
		}
		c.MoveSlot(slot, from, to)
		require.Same(t, to, c.NodeForSlot(slot))
		require.Equal(t, ":0", keysOf(from, slot))
		require.Equal(t, fmt.Sprint(":", migrateBatch+5), keysOf(to, slot))
	})
	t.Run("a wanted failover", func(t *testing.T) {
		replica := c.ReplicaOf(c.Primaries[1])
		require.Same(t, replica, c.Failover(c.Primaries[1]))
		require.Same(t, c.Primaries[1], c.ReplicaOf(replica))
		c.AwaitSettled()
	})
	t.Run("a dead primary is replaced and comes back as a replica", func(t *testing.T) {
		dead := c.Primaries[2]
		dead.Kill()
		successor := c.AwaitFailover(dead)
		require.NotSame(t, dead, successor)
		dead.Restart()
		c.AwaitSettled()
		require.Same(t, dead, c.ReplicaOf(successor))
	})
}

func migrateStepwise(t *testing.T, c *ClusterServers) {
	slot := c.Slot("{s}")
	from := c.NodeForSlot(slot)
	to := c.Primaries[2]
	if from == to {
		to = c.Primaries[0]
	}
	from.Do("MSET", "{s}1", "a", "{s}2", "b")
	m := c.StartMigration(slot, from, to)
	m.MoveKey("{s}1")
	require.True(t, strings.HasPrefix(string(from.Do("GET", "{s}1")), "-ASK "))
	require.Equal(t, "$1\r\nb\r\n", string(from.Do("GET", "{s}2")))
	require.True(t, strings.HasPrefix(string(from.Do("MGET", "{s}1", "{s}2")), "-TRYAGAIN"))
	require.Equal(t, 1, m.MoveKeys(10))
	m.Finish()
	require.True(t, strings.HasPrefix(string(from.Do("GET", "{s}1")), "-MOVED "))
	require.Equal(t, "$1\r\na\r\n", string(to.Do("GET", "{s}1")))
}

func TestClusterWithPasswordAndTLS(t *testing.T) {
	c := Cluster(t, 2, 0, WithPassword("secret"), WithTLS(NewTLSFiles(t)))
	slot := c.Slot("{p}")
	from, to := c.Primaries[0], c.Primaries[1]
	if c.NodeForSlot(slot) != from {
		from, to = to, from
	}
	from.Do("SET", "{p}", "v")
	c.MoveSlot(slot, from, to)
	require.Equal(t, "$1\r\nv\r\n", string(to.Do("GET", "{p}")))
}

func keysOf(s *Server, slot int) string {
	return strings.TrimSpace(string(s.Do("CLUSTER", "COUNTKEYSINSLOT", fmt.Sprint(slot))))
}
