package pipe

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/loop"
)

const testThreshold = 64 << 10

// rig is a pipe on a loop that the test drives, with a node at the other end that the test plays.
type rig struct {
	*loop.Manual
	t       testing.TB
	pipe    *Pipe
	node    *loop.Fake
	traffic loop.Traffic
	loss    uint64
	late    uint64

	asked                 []string // error replies that the owner was asked about
	takes                 func(c *Call, line []byte) bool
	lost                  []LostCall
	lostErr               error
	losses                int
	larges, idles, drains int
}

func newRig(t testing.TB) *rig {
	r := &rig{Manual: loop.NewManual(), t: t}
	r.Advance(1)
	r.pipe, r.node = r.open()
	return r
}

// open makes one more connected pipe of the same owner.
func (r *rig) open() (*Pipe, *loop.Fake) {
	p := New(r.Loop, r, Config{StreamThreshold: testThreshold, LossID: &r.loss, Traffic: &r.traffic, Late: &r.late})
	return p, r.AttachFake(p.Conn())
}

// ErrorReply implements Owner.
func (r *rig) ErrorReply(_ *Pipe, c *Call, line []byte) bool {
	r.asked = append(r.asked, string(line))
	return r.takes != nil && r.takes(c, line)
}

// LargeReply implements Owner.
func (r *rig) LargeReply(*Pipe) { r.larges++ }

// Lost implements Owner.
func (r *rig) Lost(p *Pipe, calls []LostCall, err error) {
	require.True(r.t, p.Closed())
	require.Zero(r.t, p.Inflight())
	r.lost, r.lostErr = append(r.lost, calls...), err
	r.losses++
}

// Idle implements Owner.
func (r *rig) Idle(p *Pipe) {
	require.Zero(r.t, p.Inflight())
	r.idles++
}

// Drained implements Owner.
func (r *rig) Drained(*Pipe) { r.drains++ }

// client is a call and what became of it. It fails the test when that is more than one thing.
type client struct {
	Call
	rig     *rig
	request string
	got     strings.Builder
	pieces  int
	whole   bool
	failed  *Failure
	freed   bool
	onReply func()
}

func (r *rig) client() *client {
	c := &client{rig: r}
	c.Receiver = c
	return c
}

// send sends a request of its own for a new client.
func (r *rig) send(request string) *client {
	c := r.client()
	c.request = request
	r.pipe.Send(&c.Call, []byte(request))
	return c
}

// sendAll sends one command for each reply that the test is going to give.
func (r *rig) sendAll(n int) []*client {
	clients := make([]*client, n)
	for i := range clients {
		clients[i] = r.send(echoRequest(fmt.Sprint("request ", i)))
	}
	r.Tick()
	return clients
}

func echoRequest(word string) string {
	return fmt.Sprintf("*2\r\n$4\r\nECHO\r\n$%d\r\n%s\r\n", len(word), word)
}

func bulk(content string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(content), content) }

// Reply implements Receiver.
func (c *client) Reply(call *Call, b []byte, last bool) {
	require.Same(c.rig.t, &c.Call, call)
	require.False(c.rig.t, c.whole || c.failed != nil || c.freed, "a reply for a call that was settled: %q", b)
	c.got.Write(b)
	c.pieces++
	c.whole = last
	if c.onReply != nil {
		c.onReply()
	}
}

// Failed implements Receiver.
func (c *client) Failed(_ *Call, f Failure) {
	require.False(c.rig.t, c.whole || c.failed != nil || c.freed, "a failure for a call that was settled")
	c.failed = &f
}

// WaitAlone implements Receiver.
func (c *client) WaitAlone(*Call) bool { return false }

// Free implements Receiver.
func (c *client) Free(*Call) {
	require.False(c.rig.t, c.freed, "freed twice")
	require.True(c.rig.t, c.whole || c.failed != nil, "freed before it was settled")
	require.Nil(c.rig.t, c.Pipe())
	c.freed = true
}

// requireReply checks that the call got this reply and was let go of.
func (c *client) requireReply(t testing.TB, want string) {
	t.Helper()
	require.Nil(t, c.failed)
	require.True(t, c.whole, "no reply; want %.80q", want)
	require.True(t, c.freed, "not freed")
	if got := c.got.String(); got != want {
		require.FailNow(t, "wrong reply", "%d bytes %.80q instead of %d bytes %.80q", len(got), got, len(want), want)
	}
}
