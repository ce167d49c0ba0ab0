package e2e

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/redistest"
)

// counterClient increments a key of its own until its connection ends and counts the replies.
type counterClient struct {
	conn    *redistest.Conn
	key     string
	depth   int // commands per write
	replies atomic.Int64
	wrong   atomic.Pointer[string] // the first reply that was not the next number
}

// run is a closed loop: the next batch is sent when the last one is answered.
func (c *counterClient) run() {
	batch := strings.Repeat(redistest.Command("INCR", c.key), c.depth)
	for c.conn.TrySend(batch) == nil {
		if !c.readBatch() {
			return
		}
	}
	c.readBatch()
}

func (c *counterClient) readBatch() bool {
	for range c.depth {
		if !c.read() {
			return false
		}
	}
	return true
}

// flood is an open loop: commands are sent whether replies come or not.
func (c *counterClient) flood() {
	var reading sync.WaitGroup
	reading.Go(func() {
		for c.read() {
		}
	})
	batch := strings.Repeat(redistest.Command("INCR", c.key), c.depth)
	for open := true; open; {
		open = c.conn.TrySend(batch) == nil
	}
	reading.Wait()
}

func (c *counterClient) read() bool {
	reply, err := c.conn.TryRead()
	if err != nil {
		return false
	}
	if want := ":" + strconv.FormatInt(c.replies.Add(1), 10) + "\r\n"; string(reply) != want {
		text := fmt.Sprintf("%s: got %q, want %q", c.key, reply, want)
		c.wrong.CompareAndSwap(nil, &text)
	}
	return true
}

// requireAllAnswered: what the server executed is what the clients had answers to, no more and no less.
func requireAllAnswered(t *testing.T, server *redistest.Server, clients []*counterClient) {
	t.Helper()
	for _, c := range clients {
		if wrong := c.wrong.Load(); wrong != nil {
			t.Error(*wrong)
		}
		want := fmt.Sprint(c.replies.Load())
		require.Positive(t, c.replies.Load())
		require.Equal(t, fmt.Sprintf("$%d\r\n%s\r\n", len(want), want), string(server.Do("GET", c.key)), c.key)
	}
}

func awaitReplies(t *testing.T, clients []*counterClient, count int64) {
	t.Helper()
	require.Eventually(t, func() bool {
		for _, c := range clients {
			if c.replies.Load() < count {
				return false
			}
		}
		return true
	}, eventually, tick)
}

func TestDrainUnderLoadLosesNoReply(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	files := redistest.NewTLSFiles(t)
	p := startProxy(t, listenYAML(server.Addr(),
		fmt.Sprintf(`{address: "127.0.0.1:0"}, {address: "127.0.0.1:0", tls: {cert: %q, key: %q}}`, files.ServerCert, files.ServerKey)))
	p.awaitReady(t)
	var clients []*counterClient
	var running sync.WaitGroup
	for i := range 24 {
		var secure *tls.Config
		address := p.Addr
		if i%6 == 5 {
			secure, address = files.ClientConfig(t), p.Addresses()[1].String()
		}
		c := &counterClient{conn: redistest.DialTLS(t, address, secure), key: fmt.Sprintf("counter:%d", i), depth: []int{1, 1, 10, 100}[i%4]}
		clients = append(clients, c)
		running.Go(func() { c.run(); c.conn.Close() })
	}
	idle := redistest.Dial(t, p.Addr)
	require.Equal(t, "+PONG\r\n", string(idle.Do("PING")))
	half := redistest.Dial(t, p.Addr)
	half.Send("*2\r\n$3\r\nGET\r\n$1")
	awaitReplies(t, clients, 100)

	start := time.Now()
	require.NoError(t, p.stop())
	require.Less(t, time.Since(start), 10*time.Second)
	idle.RequireClosed()
	half.RequireClosed()
	running.Wait()
	requireAllAnswered(t, server, clients)
	_, err := net.DialTimeout("tcp", p.Addr, time.Second)
	require.Error(t, err, "nobody is let in any more")
}

// TestDrainEndsClientsThatNeverPause: an open loop never has a moment without a command in flight.
func TestDrainEndsClientsThatNeverPause(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	p := startProxy(t, standaloneYAML(server.Addr(), "clients: {max_inflight: 200}"))
	p.awaitReady(t)
	var clients []*counterClient
	var running sync.WaitGroup
	for i := range 4 {
		c := &counterClient{conn: redistest.Dial(t, p.Addr), key: fmt.Sprintf("counter:%d", i), depth: 50}
		clients = append(clients, c)
		running.Go(func() { c.flood(); c.conn.Close() })
	}
	awaitReplies(t, clients, 1000)
	start := time.Now()
	require.NoError(t, p.stop())
	require.Less(t, time.Since(start), 10*time.Second)
	running.Wait()
	requireAllAnswered(t, server, clients)
}

func TestDrainWaitsForTheBackend(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	p := startProxy(t, standaloneYAML(server.Addr()))
	p.awaitReady(t)
	c := redistest.Dial(t, p.Addr)
	require.Equal(t, "+OK\r\n", string(c.Do("SET", "k", "v")))
	server.Stop()
	c.Send("GET k\r\nSELECT 1\r\nGET k\r\n")
	other := redistest.Dial(t, p.Addr)
	require.Equal(t, "+PONG\r\n", string(other.Do("PING"))) // by then the three commands have been read
	p.cancel()
	require.Eventually(t, func() bool {
		status, body, _ := p.get(t, "/readyz")
		return status == http.StatusServiceUnavailable && strings.Contains(body, "draining")
	}, eventually, tick)
	status, _, _ := p.get(t, "/healthz")
	require.Equal(t, http.StatusOK, status)
	other.RequireClosed()
	server.Continue()
	for _, want := range []string{"$1\r\nv\r\n", "+OK\r\n", "$-1\r\n"} {
		c.RequireReply(want)
	}
	c.RequireClosed()
	c.Close()
	other.Close()
	require.NoError(t, p.stop())
}

func TestDrainTimeoutCutsOff(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	p := startProxy(t, standaloneYAML(server.Addr(), "drain_timeout: 500ms"))
	p.awaitReady(t)
	stuck, idle := redistest.Dial(t, p.Addr), redistest.Dial(t, p.Addr)
	require.Equal(t, "+PONG\r\n", string(idle.Do("PING")))
	require.Equal(t, "+OK\r\n", string(stuck.Do("SET", "k", "v")))
	server.Stop()
	defer server.Continue()
	stuck.Send("GET k\r\n")
	require.Equal(t, "+PONG\r\n", string(idle.Do("PING")))
	start := time.Now()
	require.EqualError(t, p.stop(), "1 clients were not done within drain_timeout and were disconnected")
	require.Less(t, time.Since(start), 5*time.Second)
	stuck.RequireClosed()
	idle.RequireClosed()
}
