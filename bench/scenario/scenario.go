// Package scenario holds what the benchmark measures, each with the bars that it is judged by.
package scenario

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/sluiceproxy/sluice/bench/load"
	"github.com/sluiceproxy/sluice/bench/measure"
	"github.com/sluiceproxy/sluice/bench/report"
	"github.com/sluiceproxy/sluice/bench/rig"
)

// Options are the settings of a run that scenarios look at.
type Options struct {
	Subject         string   // the proxy that the bars are for: sluiced, or a peer in its place
	Peers           []string // other proxies, for comparison
	Before          string   // an older daemon to compare with, built; empty: none
	Only            []string // the targets that take part in comparisons; empty: all
	Rounds          int
	Warmup          time.Duration
	Duration        time.Duration // of the measured part of one round
	Rate            float64       // commands per second of the open loop
	BackendCPU      float64       // share of a processor that the starved backend gets
	IdleConnections int
	IdleSettle      time.Duration // between the last command and the look at the memory
	LargeSettle     time.Duration // the same after the large values
	HugeBytes       int64         // size of the huge value
	Sluiced         rig.Sluiced
	Module          string // folder of the module's go.mod
	Results         string // folder for what is kept
}

// Lab is what all scenarios of a run work with.
type Lab struct {
	Options
	Driver   load.Driver // for closed loops
	Own      load.Driver // where the window must be exact, and for open loops
	Report   *report.Report
	Progress io.Writer

	rig *rig.Rig // of the running scenario
}

// Scenario is one question and how it is answered.
type Scenario struct {
	Name    string
	Title   string
	Extra   bool // runs only when named
	measure func(context.Context, *Lab) error
	judge   func(*Lab)
}

// All returns every scenario in the order in which they run.
func All() []Scenario {
	both := []string{string(load.Get), string(load.Set)}
	return []Scenario{
		{Name: "p1", Title: "200 connections, one command in flight each", measure: manyConnections(1), judge: withBefore(judgeP1, both, "p1")},
		{Name: "p16", Title: "200 connections, pipelines of 16", measure: manyConnections(16), judge: withBefore(judgeP16, both, "p16")},
		{Name: "one", Title: "one connection, one command in flight", measure: oneConnection, judge: withBefore(judgeOne, both, "one")},
		{Name: "starved", Title: "a backend with little CPU", measure: starved, judge: judgeStarved},
		{Name: "cluster", Title: "a cluster of three primaries against one server", measure: cluster, judge: withBefore(judgeCluster, both[:1], "cluster p1", "cluster p16")},
		{Name: "tenants", Title: "1,000 tenants on 20 clusters against one", measure: tenants, judge: judgeTenants},
		{Name: "transactions", Title: "3,000 transactions a second", measure: transactions, judge: judgeTransactions},
		{Name: "open", Title: "latency at a fixed rate", measure: openLoop},
		{Name: "allocs", Title: "heap allocations per command", measure: allocations, judge: judgeAllocations},
		{Name: "idle", Title: "memory of idle connections", measure: idle, judge: judgeIdle},
		{Name: "large", Title: "values of 1 MiB", measure: large, judge: judgeLarge},
		{Name: "huge", Title: "a value of 512 MiB", measure: huge, judge: judgeHuge},
		{Name: "pubsub", Title: "subscribers beside one that never reads", measure: pubsub, judge: judgePubsub},
		{Name: "profile", Title: "CPU profiles of sluiced", measure: profile, Extra: true},
	}
}

// Select returns the scenarios of those names in their order; without names, all but the extra ones.
func Select(names []string) ([]Scenario, error) {
	var selected []Scenario
	known := map[string]bool{}
	for _, s := range All() {
		known[s.Name] = true
		if slices.Contains(names, s.Name) || len(names) == 0 && !s.Extra {
			selected = append(selected, s)
		}
	}
	for _, name := range names {
		if !known[name] {
			return nil, fmt.Errorf("cannot run scenario %q: there is none of that name", name)
		}
	}
	return selected, nil
}

// Run runs the scenarios one after the other, each with processes of its own. What fails is noted and the next one
// runs, except after cancellation.
func (l *Lab) Run(ctx context.Context, scenarios []Scenario) error {
	var failures []error
	for _, s := range scenarios {
		l.progress("%s: %s", s.Name, s.Title)
		err := l.runOne(ctx, s)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			l.Report.Note("%s: %v", s.Name, err)
			failures = append(failures, fmt.Errorf("%s: %w", s.Name, err))
		}
		if s.judge != nil {
			s.judge(l)
		}
	}
	return errors.Join(failures...)
}

func (l *Lab) runOne(ctx context.Context, s Scenario) (err error) {
	if l.rig, err = rig.New(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.rig.Close()) }()
	return s.measure(ctx, l)
}

func (l *Lab) progress(format string, args ...any) {
	fmt.Fprintf(l.Progress, format+"\n", args...)
}

// target is what a load is sent to.
type target struct {
	name     string
	addr     string
	proxy    *rig.Process   // nil: none
	backends []*rig.Process // empty: none
	login    [][]byte       // what connections send first, by turns
}

func (t target) backendPIDs() []int {
	pids := make([]int, len(t.backends))
	for i, p := range t.backends {
		pids[i] = p.PID()
	}
	return pids
}

func (t target) proxyPIDs() []int {
	if t.proxy == nil {
		return nil
	}
	return []int{t.proxy.PID()}
}

