package e2e

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/redistest"
)

// TestChurnLeavesNothingBehind: thousands of clients that come, use everything and go, some in the middle of a command,
// leave as many goroutines, connections and bytes as there were before.
func TestChurnLeavesNothingBehind(t *testing.T) {
	redistest.LeakCheck(t)
	server := redistest.Standalone(t)
	p := startProxy(t, standaloneYAML(server.Addr(), "loops: 2", "pipes: {max: 2, idle_timeout: 1s}"))
	p.awaitReady(t)
	churn(t, p, 200) // fills the free lists
	awaitNoClients(t, p)
	goroutines, heap, connections := runtime.NumGoroutine(), heapInUse(), upstreamConnections(t, p)

	churn(t, p, 2000)
	awaitNoClients(t, p)
	require.Eventually(t, func() bool { return runtime.NumGoroutine() <= goroutines+5 }, eventually, tick,
		"%d goroutines before", goroutines)
	require.LessOrEqual(t, upstreamConnections(t, p), connections+8.0)
	require.Eventually(t, func() bool { return heapInUse() < heap+8<<20 }, eventually, 100*time.Millisecond, "%d bytes before", heap)
	require.InDelta(t, 2200, p.metric(t, "sluice_clients_accepted_total"), 20)
	require.InDelta(t, 0, p.metric(t, "sluice_inflight_calls"), 0)
}

func churn(t *testing.T, p *proxy, cycles int) {
	t.Helper()
	const workers = 8
	c := newCrowd(t)
	for w := range workers {
		c.join(func() {
			for i := range cycles / workers {
				if err := oneVisit(t, p.Addr, w*10_000+i); err != nil {
					c.wrong("visit %d: %v", i, err)
					return
				}
			}
		})
	}
	c.wg.Wait()
	c.requireRight()
}

// oneVisit is a client that connects, does something, and leaves in one of several ways.
func oneVisit(t *testing.T, addr string, n int) error {
	c, err := redistest.TryDial(t, addr)
	if err != nil {
		return err
	}
	defer c.Close()
	if n%2 == 1 {
		if _, err := c.TryDo("HELLO", "3", "SETNAME", "visitor"); err != nil {
			return err
		}
	}
	key := fmt.Sprint("visit:", n%100)
	for _, args := range [][]string{{"SET", key, "v"}, {"GET", key}, {"SELECT", "1"}, {"DEL", key}} {
		if reply, err := c.TryDo(args...); err != nil || reply[0] == '-' {
			return fmt.Errorf("%v: %q: %w", args, reply, err)
		}
	}
	switch n % 6 {
	case 0: // leaves with replies on their way
		return c.TrySend(strings.Repeat(redistest.Command("GET", key), 50))
	case 1: // leaves in the middle of a command
		return c.TrySend("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$100\r\nabc")
	case 2: // leaves in the middle of a command that is being streamed
		return c.TrySend("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$2000000\r\n" + strings.Repeat("x", 50_000))
	case 3:
		_, err = c.TryDo("QUIT")
	case 4: // something large, both ways
		if _, err = c.TryDo("SET", "large", strings.Repeat("x", 400_000)); err == nil {
			err = c.TrySend(redistest.Command("GET", "large"))
		}
	}
	return err
}

func awaitNoClients(t *testing.T, p *proxy) {
	t.Helper()
	require.Eventually(t, func() bool { return p.Clients() == 0 }, eventually, tick)
}

// upstreamConnections counts those that the proxy has to the server now.
func upstreamConnections(t *testing.T, p *proxy) float64 {
	t.Helper()
	return p.metric(t, "sluice_upstream_connections")
}

// TestPipesShrink: what was opened under load is closed when it is not needed any more, also on the server's side.
func TestPipesShrink(t *testing.T) {
	t.Parallel() // it waits most of the time
	server := redistest.Standalone(t)
	relay := redistest.NewFaultyProxy(t, server.Addr())
	p := startProxy(t, tenantYAML("standalone", []string{relay.Addr()}, "command_timeout: 30s", "loops: 1", "pipes: {max: 4, grow_delay: 1us, idle_timeout: 1s}"))
	p.awaitReady(t)
	// More than the sockets hold is sent to a server that does not read for a while: commands queue up in the proxy.
	const large = 200_000
	relay.ToServer(redistest.Faults{BlackHole: true})
	var clients sync.WaitGroup
	packet := strings.Repeat(redistest.Command("SET", "k", strings.Repeat("x", large)), 8)
	for range 16 {
		c := hello(t, p.Addr, 2)
		clients.Go(func() {
			for range 3 {
				if c.TrySend(packet) != nil {
					return
				}
				for range 8 {
					if _, err := c.TryRead(); err != nil {
						return
					}
				}
			}
		})
	}
	require.Eventually(t, func() bool { return p.metric(t, "sluice_client_bytes_total", `direction="in"`) > 16*8*large }, eventually, tick)
	relay.ToServer(redistest.Faults{})
	most := 0.0
	done := make(chan struct{})
	go func() { clients.Wait(); close(done) }()
	for waiting := true; waiting; {
		select {
		case <-done:
			waiting = false
		case <-time.After(10 * time.Millisecond):
			most = max(most, p.metric(t, "sluice_pipes", `state="up"`))
		}
	}
	require.Greater(t, most, 1.0, "the load has opened no pipe")
	relay.Heal()
	c := hello(t, p.Addr, 2)
	require.Equal(t, "+OK\r\n", string(c.Do("SET", "k", "v")))
	require.Eventually(t, func() bool {
		return p.metric(t, "sluice_pipes", `state="up"`) == 1 && p.metric(t, "sluice_upstream_connections") == 1
	}, 20*time.Second, 100*time.Millisecond)
	require.Eventually(t, func() bool { return relay.Open() <= 2 }, eventually, tick, "the server has more connections than the pipe and the probe's")
	require.Equal(t, "$1\r\nv\r\n", string(c.Do("GET", "k")))
}
