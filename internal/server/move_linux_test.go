package server

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/sluiceproxy/sluice/internal/loop"
	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/route"
	"github.com/sluiceproxy/sluice/internal/session"
	"github.com/sluiceproxy/sluice/internal/tenant"
	"github.com/sluiceproxy/sluice/internal/upstream"
)

// front is a server with two loops in front of a real node.
type front struct {
	shared *session.Shared
	server *Server
	addr   string
}

func startFront(t *testing.T, queryBuffer int) *front {
	t.Helper()
	node := redistest.Standalone(t)
	var loops []*loop.Loop
	for i := range 2 {
		l, err := loop.New(i)
		require.NoError(t, err)
		loops = append(loops, l)
	}
	cluster := upstream.NewCluster(upstream.Config{Name: "main", Addresses: []string{node.Addr()}}, loops, zap.NewNop())
	registry, err := tenant.NewRegistry([]*tenant.Tenant{{Name: "acme", Cluster: "main", Databases: []int{0}, CommandTimeout: 5 * time.Second}})
	require.NoError(t, err)
	table, err := route.NewTable(registry, map[string]*upstream.Cluster{"main": cluster})
	require.NoError(t, err)
	f := &front{shared: session.NewShared(session.Settings{MaxInflight: 1024, OutputBuffer: 32 << 20, OutputGrace: time.Second, StreamThreshold: 256 << 10, QueryBuffer: queryBuffer}, "test")}
	f.shared.Table.Store(table)
	for _, l := range loops {
		f.shared.Workers = append(f.shared.Workers, session.NewWorker(l, f.shared))
		l.Start()
	}
	cluster.Start()
	f.server = New(Options{MaxClients: 1000}, f.shared, zap.NewNop())
	require.NoError(t, f.server.Listen(t.Context(), []Listener{{Network: "tcp", Address: "127.0.0.1:0"}}))
	require.NoError(t, f.server.Serve())
	f.addr = f.server.Addresses()[0].String()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		f.server.Drain(ctx)
		cluster.Close()
		for _, l := range loops {
			l.Stop()
			l.Wait()
		}
	})
	return f
}

// moved is how many clients have gone to another loop.
func (f *front) moved() (n uint64) {
	for _, w := range f.shared.Workers {
		w.Loop.Call(func() { n += w.Stats.Moved })
	}
	return n
}

// TestClientsMoveBetweenLoopsUnderLoad sends clients to and fro while they pipeline: every reply must come, in order.
func TestClientsMoveBetweenLoopsUnderLoad(t *testing.T) {
	redistest.LeakCheck(t)
	f := startFront(t, 0)
	const clients, batches, depth = 16, 150, 4
	var running sync.WaitGroup
	failures := make(chan string, clients)
	for i := range clients {
		c := redistest.Dial(t, f.addr)
		running.Go(func() {
			key := fmt.Sprint("counter", i)
			for batch := range batches {
				for range depth {
					if err := c.TrySend(redistest.Command("INCR", key)); err != nil {
						failures <- err.Error()
						return
					}
				}
				for n := range depth {
					got, err := c.TryRead()
					if want := fmt.Sprintf(":%d\r\n", batch*depth+n+1); err != nil || string(got) != want {
						failures <- fmt.Sprintf("%s: got %q and %v, want %q", key, got, err, want)
						return
					}
				}
			}
		})
	}
	done := make(chan struct{})
	go func() {
		running.Wait()
		close(done)
	}()
	for turning := true; turning; {
		select {
		case <-done:
			turning = false
		case <-time.After(time.Millisecond):
			f.shift()
		}
	}
	close(failures)
	for failure := range failures {
		t.Error(failure)
	}
	require.Greater(t, f.moved(), uint64(clients))
}

// shift asks every client to go to the other loop.
func (f *front) shift() {
	for i, w := range f.shared.Workers {
		to := f.shared.Workers[1-i]
		w.Loop.Call(func() { w.Each(func(c *session.Session) { c.Move(to) }) })
	}
}

func TestIdleProcessorsAreCounted(t *testing.T) {
	var m idleMeter
	_, known := m.read()
	require.False(t, known, "one reading tells nothing")
	require.Eventually(t, func() bool {
		idle, known := m.read()
		return known && idle >= 0
	}, 5*time.Second, 50*time.Millisecond)
}
