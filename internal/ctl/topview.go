package ctl

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/sluiceproxy/sluice/pkg/api"
)

//nolint:gochecknoglobals // a constant list
var topOrders = []string{"rate", "errors", "latency", "name"}

// topView is what top shows: the last two looks.
type topView struct {
	server        string
	width, height int // of the screen; 0: any
	order         int // index into topOrders
	style         style
	before, now   look
	err           error // of the last look
}

// take makes l the newest look; after an error the last good one stays.
func (v *topView) take(l look) {
	v.err = l.err
	if l.err == nil {
		v.before, v.now = v.now, l
	}
}

// rated is a line of a table before it is one.
type rated struct {
	name                  string
	rate, errors, latency float64
	cells                 []any
}

func (v *topView) sort(lines []rated) {
	slices.SortFunc(lines, func(a, b rated) int {
		order := 0
		switch topOrders[v.order] {
		case "rate":
			order = cmp.Compare(b.rate, a.rate)
		case "errors":
			order = cmp.Compare(b.errors, a.errors)
		case "latency":
			order = cmp.Compare(b.latency, a.latency)
		}
		return cmp.Or(order, cmp.Compare(a.name, b.name))
	})
}

// rate is a counter's growth per second; one that began again has none.
func (v *topView) rate(before, now uint64) float64 {
	elapsed := v.now.stats.At.Sub(v.before.stats.At).Seconds()
	if v.before.stats.At.IsZero() || elapsed <= 0 || now < before {
		return 0
	}
	return float64(now-before) / elapsed
}

func indexOf(all []string, one string) int { return slices.Index(all, one) }

// render is one frame.
func (v *topView) render() string {
	tenants, nodes, commands := v.tenants(), v.nodes(), v.commands()
	total := 0.0
	for _, line := range tenants {
		total += line.rate
	}
	var b strings.Builder
	b.WriteString(v.head(total) + "\n\n")
	rows := v.share(len(tenants), len(nodes), len(commands))
	b.WriteString(v.table([]any{"TENANT", "CLIENTS", "CMD/S", "ERR/S", "P50", "P99"}, tenants, rows[0]) + "\n")
	b.WriteString(v.table([]any{"CLUSTER", "NODE", "ROLE", "HEALTH", "INFLIGHT", "QUEUE", "LENT", "ERR/S"}, nodes, rows[1]) + "\n")
	b.WriteString(v.table([]any{"COMMANDS", "CMD/S", "MEAN"}, commands, rows[2]))
	return v.fit(b.String())
}

func (v *topView) head(total float64) string {
	s := v.now.status
	state := v.style.green("ready")
	switch {
	case v.err != nil:
		state = v.style.red("away: " + printable(strings.Split(v.err.Error(), "\n")[0]))
	case s.Draining:
		state = v.style.yellow("draining")
	case !s.Ready:
		state = v.style.red("not ready")
	}
	at := v.now.stats.At.Local().Format(time.TimeOnly)
	return fmt.Sprintf("sluice %s at %s  %s  %s  up %s\n%d clients  %s commands/s  order: %s", printable(s.Version), v.server, at, state,
		short(v.now.stats.At.Sub(s.StartedAt)), s.Clients, number(total), topOrders[v.order])
}

func (v *topView) tenants() (lines []rated) {
	old := make(map[string]api.TenantStats)
	for _, t := range v.before.stats.Tenants {
		old[t.Name] = t
	}
	for _, t := range v.now.stats.Tenants {
		before, known := old[t.Name]
		if !known {
			before = t
		}
		line := rated{name: t.Name, rate: v.rate(before.Commands, t.Commands), errors: v.rate(before.Errors, t.Errors), latency: t.P99}
		errors := number(line.errors)
		if line.errors > 0 {
			errors = v.style.red(errors)
		}
		line.cells = []any{printable(t.Name), t.Clients, number(line.rate), errors, seconds(t.P50), seconds(t.P99)}
		lines = append(lines, line)
	}
	v.sort(lines)
	return lines
}

func (v *topView) nodes() (lines []rated) {
	old := make(map[string]uint64)
	for i := range v.before.stats.Nodes {
		n := &v.before.stats.Nodes[i]
		old[nodeName(n)] = n.Errors
	}
	for i := range v.now.stats.Nodes {
		n := &v.now.stats.Nodes[i]
		before, known := old[nodeName(n)]
		if !known {
			before = n.Errors
		}
		line := rated{name: nodeName(n), rate: float64(n.Inflight), errors: v.rate(before, n.Errors), latency: n.QueueDelay}
		health := v.style.green("up")
		if !n.Healthy {
			health = v.style.red("down")
		}
		line.cells = []any{printable(n.Cluster), printable(n.Alias), printable(n.Role), health, n.Inflight, seconds(n.QueueDelay), n.Dedicated, number(line.errors)}
		lines = append(lines, line)
	}
	v.sort(lines)
	return lines
}

func (v *topView) commands() (lines []rated) {
	old := make(map[string]api.CommandStats)
	for _, s := range v.before.stats.Commands {
		old[s.Class] = s
	}
	for _, s := range v.now.stats.Commands {
		before, known := old[s.Class]
		if !known {
			before = s
		}
		line := rated{name: s.Class, rate: v.rate(before.Commands, s.Commands)}
		if s.Commands > before.Commands && s.Seconds >= before.Seconds {
			line.latency = (s.Seconds - before.Seconds) / float64(s.Commands-before.Commands)
		}
		line.cells = []any{printable(s.Class), number(line.rate), seconds(line.latency)}
		lines = append(lines, line)
	}
	v.sort(lines)
	return lines
}

// share divides the screen's lines among tables of so many lines: each gets what it needs, or a third of what is left.
func (v *topView) share(lengths ...int) []int {
	given := slices.Clone(lengths)
	const fixed = 3 + 3 + 2 + 3 // head, headers of tables, lines between, and what tells of lines left out
	if v.height <= 0 {
		return given
	}
	left := max(v.height-fixed, len(lengths))
	order := []int{0, 1, 2}
	slices.SortFunc(order, func(a, b int) int { return lengths[a] - lengths[b] })
	for i, table := range order {
		given[table] = min(lengths[table], left/(len(order)-i))
		left -= given[table]
	}
	return given
}

func (v *topView) table(titles []any, lines []rated, most int) string {
	rows := make([]table.Row, 1, len(lines)+1)
	for _, title := range titles {
		rows[0] = append(rows[0], v.style.bold(fmt.Sprint(title)))
	}
	for _, line := range lines[:min(most, len(lines))] {
		rows = append(rows, line.cells)
	}
	out := renderTable(rows)
	if left := len(lines) - most; left > 0 {
		out += v.style.dim(fmt.Sprintf("… and %d more", left)) + "\n"
	}
	return out
}

// fit cuts lines that are wider than the screen, and those that are below it.
func (v *topView) fit(frame string) string {
	lines := strings.Split(strings.TrimSuffix(frame, "\n"), "\n")
	if v.height > 0 && len(lines) > v.height {
		lines = lines[:v.height]
	}
	if v.width > 0 {
		for i := range lines {
			lines[i] = text.Trim(lines[i], v.width)
		}
	}
	return strings.Join(lines, "\n")
}

// number is a rate.
func number(n float64) string {
	switch {
	case n == 0:
		return "0"
	case n < 10:
		return fmt.Sprintf("%.1f", n)
	case n < 10_000:
		return fmt.Sprintf("%.0f", n)
	case n < 10_000_000:
		return fmt.Sprintf("%.1fk", n/1e3)
	}
	return fmt.Sprintf("%.1fM", n/1e6)
}
