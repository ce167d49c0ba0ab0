package topology

import (
	"strconv"
	"strings"
)

// Info is what CLUSTER INFO tells of how far a node's map is to be trusted.
// Asked on the same connection as CLUSTER SHARDS or SLOTS, which do not tell
// it, it makes their maps comparable by Supersedes.
type Info struct {
	// OK is cluster_state:ok.
	OK bool
	// CurrentEpoch is the highest epoch the node has heard of.
	CurrentEpoch uint64
	// SuspectedSlots are those whose primary the node alone finds unreachable.
	SuspectedSlots int
}

// ParseInfo reads the reply to CLUSTER INFO; false if it is none.
func ParseInfo(reply string) (Info, bool) {
	var info Info
	hasState := false
	for line := range strings.Lines(reply) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch name {
		case "cluster_state":
			hasState = true
			info.OK = value == "ok"
		case "cluster_current_epoch":
			info.CurrentEpoch, _ = strconv.ParseUint(value, 10, 64) // 0 is unknown
		case "cluster_slots_pfail":
			info.SuspectedSlots, _ = strconv.Atoi(value)
		}
	}
	return info, hasState
}

// WithInfo is m with the epoch and the doubt that info tells. A node that
// is down and suspects others is cut off: were they really dead, the majority
// would have declared them failed. One that is down and suspects nobody only
// lacks a slot.
func (m *Map) WithInfo(info Info) *Map {
	c := *m // shares the nodes, which nobody changes
	c.Epoch = info.CurrentEpoch
	c.Minority = !info.OK && info.SuspectedSlots > 0
	return &c
}
