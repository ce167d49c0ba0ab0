package session

import "github.com/sluiceproxy/sluice/internal/upstream"

// carry takes a client's subscriptions over to the cluster that its tenant is on now. The client is told nothing of it: it
// listens there before it stops listening where it was, and a message between the two may be missed, as when a server is
// replaced.
type carry struct {
	to      *upstream.Hub
	wish    *upstream.Subscribing // what the node has not confirmed yet
	retryAt int64                 // when a node that refused is asked again
}

// carried reports whether all channels of the session are there at that hub, and asks for those that are not.
func (s *Session) carried(to *upstream.Hub) bool {
	sub := s.channels
	if sub.wish != nil {
		return false // the client waits for more of them
	}
	if sub.carry == nil || sub.carry.to != to {
		s.endCarry()
		sub.carry = &carry{to: to}
	}
	c := sub.carry
	if c.wish != nil || s.worker.Loop.Now() < c.retryAt {
		return false
	}
	for kind := range upstream.ChannelKinds {
		names := sub.list(kind)
		if len(names) == 0 {
			continue
		}
		// What is there already is confirmed within the call, and needs no other look.
		c.wish = to.Subscribe(kind, names, func(problem string) {
			if c.wish != nil {
				s.carryOn(c, problem)
			}
		})
		if c.wish != nil {
			return false
		}
	}
	return true
}

// carryOn looks again when a node has confirmed channels, and later when it has refused one.
func (s *Session) carryOn(c *carry, problem string) {
	c.wish = nil
	if problem != "" {
		c.retryAt = s.worker.Loop.Now() + int64(sweepInterval)
		return
	}
	s.adoptTable()
}

// changeHub makes the session a member of its channels at the hub that it has been carried to.
func (s *Session) changeHub() {
	sub := s.channels
	from, to := sub.hub, sub.carry.to
	sub.hub, sub.carry = to, nil
	for kind := range upstream.ChannelKinds {
		for name := range sub.names[kind] {
			from.Leave(kind, name, s)
			to.Join(kind, name, s)
		}
	}
}

// endCarry gives up what was begun at another hub.
func (s *Session) endCarry() {
	sub := s.channels
	if sub == nil || sub.carry == nil {
		return
	}
	c := sub.carry
	sub.carry = nil
	if c.wish != nil {
		c.to.Cancel(c.wish)
	}
	for kind := range upstream.ChannelKinds {
		for name := range sub.names[kind] {
			c.to.Leave(kind, name, s) // which ends it there when nobody else listens
		}
	}
}

// list is the names of the channels of a kind.
func (sub *subscriptions) list(kind upstream.ChannelKind) []string {
	names := make([]string, 0, len(sub.names[kind]))
	for name := range sub.names[kind] {
		names = append(names, name)
	}
	return names
}
