package scenario

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/bench/load"
	"github.com/sluiceproxy/sluice/bench/report"
	"github.com/sluiceproxy/sluice/bench/rig"
)

func testLab(t *testing.T) *Lab {
	t.Helper()
	if !rig.Installed("redis-server") {
		t.Skip("redis-server is not installed")
	}
	r, err := rig.New()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	return &Lab{
		Options: Options{
			Subject: "haproxy", Rounds: 2, Duration: 50 * time.Millisecond, BackendCPU: 0.1, Module: "../..",
		},
		Driver: load.Generator{}, Own: load.Generator{}, Report: &report.Report{}, Progress: io.Discard, rig: r,
	}
}

func TestScenariosAreSelectedByName(t *testing.T) {
	all, err := Select(nil)
	require.NoError(t, err)
	require.Len(t, all, len(All())-1, "profiling runs only when asked for")
	two, err := Select([]string{"profile", "p1"})
	require.NoError(t, err)
	require.Equal(t, "p1", two[0].Name)
	require.Equal(t, "profile", two[1].Name)
	_, err = Select([]string{"p1", "nothing"})
	require.ErrorContains(t, err, `"nothing"`)
}

func TestEveryBarIsListedAlsoWhenNothingWasMeasured(t *testing.T) {
	lab := &Lab{Options: Options{Subject: "sluiced"}, Report: &report.Report{}}
	for _, s := range All() {
		if s.judge != nil {
			s.judge(lab)
		}
	}
	require.Len(t, lab.Report.Bars, 52)
	require.Equal(t, 52, lab.Report.Missed())
	for _, bar := range lab.Report.Bars {
		require.NotEmpty(t, bar.Missing, bar.What)
	}
}

func TestBarsCompareTheSubjectWithTheRightTarget(t *testing.T) {
	lab := &Lab{Options: Options{Subject: "sluiced"}, Report: &report.Report{}}
	add := func(target string, s report.Sample) {
		series := &report.Series{Scenario: "p1", Target: target, Operation: "GET"}
		series.Add(s)
		lab.Report.Series = append(lab.Report.Series, series)
	}
	add("direct", report.Sample{OpsPerSecond: 100, BackendCPU: 6})
	add("floor", report.Sample{OpsPerSecond: 140, ProxyCPU: 4})
	add("sluiced", report.Sample{OpsPerSecond: 96, ProxyCPU: 5, BackendCPU: 1.2})
	judgeP1(lab)
	values := map[string]float64{}
	for _, bar := range lab.Report.Bars {
		values[bar.What] = bar.Value
		require.Equal(t, bar.Missing == "", bar.Reached, bar.What)
	}
	require.InDelta(t, 1.25, values["proxy CPU per GET against the floor"], 1e-9)
	require.InDelta(t, 0.2, values["backend CPU per GET against direct"], 1e-9)
	require.InDelta(t, 0.96, values["GET throughput against direct"], 1e-9)
}

func TestRoundsMeasureTargetsInTurns(t *testing.T) {
	lab := testLab(t)
	backend, err := lab.standalone(t.Context())
	require.NoError(t, err)
	targets, err := lab.targets(t.Context(), backend)
	require.NoError(t, err)
	again := targets[0]
	again.name, again.proxy = "again", again.backends[0]
	w := lab.workload(load.Get, 1)
	w.Threads, w.Clients = 1, 2
	require.NoError(t, lab.rounds(t.Context(), "p1", lab.Driver, append(targets, again), w))
	require.Len(t, lab.Report.Series, 2)
	for i, name := range []string{"direct", "again"} {
		s := lab.Report.Series[i]
		require.Equal(t, name, s.Target)
		require.Len(t, s.Samples, 2)
		require.Zero(t, s.Median.Errors, s.Median.FirstError)
		require.Positive(t, s.Median.BackendCPU)
		require.Positive(t, s.Median.LoadCPU)
	}
	require.Zero(t, lab.Report.Series[0].Median.ProxyCPU)
	require.InEpsilon(t, lab.Report.Series[1].Median.BackendCPU, lab.Report.Series[1].Median.ProxyCPU, 0.2)
}

func TestMissingKeysAreAnError(t *testing.T) {
	lab := testLab(t)
	redis, err := lab.rig.Redis(t.Context())
	require.NoError(t, err)
	w := lab.workload(load.Get, 1)
	w.Threads, w.Clients = 1, 1
	sample, err := measureOnce(t.Context(), lab.Driver, target{addr: redis.Addr, backends: []*rig.Process{redis}}, w)
	require.NoError(t, err)
	require.Positive(t, sample.Errors)
	require.Equal(t, "keys were missing", sample.FirstError)
}

func TestIdleConnectionsAreHeldAndWeighed(t *testing.T) {
	lab := testLab(t)
	backend, err := lab.standalone(t.Context())
	require.NoError(t, err)
	bytes, err := idleMemory(t.Context(), backend.Nodes[0], 200, 10*time.Millisecond)
	require.NoError(t, err)
	require.Greater(t, bytes, 100.0, "redis-server keeps something for every client")
	require.Less(t, bytes, 200_000.0)
}

func TestHugeValueIsSetAndReadBack(t *testing.T) {
	lab := testLab(t)
	redis, err := lab.rig.Redis(t.Context())
	require.NoError(t, err)
	const size = 5<<20 + 17
	growth, err := whileWatching(redis, func() error { return setHuge(t.Context(), redis.Addr, size) })
	require.NoError(t, err)
	require.Greater(t, growth, int64(4<<20))
	require.NoError(t, getHuge(t.Context(), redis.Addr, size))
	require.ErrorContains(t, getHuge(t.Context(), redis.Addr, size+1), "the reply is")
}

func TestOneMetricIsScraped(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "# HELP %[1]s Total.\n%[1]s_more 1\n%[1]s 1.25e+06\n\n# Mallocs = 77\n", "some_total")
	}))
	defer server.Close()
	admin := strings.TrimPrefix(server.URL, "http://")
	value, err := scrape(t.Context(), admin, "some_total")
	require.NoError(t, err)
	require.InDelta(t, 1_250_000, value, 0)
	value, err = mallocs(t.Context(), admin)
	require.NoError(t, err)
	require.InDelta(t, 77, value, 0)
	_, err = scrape(t.Context(), admin, "nothing")
	require.ErrorContains(t, err, "nothing")
}

func TestAFailedScenarioIsNotedAndTheNextOneRuns(t *testing.T) {
	lab := &Lab{Options: Options{Subject: "twemproxy"}, Report: &report.Report{}, Progress: io.Discard}
	var judged []string
	judge := func(name string) func(*Lab) { return func(*Lab) { judged = append(judged, name) } }
	failing := Scenario{Name: "allocs", measure: allocations, judge: judge("allocs")}
	extra := Scenario{Name: "profile", measure: profile, judge: judge("profile")}
	err := lab.Run(t.Context(), []Scenario{failing, extra})
	require.ErrorContains(t, err, "only sluiced tells")
	require.ErrorContains(t, err, "only sluiced can")
	require.Equal(t, []string{"allocs", "profile"}, judged)
	require.Len(t, lab.Report.Notes, 2)
}
