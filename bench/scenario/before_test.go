package scenario

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/bench/report"
)

func TestEveryRoundBeginsWithAnotherTargetAndNeighboursSwapPlaces(t *testing.T) {
	targets := []target{{name: "direct"}, {name: "floor"}, {name: "sluiced"}, {name: "before"}}
	orders := []string{
		"direct floor sluiced before", "floor direct before sluiced", "sluiced before direct floor", "before sluiced floor direct",
		"direct floor sluiced before",
	}
	for round, want := range orders {
		var got []any
		for _, target := range inTurns(targets, round) {
			got = append(got, target.name)
		}
		require.Equal(t, want, fmt.Sprintf("%s %s %s %s", got...))
	}
	require.Equal(t, "b", inTurns([]target{{name: "a"}, {name: "b"}}, 1)[0].name)
}

func TestTheOlderDaemonIsComparedRoundByRound(t *testing.T) {
	lab := &Lab{Options: Options{Subject: "sluiced", Before: "/old", Only: []string{"sluiced", "before"}}, Report: &report.Report{}}
	require.Equal(t, []string{"sluiced", "before"}, lab.versions())
	require.False(t, lab.takesPart("floor"))
	of, to := &report.Series{Scenario: "p1", Target: "sluiced", Operation: "GET"}, &report.Series{Scenario: "p1", Target: "before", Operation: "GET"}
	for _, slowness := range []float64{1, 3, 2, 5} { // of the machine
		of.Add(report.Sample{OpsPerSecond: 98 / slowness, ProxyCPU: 5.1 * slowness})
		to.Add(report.Sample{OpsPerSecond: 100 / slowness, ProxyCPU: 5 * slowness})
	}
	lab.Report.Series = append(lab.Report.Series, of, to)
	withBefore(func(*Lab) {}, []string{"GET", "SET"}, "p1")(lab)
	require.Len(t, lab.Report.Bars, 4)
	require.InDelta(t, 1.02, lab.Report.Bars[0].Value, 1e-9)
	require.InDelta(t, 0.98, lab.Report.Bars[1].Value, 1e-9)
	require.True(t, lab.Report.Bars[0].Reached && lab.Report.Bars[1].Reached)
	require.NotEmpty(t, lab.Report.Bars[2].Missing, "SET was not measured")
	require.Equal(t, "p1: CPU per GET, sluiced against before, half of 4 rounds within 1.020 and 1.020 ×", lab.Report.Notes[0])

	lab = &Lab{Options: Options{Subject: "sluiced"}, Report: &report.Report{}}
	withBefore(func(*Lab) {}, []string{"GET"}, "p1")(lab)
	require.Empty(t, lab.Report.Bars, "there is no older daemon")
}
