package topology

import "fmt"

// SlotCount is the number of hash slots of a cluster.
const SlotCount = 16384

// Role says what a node does for its shard.
type Role uint8

// The roles of a node.
const (
	RolePrimary Role = iota
	RoleReplica
)

func (r Role) String() string {
	if r == RoleReplica {
		return "replica"
	}
	return "primary"
}

// Node is one server as a Map knows it.
type Node struct {
	// ID is the cluster's own id of the node; empty if it gave none.
	ID string
	// Addr is host:port to dial, an IPv6 host in brackets. Never shown to anyone.
	Addr string
	// Alias names the node without its address: "shard-0/primary",
	// "shard-0/replica-1". Safe for logs, labels and clients.
	Alias string
	Role  Role
	// Healthy is false if the cluster has declared the node failed, and for a
	// replica that has no data yet.
	Healthy bool
}

// String is the alias, so that a node that is printed by mistake tells no address.
func (n Node) String() string { return n.Alias }

// Range is the slots from First to Last, both included.
type Range struct{ First, Last uint16 }

// Shard is a primary, its replicas and the slots that they serve.
type Shard struct {
	// Number is the N of the alias "shard-N"; stable over refreshes, unlike
	// the shard's place in Map.Shards.
	Number int
	// Primary is never nil and points, like Replicas, into Map.Nodes.
	Primary  *Node
	Replicas []*Node // by id, then address
	Slots    []Range // ascending, neighbours merged; empty if it serves none
}

// String is "shard-N".
func (s Shard) String() string { return shardAlias(s.Number) }

// Map is one cluster's topology at one moment. It is immutable: nobody writes
// to it or to what its fields refer to.
type Map struct {
	// Nodes are all nodes with a known address: shard by shard, each primary
	// before its replicas.
	Nodes []Node
	// Shards are in the order of their lowest slot; shards without slots
	// follow, by their primary's id.
	Shards []Shard
	// Epoch grows with every change that the cluster agreed on; 0 if unknown.
	// Maps of one cluster compare by it only if they got it the same way.
	Epoch uint64
	// Minority says that the node which gave the map could not reach most of
	// the primaries: the cluster may have changed without it.
	Minority bool

	// primaries holds for each slot the index in Nodes of the primary that
	// serves it, or uncovered.
	primaries [SlotCount]int16
	covered   int
	byAddr    map[string]int // Addr -> index in Nodes
}

const uncovered = -1

// Primary is the index in Nodes of the primary that serves slot, -1 if none does.
func (m *Map) Primary(slot uint16) int {
	return int(m.primaries[slot&(SlotCount-1)])
}

// Covered is the number of slots that some node serves.
func (m *Map) Covered() int { return m.covered }

// IndexOf is the index in Nodes of the node with this address, -1 if unknown.
func (m *Map) IndexOf(addr string) int {
	if i, ok := m.byAddr[addr]; ok {
		return i
	}
	return uncovered
}

// String tells sizes only.
func (m *Map) String() string {
	return fmt.Sprintf("%d shards, %d nodes, %d slots", len(m.Shards), len(m.Nodes), m.covered)
}

// Equal says whether both maps route alike: the same nodes with the same
// roles and health serve the same slots. Aliases and Epoch do not count.
func (m *Map) Equal(other *Map) bool {
	if m == other {
		return true
	}
	if m == nil || other == nil || len(m.Nodes) != len(other.Nodes) || len(m.Shards) != len(other.Shards) {
		return false
	}
	for i := range m.Nodes {
		if !m.Nodes[i].equal(&other.Nodes[i]) {
			return false
		}
	}
	for i := range m.Shards {
		if len(m.Shards[i].Replicas) != len(other.Shards[i].Replicas) {
			return false
		}
	}
	return m.primaries == other.primaries
}

func (n *Node) equal(other *Node) bool {
	return n.ID == other.ID && n.Addr == other.Addr && n.Role == other.Role && n.Healthy == other.Healthy
}

// Standalone is the map of one server that is no cluster: it serves all slots.
func Standalone(addr string) *Map {
	d := draft{shards: []shardDraft{{
		primary: Node{Addr: addr, Healthy: true},
		slots:   []Range{{0, SlotCount - 1}},
	}}}
	return d.build()
}
