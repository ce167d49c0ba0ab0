package redistest

import "strings"

// Failover hands primary's slots to one of its replicas as an operator would
// (CLUSTER FAILOVER, no write is lost) and returns the new primary when the
// cluster has settled.
func (c *ClusterServers) Failover(primary *Server) *Server {
	c.t.Helper()
	replica := c.ReplicaOf(primary)
	replica.mustDo("CLUSTER", "FAILOVER")
	c.awaitPromotion(replica)
	c.AwaitSettled()
	return replica
}

// AwaitFailover returns the replica that the cluster itself has put in the
// place of dead, which a test has killed or stopped.
func (c *ClusterServers) AwaitFailover(dead *Server) *Server {
	c.t.Helper()
	slot := c.slotAtStart(dead)
	var successor *Server
	c.eventually("a replica takes over", func() bool {
		successor = c.find(func(n *nodeView) bool { return n.serves(slot) })
		return successor != nil && successor != dead
	})
	c.awaitPromotion(successor)
	return successor
}

// slotAtStart is a slot of the shard in which s started.
func (c *ClusterServers) slotAtStart(s *Server) int {
	for i, server := range c.Servers() {
		if server == s {
			first, _ := evenShare(i%len(c.Primaries), len(c.Primaries))
			return first
		}
	}
	return 0
}

func (c *ClusterServers) awaitPromotion(s *Server) {
	c.t.Helper()
	c.eventually("the replica is primary", func() bool {
		role, err := s.tryDo("ROLE")
		return err == nil && strings.Contains(string(role), "master\r\n")
	})
	c.eventually("nodes know the new primary", func() bool { return c.believedPrimary(s) })
}

// believedPrimary says whether all nodes that answer hold s for a primary.
func (c *ClusterServers) believedPrimary(s *Server) bool {
	for _, observer := range c.running() {
		view, err := viewOf(observer)
		if err != nil {
			return false
		}
		for i := range view {
			if view[i].id == c.ids[s] && (view[i].primary != "" || len(view[i].slots) == 0) {
				return false
			}
		}
	}
	return true
}
