package server

import (
	"context"
	"time"

	"github.com/sluiceproxy/sluice/internal/session"
)

const (
	balanceInterval = 250 * time.Millisecond
	// A loop gives clients away when it is busier than hot and another is less busy than cool, for two looks in a row.
	hot  = 0.85
	cool = 0.6
	// spareCores is how much of the machine must be idle: on a machine whose processors are all busy, a second loop would
	// only share system calls among fewer clients.
	spareCores = 1.0
)

// Balance moves clients from a loop that is overloaded to one that is not, until ctx ends. New clients are placed by the
// load at that time; when many connect before any of them sends a command, they all land on one loop.
func (s *Server) Balance(ctx context.Context) {
	if len(s.shared.Workers) < 2 {
		return
	}
	ticker := time.NewTicker(balanceInterval)
	defer ticker.Stop()
	var idle idleMeter
	idle.read()
	looks := 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		from, to := s.extremes()
		spare, known := idle.read()
		if !known || spare < spareCores || from.Loop.Utilisation() < hot || to.Loop.Utilisation() > cool {
			looks = 0
			continue
		}
		if looks++; looks < 2 {
			continue
		}
		looks = 0
		s.shift(from, to)
	}
}

// extremes are the busiest loop and the fullest of those that are cool, or else the least busy.
func (s *Server) extremes() (busiest, next *session.Worker) {
	workers := s.shared.Workers
	busiest, next = workers[0], workers[0]
	for _, w := range workers {
		if w.Loop.Utilisation() > busiest.Loop.Utilisation() {
			busiest = w
		}
	}
	for _, w := range workers {
		u, best := w.Loop.Utilisation(), next.Loop.Utilisation()
		switch {
		case w == busiest:
		case next == busiest, best > cool && u < best, u <= cool && u > best:
			next = w
		}
	}
	return busiest, next
}

// shift asks as many clients to move as would even the two loops out, at most a third of them at a time: what they cost
// is not known one by one.
func (s *Server) shift(from, to *session.Worker) {
	gap := (from.Loop.Utilisation() - to.Loop.Utilisation()) / 2
	from.Loop.Post(func() {
		n := from.Sessions()
		wanted := min(n/3, int(float64(n)*gap))
		from.Each(func(c *session.Session) {
			if wanted > 0 && !c.Moving() {
				c.Move(to)
				wanted--
			}
		})
	})
}
