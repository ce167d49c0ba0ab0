package report

import (
	"fmt"
	"html"
	"io"
	"slices"
	"strings"
)

// Measures of the picture in pixels.
const (
	pictureWidth  = 980
	labelWidth    = 110
	columnWidth   = 400 // of the bars of one column, with their numbers
	numberWidth   = 120
	rowHeight     = 18
	titleHeight   = 30
	pictureMargin = 16
)

// WriteSVG draws throughput and latency: one group per workload, one row per target, with the operations per second at
// the left and median and 99th percentile latency at the right.
func (r *Report) WriteSVG(w io.Writer) error {
	groups := r.groups()
	var body strings.Builder
	y := pictureMargin + 36
	for _, group := range groups {
		y = drawGroup(&body, group, y, r.Settings.Subject)
	}
	height := y + pictureMargin
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" `+
		`font-family="sans-serif" font-size="12">`+"\n", pictureWidth, height, pictureWidth, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#ffffff"/>`+"\n", pictureWidth, height)
	text(&b, pictureMargin, 26, `font-size="15" font-weight="bold"`, fmt.Sprintf("%s, %s, %d cores, commit %s",
		r.Settings.Subject, r.Machine.CPU, r.Machine.Cores, r.Commit))
	b.WriteString(body.String())
	b.WriteString("</svg>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// groups puts the series of one workload together, in the order of their first appearance.
func (r *Report) groups() [][]*Series {
	var groups [][]*Series
	for _, s := range r.Series {
		i := slices.IndexFunc(groups, func(g []*Series) bool {
			return g[0].Scenario == s.Scenario && g[0].Operation == s.Operation
		})
		if i < 0 {
			groups = append(groups, nil)
			i = len(groups) - 1
		}
		groups[i] = append(groups[i], s)
	}
	return groups
}

// drawGroup draws one group from y on and returns where the next one begins.
func drawGroup(b *strings.Builder, group []*Series, y int, subject string) int {
	var mostOps, longest float64
	for _, s := range group {
		mostOps, longest = max(mostOps, s.Median.OpsPerSecond), max(longest, s.Median.P99)
	}
	throughputX := pictureMargin + labelWidth
	latencyX := throughputX + columnWidth + pictureMargin
	text(b, pictureMargin, y+20, `font-weight="bold"`, group[0].Scenario+" "+group[0].Operation)
	text(b, throughputX+90, y+20, `fill="#666666"`, "operations per second")
	text(b, latencyX+90, y+20, `fill="#666666"`, "latency p50 and p99, µs")
	y += titleHeight
	for _, s := range group {
		text(b, pictureMargin, y+13, "", s.Target)
		bar(b, throughputX, y+3, s.Median.OpsPerSecond/mostOps, color(s.Target, subject))
		text(b, throughputX+barLength(s.Median.OpsPerSecond/mostOps)+6, y+13, "", thousands(s.Median.OpsPerSecond))
		bar(b, latencyX, y+3, s.Median.P99/longest, "#d8dee6")
		bar(b, latencyX, y+3, s.Median.P50/longest, "#8a97a8")
		text(b, latencyX+barLength(s.Median.P99/longest)+6, y+13, "", number(s.Median.P50)+" / "+number(s.Median.P99))
		y += rowHeight
	}
	return y + 8
}

func barLength(share float64) int {
	if !(share > 0) { // also what 0/0 gives
		return 0
	}
	return int(share * (columnWidth - numberWidth))
}

func bar(b *strings.Builder, x, y int, share float64, fill string) {
	fmt.Fprintf(b, `<rect x="%d" y="%d" width="%d" height="%d" fill="%s"/>`+"\n", x, y, barLength(share), rowHeight-6, fill)
}

func text(b *strings.Builder, x, y int, attributes, content string) {
	fmt.Fprintf(b, `<text x="%d" y="%d" %s>%s</text>`+"\n", x, y, attributes, html.EscapeString(content))
}

func color(target, subject string) string {
	switch target {
	case subject:
		return "#1f6feb"
	case "direct":
		return "#2da44e"
	case "floor":
		return "#bf8700"
	default:
		return "#afb8c1"
	}
}
