package session

import (
	"bytes"
	"fmt"
	"math"
	"time"

	"github.com/sluiceproxy/sluice/internal/command"
	"github.com/sluiceproxy/sluice/pkg/resp"
)

// noteAttention is called when a reason for looking at the tenant's commands comes or goes.
func (t *tenantStats) noteAttention() {
	t.attention = t.pause != nil || t.halt != nil || len(t.watchers) > 0
}

// attend runs a command of a tenant that is paused or watched. It returns false when the command must wait. A client that
// monitors is not paused, as in Redis.
func (s *Session) attend(cmd *command.Command, args [][]byte, raw []byte) bool {
	if s.haltRefuses(cmd) {
		return s.refuseHalted(cmd)
	}
	if s.monitor != nil {
		if !s.mayRunAsMonitor(cmd, args) {
			return s.refuse(errMonitorKeyspace)
		}
		if s.head != nil {
			return false
		}
	} else if s.heldByPause(cmd, args) {
		s.postponed = true
		return false
	}
	w, stats, tx := s.worker, s.stats, s.transaction
	refused := stats.refused
	w.attending = true
	ran := s.run(raw)
	w.attending = false
	if ran && len(stats.watchers) > 0 && shown(cmd) && (stats.refused == refused || cmd.Name == "exec") {
		s.show(stats, tx, cmd, resp.AppendArgs(nil, raw))
	}
	return ran
}

// noteStream notes a command that streams, for monitors and the slow log: what is known of it is what stands in front of
// the long argument, and that one's length.
func (s *Session) noteStream(front []byte, length int64) {
	watched := len(s.stats.watchers) > 0
	if !watched && s.worker.slowAfter == math.MaxInt64 {
		return
	}
	args := resp.AppendArgs(nil, front[:bytes.LastIndexByte(front, '$')])
	args = append(args, fmt.Appendf(nil, "... (%d bytes)", length))
	var line slowLine
	line.shorten(args)
	s.stream.front = line.args()
	if watched {
		s.showLine(s.stats, time.Now(), args)
	}
}
