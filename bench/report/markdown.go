package report

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// WriteMarkdown writes the report for people to read; picture is the name of its picture, or empty.
func (r *Report) WriteMarkdown(w io.Writer, picture string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# Benchmark of %s at %s\n\n", r.Settings.Subject, r.Date.Format("2006-01-02 15:04 MST"))
	m := r.Machine
	fmt.Fprintf(&b, "%s, %d cores, %s memory, kernel %s, %s, %s. Commit %s. Load by %s.\n",
		m.CPU, m.Cores, m.Memory, m.Kernel, m.System, m.Go, r.Commit, r.Generator)
	fmt.Fprintf(&b, "%d rounds of %g s each, targets taking turns; numbers are medians. `%s`\n",
		r.Settings.Rounds, r.Settings.Seconds, r.Settings.Command)
	if r.Settings.Quick {
		b.WriteString("\n**A quick run: its numbers only show that everything works.**\n")
	}
	if picture != "" {
		fmt.Fprintf(&b, "\n![throughput and latency](%s)\n", picture)
	}
	b.WriteString("\n" + r.Tables())
	_, err := io.WriteString(w, b.String())
	return err
}

// Tables renders the measurements, the bars and the notes. It is what the terminal shows too.
func (r *Report) Tables() string {
	var b strings.Builder
	section := func(title, text string) {
		if text != "" {
			b.WriteString("## " + title + "\n\n" + text + "\n")
		}
	}
	section("Throughput, latency, CPU", r.seriesTable())
	section("Memory and allocations", r.factsTable())
	section("Bars", r.barsTable())
	var notes strings.Builder
	for _, note := range r.Notes {
		notes.WriteString("- " + note + "\n")
	}
	section("Notes", notes.String())
	return b.String()
}

func (r *Report) seriesTable() string {
	rows := [][]string{{
		"scenario", "op", "target", "ops/s", "mean µs", "p50 µs", "p99 µs", "p99.9 µs",
		"proxy CPU µs", "backend CPU µs", "load CPU µs", "errors",
	}}
	for _, s := range r.Series {
		m := s.Median
		rows = append(rows, []string{
			s.Scenario, s.Operation, s.Target, thousands(m.OpsPerSecond), number(m.Mean), number(m.P50), number(m.P99),
			number(m.P999), orDash(m.ProxyCPU), orDash(m.BackendCPU), orDash(m.LoadCPU),
			strconv.FormatUint(m.Errors, 10),
		})
	}
	return table(rows, 3)
}

func (r *Report) factsTable() string {
	rows := [][]string{{"scenario", "target", "what", "value", "unit"}}
	for _, f := range r.Facts {
		rows = append(rows, []string{f.Scenario, f.Target, f.Name, number(f.Value), f.Unit})
	}
	return table(rows, 3)
}

func (r *Report) barsTable() string {
	rows := [][]string{{"", "scenario", "what", "measured", "bar"}}
	for _, b := range r.Bars {
		mark, value, sign := "✗ not reached", number(b.Value)+" "+b.Unit, "≤ "
		if b.AtLeast {
			sign = "≥ "
		}
		if b.Reached {
			mark = "✓ reached"
		}
		if b.Missing != "" {
			mark, value = "? not measured", "– "+oneLine(b.Missing)
		}
		rows = append(rows, []string{mark, b.Scenario, b.What, value, sign + number(b.Limit) + " " + b.Unit})
	}
	return table(rows, 5)
}

// table lays out rows as Markdown that is also readable as it stands; columns from the given one on are numbers.
func table(rows [][]string, numbersFrom int) string {
	if len(rows) < 2 {
		return ""
	}
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell), 3)
		}
	}
	var b strings.Builder
	for n, row := range rows {
		for i, cell := range row {
			padding := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i >= numbersFrom {
				cell, padding = padding+cell, ""
			}
			b.WriteString("| " + cell + padding + " ")
		}
		b.WriteString("|\n")
		if n == 0 {
			writeRule(&b, widths, numbersFrom)
		}
	}
	return b.String()
}

func writeRule(b *strings.Builder, widths []int, numbersFrom int) {
	for i, width := range widths {
		end := "-"
		if i >= numbersFrom {
			end = ":"
		}
		b.WriteString("|" + strings.Repeat("-", width+1) + end)
	}
	b.WriteString("|\n")
}

// number shows three significant digits, and whole numbers from 100 on.
func number(v float64) string {
	switch {
	case v >= 1000 || v <= -1000:
		return thousands(v)
	case v >= 100 || v <= -100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	default:
		return strconv.FormatFloat(v, 'g', 3, 64)
	}
}

func thousands(v float64) string {
	digits := strconv.FormatFloat(v, 'f', 0, 64)
	sign, digits := digits[:len(digits)-len(strings.TrimPrefix(digits, "-"))], strings.TrimPrefix(digits, "-")
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}

func orDash(v float64) string {
	if v == 0 {
		return "–"
	}
	return number(v)
}

func oneLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return strings.ReplaceAll(line, "|", "/")
}
