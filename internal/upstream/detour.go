package upstream

import "github.com/sluiceproxy/sluice/internal/pipe"

// movedAgain answers for a command whose way cannot be known any more.
var movedAgain = []byte("-TRYAGAIN the slot moved once more while commands for it were on their way; send the command again\r\n") //nolint:gochecknoglobals // constant

// detour is a call that follows a redirect.
//
// Calls of one session for one slot that are on a detour go one behind the other: each takes the pipe of the one before
// it, as long as that is in flight, also when nodes, topology and pipes have changed since. So they come to the node in
// their order. Where that cannot be, because the one before was told another place or the connection of those that are
// not on a detour was lost, the call fails without having been executed: an error is better than a wrong order.
//
// What makes this enough is that calls which are not on a detour are all on one pipe, and that a node which has redirected
// a key does not serve the calls behind, but redirects them too. (A slot that comes back to a node which has calls from
// before still unread breaks that also for a client that speaks to the cluster itself.)
type detour struct {
	pipe.Receiver // the call's own
	local         *Local
	call          *pipe.Call
	key           detourKey
	node          *node // where the call was sent last
	asking        bool  // it was sent there behind ASKING
	before, after *detour
}

// detourKey names the calls that must stay in order. What a session sends after it has changed protocol version waits
// for what it sent before.
type detourKey struct {
	origin *pipe.Origin
	slot   int32
	target uint32
}

func keyOf(c *pipe.Call) detourKey { return detourKey{c.Origin, c.Slot, c.Target} }

// detourOf is the call's detour, nil when it is on none.
func detourOf(c *pipe.Call) *detour {
	d, _ := c.Receiver.(*detour)
	return d
}

// lastDetour is that of the last call which c must not overtake, nil when there is none.
func (lc *Local) lastDetour(c *pipe.Call) *detour {
	return lc.detours[keyOf(c)]
}

// divert puts a call on a detour, behind those of its session and slot that are on one.
func (lc *Local) divert(c *pipe.Call) *detour {
	if d := detourOf(c); d != nil {
		return d
	}
	d := &detour{Receiver: c.Receiver, local: lc, call: c, key: keyOf(c)}
	d.before = lc.detours[d.key]
	if d.before != nil {
		d.before.after = d
	}
	lc.detours[d.key] = d
	c.Receiver = d
	return d
}

// follow sends the call to the node that a redirect has named.
func (d *detour) follow(n *node, asking bool) {
	lead := d.lead()
	if lead != nil && d.before.node.addr != n.addr {
		d.local.answer(d.call, movedAgain)
		return
	}
	d.node, d.asking = n, asking
	d.local.sendAgain(n, lead, d.call, pipe.Failure{Reason: pipe.Lost}, asking)
}

// again sends the call, whose connection was lost, once more to the node where it was.
func (d *detour) again(f pipe.Failure) {
	d.local.sendAgain(d.local.known[d.node.addr], d.lead(), d.call, f, d.asking)
}

// lead is the pipe that the call has to take, nil when no call is before it.
func (d *detour) lead() *pipe.Pipe {
	if d.before == nil {
		return nil
	}
	if p := d.before.call.Pipe(); p != nil && !p.Closed() {
		return p
	}
	return nil
}

// Free implements pipe.Receiver: the detour ends when no pipe knows the call any more.
func (d *detour) Free(c *pipe.Call) {
	if d.before != nil {
		d.before.after = d.after
	}
	switch {
	case d.after != nil:
		d.after.before = d.before
	case d.before != nil:
		d.local.detours[d.key] = d.before
	default:
		delete(d.local.detours, d.key)
	}
	c.Receiver = d.Receiver
	c.Receiver.Free(c)
}
