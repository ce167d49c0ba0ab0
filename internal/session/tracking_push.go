package session

import (
	"bytes"
	"strconv"
)

var (
	invalidateHead = []byte(">2\r\n$10\r\ninvalidate\r\n")                            //nolint:gochecknoglobals // constant
	invalidateAll  = []byte(">2\r\n$10\r\ninvalidate\r\n_\r\n")                       //nolint:gochecknoglobals // constant
	redirectedHead = []byte("*3\r\n$7\r\nmessage\r\n$20\r\n__redis__:invalidate\r\n") //nolint:gochecknoglobals // constant
	nullRESP2      = []byte("$-1\r\n")                                                //nolint:gochecknoglobals // constant
)

// Invalidated implements upstream.TrackerUser: the message goes to the client, or to the one that it is redirected to.
func (s *Session) Invalidated(message []byte) {
	tr := s.tracking
	switch {
	case tr == nil:
	case tr.redirected:
		s.redirect(message)
	case s.protocol >= 3:
		s.pushInTurn(message)
	}
}

// CacheLost implements upstream.TrackerUser: the client is told to forget all that it has cached, as it is when all keys
// are deleted.
func (s *Session) CacheLost() { s.Invalidated(invalidateAll) }

// pushInTurn sends a push message behind every reply that has come before it. A message that overtook the reply to a read
// would be missed by the client, which has nothing of the key yet.
func (s *Session) pushInTurn(message []byte) {
	if s.conn.Closed() || s.mode == ModeClosing && s.head == nil {
		return
	}
	switch last := s.lastArrived(); last {
	case nil:
		s.conn.Append(message)
	case s.head:
		s.pushes = append(s.pushes, message...)
	default:
		s.insertAfter(last, message)
	}
	if s.conn.Pending()+len(s.pushes)+s.held > s.worker.shared.Settings.OutputBuffer {
		s.giveUp()
	}
}

// lastArrived is the last command of which a reply, or a part of one, may have come and has not left whole; nil: none.
func (s *Session) lastArrived() (last *pending) {
	for p := s.head; p != nil; p = p.next {
		if p.done || p.begun || p.got > 0 || p.gather != nil {
			last = p
		}
	}
	return last
}

// insertAfter puts a message among the replies that wait for their turn.
func (s *Session) insertAfter(last *pending, message []byte) {
	p := s.worker.take()
	p.session, p.since, p.queued, p.done = s, s.worker.Loop.Now(), true, true
	p.written = append(p.written, message...)
	p.got = len(message)
	p.next, last.next = last.next, p
	if s.tail == last {
		s.tail = p
	}
	s.held += len(message)
	s.inflight++
}

// redirect sends a message to the client that CLIENT TRACKING has named, which may be on another loop.
func (s *Session) redirect(message []byte) {
	tr := s.tracking
	id := uint64(tr.redirect)
	if tr.gone {
		tr.broken = true
		if s.protocol >= 3 {
			b := append([]byte(nil), ">2\r\n$21\r\ntracking-redir-broken\r\n:"...)
			s.pushInTurn(append(strconv.AppendUint(b, id, 10), '\r', '\n'))
		}
		return
	}
	w, name := tr.target, s.tenant.Name
	message = append([]byte(nil), message...)
	w.Loop.Post(func() {
		if target := w.targets[id]; target != nil && target.tenant != nil && target.tenant.Name == name {
			target.redirected(message)
		}
	})
}

// redirected takes a message of another session. As Redis does, a RESP2 client gets it only while it listens to anything.
func (s *Session) redirected(message []byte) {
	if s.protocol >= 3 {
		s.pushInTurn(message)
		return
	}
	keys, ok := bytes.CutPrefix(message, invalidateHead)
	if !ok || !s.subscribed() {
		return
	}
	if keys[0] == '_' {
		keys = nullRESP2
	}
	s.pushInTurn(append(append([]byte(nil), redirectedHead...), keys...))
}

// findTarget looks on all loops for the client of the session's tenant that has the number, and calls found with its
// worker, or nil. A client that is found stays on its loop and tells when it goes.
func (s *Session) findTarget(p *pending, id int64, found func(target *Worker)) {
	w, own, name := s.worker, s.id, s.tenant.Name
	go func() { // ends when every loop has answered or stopped
		var at *Worker
		for _, other := range w.shared.Workers {
			other.Loop.Call(func() {
				if other.addTracker(uint64(id), own, w, name) {
					at = other
				}
			})
		}
		w.Loop.Post(func() {
			if p.session == nil {
				if at != nil {
					forgetTracker(at, uint64(id), own)
				}
				p.complete(nil)
				return
			}
			found(at)
		})
	}()
}

// addTracker notes that a session redirects its messages to a client of the worker, if the client is there.
func (w *Worker) addTracker(id, tracker uint64, at *Worker, tenant string) (found bool) {
	w.Each(func(s *Session) {
		if s.id != id || s.tenant == nil || s.tenant.Name != tenant || s.conn.Closed() {
			return
		}
		if w.targets == nil {
			w.targets = make(map[uint64]*Session)
		}
		if s.trackers == nil {
			s.trackers = make(map[uint64]*Worker)
		}
		w.targets[id], s.trackers[tracker] = s, at
		found = true
	})
	return found
}

// forgetTarget tells the client that messages were redirected to that none follow.
func (s *Session) forgetTarget(target *Worker, id uint64) { forgetTracker(target, id, s.id) }

func forgetTracker(w *Worker, id, tracker uint64) {
	w.Loop.Post(func() {
		s := w.targets[id]
		if s == nil {
			return
		}
		delete(s.trackers, tracker)
		if len(s.trackers) == 0 {
			delete(w.targets, id)
			s.trackers = nil
		}
	})
}

// leaveTrackers tells the sessions that redirect their messages here that this client is gone.
func (s *Session) leaveTrackers() {
	id := s.id
	delete(s.worker.targets, id)
	for tracker, w := range s.trackers {
		w.Loop.Post(func() { w.targetGone(tracker, id) })
	}
	s.trackers = nil
}

// targetGone notes that a client is gone that a session of the worker redirects its messages to.
func (w *Worker) targetGone(tracker, id uint64) {
	w.Each(func(s *Session) {
		if s.id == tracker && s.tracking != nil && s.tracking.redirected && uint64(s.tracking.redirect) == id {
			s.tracking.gone = true
		}
	})
}
