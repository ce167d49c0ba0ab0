package report

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func series(target string, ops ...float64) *Series {
	s := &Series{Scenario: "p1", Target: target, Operation: "GET"}
	for _, v := range ops {
		s.Add(Sample{OpsPerSecond: v, P50: 10, P99: 20, ProxyCPU: v / 1000})
	}
	return s
}

func TestMedian(t *testing.T) {
	require.Zero(t, Median(nil))
	require.InDelta(t, 3, Median([]float64{9, 1, 3}), 0)
	require.InDelta(t, 2.5, Median([]float64{4, 1, 2, 3}), 0)
}

func TestSeriesKnowsItsMedian(t *testing.T) {
	s := series("direct", 300, 100, 200)
	require.InDelta(t, 200, s.Median.OpsPerSecond, 0)
	require.InDelta(t, 0.2, s.Median.ProxyCPU, 1e-9)
	s.Add(Sample{Errors: 2, FirstError: "gone"})
	require.EqualValues(t, 2, s.Median.Errors)
	require.Equal(t, "gone", s.Median.FirstError)
}

func TestRatioPairsRounds(t *testing.T) {
	// The machine was ten times slower in the second round; the medians alone would say 1.
	ratio, err := Ratio(series("a", 200, 20, 200), series("b", 100, 10, 200), Throughput)
	require.NoError(t, err)
	require.InDelta(t, 2, ratio, 1e-9)

	_, err = Ratio(nil, series("b", 1), Throughput)
	require.Error(t, err)
	_, err = Ratio(series("a", 1), series("b", 0), Throughput)
	require.Error(t, err)
	failed := series("a", 1)
	failed.Add(Sample{OpsPerSecond: 1, Errors: 1, FirstError: "OOM"})
	_, err = Ratio(failed, series("b", 1, 1), Throughput)
	require.ErrorContains(t, err, "OOM", "a run with errors proves nothing")
}

func TestBarsAreJudged(t *testing.T) {
	require.True(t, AtMost("", "", 1.5, "×", 1.5, nil).Reached)
	require.False(t, AtMost("", "", 1.5, "×", 1.51, nil).Reached)
	require.True(t, AtLeast("", "", 5, "×", 5, nil).Reached)
	require.False(t, AtLeast("", "", 5, "×", 4.9, nil).Reached)
	missing := AtMost("", "", 1, "×", 0, errors.New("no compiler"))
	require.False(t, missing.Reached)
	require.Equal(t, "no compiler", missing.Missing)
	r := Report{Bars: []Bar{missing, {Reached: true}}}
	require.Equal(t, 1, r.Missed())
}

func TestNumbers(t *testing.T) {
	for value, want := range map[float64]string{
		0: "0", 0.6441: "0.644", 1.5: "1.5", 99.55: "99.5", 123.4: "123", 1234: "1,234", 842000: "842,000", -1234567: "-1,234,567",
	} {
		require.Equal(t, want, number(value), "%g", value)
	}
}

func sampleReport() *Report {
	r := &Report{
		Date: time.Date(2025, 1, 2, 3, 4, 5, 0, time.UTC), Commit: "abc1234",
		Settings: Settings{Subject: "sluiced", Rounds: 3, Seconds: 2},
		Series:   []*Series{series("direct", 100000), series("sluiced", 110000), series("<odd>", 0)},
		Facts:    []Fact{{Scenario: "idle", Target: "sluiced", Name: "memory per connection", Value: 1.25, Unit: "KiB"}},
	}
	r.Judge(AtMost("p1", "proxy CPU against the floor", 1.5, "×", 1.4, nil))
	r.Judge(AtLeast("starved", "throughput | GET", 5, "×", 0, errors.New("no | cgroup\nat all")))
	r.Note("predixy is not installed")
	return r
}

func TestMarkdownHoldsEverything(t *testing.T) {
	var b strings.Builder
	require.NoError(t, sampleReport().WriteMarkdown(&b, "x.svg"))
	for _, text := range []string{
		"110,000", "✓ reached", "? not measured", "– no / cgroup", "≤ 1.5 ×", "≥ 5 ×", "1.25", "predixy is not installed", "(x.svg)",
	} {
		require.Contains(t, b.String(), text)
	}
	require.Equal(t, 0, strings.Count(b.String(), "at all"))
}

func TestPictureIsWellFormed(t *testing.T) {
	var b strings.Builder
	require.NoError(t, sampleReport().WriteSVG(&b))
	require.Contains(t, b.String(), "&lt;odd&gt;")
	decoder := xml.NewDecoder(strings.NewReader(b.String()))
	for {
		_, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
	}
}

func TestReportIsSavedInThreeForms(t *testing.T) {
	path, err := sampleReport().Save(t.TempDir())
	require.NoError(t, err)
	require.Contains(t, path, "20250102-030405-abc1234.md")
	data, err := os.ReadFile(strings.TrimSuffix(path, ".md") + ".json")
	require.NoError(t, err)
	var back Report
	require.NoError(t, json.Unmarshal(data, &back))
	require.Len(t, back.Series, 3)
	require.True(t, back.Bars[0].Reached)
	_, err = os.Stat(strings.TrimSuffix(path, ".md") + ".svg")
	require.NoError(t, err)
}

func TestQuartilesHoldTheMiddleHalf(t *testing.T) {
	low, high := Quartiles([]float64{9, 1, 2, 3, 4, 5, 6, 0})
	require.InDelta(t, 2, low, 0)
	require.InDelta(t, 5, high, 0)
	low, high = Quartiles([]float64{7})
	require.InDelta(t, 7, low, 0)
	require.InDelta(t, 7, high, 0)
	require.Nil(t, Ratios(nil, &Series{}, ProxyCPU))
}
