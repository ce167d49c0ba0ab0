package e2e

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/redistest"
)

// pair is a proxy in front of one server, and a second server like it that is asked directly: what a client gets from
// the two must be the same.
type pair struct {
	proxy           *proxy
	backend, direct *redistest.Server
}

func startPair(t *testing.T, extra ...string) *pair {
	t.Helper()
	p := &pair{backend: redistest.Standalone(t), direct: redistest.Standalone(t)}
	p.proxy = startProxy(t, standaloneYAML(p.backend.Addr(), extra...))
	p.proxy.awaitReady(t)
	return p
}

// dial connects to both sides and switches them to the protocol version.
func (p *pair) dial(t *testing.T, protocol int) (through, direct *redistest.Conn) {
	t.Helper()
	through, direct = redistest.Dial(t, p.proxy.Addr), redistest.Dial(t, p.direct.Addr())
	if protocol == 3 {
		for _, c := range []*redistest.Conn{through, direct} {
			require.Equal(t, byte('%'), c.Do("HELLO", "3")[0])
		}
	}
	return through, direct
}

// flush empties both servers.
func (p *pair) flush(t *testing.T) {
	t.Helper()
	for _, s := range []*redistest.Server{p.backend, p.direct} {
		require.Equal(t, "+OK\r\n", string(s.Do("FLUSHALL")))
		require.Equal(t, "+OK\r\n", string(s.Do("SCRIPT", "FLUSH")))
		require.Equal(t, "+OK\r\n", string(s.Do("FUNCTION", "FLUSH")))
	}
}

// comparison says how much of two replies must be equal.
type comparison byte

const (
	exact     comparison = 0
	unordered comparison = '~' // the elements of an aggregate may come in any order
	shape     comparison = '?' // types and lengths of aggregates only
	kindOnly  comparison = '.' // the type of the reply only
)

// example is one command line with how its replies are compared.
type example struct {
	text string
	args []string
	as   comparison
}

// readExamples reads a file of testdata, see testdata/conformance/strings.txt.
func readExamples(t *testing.T, path string) (all []example) {
	t.Helper()
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	lines := bufio.NewScanner(bytes.NewReader(content))
	for lines.Scan() {
		e := example{text: lines.Text()}
		line := e.text
		if line == "" || line[0] == '#' {
			continue
		}
		if strings.HasPrefix(line, "~ ") || strings.HasPrefix(line, "? ") {
			e.as, line = comparison(line[0]), line[2:]
		}
		e.args = words(t, line)
		all = append(all, e)
	}
	return all
}

func exampleFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "conformance", "*.txt"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	return files
}

// words splits a line at blanks; double quotes hold blanks and Go's escapes.
func words(t *testing.T, line string) (all []string) {
	t.Helper()
	for rest := strings.TrimLeft(line, " "); rest != ""; rest = strings.TrimLeft(rest, " ") {
		if rest[0] != '"' {
			word, _, _ := strings.Cut(rest, " ")
			all, rest = append(all, word), rest[len(word):]
			continue
		}
		quoted, err := strconv.QuotedPrefix(rest)
		require.NoError(t, err, line)
		word, err := strconv.Unquote(quoted)
		require.NoError(t, err, line)
		all, rest = append(all, word), rest[len(quoted):]
	}
	return all
}

// requireSame fails the test unless two replies to the example are the same.
func (e *example) requireSame(t *testing.T, direct, through []byte) {
	t.Helper()
	want, got := e.as.render(direct), e.as.render(through)
	if want != got {
		t.Errorf("%s\n  direct:  %q\n  through: %q", e.text, direct, through)
	}
}

func (c comparison) render(reply []byte) string {
	switch c {
	case unordered:
		return renderUnordered(reply)
	case shape:
		text, _ := renderShape(reply)
		return text
	case kindOnly:
		return string(reply[:1])
	default:
		return string(reply)
	}
}

// renderUnordered sorts the elements of an aggregate, or the pairs of a map; SCAN's second element counts as one.
func renderUnordered(reply []byte) string {
	header, elements := aggregate(reply)
	if len(elements) == 2 && elements[1][0] == '*' {
		return header + elements[0] + renderUnordered([]byte(elements[1]))
	}
	if header[0] == '%' {
		var pairs []string
		for pair := range slices.Chunk(elements, 2) {
			pairs = append(pairs, pair[0]+pair[1])
		}
		elements = pairs
	}
	slices.Sort(elements)
	return header + strings.Join(elements, "")
}

// aggregate cuts a reply into its header and its elements.
func aggregate(reply []byte) (header string, elements []string) {
	end := bytes.IndexByte(reply, '\n') + 1
	header = string(reply[:end])
	if !strings.ContainsRune("*~%>", rune(reply[0])) {
		return header, []string{string(reply[end:])}
	}
	for rest := reply[end:]; len(rest) > 0; {
		_, next := renderShape(rest)
		elements = append(elements, string(rest[:len(rest)-len(next)]))
		rest = next
	}
	return header, elements
}

// renderShape gives the types of a reply and what follows it.
func renderShape(reply []byte) (text string, rest []byte) {
	end := bytes.IndexByte(reply, '\n') + 1
	n, _ := strconv.Atoi(string(bytes.TrimSpace(reply[1:end])))
	rest = reply[end:]
	kind := reply[0]
	switch kind {
	case '$', '=', '!':
		if n < 0 {
			return "$-1", rest
		}
		return string(kind), rest[n+2:]
	case '*', '~', '%', '>':
		text = fmt.Sprintf("%c%d(", kind, n)
		if kind == '%' {
			n *= 2
		}
		for range n {
			var element string
			element, rest = renderShape(rest)
			text += element
		}
		return text + ")", rest
	}
	return string(kind), rest
}
