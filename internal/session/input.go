package session

import "errors"

// unreadMax is how much unconsumed input a waiting session holds before it lets the rest wait in the kernel.
const unreadMax = 64 << 10

// Data implements loop.Handler.
func (s *Session) Data(b []byte) int {
	s.inData = true
	n := s.take(b)
	s.inData = false
	if s.drain {
		s.endIfSettled(n < len(b))
	}
	return n
}

// take cuts the input into commands and runs them, as long as none has to wait.
func (s *Session) take(b []byte) int {
	w := s.worker
	s.lastActive = w.Loop.Now()
	s.stopped = false
	if s.deaf {
		return s.stop(b, 0)
	}
	if s.mode == ModeStreaming {
		return s.streamOn(b)
	}
	if s.mode == ModeClosing {
		return len(b)
	}
	if s.moveTo != nil && s.mayMove() {
		s.barrier = true
		w.Loop.Post(s.depart)
		return s.stop(b, 0)
	}
	if s.adoptTable() {
		return s.stop(b, 0)
	}
	if s.local != nil {
		s.local.Refresh()
	}
	at := 0
	for at < len(b) {
		if s.mustWait() {
			return s.stop(b, at)
		}
		n, err := s.scan.Scan(b[at:], s.limits)
		if err != nil {
			s.malformed(err)
			return len(b)
		}
		if n == 0 {
			return s.incomplete(b, at)
		}
		s.loose = !s.scan.Verbatim()
		if !s.run(b[at : at+n]) {
			return s.stop(b, at)
		}
		if s.reply != replyOn {
			s.unskip()
		}
		at += n
		if s.mode != ModeNormal || s.conn.Closed() {
			return len(b)
		}
	}
	s.conn.Expect(0)
	return at
}

// incomplete keeps the beginning of a command, or begins to stream one that is too long to be kept.
func (s *Session) incomplete(b []byte, at int) int {
	if _, _, length, _, open := s.scan.OpenBulk(); open && length > s.worker.shared.Settings.StreamThreshold && !s.gathers(b[at:]) {
		if s.drain {
			s.deaf = true // its rest may never come
			return s.stop(b, at)
		}
		if s.head != nil {
			return s.stop(b, at) // what is in flight is settled first: the dedicated connection could overtake it
		}
		return at + s.beginStream(b[at:])
	}
	if len(b)-at > s.worker.shared.Settings.QueryBuffer {
		// Many arguments, none of them long: as Redis does at its client-query-buffer-limit, the client is closed.
		s.worker.Stats.ProtocolErrors++
		s.conn.Close(errQueryBuffer)
		return len(b)
	}
	s.conn.Expect(s.scan.Need())
	return at
}

var errQueryBuffer = errors.New("query buffer limit reached")

// mustWait reports whether no further command may be begun now. Commands are held back, never refused: too much in
// flight is no error of the client's.
func (s *Session) mustWait() bool {
	limits := &s.worker.shared.Settings
	if s.barrier || s.alone != nil {
		return true
	}
	if s.head == nil {
		return s.conn.Pending() > limits.OutputBuffer/2
	}
	return s.inflight >= limits.MaxInflight || s.held+s.conn.Pending()+s.inflight*s.average > limits.OutputBuffer/2
}

// stop leaves what begins at at for later.
func (s *Session) stop(b []byte, at int) int {
	s.stopped = true
	s.conn.TellDrained() // what waits for the output to be taken is begun then
	if len(b)-at > unreadMax {
		s.conn.Pause()
	}
	return at
}

// goOn looks again at input that was left, after something that it may have waited for.
func (s *Session) goOn() {
	if !s.stopped || s.conn.Closed() {
		return
	}
	s.conn.Resume()
	s.conn.Again()
}

// malformed answers bytes that are not RESP as Redis does and closes.
func (s *Session) malformed(err error) {
	s.worker.Stats.ProtocolErrors++
	s.appendError("ERR " + err.Error())
	s.finish()
}

// Drained implements loop.Handler.
func (s *Session) Drained() {
	s.continuePipes()
	s.overSince = 0
	if s.executing != nil {
		s.executing.resume()
	}
	s.goOn()
}
