package pipe

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/loop"
	"github.com/sluiceproxy/sluice/pkg/resp"
)

// TestAnyOrderOfEvents plays calls on pipes that write short, break, redirect, answer late, in pieces and with pushes in
// between. Every call must be settled once, with its own reply or a failure that tells the truth, and freed once.
func TestAnyOrderOfEvents(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	if fixed := os.Getenv("SLUICE_SEED"); fixed != "" {
		var err error
		seed, err = strconv.ParseUint(fixed, 10, 64)
		require.NoError(t, err)
	}
	t.Logf("SLUICE_SEED=%d", seed)
	total := outcomes{}
	for world := range uint64(150) {
		w := newWorld(t, rand.New(rand.NewPCG(seed, world)))
		for range 400 {
			w.step()
		}
		w.end(&total)
	}
	t.Logf("%+v", total)
	require.Positive(t, min(total.answered, total.inDoubt, total.notRun, total.late, total.redirected, total.retried), "the test does not reach everything")
}

// outcomes counts, so that the test sees that it reached what it is about.
type outcomes struct{ answered, inDoubt, notRun, late, redirected, retried int }

// world is a session layer above two nodes, each with one pipe at a time. It is the owner of the pipes.
type world struct {
	*rig
	random  *rand.Rand
	nodes   [2]*playedNode
	clients []*client
	writes  map[*client]bool
	origins [3]Origin
	counts  outcomes
}

// playedNode runs what it gets and keeps what it said.
type playedNode struct {
	world *world
	pipe  *Pipe
	fake  *loop.Fake
	out   string
	ran   map[string]int      // commands by word
	said  map[string][]string // replies by word, redirects apart
}

func newWorld(t *testing.T, random *rand.Rand) *world {
	w := &world{rig: &rig{Manual: loop.NewManual(), t: t}, random: random, writes: map[*client]bool{}}
	ran, said := map[string]int{}, map[string][]string{}
	for i := range w.nodes {
		w.nodes[i] = &playedNode{world: w, ran: ran, said: said}
		w.nodes[i].connect()
	}
	return w
}

func (n *playedNode) connect() {
	w := n.world
	n.pipe = New(w.Loop, w, Config{StreamThreshold: testThreshold, LossID: &w.loss, Traffic: &w.traffic, Late: &w.late})
	n.fake, n.out = w.AttachFake(n.pipe.Conn()), ""
}

// ErrorReply implements Owner: redirects go to the other node.
func (w *world) ErrorReply(p *Pipe, c *Call, line []byte) bool {
	if !strings.HasPrefix(string(line), "-MOVED") {
		return false
	}
	w.counts.redirected++
	if c.Attempts > 3 {
		Discard(w.Loop, c, Failure{Reason: Unavailable})
		return true
	}
	for _, n := range w.nodes {
		if n.pipe != p && !n.pipe.Closed() {
			n.pipe.Resend(c)
			return true
		}
	}
	Discard(w.Loop, c, Failure{Reason: Unavailable})
	return true
}

// Lost implements Owner: what may be sent again is, on a new connection.
func (w *world) Lost(p *Pipe, calls []LostCall, _ error) {
	for _, n := range w.nodes {
		if n.pipe == p {
			n.connect()
			for _, lost := range calls {
				if lost.Retry && w.random.IntN(4) > 0 {
					w.counts.retried++
					n.pipe.Resend(lost.Call)
				} else {
					Discard(w.Loop, lost.Call, Failure{Reason: Lost, InDoubt: lost.InDoubt})
				}
			}
		}
	}
}

// LargeReply implements Owner.
func (w *world) LargeReply(*Pipe) {}

// Idle implements Owner.
func (w *world) Idle(p *Pipe) { require.Zero(w.t, p.Inflight()) }

func (w *world) step() {
	n := w.nodes[w.random.IntN(2)]
	switch w.random.IntN(12) {
	case 0, 1, 2:
		for range 1 + w.random.IntN(5) {
			w.call(n.pipe)
		}
	case 3, 4:
		w.Tick()
	case 5:
		n.fake.Allow(w.random.IntN(400) - 50)
	case 6, 7:
		n.work()
	case 8, 9:
		n.answer(w.random.IntN(len(n.out) + 1))
	case 10:
		w.Advance(time.Millisecond)
		_, _ = n.pipe.Expire(w.Now())
	default:
		if w.random.IntN(6) == 0 {
			n.fake.Break(errors.New("reset"))
			w.Tick()
		}
	}
}

