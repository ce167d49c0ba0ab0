package redistest

import "time"

// Step is one command that a ScriptedNode expects and what the node does then,
// in the order in which the methods were called. A step without actions is
// silence.
type Step struct {
	node    *ScriptedNode
	command string
	actions []func(c *ScriptedConn) (goOn bool)
}

// Reply sends raw bytes in one write of their own.
func (s *Step) Reply(raw string) *Step {
	return s.then(func(c *ScriptedConn) bool { c.Write(raw); return true })
}

// After waits for the time given.
func (s *Step) After(d time.Duration) *Step {
	return s.then(func(c *ScriptedConn) bool { return c.node.pause(d) })
}

// When waits until gate is closed or gives a value.
func (s *Step) When(gate <-chan struct{}) *Step {
	return s.then(func(c *ScriptedConn) bool {
		select {
		case <-gate:
			return true
		case <-c.node.closing:
			return false
		}
	})
}

// Close ends the connection; after a partial Reply that is a close in mid-reply.
func (s *Step) Close() *Step {
	return s.then(func(c *ScriptedConn) bool { c.Close(); return false })
}

// Reset ends the connection with a reset.
func (s *Step) Reset() *Step {
	return s.then(func(c *ScriptedConn) bool { c.Reset(); return false })
}

func (s *Step) then(action func(c *ScriptedConn) bool) *Step {
	s.node.mu.Lock()
	defer s.node.mu.Unlock()
	s.actions = append(s.actions, action)
	return s
}

func (s *Step) play(c *ScriptedConn) {
	s.node.mu.Lock()
	actions := s.actions
	s.node.mu.Unlock()
	for _, action := range actions {
		if !action(c) {
			return
		}
	}
}
