package session

// Move asks the session to go to another loop. It does so when input arrives while nothing is owed to the client: then
// nothing of it is on its loop but its socket. On the session's loop.
func (s *Session) Move(to *Worker) {
	if to != s.worker {
		s.moveTo = to
	}
}

// Moving reports whether the session has been asked to go and has not gone yet.
func (s *Session) Moving() bool { return s.moveTo != nil }

// mayMove reports whether nothing of the session is under way.
func (s *Session) mayMove() bool {
	return s.head == nil && s.pinned == nil && s.channels == nil && s.monitor == nil && s.tracking == nil && s.trackers == nil && s.mode == ModeNormal && !s.barrier && !s.drain && s.conn.Pending() == 0
}

// depart leaves the loop with the input that has not been looked at. It is posted, because a connection cannot be taken
// apart while it delivers.
func (s *Session) depart() {
	from, to := s.worker, s.moveTo
	s.moveTo, s.barrier = nil, false
	fd, unread, ok := s.conn.Detach()
	if !ok {
		s.goOn()
		return
	}
	s.leave()
	from.sessions.remove(s)
	from.Stats.Moved++
	s.scan.Reset()
	to.Loop.Post(func() { s.arrive(to, fd, unread) })
}

// arrive goes on with the session on its new loop.
func (s *Session) arrive(w *Worker, fd int, unread []byte) {
	s.worker = w
	s.limits = &w.strict
	s.conn = w.Loop.NewConn(s, &w.Stats.Traffic)
	w.sessions.add(s)
	if err := w.Loop.AttachFD(s.conn, fd); err != nil {
		s.conn.Close(err)
		return
	}
	if table := w.snapshot(); s.tenant != nil && s.follow(table) {
		return
	}
	s.conn.Restore(unread)
}
