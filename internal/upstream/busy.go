package upstream

import (
	"strings"

	"github.com/sluiceproxy/sluice/internal/pipe"
)

// busyPrefix is how a node begins that runs a script or a function for longer than busy-reply-threshold. It refuses most of
// a handshake, so it can be given no further connection until that has ended.
const busyPrefix = "BUSY "

// noteBusy looks at why a node could not be connected.
func (t *target) noteBusy(err error) {
	_, text, found := strings.Cut(err.Error(), busyPrefix)
	if t.busy = found && strings.HasPrefix(text, "Redis is busy"); t.busy {
		t.node.local.busyText = busyPrefix + text
	}
}

// outcome is why the target takes nothing.
func (t *target) outcome() Outcome {
	if t.down && t.busy {
		return Busy
	}
	return Unreachable
}

// reason is why calls fail that wait for a connection of the target, which is down.
func (t *target) reason() pipe.Reason {
	if t.busy {
		return pipe.Busy
	}
	return pipe.Unavailable
}

// BusyText is what a node said last that takes no connection while it runs a script: what a client of that node gets.
func (lc *Local) BusyText() string { return lc.busyText }
