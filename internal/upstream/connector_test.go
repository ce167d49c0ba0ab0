package upstream

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/sluiceproxy/sluice/internal/loop"
	"github.com/sluiceproxy/sluice/internal/redistest"
)

// dialling is a cluster with one running loop in front of a node.
func dialling(t *testing.T, addr string, change func(cfg *Config)) (*Cluster, *loop.Loop) {
	t.Helper()
	l, err := loop.New(0)
	require.NoError(t, err)
	l.Start()
	cfg := Config{Name: "main", Addresses: []string{addr}, ConnectTimeout: time.Second}
	if change != nil {
		change(&cfg)
	}
	c := NewCluster(cfg, []*loop.Loop{l}, zap.NewNop())
	t.Cleanup(func() {
		c.Close()
		l.Stop()
		l.Wait()
	})
	return c, l
}

// collector is a loop.Handler that keeps what it gets.
type collector struct {
	got    chan string
	closed chan error
}

func newCollector() *collector { return &collector{make(chan string, 10), make(chan error, 1)} }

func (c *collector) Data(b []byte) int { c.got <- string(b); return len(b) }
func (c *collector) Drained()          {}
func (c *collector) EOF()              {}
func (c *collector) Closed(err error)  { c.closed <- err }

// The handshake is what the target says, and afterwards the loop speaks over the very connection that had it.
func TestDialledConnectionIsReadyForCommands(t *testing.T) {
	redistest.LeakCheck(t)
	server := redistest.Standalone(t, redistest.WithUser("app", "secret", "~* +@all"))
	c, l := dialling(t, server.Addr(), func(cfg *Config) { cfg.Username, cfg.Password = "app", "secret" })
	for _, target := range []Target{MakeTarget(2, 0), MakeTarget(3, 5)} {
		le, err := c.dial(context.Background(), server.Addr(), target)
		require.NoError(t, err)
		h := newCollector()
		var conn *loop.Conn
		require.True(t, l.Call(func() {
			conn = l.NewConn(h, nil)
			require.NoError(t, le.Attach(conn))
			conn.Append([]byte("*2\r\n$6\r\nCLIENT\r\n$4\r\nINFO\r\n"))
		}))
		info := <-h.got
		for _, want := range []string{" name=sluice ", " user=app ", map[int]string{0: " db=0 ", 5: " db=5 "}[target.Database()]} {
			require.Contains(t, info, want)
		}
		require.Equal(t, map[int]byte{2: '$', 3: '='}[target.Protocol()], info[0])
		require.True(t, l.Call(func() { conn.Close(nil) }))
		require.NoError(t, <-h.closed)
		le.Release()
		requireNoPooled(t, c, server.Addr(), target)
	}
}

// requireNoPooled: go-redis counts no connection any more.
func requireNoPooled(t *testing.T, c *Cluster, addr string, target Target) {
	t.Helper()
	k, err := c.connector(addr, target)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return k.client.PoolStats().TotalConns == 0 }, 5*time.Second, time.Millisecond)
}

func TestConnectionsMadeAtOnceAreDistinct(t *testing.T) {
	redistest.LeakCheck(t)
	server := redistest.Standalone(t)
	c, _ := dialling(t, server.Addr(), nil)
	var mu sync.Mutex
	fds := make(map[any]bool)
	var dials sync.WaitGroup
	const n = 16
	for range n {
		dials.Go(func() {
			le, err := c.dial(context.Background(), server.Addr(), MakeTarget(3, 0))
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			if le.fd >= 0 {
				fds[le.fd] = true
			} else {
				fds[le.nc] = true
			}
			t.Cleanup(le.Drop)
		})
	}
	dials.Wait()
	require.Len(t, fds, n)
	require.Equal(t, n, strings.Count(string(server.Do("CLIENT", "LIST")), " name=sluice "))
}

func TestDroppedConnectionIsClosed(t *testing.T) {
	redistest.LeakCheck(t)
	node := redistest.NewScripted(t)
	c, _ := dialling(t, node.Addr(), nil)
	le, err := c.dial(context.Background(), node.Addr(), MakeTarget(2, 0))
	require.NoError(t, err)
	node.AwaitOpen(1)
	le.Drop()
	node.AwaitOpen(0)
	requireNoPooled(t, c, node.Addr(), MakeTarget(2, 0))
}

// go-redis falls back to RESP2 when HELLO 3 is refused; a RESP3 session must not get RESP2 replies.
func TestNodeThatRefusesRESP3(t *testing.T) {
	redistest.LeakCheck(t)
	node := redistest.NewScripted(t)
	node.RefuseHello()
	c, _ := dialling(t, node.Addr(), nil)
	_, err := c.dial(context.Background(), node.Addr(), MakeTarget(3, 0))
	require.ErrorIs(t, err, errNoRESP3)
	node.AwaitOpen(0)
	le, err := c.dial(context.Background(), node.Addr(), MakeTarget(2, 0))
	require.NoError(t, err)
	le.Drop()
}

// A node that accepts and says nothing costs the connect timeout, all told, and leaves nothing open.
func TestSilentHandshakeEnds(t *testing.T) {
	redistest.LeakCheck(t)
	node := redistest.NewScripted(t)
	node.NoHandshake()
	node.Handle(func([][]byte) []byte { return nil })
	c, _ := dialling(t, node.Addr(), func(cfg *Config) { cfg.ConnectTimeout = 200 * time.Millisecond })
	for range 2 {
		start := time.Now()
		_, err := c.dial(context.Background(), node.Addr(), MakeTarget(2, 0))
		require.Error(t, err)
		require.Less(t, time.Since(start), time.Second)
	}
	node.AwaitOpen(0)
	// Those that wait for each other's handshakes wait no longer than that either.
	var dials sync.WaitGroup
	start := time.Now()
	for range 8 {
		dials.Go(func() {
			if _, err := c.dial(context.Background(), node.Addr(), MakeTarget(2, 0)); err == nil {
				t.Error("a connection was made")
			}
		})
	}
	dials.Wait()
	require.Less(t, time.Since(start), time.Second)
}

// A busy node that answers in time is not taken for one that cannot be reached, however many connections are made at once.
func TestManyHandshakesOfABusyNodeTakeTheirTime(t *testing.T) {
	redistest.LeakCheck(t)
	node := redistest.NewScripted(t)
	node.NoHandshake()
	node.HandleConn(func(c *redistest.ScriptedConn, args [][]byte) {
		if strings.EqualFold(string(args[0]), "HELLO") {
			c.Write("-ERR unknown command\r\n")
			return
		}
		c.Delay(30 * time.Millisecond)
		c.Write("+OK\r\n")
	})
	c, _ := dialling(t, node.Addr(), nil)
	var dials sync.WaitGroup
	for range 25 {
		dials.Go(func() {
			le, err := c.dial(context.Background(), node.Addr(), MakeTarget(2, 0))
			if err != nil {
				t.Error(err)
				return
			}
			t.Cleanup(le.Drop)
		})
	}
	dials.Wait()
}

func TestClosedClusterDialsNoMore(t *testing.T) {
	redistest.LeakCheck(t)
	node := redistest.NewScripted(t)
	c, _ := dialling(t, node.Addr(), nil)
	c.Close()
	_, err := c.dial(context.Background(), node.Addr(), MakeTarget(2, 0))
	require.Error(t, err)
	require.Zero(t, node.Accepted())
}