func (w *world) call(p *Pipe) {
	c := &client{rig: w.rig, request: fmt.Sprint("call-", len(w.clients))}
	c.Receiver = c
	c.ReadOnly = w.random.IntN(2) == 0
	c.Origin = &w.origins[w.random.IntN(len(w.origins))]
	if w.random.IntN(3) == 0 {
		c.Deadline = w.Now() + int64(w.random.IntN(int(5*time.Millisecond))) + 1
	}
	w.clients = append(w.clients, c)
	p.Send(&c.Call, []byte(echoRequest(c.request)))
}

// work runs the commands that have come whole.
func (n *playedNode) work() {
	limits := resp.DefaultLimits()
	for {
		var scan resp.CommandScanner
		length, err := scan.Scan(n.fake.Sent, &limits)
		require.NoError(n.world.t, err)
		if length == 0 {
			return
		}
		word := string(resp.AppendArgs(nil, n.fake.Sent[:length])[1])
		n.fake.Sent = n.fake.Sent[length:]
		n.out += n.run(word)
	}
}

func (n *playedNode) run(word string) (reply string) {
	random := n.world.random
	switch random.IntN(12) {
	case 0:
		return "-MOVED 1 " + word + "\r\n"
	case 1:
		reply = "-ERR " + word + "\r\n"
	case 2:
		reply = bulk(word + strings.Repeat("x", random.IntN(2*testThreshold)))
	case 3:
		reply = "*2\r\n" + bulk(word) + ":1\r\n"
	default:
		reply = bulk(word)
	}
	n.ran[word]++
	n.said[word] = append(n.said[word], reply)
	if random.IntN(8) == 0 {
		return ">1\r\n+push\r\n" + reply
	}
	return reply
}

// answer gives the pipe some of what the node has said.
func (n *playedNode) answer(size int) {
	if size > 0 && n.fake.Reading && !n.fake.Closed {
		b := n.out[:size]
		n.out = n.out[size:]
		n.fake.Receive([]byte(b))
	}
}

// end lets some connections finish and breaks the others, and judges.
func (w *world) end(total *outcomes) {
	if w.random.IntN(2) == 0 {
		for range 20 { // redirects go back and forth
			for _, n := range w.nodes {
				n.fake.Allow(-1)
				w.Tick()
				n.work()
				n.answer(len(n.out))
			}
		}
	}
	for w.inflight() > 0 {
		for _, n := range w.nodes {
			n.fake.Break(nil)
		}
		w.Tick()
	}
	for _, c := range w.clients {
		w.judge(c)
	}
	total.answered += w.counts.answered
	total.inDoubt += w.counts.inDoubt
	total.notRun += w.counts.notRun
	total.late += int(w.late)
	total.redirected += w.counts.redirected
	total.retried += w.counts.retried
}

func (w *world) inflight() int { return w.nodes[0].pipe.Inflight() + w.nodes[1].pipe.Inflight() }

func (w *world) judge(c *client) {
	node := w.nodes[0]
	ran, got := node.ran[c.request], c.got.String()
	require.True(w.t, c.freed, "%s was not freed", c.request)
	require.True(w.t, c.whole != (c.failed != nil), "%s was not settled once", c.request)
	switch {
	case c.whole:
		w.counts.answered++
		require.Contains(w.t, node.said[c.request], got, "%s got another's reply", c.request)
	case c.failed.InDoubt:
		w.counts.inDoubt++
	default:
		require.Empty(w.t, got, "%s was not run, and was answered", c.request)
		w.counts.notRun++
		require.True(w.t, ran == 0 || c.ReadOnly, "%s was run, and its client was told that it was not", c.request)
	}
	if !c.ReadOnly {
		require.LessOrEqual(w.t, ran, 1, "%s was run twice", c.request)
	}
}
