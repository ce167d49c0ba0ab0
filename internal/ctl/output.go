package ctl

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/jedib0t/go-pretty/v6/table"
	"go.yaml.in/yaml/v3"
)

//nolint:gochecknoglobals // a constant list
var formats = []string{"table", "wide", "json", "yaml", "name"}

// style colours words, or leaves them as they are.
type style struct{ on bool }

// style is the one for what is written to out, where a person may be.
func (c *cli) style(_ io.Writer, terminal bool) style {
	switch c.flags.color {
	case "always":
		return style{true}
	case "never":
		return style{}
	}
	return style{terminal && c.env.Getenv("NO_COLOR") == "" && c.env.Getenv("TERM") != "dumb"}
}

func (c *cli) outStyle() style { return c.style(c.env.Out, c.env.OutTerminal) }

func (s style) paint(code, text string) string {
	if !s.on || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (s style) red(text string) string    { return s.paint("31", text) }
func (s style) green(text string) string  { return s.paint("32", text) }
func (s style) yellow(text string) string { return s.paint("33", text) }
func (s style) cyan(text string) string   { return s.paint("36", text) }
func (s style) bold(text string) string   { return s.paint("1", text) }
func (s style) dim(text string) string    { return s.paint("2", text) }

// printable is text without what could move a terminal's cursor or hide something: names of clients are the clients' own.
func printable(text string) string {
	if !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return text
	}
	quoted := strconv.Quote(text)
	return quoted[1 : len(quoted)-1]
}

// printableLines is printable for text of several lines.
func printableLines(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = printable(lines[i])
	}
	return strings.Join(lines, "\n")
}

// column is one of a table. What cell returns must be printable.
type column[T any] struct {
	title string
	wide  bool // shown with -o wide only
	cell  func(*T, style) string
}

// show prints a list in the format that was asked for.
func show[T any](c *cli, items []T, name func(*T) string, columns []column[T]) error {
	switch c.flags.output {
	case "json", "yaml":
		if items == nil {
			items = []T{}
		}
		return c.encode(items)
	case "name":
		for i := range items {
			fmt.Fprintln(c.env.Out, printable(name(&items[i])))
		}
		return nil
	}
	showTable(c, items, columns)
	return nil
}

// showOne prints one thing.
func showOne[T any](c *cli, item T, name func(*T) string, columns []column[T]) error {
	switch c.flags.output {
	case "json", "yaml":
		return c.encode(item)
	}
	return show(c, []T{item}, name, columns)
}

func showTable[T any](c *cli, items []T, columns []column[T]) {
	if len(items) == 0 {
		fmt.Fprintln(c.env.Err, "there is none")
		return
	}
	st := c.outStyle()
	columns = slices.DeleteFunc(slices.Clone(columns), func(col column[T]) bool { return col.wide && c.flags.output != "wide" })
	header := make(table.Row, len(columns))
	for i, col := range columns {
		header[i] = st.bold(col.title)
	}
	rows := []table.Row{header}
	for i := range items {
		row := make(table.Row, len(columns))
		for j, col := range columns {
			row[j] = col.cell(&items[i], st)
		}
		rows = append(rows, row)
	}
	fmt.Fprint(c.env.Out, renderTable(rows))
}

// renderTable sets rows in columns, two spaces apart.
func renderTable(rows []table.Row) string {
	w := table.NewWriter()
	look := table.StyleDefault
	look.Options = table.OptionsNoBordersAndSeparators
	look.Box.PaddingLeft, look.Box.PaddingRight = "", "  "
	w.SetStyle(look)
	w.AppendRows(rows)
	var b strings.Builder
	for line := range strings.Lines(w.Render()) {
		b.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	return b.String()
}

// encode prints anything as JSON or YAML.
func (c *cli) encode(v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("cannot print: %w", err)
	}
	if c.flags.output == "yaml" {
		node, err := yamlOf(v)
		if err != nil {
			return err
		}
		return writeYAML(c.env.Out, node)
	}
	_, err = fmt.Fprintf(c.env.Out, "%s\n", b)
	return err
}

// yamlOf is a value as its JSON form says it, in the order of its fields.
func yamlOf(v any) (*yaml.Node, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("cannot print: %w", err)
	}
	var document yaml.Node
	if err := yaml.Unmarshal(b, &document); err != nil { // JSON is YAML
		return nil, fmt.Errorf("cannot print: %w", err)
	}
	plain(&document)
	return document.Content[0], nil
}

// plain takes JSON's brackets and quotes away; the encoder puts quotes where they are needed.
func plain(n *yaml.Node) {
	n.Style = 0
	if len(n.Content) == 0 && n.Kind != yaml.ScalarNode {
		n.Style = yaml.FlowStyle // [] and {}
	}
	for _, child := range n.Content {
		plain(child)
	}
}

func writeYAML(w io.Writer, n *yaml.Node) error {
	var b bytes.Buffer
	encoder := yaml.NewEncoder(&b)
	encoder.SetIndent(2)
	if err := encoder.Encode(n); err != nil {
		return fmt.Errorf("cannot print: %w", err)
	}
	_, err := w.Write(b.Bytes())
	return err
}

func yesNo(b bool) string { return map[bool]string{true: "yes", false: "no"}[b] }

// age is the time since then, short.
func age(then time.Time) string {
	if then.IsZero() {
		return ""
	}
	return short(time.Since(then))
}

// short is a duration in its largest unit or two.
func short(d time.Duration) string {
	switch d = max(d, 0); {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd", int(d.Hours())/24)
}

// seconds is a latency.
func seconds(s float64) string {
	switch {
	case s <= 0:
		return "-"
	case s < 1e-3:
		return fmt.Sprintf("%.0fµs", s*1e6)
	case s < 1:
		return fmt.Sprintf("%.1fms", s*1e3)
	}
	return fmt.Sprintf("%.1fs", s)
}

func join[T any](items []T) string {
	texts := make([]string, len(items))
	for i, item := range items {
		texts[i] = printable(fmt.Sprint(item))
	}
	return strings.Join(texts, ",")
}

// encodeLine prints anything as one line of JSON, or as a YAML document.
func (c *cli) encodeLine(v any) error {
	if c.flags.output == "yaml" {
		fmt.Fprintln(c.env.Out, "---")
		return c.encode(v)
	}
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("cannot print: %w", err)
	}
	_, err = fmt.Fprintf(c.env.Out, "%s\n", b)
	return err
}
