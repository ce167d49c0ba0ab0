package session

import (
	"github.com/sluiceproxy/sluice/internal/command"
	"github.com/sluiceproxy/sluice/internal/pipe"
	"github.com/sluiceproxy/sluice/internal/route"
	"github.com/sluiceproxy/sluice/internal/upstream"
)

// pending is a command without a reply: in flight on a pipe, split into parts, or answered here and waiting for its
// turn. It is used again once neither the session nor anybody else knows it.
type pending struct {
	pipe.Call
	worker  *Worker
	session *Session // nil: the client is gone
	next    *pending // of the session, or of the worker's free ones
	stats   *tenantStats
	class   command.Class
	queued  bool // the session knows it
	others  int  // pipes, parts and functions off the loop that know it
	done    bool // the reply is whole
	silent  bool // CLIENT REPLY: nothing is sent
	begun   bool // a part of the reply has been sent
	since   int64
	got     int    // bytes of the reply so far
	written []byte // reply that waits for its turn

	execution *execution                            // of EXEC, whose reply is looked at; nil: it is passed on
	abandoned *abandoned                            // of a blocking pop whose client has gone
	script    *upstream.Script                      // that the command runs by its name; nil: none that is remembered
	selects   int32                                 // 1 + the database that the session has when this is answered; 0: as before
	amend     func(p *pending, reply []byte) []byte // corrects a reply that comes whole; nil: it is passed on as it is

	parent *pending // of a part
	part   int
	gather *route.Gather // of a split command
	gained int64         // bytes of gather that the worker counts as held
}

// keepReplyBuffer is the size up to which a record keeps its buffer for the next command.
const keepReplyBuffer = 4096

// newPending takes a record for the command at hand and puts it at the end of the session's order.
func (s *Session) newPending(class command.Class) *pending {
	p := s.worker.take()
	p.session, p.class, p.stats, p.since = s, class, s.stats, s.worker.Loop.Now()
	p.silent = s.muted()
	p.queued = true
	if s.tail == nil {
		s.head = p
	} else {
		s.tail.next = p
	}
	s.tail = p
	s.inflight++
	return p
}

func (w *Worker) take() *pending {
	p := w.free
	if p == nil {
		w.made++
		p = &pending{worker: w}
		p.Receiver = p
		return p
	}
	w.free, p.next = p.next, nil
	w.freeCount--
	return p
}

// Pending is the number of records in use: commands without a reply, and those of clients that have gone whose reply is
// still to come.
func (w *Worker) Pending() int { return w.made - w.freeCount }

// freeMax bounds the records that a worker keeps for later.
const freeMax = 8192

// recycle makes p available again when nobody knows it.
func (w *Worker) recycle(p *pending) {
	if p.queued || p.others > 0 {
		return
	}
	if w.freeCount >= freeMax {
		w.made--
		return
	}
	buffer := p.written[:0]
	if cap(buffer) > keepReplyBuffer {
		buffer = nil
	}
	*p = pending{worker: w, written: buffer, next: w.free}
	p.Receiver = p
	w.free = p
	w.freeCount++
}

// unlink takes the oldest command off the session's order.
func (s *Session) unlink() {
	p := s.head
	s.head = p.next
	if s.head == nil {
		s.tail = nil
	}
	p.next, p.queued = nil, false
	s.held -= len(p.written)
	s.inflight--
}
