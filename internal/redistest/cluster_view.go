package redistest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// nodeView is one line of CLUSTER NODES.
type nodeView struct {
	id      string
	flags   []string
	primary string // id of the node that it follows, empty for a primary
	slots   []string
}

func (n *nodeView) has(flag string) bool { return slices.Contains(n.flags, flag) }

// serves says whether slot is among the node's ranges.
func (n *nodeView) serves(slot int) bool {
	for _, text := range n.slots {
		first, last, isRange := strings.Cut(text, "-")
		if !isRange {
			last = first
		}
		low, errLow := strconv.Atoi(first)
		high, errHigh := strconv.Atoi(last)
		if errLow == nil && errHigh == nil && low <= slot && slot <= high {
			return true
		}
	}
	return false
}

// viewOf is how s sees its cluster.
func viewOf(s *Server) ([]nodeView, error) {
	raw, err := s.tryDo("CLUSTER", "NODES")
	if err != nil {
		return nil, err
	}
	text, ok := decode(raw).(string)
	if !ok {
		return nil, fmt.Errorf("cannot read cluster nodes: %q", raw)
	}
	var view []nodeView
	for line := range strings.Lines(text) {
		if fields := strings.Fields(line); len(fields) >= 8 {
			view = append(view, nodeFromFields(fields))
		}
	}
	return view, nil
}

func nodeFromFields(fields []string) nodeView {
	n := nodeView{id: fields[0], flags: strings.Split(fields[2], ","), slots: fields[8:]}
	if fields[3] != "-" {
		n.primary = fields[3]
	}
	return n
}

// find looks one running node's view through for the first node that fits.
func (c *ClusterServers) find(fits func(n *nodeView) bool) *Server {
	for _, s := range c.running() {
		view, err := viewOf(s)
		if err != nil {
			continue
		}
		for i := range view {
			if fits(&view[i]) {
				return c.byID(view[i].id)
			}
		}
		return nil
	}
	return nil
}

// Slot is the key's slot as Redis computes it.
func (c *ClusterServers) Slot(key string) int {
	c.t.Helper()
	return c.running()[0].mustDo("CLUSTER", "KEYSLOT", key).(int)
}

// NodeFor is the primary that serves key now.
func (c *ClusterServers) NodeFor(key string) *Server {
	c.t.Helper()
	return c.NodeForSlot(c.Slot(key))
}

// NodeForSlot is the primary that serves slot now.
func (c *ClusterServers) NodeForSlot(slot int) *Server {
	c.t.Helper()
	owner := c.find(func(n *nodeView) bool { return n.serves(slot) })
	if owner == nil {
		c.t.Fatalf("slot %d has no node", slot)
	}
	return owner
}

// ReplicaOf is a running replica of primary; it waits until there is one.
func (c *ClusterServers) ReplicaOf(primary *Server) *Server {
	c.t.Helper()
	var replica *Server
	c.eventually("the node has a running replica", func() bool {
		replica = c.find(func(n *nodeView) bool {
			return n.primary == c.ids[primary] && c.isRunning(n.id)
		})
		return replica != nil
	})
	return replica
}
