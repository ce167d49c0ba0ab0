package scenario

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/sluiceproxy/sluice/bench/cgroup"
	"github.com/sluiceproxy/sluice/bench/load"
	"github.com/sluiceproxy/sluice/bench/report"
	"github.com/sluiceproxy/sluice/bench/rig"
)

// manyConnections measures direct, floor and proxies under 200 connections.
func manyConnections(pipeline int) func(context.Context, *Lab) error {
	return func(ctx context.Context, l *Lab) error {
		targets, err := l.standaloneTargets(ctx)
		if err != nil {
			return err
		}
		name := fmt.Sprintf("p%d", pipeline)
		return l.rounds(ctx, name, l.Driver, targets, l.workload(load.Get, pipeline), l.workload(load.Set, pipeline))
	}
}

// standaloneTargets are one redis-server, the floor and all proxies.
func (l *Lab) standaloneTargets(ctx context.Context) ([]target, error) {
	backend, err := l.standalone(ctx)
	if err != nil {
		return nil, err
	}
	targets, err := l.targets(ctx, backend, l.versions()...)
	if err != nil {
		return nil, err
	}
	targets = l.chosen(targets)
	if !l.takesPart("floor") {
		return targets, nil
	}
	floor, err := l.rig.Floor(ctx, l.Module, 32)
	if errors.Is(err, rig.ErrNotPossible) {
		l.Report.Note("%v", err)
		return targets, nil
	}
	if err != nil {
		return nil, err
	}
	return slices.Insert(targets, min(1, len(targets)), target{name: "floor", addr: floor.Addr, proxy: floor}), nil
}

func judgeP1(l *Lab) {
	value, err := l.ratio("p1", "GET", "floor", report.ProxyCPU)
	l.Report.Judge(report.AtMost("p1", "proxy CPU per GET against the floor", 1.5, "×", value, err))
	for _, operation := range []string{"GET", "SET"} {
		value, err = l.ratio("p1", operation, "direct", report.BackendCPU)
		l.Report.Judge(report.AtMost("p1", "backend CPU per "+operation+" against direct", 0.25, "×", value, err))
	}
	for _, operation := range []string{"GET", "SET"} {
		value, err = l.ratio("p1", operation, "direct", report.Throughput)
		l.Report.Judge(report.AtLeast("p1", operation+" throughput against direct", 0.95, "×", value, err))
	}
}

func judgeP16(l *Lab) {
	value, err := l.ratio("p16", "GET", "floor", report.ProxyCPU)
	l.Report.Judge(report.AtMost("p16", "proxy CPU per GET against the floor", 2.6, "×", value, err))
}

// oneConnection measures what a proxy costs a client that waits for every reply.
func oneConnection(ctx context.Context, l *Lab) error {
	targets, err := l.standaloneTargets(ctx)
	if err != nil {
		return err
	}
	alone := func(operation load.Operation) load.Workload {
		w := l.workload(operation, 1)
		w.Threads, w.Clients = 1, 1
		return w
	}
	return l.rounds(ctx, "one", l.Driver, targets, alone(load.Get), alone(load.Set))
}

func judgeOne(l *Lab) {
	for _, operation := range []string{"GET", "SET"} {
		value, err := l.ratio("one", operation, "direct", report.Throughput)
		l.Report.Judge(report.AtLeast("one", operation+" throughput against direct", 0.75, "×", value, err))
	}
}

// starved measures a backend that is held to a share of a processor.
func starved(ctx context.Context, l *Lab) (err error) {
	limiter, err := cgroup.Detect()
	if err != nil {
		return err
	}
	backend, err := l.standalone(ctx)
	if err != nil {
		return err
	}
	targets, err := l.targets(ctx, backend, l.proxies()...)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("sluicebench-%d", os.Getpid())
	group, err := limiter.Hold(name, l.BackendCPU, backend.Nodes[0].PID())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, group.Remove()) }()
	// The kernel hands the quota out once per period: a warm-up of a few periods makes rounds alike.
	get, set := l.workload(load.Get, 1), l.workload(load.Set, 1)
	get.Warmup, set.Warmup = max(l.Warmup, 500*time.Millisecond), max(l.Warmup, 500*time.Millisecond)
	return l.rounds(ctx, "starved", l.Driver, targets, get, set)
}

func judgeStarved(l *Lab) {
	for operation, limit := range inOrder("GET", 5, "SET", 4) {
		value, err := l.ratio("starved", operation, "direct", report.Throughput)
		what := fmt.Sprintf("%s throughput against direct, backend held to %g CPU", operation, l.BackendCPU)
		l.Report.Judge(report.AtLeast("starved", what, limit, "×", value, err))
		value, err = l.ratio("starved", operation, "direct", report.P99)
		l.Report.Judge(report.AtMost("starved", operation+" p99 against direct's", 0.5, "×", value, err))
	}
}

// inOrder iterates over two named limits.
func inOrder(first string, firstLimit float64, second string, secondLimit float64) func(func(string, float64) bool) {
	return func(yield func(string, float64) bool) {
		_ = yield(first, firstLimit) && yield(second, secondLimit)
	}
}

// cluster compares each proxy in front of three primaries with itself in front of one server.
func cluster(ctx context.Context, l *Lab) error {
	single, err := l.standalone(ctx)
	if err != nil {
		return err
	}
	nodes, err := l.rig.RedisCluster(ctx, 3)
	if err != nil {
		return err
	}
	if err := rig.Fill(ctx, nodes, keySpace, 32); err != nil {
		return err
	}
	three := rig.Backend{Nodes: nodes, Cluster: true}
	var targets []target
	for _, name := range l.versions() {
		if !l.takesPart(name) {
			continue
		}
		p, err := l.proxy(ctx, name, three)
		if errors.Is(err, rig.ErrNotPossible) {
			l.Report.Note("%v", err)
			continue
		}
		if err != nil {
			return err
		}
		alone, err := l.proxy(ctx, name, single)
		if err != nil {
			return err
		}
		targets = append(targets,
			target{name: name, addr: p.Addr, proxy: p, backends: nodes},
			target{name: name + " on one", addr: alone.Addr, proxy: alone, backends: single.Nodes})
	}
	if len(targets) == 0 {
		return nil
	}
	for _, pipeline := range []int{1, 16} {
		name := fmt.Sprintf("cluster p%d", pipeline)
		if err := l.rounds(ctx, name, l.Driver, targets, l.workload(load.Get, pipeline)); err != nil {
			return err
		}
	}
	return nil
}

func judgeCluster(l *Lab) {
	for scenario, limit := range inOrder("cluster p1", 1.3, "cluster p16", 1.8) {
		value, err := l.ratio(scenario, "GET", l.Subject+" on one", report.ProxyCPU)
		l.Report.Judge(report.AtMost(scenario, "proxy CPU per GET, three primaries against one server", limit, "×", value, err))
	}
}

// openLoop measures latency where the load does not wait for the server.
func openLoop(ctx context.Context, l *Lab) error {
	backend, err := l.standalone(ctx)
	if err != nil {
		return err
	}
	targets, err := l.targets(ctx, backend, l.proxies()...)
	if err != nil {
		return err
	}
	get, set := l.workload(load.Get, 64), l.workload(load.Set, 64)
	get.Rate, set.Rate = l.Rate, l.Rate
	return l.rounds(ctx, "open", l.Own, targets, get, set)
}
