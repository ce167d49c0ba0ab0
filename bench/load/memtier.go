package load

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Memtier drives workloads with an installed memtier_benchmark. Its hooks are called around the whole process, so that
// what is measured between them includes connecting. It has no open loop and no warm-up of its own.
type Memtier struct {
	Path string // the program
}

// FindMemtier returns a driver for the memtier_benchmark in PATH.
func FindMemtier() (Memtier, bool) {
	path, err := exec.LookPath("memtier_benchmark")
	return Memtier{Path: path}, err == nil
}

// Name tells the generator in reports.
func (m Memtier) Name() string { return "memtier_benchmark" }

// InProcess is false: the program is a process of its own, gone by the time its CPU time could be read.
func (m Memtier) InProcess() bool { return false }

// Run runs the program for the workload's duration, in whole seconds.
func (m Memtier) Run(ctx context.Context, addr string, w Workload, hooks Hooks) (Result, error) {
	if err := w.Validate(); err != nil {
		return Result{}, fmt.Errorf("cannot run the workload: %w", err)
	}
	if w.Rate > 0 {
		return Result{}, errors.New("cannot run an open loop with memtier_benchmark")
	}
	if len(w.Login) > 0 {
		return Result{}, errors.New("cannot log in connection by connection with memtier_benchmark")
	}
	dir, err := os.MkdirTemp("", "sluicebench-memtier-")
	if err != nil {
		return Result{}, fmt.Errorf("cannot make a directory for memtier_benchmark: %w", err)
	}
	defer os.RemoveAll(dir)
	report := filepath.Join(dir, "report.json")
	args, err := memtierArgs(addr, report, w)
	if err != nil {
		return Result{}, err
	}
	// It ends by itself; the deadline is for when it does not.
	ctx, cancel := context.WithTimeout(ctx, w.Duration+30*time.Second)
	defer cancel()
	var messages bytes.Buffer
	command := exec.CommandContext(ctx, m.Path, args...)
	command.Stderr = &messages
	hooks.start()
	err = command.Run()
	hooks.end()
	if err != nil {
		return Result{}, fmt.Errorf("cannot run memtier_benchmark: %w: %s", err, lastLine(messages.String()))
	}
	data, err := os.ReadFile(report)
	if err != nil {
		return Result{}, fmt.Errorf("cannot read the report of memtier_benchmark: %w", err)
	}
	result, err := parseMemtier(data)
	result.Errors, result.FirstError = memtierErrors(messages.String())
	return result, err
}

func memtierArgs(addr, report string, w Workload) ([]string, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("cannot read the address: %w", err)
	}
	ratio := "0:1"
	if w.Operation == Set {
		ratio = "1:0"
	}
	seconds := max(1, int(w.Duration.Round(time.Second)/time.Second))
	return []string{
		"--server", host, "--port", port, "--protocol", "redis",
		"--threads", strconv.Itoa(w.Threads), "--clients", strconv.Itoa(w.Clients),
		"--pipeline", strconv.Itoa(w.Pipeline), "--ratio", ratio,
		"--data-size", strconv.Itoa(w.ValueSize),
		"--key-prefix", KeyPrefix, "--key-pattern", "R:R",
		"--key-minimum", strconv.Itoa(firstKey), "--key-maximum", strconv.Itoa(firstKey + w.KeySpace - 1),
		"--test-time", strconv.Itoa(seconds), "--hide-histogram",
		"--print-percentiles", "50,99,99.9", "--json-out-file", report,
	}, nil
}

// memtierTotals is the part of memtier_benchmark's JSON report that is read. Latencies are in milliseconds.
type memtierTotals struct {
	Count     uint64          `json:"Count"`
	OpsPerSec float64         `json:"Ops/sec"`
	MissesSec float64         `json:"Misses/sec"`
	Latency   float64         `json:"Latency"`
	Average   float64         `json:"Average Latency"`
	Max       float64         `json:"Max Latency"`
	Raw       json.RawMessage `json:"Percentile Latencies"`
}

// parseMemtier reads a JSON report as version 1.3 and later write it.
func parseMemtier(data []byte) (Result, error) {
	var report struct {
		All struct {
			Runtime struct {
				Total float64 `json:"Total duration"`
			} `json:"Runtime"`
			Totals *memtierTotals `json:"Totals"`
		} `json:"ALL STATS"`
	}
	if err := json.Unmarshal(data, &report); err != nil {
		return Result{}, fmt.Errorf("cannot read the report of memtier_benchmark: %w", err)
	}
	totals := report.All.Totals
	if totals == nil || totals.Raw == nil {
		return Result{}, errors.New("cannot read the report of memtier_benchmark: it has no totals with percentiles")
	}
	percentile, err := memtierPercentiles(totals.Raw)
	if err != nil {
		return Result{}, err
	}
	elapsed := time.Duration(report.All.Runtime.Total * float64(time.Millisecond))
	mean := totals.Average
	if mean == 0 {
		mean = totals.Latency
	}
	commands := totals.Count
	if commands == 0 {
		commands = uint64(totals.OpsPerSec * elapsed.Seconds())
	}
	return Result{
		Commands: commands, Elapsed: elapsed, OpsPerSecond: totals.OpsPerSec,
		Mean: milliseconds(mean), P50: percentile["p50.00"], P99: percentile["p99.00"], P999: percentile["p99.90"],
		Max: milliseconds(totals.Max), Misses: uint64(totals.MissesSec * elapsed.Seconds()),
	}, nil
}

// memtierPercentiles reads an object that holds, beside the numbers, a histogram in another form.
func memtierPercentiles(raw json.RawMessage) (map[string]time.Duration, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil, fmt.Errorf("cannot read the percentiles of memtier_benchmark: %w", err)
	}
	percentiles := map[string]time.Duration{}
	for name, field := range fields {
		var value float64
		if json.Unmarshal(field, &value) == nil {
			percentiles[name] = milliseconds(value)
		}
	}
	for _, name := range []string{"p50.00", "p99.00", "p99.90"} {
		if _, ok := percentiles[name]; !ok {
			return nil, fmt.Errorf("cannot read the percentiles of memtier_benchmark: %s is missing", name)
		}
	}
	return percentiles, nil
}

func milliseconds(v float64) time.Duration { return time.Duration(v * float64(time.Millisecond)) }

// memtierErrors counts the error replies that memtier_benchmark told of.
func memtierErrors(messages string) (count uint64, first string) {
	for line := range strings.Lines(messages) {
		if !strings.Contains(line, "error") {
			continue
		}
		count++
		if first == "" {
			first = strings.TrimSpace(line)
		}
	}
	return count, first
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}
