package session

import "time"

// finish stops reading and closes when what is owed has been sent.
func (s *Session) finish() {
	s.mode = ModeClosing
	if s.head == nil {
		s.conn.CloseFlushed()
	}
}

// Drain closes the session as soon as nothing of it is in flight. On its loop.
func (s *Session) Drain() {
	s.drain = true
	s.worker.endPause(s.stats)
	s.worker.endHalt(s.stats)
	s.endIfSettled(s.conn.Unread() > 0)
}

// StopReading ends a drain that takes too long, because the client keeps sending: what is in flight gets its replies,
// what came later is not begun. On its loop.
func (s *Session) StopReading() {
	s.deaf = true
	s.Drain()
}

// Ended reports whether the client has got all that it is owed; only the end of its own side is waited for.
func (s *Session) Ended() bool {
	return s.mode == ModeClosing && s.head == nil && s.conn.Pending() == 0
}

// endIfSettled closes a session that is to be drained when nothing is owed to the client. unread tells that input is
// left: a command that waits for something, which is served first, or the beginning of one, which never was.
func (s *Session) endIfSettled(unread bool) {
	if s.inData || s.head != nil || s.awaitsChannels() || s.mode != ModeNormal || unread && s.stopped && !s.deaf {
		return
	}
	s.finish()
}

// Owed is what the client has not been given yet: the number of commands without a reply, and the bytes of replies that
// wait for an earlier one. On its loop.
func (s *Session) Owed() (commands, bytes int) { return s.inflight, s.held }

// Kill closes the session at once. On its loop.
func (s *Session) Kill(err error) { s.conn.Close(err) }

// EOF implements loop.Handler: commands that were sent before the end still get their replies.
func (s *Session) EOF() {
	s.ended = true
	if s.blocked != nil || s.wants != nil && s.wantsToBlock {
		s.conn.Close(nil) // nobody is there to take what comes
		return
	}
	if s.mode == ModeStreaming {
		s.abandonStream() // in the middle of a command
		s.finish()
		return
	}
	if s.conn.Unread() > 0 && s.stopped || s.awaitsChannels() {
		s.drain = true // whole commands wait in the input
		return
	}
	s.finish()
}

// Closed implements loop.Handler: what is in flight is nobody's now.
func (s *Session) Closed(error) {
	s.continuePipes()
	s.abandonStream()
	s.stopWanting()
	s.salvage()
	s.stopWaiting()
	s.dropPin()
	s.dropTracking()
	s.leaveTrackers()
	s.leaveChannels()
	s.stopMonitor()
	if s.check != nil {
		s.check.abandoned.Store(true)
	}
	for s.head != nil {
		p := s.head
		s.unlink()
		p.releaseGathered()
		p.session = nil
		s.worker.recycle(p)
	}
	s.leave()
	s.worker.sessions.remove(s)
	s.worker.shared.clients.Add(-1)
}

// checkLimits disconnects a client that is idle, or that leaves too much unread for too long.
func (s *Session) checkLimits(now int64) {
	s.sweepMonitor(now)
	limits := &s.worker.shared.Settings
	switch {
	case limits.IdleTimeout > 0 && now-s.lastActive > int64(limits.IdleTimeout) && s.waitsForClient() && !s.postponed && s.monitor == nil:
		s.worker.Stats.IdleClosed++
		s.conn.Close(nil)
	case s.overSince != 0 && now-s.overSince > int64(limits.OutputGrace),
		s.mode == ModeClosing && s.head == nil && now-s.lastActive > int64(closeGrace):
		s.giveUp()
	case len(s.holds) > 0 && s.blocksTooLong(now):
		s.giveUp()
	}
}

// waitsForClient reports whether it is the client's turn: to send a command, or the rest of one.
func (s *Session) waitsForClient() bool {
	switch s.mode {
	case ModeNormal:
		return s.head == nil && s.wants == nil && s.channels == nil // a client that listens may be silent
	case ModeStreaming:
		return s.stream.line == nil || s.stream.line.Backlog() == 0
	default:
		return false
	}
}

// closeGrace is how long a client may take to read the last replies of a connection that is to be closed.
const closeGrace = 30 * time.Second
