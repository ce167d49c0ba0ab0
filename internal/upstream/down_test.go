package upstream

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/pipe"
)

func TestNodeThatCannotBeConnectedIsRefusedAtOnce(t *testing.T) {
	b := newBench(t, Config{})
	waiting, outcome := b.send(0, 0, "A")
	require.Equal(t, Sent, outcome)
	b.refuse()
	require.Equal(t, &pipe.Failure{Reason: pipe.Unavailable}, waiting.failed)
	require.Equal(t, 1, waiting.freed)
	_, outcome = b.send(0, 0, "B")
	require.Equal(t, Unreachable, outcome)
	require.Empty(t, b.dials, "a refused command asked for a connection")
}

// Attempts to reach a node that is away get rarer, and go on for ever at least once in a little more than a second.
func TestProbesBackOff(t *testing.T) {
	b := newBench(t, Config{})
	b.send(0, 0, "A")
	b.refuse()
	var at []time.Duration
	for now := time.Duration(0); now < 10*time.Second; now += 10 * time.Millisecond {
		b.pass(10 * time.Millisecond)
		if len(b.dials) > 0 {
			at = append(at, now)
			b.refuse()
		}
	}
	require.Less(t, len(at), 18)
	require.Greater(t, len(at), 9)
	require.Less(t, at[0], 100*time.Millisecond)
	for i := 1; i < len(at); i++ {
		require.Less(t, at[i]-at[i-1], 1300*time.Millisecond)
	}
}

func TestProbeThatSucceedsBecomesThePipe(t *testing.T) {
	b := newBench(t, Config{})
	b.send(0, 0, "A")
	b.refuse()
	b.pass(100 * time.Millisecond)
	link := b.connect()
	c, outcome := b.send(0, 0, "B")
	require.Equal(t, Sent, outcome)
	require.Equal(t, "B", string(link.Sent))
	link.Receive([]byte("+b\r\n"))
	require.Equal(t, "+b\r\n", c.got)
	b.pass(5 * time.Second)
	require.Empty(t, b.dials, "the node is up and was probed")
}

// What one target of a node finds out is known to the others: they do not wait for their next probe.
func TestReachedNodeIsTriedByAllAtOnce(t *testing.T) {
	b := newBench(t, Config{})
	n := b.local.node("a:1")
	two, three := n.target(MakeTarget(2, 0)), n.target(MakeTarget(3, 0))
	two.markDown(errRefusedDial)
	b.Advance(time.Millisecond)
	for range 5 { // drive the backoff of one of them up
		b.pass(2 * time.Second)
		for len(b.dials) > 0 {
			b.refuse()
		}
	}
	three.markDown(errRefusedDial)
	b.pass(70 * time.Millisecond)
	for i, d := range b.dials {
		if d.target == three.key {
			b.dials = append(b.dials[:i], b.dials[i+1:]...)
			d.done(&fakeLink{}, nil)
			break
		}
	}
	require.False(t, three.down)
	b.Tick()
	require.NotEmpty(t, b.dials)
	b.connect()
	require.False(t, two.down)
}

// A node that says nothing for as long as a command may take is given up and refused until it has been reached again.
func TestSilentNodeIsGivenUp(t *testing.T) {
	b := newBench(t, Config{})
	first, _ := b.send(0, 0, "A")
	link := b.connect()
	b.pass(900 * time.Millisecond)
	second, _ := b.send(0, 0, "B")
	require.Nil(t, first.failed)
	b.pass(150 * time.Millisecond)
	require.Equal(t, &pipe.Failure{Reason: pipe.TimedOut, InDoubt: true}, first.failed)
	require.True(t, link.Closed)
	require.True(t, link.released)
	require.True(t, second.failed.InDoubt)
	require.Equal(t, 1, first.freed)
	require.Equal(t, 1, second.freed)
	_, outcome := b.send(0, 0, "C")
	require.Equal(t, Unreachable, outcome)
}

// A redirect to a node is another node's word that it serves. It is tried at once, but not again and again.
func TestRedirectToANodeThatWasAway(t *testing.T) {
	b := newBench(t, Config{Kind: Sharded})
	require.NoError(t, b.cluster.Adopt(mapOf(t, "a:1", "b:2")))
	b.send(16383, 0, "X")
	require.Equal(t, "b:2", b.dials[0].addr)
	b.refuse()
	first, _ := b.send(0, 0, "A")
	link := b.connect()
	link.Receive([]byte("-ASK 0 b:2\r\n"))
	b.Tick()
	require.Equal(t, pipe.Unavailable, first.failed.Reason, "it has just failed")

	second, _ := b.send(0, 0, "B")
	b.Advance(60 * time.Millisecond) // no tick: the probe's timer has not run
	link.Receive([]byte("-ASK 0 b:2\r\n"))
	require.Nil(t, second.failed)
	require.Len(t, b.dials, 1)
	target := b.connect()
	require.Equal(t, "*1\r\n$6\r\nASKING\r\nB", string(target.Sent))
	target.Receive([]byte("+OK\r\n+b\r\n"))
	require.Equal(t, "+b\r\n", second.got)
}

// A command without a key goes to a node that can be reached, and always to the same.
func TestKeylessCommandAvoidsNodesThatAreAway(t *testing.T) {
	b := newBench(t, Config{Kind: Sharded})
	require.NoError(t, b.cluster.Adopt(mapOf(t, "a:1", "b:2", "c:3")))
	for range 3 {
		_, outcome := b.send(-1, 1, "PUBLISH")
		require.Equal(t, Sent, outcome)
	}
	require.Len(t, b.dials, 1)
	away := b.dials[0].addr
	b.refuse()
	c, outcome := b.send(-1, 1, "PUBLISH")
	require.Equal(t, Sent, outcome)
	require.NotEqual(t, away, b.dials[0].addr)
	b.connect().Receive([]byte(":0\r\n:1\r\n:2\r\n:3\r\n")) // those that were never sent have come along
	require.Equal(t, ":3\r\n", c.got)
}
