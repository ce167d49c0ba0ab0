package load_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sluiceproxy/sluice/bench/load"
	"github.com/sluiceproxy/sluice/bench/rig"
)

func startRedis(t *testing.T) *rig.Process {
	t.Helper()
	if !rig.Installed("redis-server") {
		t.Skip("redis-server is not installed")
	}
	r, err := rig.New()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	p, err := r.Redis(t.Context())
	require.NoError(t, err)
	require.NoError(t, rig.Fill(t.Context(), []*rig.Process{p}, 100, 32))
	return p
}

func workload(operation load.Operation) load.Workload {
	return load.Workload{
		Operation: operation, ValueSize: 32, KeySpace: 100, Threads: 2, Clients: 3, Pipeline: 4,
		Warmup: 20 * time.Millisecond, Duration: 150 * time.Millisecond,
	}
}

func TestLoadOnARealServer(t *testing.T) {
	p := startRedis(t)
	for _, g := range []load.Generator{{}, {Goroutines: true}} {
		for _, operation := range []load.Operation{load.Get, load.Set} {
			t.Run(g.Name()+" "+string(operation), func(t *testing.T) {
				var order []string
				result, err := g.Run(t.Context(), p.Addr, workload(operation), load.Hooks{
					Start: func() { order = append(order, "start") },
					End:   func() { order = append(order, "end") },
				})
				require.NoError(t, err)
				require.Equal(t, []string{"start", "end"}, order)
				require.Zero(t, result.Errors, result.FirstError)
				require.Zero(t, result.Misses)
				require.Greater(t, result.Commands, uint64(500))
				require.Positive(t, result.P50)
				require.LessOrEqual(t, result.P50, result.P99)
				require.LessOrEqual(t, result.P99, result.P999)
			})
		}
	}
}

func TestOpenLoopKeepsItsRate(t *testing.T) {
	p := startRedis(t)
	for _, g := range []load.Generator{{}, {Goroutines: true}} {
		t.Run(g.Name(), func(t *testing.T) {
			w := workload(load.Get)
			w.Rate = 2000
			result, err := g.Run(t.Context(), p.Addr, w, load.Hooks{})
			require.NoError(t, err)
			require.Zero(t, result.Errors, result.FirstError)
			require.InDelta(t, 300, float64(result.Commands), 60)
		})
	}
}

func TestLargeValuesPassInParts(t *testing.T) {
	p := startRedis(t)
	w := workload(load.Set)
	w.ValueSize, w.Pipeline, w.KeySpace, w.Duration = 4<<20, 1, 2, time.Second
	for _, operation := range []load.Operation{load.Set, load.Get} {
		w.Operation = operation
		result, err := load.Generator{}.Run(t.Context(), p.Addr, w, load.Hooks{})
		require.NoError(t, err)
		require.Zero(t, result.Errors, result.FirstError)
		require.Positive(t, result.Commands)
	}
}

func TestErrorRepliesAreTold(t *testing.T) {
	p := startRedis(t)
	w := workload(load.Set)
	w.ValueSize, w.Duration = 32, 50*time.Millisecond
	require.NoError(t, rig.Configure(t.Context(), p, "maxmemory", "1"))
	result, err := load.Generator{}.Run(t.Context(), p.Addr, w, load.Hooks{})
	require.NoError(t, err)
	require.Positive(t, result.Errors)
	require.Contains(t, result.FirstError, "OOM")
}

func TestAServerThatEndsIsTold(t *testing.T) {
	p := startRedis(t)
	for _, g := range []load.Generator{{}, {Goroutines: true}} {
		w := workload(load.Get)
		if g.Goroutines {
			p = startRedis(t)
		}
		result, err := g.Run(t.Context(), p.Addr, w, load.Hooks{Start: p.Stop})
		require.NoError(t, err)
		require.EqualValues(t, w.Connections(), result.Errors)
		require.Contains(t, result.FirstError, "connection lost")
	}
}

func TestCancelledRunEndsSoonAndLeavesNothing(t *testing.T) {
	p := startRedis(t)
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	for _, g := range []load.Generator{{}, {Goroutines: true}} {
		ctx, cancel := context.WithCancel(t.Context())
		w := workload(load.Get)
		w.Duration = time.Minute
		began := time.Now()
		_, err := g.Run(ctx, p.Addr, w, load.Hooks{Start: cancel})
		require.ErrorIs(t, err, context.Canceled)
		require.Less(t, time.Since(began), 5*time.Second)
	}
}

func TestNobodyListening(t *testing.T) {
	_, err := load.Generator{}.Run(t.Context(), "127.0.0.1:1", workload(load.Get), load.Hooks{})
	require.ErrorContains(t, err, "cannot connect to 127.0.0.1:1")
}
