package session

import (
	"errors"
	"time"

	"github.com/sluiceproxy/sluice/internal/pipe"
)

const (
	// holdPipeAt is the number of unread bytes at which the pipe of a large reply, which serves nobody else any more, stops
	// reading.
	holdPipeAt = 1 << 20
	// offerAtOnce is the length from which a piece is offered to the transport without being copied first.
	offerAtOnce = 16 << 10
	// hardFactor times the output bound is where a client is disconnected at once.
	hardFactor = 8
)

var (
	errTruncated = errors.New("the connection to the node was lost in the middle of a reply")
	errOutput    = errors.New("output buffer limit reached")
)

// Reply implements pipe.Receiver: bytes of a reply go to the client if it is their turn, else they wait for it.
func (p *pending) Reply(_ *pipe.Call, b []byte, last bool) {
	s := p.session
	switch {
	case s == nil && p.abandoned != nil, s != nil && s.blocked == p && s.salvageLate():
		p.replyAbandoned(b, last)
	case s == nil:
	case p.parent != nil:
		p.partReply(b, last)
	case p.execution != nil:
		p.execution.take(b, last)
	case p.amend != nil && last && p.got == 0:
		s.deliver(p, p.amend(p, b), true)
	default:
		s.deliver(p, b, last)
	}
}

// deliver takes bytes of the reply to p.
func (s *Session) deliver(p *pending, b []byte, last bool) {
	p.got += len(b)
	if last && s.worker.Loop.Now()-p.since >= s.worker.slowAfter {
		s.noteSlow(p)
	}
	if s.head != p {
		p.written = append(p.written, b...)
		s.held += len(b)
		p.done = last
		s.holdPipe(p, last)
		if last && s.executing != nil {
			s.executing.resume()
		}
		return
	}
	s.send(p, b)
	if last {
		s.settle(p)
		return
	}
	p.begun = true
	s.holdPipe(p, last)
}

func (s *Session) send(p *pending, b []byte) {
	if p.silent {
		return
	}
	if len(b) >= offerAtOnce {
		s.conn.AppendOrWrite(b)
	} else {
		s.conn.Append(b)
	}
	if pending, limit := s.conn.Pending(), s.worker.shared.Settings.OutputBuffer; pending > limit {
		s.overOutput(pending, limit)
	}
}

// overOutput notes that a client leaves too much unread; one far over the bound is disconnected at once.
func (s *Session) overOutput(pending, limit int) {
	if s.overSince == 0 {
		s.overSince = s.worker.Loop.Now()
	}
	if pending > hardFactor*limit {
		s.giveUp()
	}
}

// settle ends p, the oldest command, and sends the replies behind it that have been waiting for it.
func (s *Session) settle(p *pending) {
	for {
		s.average += (p.got - s.average) / 8
		s.unlink()
		if s.alone == p {
			s.alone = nil
		}
		if s.stream != nil && s.stream.pending == p {
			s.streamSettled()
		}
		if s.pinned != nil {
			s.pinSettled(p)
		}
		if s.blocked == p {
			s.waited(p)
		}
		if p.stats != nil {
			p.stats.observe(p.class, s.worker.Loop.Now()-p.since)
		}
		s.worker.recycle(p)
		s.flushPushes()
		p = s.head
		if p == nil {
			s.settled()
			return
		}
		if len(p.written) > 0 {
			s.send(p, p.written)
			s.held -= len(p.written)
			p.written = p.written[:0]
			p.begun = true
		}
		if !p.done {
			s.continuePipes()
			break
		}
	}
	s.goOn()
}

// settled is called when nothing is owed to the client.
func (s *Session) settled() {
	s.lastActive = s.worker.Loop.Now()
	switch {
	case s.mode == ModeClosing:
		s.conn.CloseFlushed()
	case s.drain && (!s.stopped || s.deaf || s.conn.Unread() == 0):
		s.endIfSettled(false)
	default:
		s.goOn()
	}
}

