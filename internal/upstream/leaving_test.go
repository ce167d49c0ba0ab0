package upstream

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/pipe"
)

// A node that leaves the topology still answers what it was sent, and then its connection is closed.
func TestNodeThatLeavesAnswersWhatItWasSent(t *testing.T) {
	b := newBench(t, Config{Kind: Sharded})
	require.NoError(t, b.cluster.Adopt(mapOf(t, "a:1", "b:2")))
	c, _ := b.send(16383, 0, "B")
	link := b.connect()
	require.NoError(t, b.cluster.Adopt(mapOf(t, "a:1")))
	b.Tick()
	require.False(t, link.Closed)
	link.Receive([]byte("+b\r\n"))
	b.Tick()
	require.Equal(t, "+b\r\n", c.got)
	require.True(t, link.Closed)
	require.True(t, link.released)
	b.pass(100 * time.Millisecond)
	require.Empty(t, b.local.leaving)
}

// Nor is what it was sent forgotten when it does not answer.
func TestCallToANodeThatLeavesTimesOut(t *testing.T) {
	b := newBench(t, Config{Kind: Sharded})
	require.NoError(t, b.cluster.Adopt(mapOf(t, "a:1", "b:2")))
	c, _ := b.send(16383, 0, "B")
	link := b.connect()
	require.NoError(t, b.cluster.Adopt(mapOf(t, "a:1")))
	b.pass(1100 * time.Millisecond)
	require.Equal(t, &pipe.Failure{Reason: pipe.TimedOut, InDoubt: true}, c.failed)
	require.Equal(t, 1, c.freed)
	require.True(t, link.Closed)
	b.pass(100 * time.Millisecond)
	require.Empty(t, b.local.leaving)
	require.False(t, b.local.watching, "the loop looks at pipes on which nothing is in flight")
}

// A connection that comes when its node has left, or when the loop is done with the cluster, is dropped.
func TestConnectionThatComesTooLate(t *testing.T) {
	for name, end := range map[string]func(b *bench){
		"node left": func(b *bench) { require.NoError(b.t, b.cluster.Adopt(mapOf(b.t, "a:1"))) },
		"closed":    func(b *bench) { b.local.close() },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, Config{Kind: Sharded})
			require.NoError(t, b.cluster.Adopt(mapOf(t, "a:1", "b:2")))
			b.local.node("b:2").target(MakeTarget(2, 0)).markDown(errRefusedDial)
			b.pass(100 * time.Millisecond)
			require.NotEmpty(t, b.dials)
			end(b)
			b.Tick()
			link := b.connect()
			require.True(t, link.dropped || link.Fake != nil && link.Closed, "the connection is left open")
		})
	}
}

func TestCloseEndsWhatIsInFlight(t *testing.T) {
	b := newBench(t, Config{})
	c, _ := b.send(0, 0, "A")
	link := b.connect()
	unsent, _ := b.send(0, 0, "B")
	b.local.close()
	b.Tick()
	require.True(t, link.Closed)
	require.True(t, link.released)
	require.Equal(t, &pipe.Failure{Reason: pipe.Lost, InDoubt: true}, c.failed)
	require.NotNil(t, unsent.failed)
	require.Equal(t, []int{1, 1}, []int{c.freed, unsent.freed})
	_, outcome := b.send(0, 0, "C")
	require.Equal(t, Unreachable, outcome)
}
