package scenario

import (
	"context"
	"fmt"
	"slices"

	"github.com/sluiceproxy/sluice/bench/report"
	"github.com/sluiceproxy/sluice/bench/rig"
)

// before is the target of an older daemon.
const before = "before"

// versions are the subject, the older daemon if there is one, and the peers.
func (l *Lab) versions() []string {
	names := l.proxies()
	if l.Before != "" {
		names = slices.Insert(names, 1, before)
	}
	return names
}

// proxy starts a proxy by its name in front of a backend.
func (l *Lab) proxy(ctx context.Context, name string, b rig.Backend) (*rig.Process, error) {
	if name != before {
		return l.rig.Proxy(ctx, name, b, l.Sluiced)
	}
	older := l.Sluiced
	older.Path = l.Before
	p, err := l.rig.Sluiced(ctx, b, older)
	if err != nil {
		return nil, fmt.Errorf("the daemon before: %w", err)
	}
	return p, nil
}

// takesPart reports whether a target was chosen.
func (l *Lab) takesPart(name string) bool { return len(l.Only) == 0 || slices.Contains(l.Only, name) }

func (l *Lab) chosen(targets []target) []target {
	return slices.DeleteFunc(targets, func(t target) bool { return !l.takesPart(t.name) })
}

// inTurns is the order of a round: each begins with another target and every second one goes backwards, so that none
// always runs behind the same one, and two neighbours swap their places from round to round.
func inTurns(targets []target, round int) []target {
	ordered := make([]target, 0, len(targets))
	step := 1
	if round%2 == 1 {
		step = len(targets) - 1
	}
	for i := range targets {
		ordered = append(ordered, targets[(round+i*step)%len(targets)])
	}
	return ordered
}

// withBefore also compares the subject with the older daemon in the scenarios of that kind, after their own bars.
func withBefore(judge func(*Lab), operations []string, scenarios ...string) func(*Lab) {
	return func(l *Lab) {
		judge(l)
		if l.Before == "" {
			return
		}
		for _, scenario := range scenarios {
			for _, operation := range operations {
				judgeAgainst(l, scenario, operation, before, 1.05)
			}
		}
	}
}

// judgeAgainst wants the subject to cost at most tolerance times what another target costs, and to be as fast but for it.
func judgeAgainst(l *Lab, scenario, operation, other string, tolerance float64) {
	of, to := l.Report.Find(scenario, l.Subject, operation), l.Report.Find(scenario, other, operation)
	value, err := report.Ratio(of, to, report.ProxyCPU)
	l.Report.Judge(report.AtMost(scenario, fmt.Sprintf("%s CPU per %s against %s", l.Subject, operation, other), tolerance, "×", value, err))
	l.noteSpread(scenario, operation, other, "CPU", of, to, report.ProxyCPU)
	value, err = report.Ratio(of, to, report.Throughput)
	l.Report.Judge(report.AtLeast(scenario, fmt.Sprintf("%s throughput against %s", operation, other), 2-tolerance, "×", value, err))
	l.noteSpread(scenario, operation, other, "throughput", of, to, report.Throughput)
}

// noteSpread tells how far the rounds of a comparison lie apart: what differs by less is noise.
func (l *Lab) noteSpread(scenario, operation, other, what string, of, to *report.Series, m report.Metric) {
	ratios := report.Ratios(of, to, m)
	if len(ratios) < 2 {
		return
	}
	low, high := report.Quartiles(ratios)
	l.Report.Note("%s %s: %s against %s, half of %d rounds within %.3f and %.3f ×", scenario, operation, what, other, len(ratios), low, high)
}
