package upstream

import (
	"errors"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/sluiceproxy/sluice/internal/loop"
	"github.com/sluiceproxy/sluice/internal/pipe"
	"github.com/sluiceproxy/sluice/internal/topology"
)

// bench is one loop's part of a cluster, driven by hand: the test makes the connections that it asks for.
type bench struct {
	*loop.Manual
	t       *testing.T
	cluster *Cluster
	local   *Local
	dials   []*fakeDial // asked for and not yet ended
}

// fakeDial is a connection that was asked for.
type fakeDial struct {
	addr   string
	target Target
	done   func(Link, error)
}

// fakeLink is a connection that was made.
type fakeLink struct {
	*loop.Fake
	dropped, released bool
}

func (l *fakeLink) Attach(c *loop.Conn) error { l.Fake = c.Loop().AttachFake(c); return nil }
func (l *fakeLink) Drop()                     { l.dropped = true }
func (l *fakeLink) Release()                  { l.released = true }

// Dial implements Dialer.
func (b *bench) Dial(_ *loop.Loop, addr string, target Target, done func(Link, error)) {
	b.dials = append(b.dials, &fakeDial{addr, target, done})
}

func newBench(t *testing.T, cfg Config) *bench {
	b := &bench{Manual: loop.NewManual(), t: t}
	cfg.Name, cfg.Dialer, cfg.Seed = "main", b, 1
	if len(cfg.Addresses) == 0 {
		cfg.Addresses = []string{"a:1"}
	}
	b.cluster = NewCluster(cfg, []*loop.Loop{b.Loop}, zap.NewNop())
	b.local = b.cluster.Local(0)
	return b
}

var errRefusedDial = errors.New("connection refused")

// connect ends the oldest dial with a connection, refuse with none.
func (b *bench) connect() *fakeLink {
	b.t.Helper()
	require.NotEmpty(b.t, b.dials, "no connection was asked for")
	d, l := b.dials[0], &fakeLink{}
	b.dials = b.dials[1:]
	d.done(l, nil)
	b.Tick()
	return l
}

func (b *bench) refuse() {
	b.t.Helper()
	require.NotEmpty(b.t, b.dials, "no connection was asked for")
	d := b.dials[0]
	b.dials = b.dials[1:]
	d.done(nil, errRefusedDial)
	b.Tick()
}

// pass lets time pass in steps that no timer is late by more than.
func (b *bench) pass(d time.Duration) {
	for ; d > 0; d -= 10 * time.Millisecond {
		b.Advance(min(d, 10*time.Millisecond))
		b.Tick()
	}
}

// caller is a call and what became of it.
type caller struct {
	pipe.Call
	got    string
	failed *pipe.Failure
	freed  int
}

func (c *caller) Reply(_ *pipe.Call, b []byte, _ bool) { c.got += string(b) }
func (c *caller) Failed(_ *pipe.Call, f pipe.Failure)  { c.failed = &f }
func (c *caller) WaitAlone(*pipe.Call) bool            { return false }
func (c *caller) Free(*pipe.Call)                      { c.freed++ }

// send sends a command of RESP2 and database 0 with a timeout of one second.
func (b *bench) send(slot int32, lane uint32, request string) (*caller, Outcome) {
	c := &caller{}
	c.Receiver, c.Slot, c.Lane, c.Target = c, slot, lane, uint32(MakeTarget(2, 0))
	c.Origin, c.Deadline = &pipe.Origin{}, b.Now()+int64(time.Second)
	b.local.Refresh() // as a session does before each batch
	outcome := b.local.Send(&c.Call, []byte(request))
	b.Tick()
	return c, outcome
}

// mapOf is a topology in which the nodes share the slots evenly.
func mapOf(t *testing.T, addrs ...string) *topology.Map {
	t.Helper()
	var slots []any
	for i, addr := range addrs {
		host, port, err := net.SplitHostPort(addr)
		require.NoError(t, err)
		number, err := strconv.ParseInt(port, 10, 16)
		require.NoError(t, err)
		first, last := i*topology.SlotCount/len(addrs), (i+1)*topology.SlotCount/len(addrs)-1
		slots = append(slots, []any{int64(first), int64(last), []any{host, number, "id-" + host}})
	}
	from, ok := topology.EndpointAt(addrs[0], false)
	require.True(t, ok)
	m, err := topology.ParseSlots(slots, from)
	require.NoError(t, err)
	return m
}
