package load

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// streams drives each connection of a thread from goroutines of its own: what works on every operating system.
type streams struct {
	connections []*stream
	failures    *failures // guarded by mu, as is the thread's recorder
	mu          sync.Mutex
}

// stream is one connection. In a closed loop its reader also sends; in an open loop a second goroutine does, and owns
// all of the flow that concerns sending.
type stream struct {
	conn     net.Conn
	flow     *flow
	answered atomic.Uint64 // what the sender may know of the reader
}

func openStreams(ctx context.Context, addr string, flows []flow, f *failures) (fleet, error) {
	s := &streams{failures: f}
	for i := range flows {
		var dialer net.Dialer
		conn, err := dialer.DialContext(ctx, "tcp", addr)
		if err != nil {
			s.close()
			return nil, err
		}
		s.connections = append(s.connections, &stream{conn: conn, flow: &flows[i]})
		if err := errors.Join(conn.SetDeadline(time.Now().Add(loginTime)), logIn(conn, flows[i].login)); err != nil {
			s.close()
			return nil, err
		}
	}
	return s, nil
}

func (s *streams) close() {
	for _, c := range s.connections {
		_ = c.conn.Close()
	}
}

func (s *streams) run(r *run, rec *recorder) {
	var running sync.WaitGroup
	for _, c := range s.connections {
		// The deadline ends every goroutine, also when the server answers no more.
		if err := c.conn.SetDeadline(r.began.Add(r.end + drainTime)); err != nil {
			s.lose(err)
			continue
		}
		own := newRecorderLike(rec)
		running.Go(func() {
			if err := c.drive(r, own); err != nil && !r.cancelled.Load() {
				s.lose(err)
			}
			s.mu.Lock()
			rec.histogram.Merge(own.histogram)
			s.mu.Unlock()
		})
	}
	running.Wait()
}

func (s *streams) lose(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failures.add(fmt.Errorf("connection lost: %w", err))
}

func newRecorderLike(rec *recorder) *recorder {
	return &recorder{from: rec.from, to: rec.to, histogram: newHistogram()}
}

func (c *stream) drive(r *run, rec *recorder) error {
	if c.flow.schedule != nil {
		return c.driveOpenLoop(r, rec)
	}
	buffer := make([]byte, 64<<10)
	for {
		if now := r.now(); !r.over(now) {
			if _, err := c.conn.Write(c.flow.next(now)); err != nil {
				return err
			}
		}
		if c.flow.inFlight() == 0 {
			return nil
		}
		n, err := c.conn.Read(buffer)
		if err != nil {
			return err
		}
		if !c.flow.arrived(buffer[:n], r.now(), rec) {
			return errBadReply
		}
	}
}

// driveOpenLoop reads while a second goroutine sends what is due; it ends after that goroutine.
func (c *stream) driveOpenLoop(r *run, rec *recorder) error {
	reading := *c.flow // the reader's own accounting; a reply may be read before its sender has counted it
	reading.sent = ^uint64(0)
	sent := make(chan uint64, 1)
	go func() { sent <- c.sendOnSchedule(r) }()
	buffer := make([]byte, 64<<10)
	total, ended := uint64(0), false
	for !ended || reading.received < total {
		final := ended // nothing more is sent: a timeout of this read is the run's own
		if !final {
			// Wake up now and then to see whether the sender has ended.
			_ = c.conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		} else {
			_ = c.conn.SetReadDeadline(r.began.Add(r.end + drainTime))
		}
		n, err := c.conn.Read(buffer)
		if n > 0 && !reading.arrived(buffer[:n], r.now(), rec) {
			err = errBadReply
		}
		c.answered.Store(reading.received)
		if !ended {
			select {
			case total = <-sent:
				ended = true
			default:
			}
		}
		if err != nil && (final || !isTimeout(err)) {
			_ = c.conn.Close()
			if !ended {
				<-sent
			}
			return err
		}
	}
	c.flow.replies = reading.replies
	return nil
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// sendOnSchedule sends until the run is over and returns how many commands it sent.
func (c *stream) sendOnSchedule(r *run) uint64 {
	f := c.flow
	for {
		now := r.now()
		if r.over(now) {
			return f.sent
		}
		f.due = f.schedule.dueAt(now)
		f.received = c.answered.Load()
		if _, err := c.conn.Write(f.next(now)); err != nil {
			return f.sent
		}
		next := f.schedule.intended(f.due) - now
		if f.due > f.sent { // the pipeline is full
			next = 100 * time.Microsecond
		}
		time.Sleep(min(max(next, 0), longestPause))
	}
}

// longestPause bounds how late a sender notices that its run is over.
const longestPause = 50 * time.Millisecond
