package load

import (
	"errors"
	"time"
)

var errBadReply = errors.New("the server sent what is not a reply to GET or SET")

// flow is the accounting of one connection: what is to be sent, what was sent, what came back, and since when the
// oldest unanswered command has been under way. It does not know how bytes travel.
type flow struct {
	requests *requests
	schedule *schedule // nil in a closed loop
	depth    uint64    // most commands in flight
	position int       // of the next request
	login    []byte    // sent before the first one

	sent, received uint64
	sentAt         []time.Duration // closed loop: when each command in flight was sent, as a ring of depth places
	due            uint64          // open loop: commands whose time has come
	replies        replyCounter
}

func newFlow(r *requests, w Workload, s *schedule, position int) flow {
	f := flow{requests: r, schedule: s, depth: uint64(w.Pipeline), position: position % r.count}
	if s == nil {
		f.sentAt = make([]time.Duration, w.Pipeline)
	}
	return f
}

// next returns the bytes of all commands that may be sent now, and counts them as sent.
func (f *flow) next(now time.Duration) []byte {
	n := f.depth - (f.sent - f.received)
	if f.schedule != nil {
		n = min(n, f.due-f.sent)
	}
	if n == 0 {
		return nil
	}
	var out []byte
	out, f.position = f.requests.take(f.position, int(n))
	if f.schedule == nil {
		for i := f.sent; i < f.sent+n; i++ {
			f.sentAt[i%f.depth] = now
		}
	}
	f.sent += n
	return out
}

// startOfOldest is when the oldest command in flight was sent, or in an open loop was meant to be sent: waiting for a
// slow server before sending counts as latency.
func (f *flow) startOfOldest() time.Duration {
	if f.schedule == nil {
		return f.sentAt[f.received%f.depth]
	}
	return f.schedule.intended(f.received)
}

// arrived counts the replies in p, and records their latencies in r when now lies within the measured window.
func (f *flow) arrived(p []byte, now time.Duration, r *recorder) bool {
	replies, ok := f.replies.feed(p)
	measured := r.covers(now)
	for range replies {
		if f.received == f.sent {
			return false // more replies than commands
		}
		if measured {
			r.record(now - f.startOfOldest())
		}
		f.received++
	}
	return ok
}

func (f *flow) inFlight() uint64 { return f.sent - f.received }

// schedule fixes the times at which the commands of one connection are meant to be sent. All connections of a run take
// turns, so the time of any command follows from its number alone.
type schedule struct {
	first    time.Duration // when the connection's first command is due
	interval time.Duration // between two commands of the connection
}

func newSchedule(w Workload, connection int) *schedule {
	if w.Rate <= 0 {
		return nil
	}
	between := float64(time.Second) / w.Rate
	return &schedule{
		first:    time.Duration(between * float64(connection)),
		interval: time.Duration(between * float64(w.Connections())),
	}
}

func (s *schedule) intended(command uint64) time.Duration {
	return s.first + time.Duration(command)*s.interval
}

// dueAt is how many commands are due at now.
func (s *schedule) dueAt(now time.Duration) uint64 {
	if now < s.first {
		return 0
	}
	return uint64((now-s.first)/s.interval) + 1
}
