package resp

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// inlineLines holds inline lines and the words that a Redis 7.0.15 server makes of
// them, nil when it refuses.
func inlineLines() map[string][]string {
	return map[string][]string{
		"SET key value":        {"SET", "key", "value"},
		"  SET\tkey   value  ": {"SET", "key", "value"},
		`SET key "a b"`:        {"SET", "key", "a b"},
		`SET key ""`:           {"SET", "key", ""},
		`SET key ''`:           {"SET", "key", ""},
		`"\n\r\t\b\a\q\\\"" x`: {"\n\r\t\b\aq\\\"", "x"},
		`"\x41\xfF\x4"`:        {"A\xffx4"},
		`"\xzz"`:               {"xzz"},
		`'\n\'\\ '`:            {`\n'\\ `},
		`'\\'`:                 nil,
		`se"t k" 'x'`:          {"set k", "x"},
		`back\slash`:           {`back\slash`},
		"a\vb":                 {"a\vb"},
		"\va":                  {"a"},
		"\"a\"\vb":             {"a", "b"},
		"a\rb":                 {"a", "b"},
		`'it''`:                nil,
		`"`:                    nil,
		`"a\"`:                 nil,
		`'a\'`:                 nil,
		`"a"b`:                 nil,
		`'a''b'`:               nil,
	}
}

func TestInlineIsSplitAsRedisDoes(t *testing.T) {
	for line, want := range inlineLines() {
		input := line + "\r\n"
		if want == nil {
			requireScan(t, input, DefaultLimits(), 0, "Protocol error: unbalanced quotes in request")
			continue
		}
		requireScan(t, input, DefaultLimits(), len(input), "")
		require.Equal(t, want, argsOf(input), "%q", line)
		require.Equal(t, want, argsOf(line+"\n"), "%q", line)
	}
}

func TestAppendArgsKeepsWhatIsThere(t *testing.T) {
	args := AppendArgs([][]byte{[]byte("before")}, []byte(multibulk("GET", "k")))
	require.Equal(t, [][]byte{[]byte("before"), []byte("GET"), []byte("k")}, args)
	require.Equal(t, 1, cap(args[2]), "appending to an argument must not write into the command")
}
