package session

import "github.com/sluiceproxy/sluice/internal/command"

// noteAttention is called when a reason for looking at the tenant's commands comes or goes.
func (t *tenantStats) noteAttention() { t.attention = t.pause != nil }

// attend runs a command of a tenant that is paused or watched. It returns false when the command must wait.
func (s *Session) attend(cmd *command.Command, args [][]byte, raw []byte) bool {
	if s.heldByPause(cmd, args) {
		s.postponed = true
		return false
	}
	w := s.worker
	w.attending = true
	ran := s.run(raw)
	w.attending = false
	return ran
}
