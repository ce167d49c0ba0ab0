package scenario

import (
	"context"
	"fmt"
	"slices"
	"time"

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
				judgeAgainst(l, scenario, operation, l.Subject, before, 1.05)
			}
		}
	}
}

// judgeAgainst wants one target to cost at most tolerance times what another costs, and to be as fast but for it.
func judgeAgainst(l *Lab, scenario, operation, name, other string, tolerance float64) {
	of, to := l.Report.Find(scenario, name, operation), l.Report.Find(scenario, other, operation)
	for _, bar := range []struct {
		what   string
		metric report.Metric
		judge  func(scenario, what string, limit float64, unit string, value float64, err error) report.Bar
		limit  float64
	}{
		{"CPU per " + operation, report.ProxyCPU, report.AtMost, tolerance},
		{operation + " throughput", report.Throughput, report.AtLeast, 2 - tolerance},
	} {
		value, err := report.Ratio(of, to, bar.metric)
		what := fmt.Sprintf("%s, %s against %s", bar.what, name, other)
		l.Report.Judge(bar.judge(scenario, what, bar.limit, "×", value, err))
		if ratios := report.Ratios(of, to, bar.metric); len(ratios) > 1 {
			low, high := report.Quartiles(ratios)
			l.Report.Note("%s: %s, half of %d rounds within %.3f and %.3f ×", scenario, what, len(ratios), low, high)
		}
	}
}

// inManyRounds is the lab with more and shorter rounds, for targets that differ by less than what a round is off by: the
// median of many ratios is closer than that of few. A run of one round, which only shows that everything works, stays one.
func (l *Lab) inManyRounds() *Lab {
	many := *l
	if l.Rounds > 1 {
		many.Rounds, many.Duration = max(l.Rounds, 12), min(l.Duration, 800*time.Millisecond)
	}
	return &many
}
