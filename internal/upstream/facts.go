package upstream

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/time/rate"
)

const (
	// factsMax bounds what a cluster, and each loop of it, remembers.
	factsMax = 1024
	// askRate and askBurst bound what one asker, which is a tenant, may have asked of the nodes. Over it a question waits,
	// askPatience at most.
	askRate     = 50
	askBurst    = 200
	askPatience = time.Second
	// factStale is how much longer a fact holds whose renewal failed because no node answered.
	factStale = time.Second
)

var (
	// ErrRefused is a node's error reply to a question.
	ErrRefused = errors.New("the node refuses to answer")
	// ErrAskedTooMuch says that an asker has too many questions.
	ErrAskedTooMuch = errors.New("too many questions")
)

// Question is something to be asked of a cluster once and remembered.
type Question struct {
	// Key names the fact among all of the cluster.
	Key string
	// Asker is whose questions are bounded together.
	Asker string
	// Answer finds the fact with ask, which sends one command to a node and returns its reply as go-redis reads it from
	// RESP2. It runs off the loops. life is how long the fact holds; a fact that is nil goes first when room is needed.
	Answer func(ask Ask) (fact any, life time.Duration, err error)
}

// Ask sends a command to a node that answers. An error reply is ErrRefused.
type Ask func(args ...any) (reply any, err error)

// facts are what the nodes of a cluster were asked. For goroutines off the loops; a loop has its own copy of what it used.
type facts struct {
	mu struct {
		sync.Mutex
		known   map[string]fact
		flights map[string]*flight // questions under way
		limits  map[string]*rate.Limiter
	}
}

// fact is immutable.
type fact struct {
	value any
	until time.Time
}

// flight is a question under way. Whoever began it closes done; the other fields may be read then.
type flight struct {
	done chan struct{}
	fact fact
	err  error
}

func (f *facts) init() {
	f.mu.known = make(map[string]fact)
	f.mu.flights = make(map[string]*flight)
	f.mu.limits = make(map[string]*rate.Limiter)
}

// remembered is a fact as a loop keeps it, by the loop's clock.
type remembered struct {
	value any
	until int64
}

// Recall is the fact of that key if the loop knows it and it still holds. It does not allocate.
func (lc *Local) Recall(key []byte) (value any, known bool) {
	r, ok := lc.facts[string(key)]
	if !ok || r.until <= lc.loop.Now() {
		return nil, false
	}
	return r.value, true
}

// Learn finds a fact off the loop and calls done on it, always later and with the fact in hand: remembered or not, it may
// be gone again when it is looked for.
func (lc *Local) Learn(q Question, done func(value any, err error)) {
	c := lc.cluster
	if lc.closed {
		lc.loop.Post(func() { done(nil, errClosed) })
		return
	}
	if c.cfg.Dialer != nil { // only go-redis's connections can be asked: of other nodes nothing is known
		lc.loop.Post(func() { done(nil, nil) })
		return
	}
	c.dialing.Go(func() {
		found, err := c.learn(q)
		lc.loop.Post(func() {
			if err == nil {
				lc.remember(q.Key, found)
			}
			done(found.value, err)
		})
	})
}

func (lc *Local) remember(key string, f fact) {
	now := lc.loop.Now()
	makeRoom(lc.facts, func(r remembered) (expired, nothing bool) { return r.until <= now, r.value == nil })
	lc.facts[key] = remembered{f.value, now + int64(time.Until(f.until))}
}

// makeRoom deletes from facts that are too many: what has expired, else one that says that there is nothing, else any.
func makeRoom[T any](facts map[string]T, judge func(T) (expired, nothing bool)) {
	if len(facts) < factsMax {
		return
	}
	victim := ""
	for key, f := range facts {
		expired, nothing := judge(f)
		if expired {
			delete(facts, key)
		} else if nothing || victim == "" {
			victim = key
		}
	}
	if len(facts) >= factsMax {
		delete(facts, victim)
	}
}

// learn answers a question from memory, or by the answer that is under way, or by asking.
func (c *Cluster) learn(q Question) (fact, error) {
	f := &c.facts
	f.mu.Lock()
	old := f.mu.known[q.Key]
	limiter := f.limiterOf(q.Asker)
	f.mu.Unlock()
	if old.until.After(time.Now()) {
		return old, nil
	}
	waiting, cancel := context.WithTimeout(c.stopping, askPatience)
	defer cancel()
	if limiter.Wait(waiting) != nil {
		return fact{}, ErrAskedTooMuch
	}
	f.mu.Lock()
	fl := f.mu.flights[q.Key]
	if fl != nil {
		f.mu.Unlock()
		<-fl.done // which the life of a question bounds
		return fl.fact, fl.err
	}
	fl = &flight{done: make(chan struct{})}
	f.mu.flights[q.Key] = fl
	f.mu.Unlock()
	fl.fact, fl.err = c.answer(q, old)
	f.mu.Lock()
	delete(f.mu.flights, q.Key)
	if fl.err == nil {
		now := time.Now()
		makeRoom(f.mu.known, func(k fact) (expired, nothing bool) { return !k.until.After(now), k.value == nil })
		f.mu.known[q.Key] = fl.fact
	}
	f.mu.Unlock()
	close(fl.done)
	return fl.fact, fl.err
}

// limiterOf is the limiter of an asker. The lock is held.
func (f *facts) limiterOf(asker string) *rate.Limiter {
	limiter := f.mu.limits[asker]
	if limiter == nil {
		if len(f.mu.limits) >= factsMax {
			clear(f.mu.limits) // of tenants that may be gone
		}
		limiter = rate.NewLimiter(askRate, askBurst)
		f.mu.limits[asker] = limiter
	}
	return limiter
}

// answer asks. When no node can be reached, an old fact holds a little longer.
func (c *Cluster) answer(q Question, old fact) (fact, error) {
	ctx, cancel := context.WithTimeout(c.stopping, c.cfg.ConnectTimeout+time.Second)
	defer cancel()
	value, life, err := q.Answer(func(args ...any) (any, error) { return c.ask(ctx, args...) })
	switch {
	case err == nil:
		return fact{value, time.Now().Add(life)}, nil
	case old.value != nil:
		return fact{old.value, time.Now().Add(factStale)}, nil
	}
	return fact{}, err
}

// ask sends a command to the nodes in turn until one answers.
func (c *Cluster) ask(ctx context.Context, args ...any) (any, error) {
	err := errNobody
	for _, addr := range c.candidates() {
		client, clientErr := c.control(addr)
		if clientErr != nil {
			return nil, clientErr
		}
		var reply any
		reply, err = client.Do(ctx, args...).Result()
		var refused redis.Error
		switch {
		case err == nil, errors.Is(err, redis.Nil):
			return reply, nil
		case errors.As(err, &refused):
			return nil, ErrRefused
		case ctx.Err() != nil:
			return nil, hideAddress("cannot ask the node", err)
		}
	}
	return nil, hideAddress("cannot ask any node", err)
}

var errNobody = errors.New("no node is known")
