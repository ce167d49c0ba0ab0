package config

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Problem is one thing that is wrong with a configuration.
type Problem struct {
	Source string // the file, environment variable or flag that said it
	Key    string // such as "clusters[0].auth.password_file"
	Value  string // as it was given, quoted; secrets never are
	Wrong  string // what is wrong
	Mend   string // what to do
}

// Error is "source: key: value: what is wrong; what to do", without the parts that are empty.
func (p Problem) Error() string {
	parts := slices.DeleteFunc([]string{p.Source, p.Key, p.Value, p.Wrong}, func(s string) bool { return s == "" })
	text := strings.Join(parts, ": ")
	if p.Mend != "" {
		text += "; " + p.Mend
	}
	return text
}

// Errors is everything that is wrong with a configuration, ordered by key.
type Errors struct{ Problems []Problem }

// Error has one line for each problem.
func (e *Errors) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap gives every problem to errors.Is and errors.As.
func (e *Errors) Unwrap() []error {
	all := make([]error, len(e.Problems))
	for i, p := range e.Problems {
		all[i] = p
	}
	return all
}

// findings collects problems while a configuration is read and validated.
type findings struct {
	source   string            // where a key comes from that origins does not know
	origins  map[string]string // key -> variable or flag that gave it
	misspelt map[string]bool   // keys that seem to be given under another name
	problems []Problem
}

func newFindings(source string) *findings {
	return &findings{source: source, origins: map[string]string{}, misspelt: map[string]bool{}}
}

// wrong notes a problem. Of several problems with one key the first is kept:
// the others follow from it. A key that is only misspelt is told as that.
func (f *findings) wrong(key, value, wrong, mend string) {
	if f.misspelt[key] || slices.ContainsFunc(f.problems, func(p Problem) bool { return p.Key == key }) {
		return
	}
	f.problems = append(f.problems, Problem{Source: f.origin(key), Key: key, Value: value, Wrong: wrong, Mend: mend})
}

// sound says that nothing was found wrong with the key, what it is in and what is in it.
func (f *findings) sound(key string) bool {
	return !slices.ContainsFunc(f.problems, func(p Problem) bool { return within(p.Key, key) || within(key, p.Key) })
}

func within(key, outer string) bool {
	rest, ok := strings.CutPrefix(key, outer)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// origin is the source of the innermost part of key that a variable or flag gave.
func (f *findings) origin(key string) string {
	for key != "" {
		if source, ok := f.origins[key]; ok {
			return source
		}
		key = key[:max(strings.LastIndexAny(key, ".["), 0)]
	}
	return f.source
}

func (f *findings) err() error {
	if len(f.problems) == 0 {
		return nil
	}
	slices.SortFunc(f.problems, func(a, b Problem) int {
		return cmp.Or(compareKeys(a.Key, b.Key), cmp.Compare(a.Source, b.Source))
	})
	return &Errors{Problems: f.problems}
}

// compareKeys orders keys as people do: item 2 of a list before item 10.
func compareKeys(a, b string) int {
	split := func(key string) []string {
		return strings.FieldsFunc(key, func(r rune) bool { return r == '.' || r == '[' || r == ']' })
	}
	return slices.CompareFunc(split(a), split(b), func(x, y string) int {
		i, errX := strconv.Atoi(x)
		j, errY := strconv.Atoi(y)
		if errX == nil && errY == nil {
			return cmp.Compare(i, j)
		}
		return cmp.Compare(x, y)
	})
}

const (
	notSet   = "(not set)"
	notShown = "(not shown)"
)

// shown writes a value for a problem's text: short, on one line, and without
// what stands before an @, which in a URL is a password.
func shown(value any) string {
	switch v := value.(type) {
	case nil:
		return notSet
	case string:
		if i := strings.LastIndexByte(v, '@'); i >= 0 {
			v = redacted + v[i:]
		}
		return strconv.Quote(shortened(v))
	case []any, []string, []int:
		return "[…]"
	case bool, int, int64, uint64, float64:
		return fmt.Sprint(v)
	}
	return "{…}"
}

func shortened(text string) string {
	const most = 80
	runes := []rune(text)
	if len(runes) > most {
		runes = append(runes[:most], '…')
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, string(runes))
}
