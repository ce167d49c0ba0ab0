package route

import (
	"github.com/sluiceproxy/sluice/internal/command"
	"github.com/sluiceproxy/sluice/internal/tenant"
	"github.com/sluiceproxy/sluice/pkg/slot"
)

// NoSlot is the slot of a command without a key: any node may run it.
const NoSlot int32 = -1

// Decision says what is to be done with a command.
type Decision uint8

// The decisions.
const (
	Forward   Decision = iota // send it to the node of Slot
	Split                     // send its parts, see SplitCommand
	CrossSlot                 // refuse: the keys are in several slots
	OneNode                   // refuse: the answer of one node of several would be wrong
)

// Decide finds the slot of a command on a cluster that divides its keys by slot. cmd is resolved and args passed its
// arity. keys is room for key positions and is returned for the next command. It does not allocate for commands with few
// keys.
func Decide(cmd *command.Command, args [][]byte, mode tenant.CrossSlot, keys []int) (d Decision, at int32, positions []int) {
	if i := cmd.SingleKey(); i > 0 {
		return Forward, int32(slot.Of(args[i])), keys
	}
	positions, err := cmd.AppendKeys(keys[:0], args)
	if err != nil || len(positions) == 0 {
		// A line whose keys cannot be found gets its error from a node, in Redis's own words.
		if err == nil && !cmd.AnyNode && !cmd.HasKeys() {
			return OneNode, NoSlot, positions
		}
		return Forward, NoSlot, positions
	}
	at = int32(slot.Of(args[positions[0]]))
	for _, i := range positions[1:] {
		if int32(slot.Of(args[i])) == at {
			continue
		}
		if cmd.Kind == command.KindSplit && mode == tenant.Split {
			return Split, at, positions
		}
		return CrossSlot, at, positions
	}
	return Forward, at, positions
}