// targets starts the proxies in front of a backend and returns them behind the backend itself, which is the target
// "direct". What is not possible on this machine is noted and left out.
func (l *Lab) targets(ctx context.Context, b rig.Backend, proxies ...string) ([]target, error) {
	targets := []target{{name: "direct", addr: b.Nodes[0].Addr, backends: b.Nodes}}
	for _, name := range proxies {
		p, err := l.proxy(ctx, name, b)
		if errors.Is(err, rig.ErrNotPossible) {
			l.Report.Note("%v", err)
			continue
		}
		if err != nil {
			return nil, err
		}
		targets = append(targets, target{name: name, addr: p.Addr, proxy: p, backends: b.Nodes})
	}
	return targets, nil
}

// proxies are the subject and its peers.
func (l *Lab) proxies() []string {
	return append([]string{l.Subject}, slices.DeleteFunc(slices.Clone(l.Peers), func(p string) bool { return p == l.Subject })...)
}

// workload is 4 threads with 50 connections each.
func (l *Lab) workload(operation load.Operation, pipeline int) load.Workload {
	return load.Workload{
		Operation: operation, ValueSize: 32, KeySpace: keySpace, Threads: 4, Clients: 50, Pipeline: pipeline,
		Warmup: l.Warmup, Duration: l.Duration,
	}
}

// keySpace is how many keys the small workloads use.
const keySpace = 10_000

// rounds lets the targets take turns at each workload and adds what it measures to the report.
func (l *Lab) rounds(ctx context.Context, scenario string, driver load.Driver, targets []target, workloads ...load.Workload) error {
	for round := range l.Rounds {
		for _, w := range workloads {
			for _, t := range inTurns(targets, round) {
				sample, err := measureOnce(ctx, driver, t, w)
				if err != nil {
					return fmt.Errorf("%s %s: %w", t.name, w.Operation, err)
				}
				l.progress("  round %d %-4s %-20s %9.0f ops/s  p99 %8.0f µs  CPU %6.3f + %6.3f µs %s", round+1, w.Operation,
					t.name, sample.OpsPerSecond, sample.P99, sample.ProxyCPU, sample.BackendCPU, sample.FirstError)
				l.series(scenario, targets, w, t.name).Add(sample)
			}
		}
	}
	return nil
}

// series finds the series of a target; the first time, it adds those of all targets in their order.
func (l *Lab) series(scenario string, targets []target, w load.Workload, name string) *report.Series {
	if s := l.Report.Find(scenario, name, string(w.Operation)); s != nil {
		return s
	}
	for _, t := range targets {
		l.Report.Series = append(l.Report.Series, &report.Series{
			Scenario: scenario, Target: t.name, Operation: string(w.Operation), Connections: w.Connections(),
			Pipeline: w.Pipeline, ValueSize: w.ValueSize, Rate: w.Rate,
		})
	}
	return l.Report.Find(scenario, name, string(w.Operation))
}

// measureOnce runs a workload and accounts for the CPU time of proxy and backends within its window.
func measureOnce(ctx context.Context, driver load.Driver, t target, w load.Workload) (report.Sample, error) {
	loadPIDs := []int{os.Getpid()}
	if !driver.InProcess() {
		loadPIDs = nil
	}
	var readings [2][3]measure.CPUReading // at start and end: of proxy, backends and load
	var failures []error
	look := func(i int) func() {
		return func() {
			for j, pids := range [][]int{t.proxyPIDs(), t.backendPIDs(), loadPIDs} {
				reading, err := measure.DefaultProc.CPU(pids...)
				readings[i][j], failures = reading, append(failures, err)
			}
		}
	}
	w.Login = t.login
	result, err := driver.Run(ctx, t.addr, w, load.Hooks{Start: look(0), End: look(1)})
	if err := errors.Join(append(failures, err)...); err != nil {
		return report.Sample{}, err
	}
	perCommand := func(j int) float64 {
		return micros(readings[1][j].Since(readings[0][j])) / float64(max(result.Commands, 1))
	}
	sample := report.Sample{
		OpsPerSecond: result.OpsPerSecond, Mean: micros(result.Mean), P50: micros(result.P50), P99: micros(result.P99),
		P999: micros(result.P999), ProxyCPU: perCommand(0), BackendCPU: perCommand(1), LoadCPU: perCommand(2),
		Errors: result.Errors, FirstError: result.FirstError,
	}
	if result.Misses > 0 && sample.FirstError == "" {
		sample.Errors, sample.FirstError = sample.Errors+result.Misses, "keys were missing"
	}
	return sample, nil
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// standalone starts one redis-server with the keys of the small workloads.
func (l *Lab) standalone(ctx context.Context) (rig.Backend, error) {
	redis, err := l.rig.Redis(ctx)
	if err != nil {
		return rig.Backend{}, err
	}
	b := rig.Backend{Nodes: []*rig.Process{redis}}
	return b, rig.Fill(ctx, b.Nodes, keySpace, 32)
}

// fact adds a number to the report.
func (l *Lab) fact(scenario, target, name, unit string, value float64) {
	l.Report.Facts = append(l.Report.Facts, report.Fact{Scenario: scenario, Target: target, Name: name, Value: value, Unit: unit})
	l.progress("  %s: %s %.4g %s", target, name, value, unit)
}

// factOf finds a number of the subject.
func (l *Lab) factOf(scenario, name string) (float64, error) {
	for _, f := range l.Report.Facts {
		if f.Scenario == scenario && f.Target == l.Subject && f.Name == name {
			return f.Value, nil
		}
	}
	return 0, errors.New("it was not measured")
}

// ratio compares the subject with another target.
func (l *Lab) ratio(scenario, operation, to string, m report.Metric) (float64, error) {
	return report.Ratio(l.Report.Find(scenario, l.Subject, operation), l.Report.Find(scenario, to, operation), m)
}

func mebibytes(bytes int64) float64 { return float64(bytes) / (1 << 20) }