// holdPipe stops the pipe of a large reply when the client is far behind. While commands of others wait behind that
// reply, it is rather buffered, up to the output bound; a client that is over it then and does not read is given up, so
// that the others do not wait for it.
func (s *Session) holdPipe(p *pending, last bool) {
	unread := s.conn.Pending()
	if p != s.head {
		unread += s.held // which waits for the oldest reply: that one must come on
	}
	if p.execution != nil {
		unread += len(p.execution.kept)
	}
	if last || unread < holdPipeAt {
		return
	}
	from := p.Pipe()
	if from == nil || !from.Large() {
		return
	}
	if s.blocksOthers(from) {
		if unread < s.worker.shared.Settings.OutputBuffer {
			return
		}
		if s.worker.Loop.Now()-p.since > int64(blockGrace) {
			s.giveUp()
			return
		}
	}
	from.Hold()
	s.conn.TellDrained()
	s.holds = append(s.holds, p)
}

// blockGrace is how long a client may make commands of others wait because it does not read.
const blockGrace = time.Second

// blocksOthers reports whether commands of other sessions are on the pipe; all of them are behind this session's.
func (s *Session) blocksOthers(on *pipe.Pipe) bool {
	own := 0
	for p := s.head; p != nil; p = p.next {
		if p.Pipe() == on {
			own++
		}
	}
	return on.Inflight() > own
}

// giveUp disconnects a client that does not read.
func (s *Session) giveUp() {
	s.worker.Stats.OutputLimit++
	s.conn.Close(errOutput)
}

// blocksTooLong reports whether others have been waiting for a client that does not read.
func (s *Session) blocksTooLong(now int64) bool {
	for _, p := range s.holds {
		if from := p.Pipe(); from != nil && now-p.since > int64(blockGrace) && s.blocksOthers(from) {
			return true
		}
	}
	return false
}

func (s *Session) continuePipes() {
	for _, p := range s.holds {
		if from := p.Pipe(); from != nil {
			from.Continue()
		}
	}
	s.holds = s.holds[:0]
}

// Failed implements pipe.Receiver: the client gets an error in the place of the reply.
func (p *pending) Failed(_ *pipe.Call, f pipe.Failure) {
	s := p.session
	if s == nil {
		if p.abandoned != nil {
			p.failAbandoned(f)
		}
		return
	}
	p.selects = 0
	p.stats.fail(f.Reason)
	if p.begun {
		s.conn.Close(errTruncated) // what was sent cannot be taken back
		return
	}
	f.InDoubt = f.InDoubt || p.partOfWrite()
	text := s.failedText(f)
	if p.parent != nil {
		p.partFailed(appendError(nil, text))
		return
	}
	s.held -= len(p.written)
	p.written = p.written[:0]
	s.deliver(p, appendError(nil, text), true)
}

// WaitAlone implements pipe.Receiver.
func (p *pending) WaitAlone(*pipe.Call) bool {
	s := p.session
	if s == nil || s.head != p || s.tail != p || s.mode != ModeNormal {
		return false
	}
	s.alone = p
	return true
}

// Free implements pipe.Receiver.
func (p *pending) Free(*pipe.Call) {
	parent := p.parent
	p.others--
	p.worker.recycle(p)
	if parent != nil {
		parent.others--
		parent.worker.recycle(parent)
	}
}

// replyLocal answers the command at hand here, in its turn. b is copied.
func (s *Session) replyLocal(b []byte) {
	if s.head == nil {
		if !s.muted() {
			s.conn.Append(b)
		}
		return
	}
	p := s.newLocal()
	p.written = append(p.written, b...)
	p.got = len(b)
	p.done = true
	s.held += len(b)
}

// newLocal is newPending for a command that is answered here and has been counted.
func (s *Session) newLocal() *pending {
	p := s.newPending(0)
	p.stats = nil
	return p
}

// complete answers a command that waited for a function off the loop.
func (p *pending) complete(reply []byte) {
	p.others--
	if s := p.session; s != nil {
		s.barrier = false
		s.deliver(p, reply, true)
		return
	}
	p.worker.recycle(p)
}
