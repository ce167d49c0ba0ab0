package load

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const memtierReport = `{
  "configuration": {"server": "127.0.0.1", "threads": 4},
  "ALL STATS": {
    "Runtime": {"Start time": 1, "Finish time": 2, "Total duration": 2003, "Time unit": "MILLISECONDS"},
    "Sets": {"Count": 0, "Ops/sec": 0.0},
    "Totals": {
      "Count": 240360, "Ops/sec": 120000.25, "Hits/sec": 119000.0, "Misses/sec": 1000.0,
      "Latency": 1.664, "Average Latency": 1.664, "Min Latency": 0.1, "Max Latency": 20.5,
      "Percentile Latencies": {
        "p50.00": 1.599, "p99.00": 3.503, "p99.90": 7.007,
        "Histogram log format": {"Compressed Histogram": "HISTFAAA"}
      }
    }
  }
}`

func TestReportOfMemtierIsRead(t *testing.T) {
	r, err := parseMemtier([]byte(memtierReport))
	require.NoError(t, err)
	require.EqualValues(t, 240360, r.Commands)
	require.InDelta(t, 120000.25, r.OpsPerSecond, 0.001)
	require.Equal(t, 1664*time.Microsecond, r.Mean)
	require.Equal(t, 1599*time.Microsecond, r.P50)
	require.Equal(t, 3503*time.Microsecond, r.P99)
	require.Equal(t, 7007*time.Microsecond, r.P999)
	require.EqualValues(t, 2003, r.Misses)
}

func TestForeignReportOfMemtierIsRefused(t *testing.T) {
	for _, report := range []string{"", "{}", `{"ALL STATS": {"Totals": {"Ops/sec": 1, "Latency": 2}}}`,
		`{"ALL STATS": {"Totals": {"Ops/sec": 1, "Percentile Latencies": {"p50.00": 1}}}}`} {
		_, err := parseMemtier([]byte(report))
		require.Error(t, err, "%q", report)
	}
}

func TestArgumentsOfMemtierFollowTheWorkload(t *testing.T) {
	w := testWorkload()
	w.Operation = Set
	args, err := memtierArgs("127.0.0.1:7000", "out.json", w)
	require.NoError(t, err)
	require.Subset(t, args, []string{"127.0.0.1", "7000", "1:0", "10000000", "10000009"})
	_, err = memtierArgs("nowhere", "out.json", w)
	require.Error(t, err)
}

func TestErrorRepliesThatMemtierTellsOfAreCounted(t *testing.T) {
	n, first := memtierErrors("server 127.0.0.1:1 handle error response: -ERR a\nRUN #1\nhandle error response: -ERR b\n")
	require.EqualValues(t, 2, n)
	require.Contains(t, first, "-ERR a")
}

func TestMemtierIsRunAndItsReportRead(t *testing.T) {
	// A stand-in that writes the report to where it is told, and complains once.
	dir := t.TempDir()
	report := filepath.Join(dir, "report.json")
	require.NoError(t, os.WriteFile(report, []byte(memtierReport), 0o600))
	program := filepath.Join(dir, "memtier")
	script := "#!/bin/sh\nfor last; do :; done\ncp " + report + " \"$last\"\necho 'handle error response: -ERR x' >&2\n"
	require.NoError(t, os.WriteFile(program, []byte(script), 0o700))

	var calls int
	count := func() { calls++ }
	result, err := Memtier{Path: program}.Run(t.Context(), "127.0.0.1:1", testWorkload(), Hooks{Start: count, End: count})
	require.NoError(t, err)
	require.Equal(t, 2, calls)
	require.EqualValues(t, 240360, result.Commands)
	require.EqualValues(t, 1, result.Errors)

	_, err = Memtier{Path: "/bin/false"}.Run(t.Context(), "127.0.0.1:1", testWorkload(), Hooks{})
	require.ErrorContains(t, err, "cannot run memtier_benchmark")
	open := testWorkload()
	open.Rate = 10
	_, err = Memtier{Path: program}.Run(t.Context(), "127.0.0.1:1", open, Hooks{})
	require.ErrorContains(t, err, "open loop")
}
