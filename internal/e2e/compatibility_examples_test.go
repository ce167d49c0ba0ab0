package e2e

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/command"
)

// compatibilityExample is what shows how one command is served: a dialogue on new connections to empty servers. Lines of
// other commands prepare it.
//
// A file of testdata/compatibility has one example after the other. "[name]" begins one; its lines are command lines as
// readExamples reads them, with words in brackets in front: see the tags below and the normalisations. A line "because …"
// explains to the reader of docs/compatibility.md why a reply is another than the server's; without it, such a reply
// fails the test. A tag "trusted:clock" is meant for that target only, and so is a line "because trusted: …".
type compatibilityExample struct {
	cmd     *command.Command
	lines   []exampleLine
	because map[string]string // by the target's word, empty for all others
}

type exampleLine struct {
	text string
	args []string
	tags []string
	// own is true for a line of the command that the example is about.
	own bool
}

// The tags of a line that say how it is run.
const (
	tagOther  = "other"  // by a second client
	tagLater  = "later"  // its reply comes later: "next" reads it
	tagNext   = "next"   // no command: reads one more reply, or push, of the first client
	tagSilent = "silent" // has no reply
	tagCross  = "cross"  // has keys in several slots: on a cluster it is compared with a node of that cluster
	tagScan   = "scan"   // goes on with the cursor of the reply until that is 0
)

// normalisations are the tags that loosen the comparison.
var normalisations = []struct {
	tag    string
	as     comparison
	reason string
}{
	{"order", unordered, "a set, a map and a keyspace have no order: the elements are sorted before they are compared"},
	{tagScan, unordered, "a cursor is the server's own number: both sides are walked to the end, and all elements are compared, sorted"},
	{"random", shape, "the server chooses by chance: types and lengths are compared"},
	{"clock", shape, "time passes between the two runs: types and lengths are compared"},
	{"node", shape, "a node of a cluster tells its own id, address and port: types and lengths are compared"},
	{"server", kindOnly, "the reply tells of the server or connection itself: only its type is compared"},
}

// readCompatibility reads all examples and fails the test unless every command has one.
func readCompatibility(t *testing.T) map[string]*compatibilityExample {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "compatibility", "*.txt"))
	require.NoError(t, err)
	all := map[string]*compatibilityExample{}
	for _, file := range files {
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		readCompatibilityFile(t, string(content), all)
	}
	for _, cmd := range command.All() {
		e := all[cmd.Name]
		if e == nil || !slices.ContainsFunc(e.lines, func(l exampleLine) bool { return l.own }) {
			t.Errorf("testdata/compatibility has no example of %q, class %s", cmd.Name, cmd.Class)
		}
	}
	return all
}

func readCompatibilityFile(t *testing.T, content string, all map[string]*compatibilityExample) {
	t.Helper()
	var e *compatibilityExample
	for line := range strings.Lines(content) {
		line = strings.TrimSpace(line)
		switch {
		case line == "" || line[0] == '#':
		case line[0] == '[':
			name := strings.Trim(line, "[]")
			e = &compatibilityExample{cmd: commandNamed(name), because: map[string]string{}}
			require.NotNil(t, e.cmd, "there is no command %q", name)
			require.Nil(t, all[name], "%q has two examples", name)
			all[name] = e
		case strings.HasPrefix(line, "because "):
			e.readBecause(t, strings.TrimPrefix(line, "because "))
		default:
			e.lines = append(e.lines, e.readLine(t, line))
		}
	}
}

func (e *compatibilityExample) readBecause(t *testing.T, text string) {
	t.Helper()
	word, rest, targeted := strings.Cut(text, ": ")
	if !targeted || strings.Contains(word, " ") {
		e.because[""] = text
		return
	}
	require.Contains(t, targetWords, word, text)
	e.because[word] = rest
}

func (e *compatibilityExample) readLine(t *testing.T, line string) exampleLine {
	t.Helper()
	l := exampleLine{text: line}
	if line[0] == '(' {
		tags, rest, found := strings.Cut(line[1:], ")")
		require.True(t, found, line)
		l.tags, l.text = strings.Fields(tags), strings.TrimSpace(rest)
	}
	l.args = words(t, l.text)
	l.own = e.isOwn(&l)
	return l
}

// isOwn reports whether the line is of the example's command. A container alone, or with a subcommand that does not
// exist, is the container's.
func (e *compatibilityExample) isOwn(l *exampleLine) bool {
	if l.has(tagNext) {
		return true
	}
	args := asBytes(l.args)
	cmd := command.Lookup(args[0])
	if cmd == nil {
		return false
	}
	if sub, err := cmd.Resolve(args); err == nil {
		cmd = sub
	}
	return cmd == e.cmd
}

func (l *exampleLine) has(tag string) bool { return slices.Contains(l.tags, tag) }

// as is how the line's replies are compared, with the name of the normalisation.
func (l *exampleLine) as() (c comparison, name string) {
	for _, n := range normalisations {
		if l.has(n.tag) {
			return n.as, n.tag
		}
	}
	return exact, ""
}

func commandNamed(name string) *command.Command {
	for _, cmd := range command.All() {
		if cmd.Name == name {
			return cmd
		}
	}
	return nil
}

func asBytes(args []string) [][]byte {
	all := make([][]byte, len(args))
	for i, arg := range args {
		all[i] = []byte(arg)
	}
	return all
}

// isError reports whether a reply is an error, in either protocol version.
func isError(reply []byte) bool {
	return bytes.HasPrefix(reply, []byte("-")) || bytes.HasPrefix(reply, []byte("!"))
}
