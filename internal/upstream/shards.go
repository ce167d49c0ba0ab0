package upstream

import (
	"cmp"
	"slices"

	"github.com/sluiceproxy/sluice/internal/topology"
)

// A call that is for a shard and not for a slot has, in the place of the slot, a number below -1 that names the shard.
// Shards keep their numbers over refreshes, so that a call which is sent again goes to the same shard, though its primary
// may be another by then.

func shardName(number int) int32 { return int32(-2 - number) }

// primaryNamed is the primary of the shard that shardName named; nil: there is none any more.
func (lc *Local) primaryNamed(name int32) *node {
	for i := range lc.view.Shards {
		if shard := &lc.view.Shards[i]; shardName(shard.Number) == name {
			return lc.node(shard.Primary.Addr)
		}
	}
	return nil
}

// holds reports whether the shard may have keys: it serves slots, or it could be importing its first one.
func holds(shard *topology.Shard) bool { return len(shard.Slots) > 0 || shard.Primary.Healthy }

// ShardSlots names every shard that may have keys by what a call for it has as Slot, in the order of their slots.
func (lc *Local) ShardSlots() []int32 {
	if lc.view == nil {
		return nil
	}
	names := make([]int32, 0, len(lc.view.Shards))
	for i := range lc.view.Shards {
		if shard := &lc.view.Shards[i]; holds(shard) {
			names = append(names, shardName(shard.Number))
		}
	}
	return names
}

// Primary is the primary of a shard that may have keys.
type Primary struct {
	// ID is the cluster's own id of the node, the same for every proxy. Not for clients.
	ID string
	// Slot is what a call for the shard has as its slot.
	Slot int32
}

// Primaries are the primaries of all shards that may have keys, by their ids.
func (lc *Local) Primaries() []Primary {
	if lc.view == nil {
		return nil
	}
	all := make([]Primary, 0, len(lc.view.Shards))
	for i := range lc.view.Shards {
		if shard := &lc.view.Shards[i]; holds(shard) {
			all = append(all, Primary{ID: cmp.Or(shard.Primary.ID, shard.Primary.Addr), Slot: shardName(shard.Number)})
		}
	}
	slices.SortFunc(all, func(a, b Primary) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

// Stands reports whether the node is still the primary that a call for its shard goes to.
func (lc *Local) Stands(p Primary) bool {
	for i := range lc.view.Shards {
		if shard := &lc.view.Shards[i]; shardName(shard.Number) == p.Slot {
			return cmp.Or(shard.Primary.ID, shard.Primary.Addr) == p.ID
		}
	}
	return false
}

// ServingSlots names every shard that serves slots by one of them.
func (lc *Local) ServingSlots() []int32 {
	if lc.view == nil {
		return nil
	}
	slots := make([]int32, 0, len(lc.view.Shards))
	for i := range lc.view.Shards {
		if ranges := lc.view.Shards[i].Slots; len(ranges) > 0 {
			slots = append(slots, int32(ranges[0].First))
		}
	}
	return slots
}
