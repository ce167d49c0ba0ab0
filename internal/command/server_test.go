package command

import (
	"bufio"
	"bytes"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/redistest"
)

// realServer is a connection to a redis-server of this test's own.
type realServer struct{ *redistest.Conn }

// startServer starts a redis-server. What is compared is the server's own text, so it must be of the release that the
// table was read from.
func startServer(t *testing.T, protocol int) realServer {
	t.Helper()
	conn := redistest.Dial(t, redistest.Standalone(t).Addr())
	release := ServerVersion[:strings.LastIndex(ServerVersion, ".")+1]
	if !bytes.Contains(conn.Do("INFO", "server"), []byte("redis_version:"+release)) {
		t.Skipf("the table is that of Redis %sx, this server is of another release", release)
	}
	conn.Do("HELLO", strconv.Itoa(protocol))
	return realServer{conn}
}

// doAll sends lines in pipelines and gives the bytes of each reply.
func (s realServer) doAll(lines [][][]byte) [][]byte {
	const pipelined = 500
	var replies [][]byte
	for batch := range slices.Chunk(lines, pipelined) {
		var request strings.Builder
		for _, args := range batch {
			request.WriteString(redistest.Command(words(args)...))
		}
		s.Send(request.String())
		for range batch {
			replies = append(replies, s.ReadReply())
		}
	}
	return replies
}

func words(args [][]byte) []string {
	list := make([]string, len(args))
	for i, arg := range args {
		list[i] = string(arg)
	}
	return list
}

// node is a reply as a tree. text is the header line and, for a bulk string, the string.
type node struct {
	text     string
	children []node
}

// readReply reads one reply and copies its bytes to raw.
func readReply(r *bufio.Reader, raw *bytes.Buffer) (node, error) {
	header, err := r.ReadString('\n')
	if err != nil {
		return node{}, err
	}
	raw.WriteString(header)
	n := node{text: strings.TrimSuffix(header, "\r\n")}
	length, _ := strconv.Atoi(n.text[1:])
	switch n.text[0] {
	case '$':
		if length < 0 {
			return n, nil
		}
		content := make([]byte, length+2)
		if _, err := io.ReadFull(r, content); err != nil {
			return node{}, err
		}
		raw.Write(content)
		n.text = "$" + string(content[:length])
	case '%':
		length *= 2
		fallthrough
	case '*', '~':
		n.text = n.text[:1]
		for range length {
			child, err := readReply(r, raw)
			if err != nil {
				return node{}, err
			}
			n.children = append(n.children, child)
		}
	}
	return n, nil
}

func parseReply(t *testing.T, reply []byte) node {
	t.Helper()
	var raw bytes.Buffer
	n, err := readReply(bufio.NewReader(bytes.NewReader(reply)), &raw)
	require.NoError(t, err)
	require.Equal(t, len(reply), raw.Len(), "one whole reply")
	return n
}

// sorted orders the children, step of them at a time, by the first one's first words.
func (n node) sorted(step int) node {
	groups := slices.Collect(slices.Chunk(n.children, step))
	slices.SortFunc(groups, func(a, b []node) int { return strings.Compare(a[0].name(), b[0].name()) })
	return node{text: n.text, children: slices.Concat(groups...)}
}

// name is the string that the node is or begins with.
func (n node) name() string {
	if len(n.children) > 0 {
		return n.children[0].name()
	}
	return strings.TrimPrefix(n.text, "$")
}

// render writes one line per node, for a readable difference.
func (n node) render(indent string) string {
	var out strings.Builder
	out.WriteString(indent + n.text + "\n")
	for _, child := range n.children {
		out.WriteString(child.render(indent + " "))
	}
	return out.String()
}

// line makes a command line of words.
func line(words ...string) [][]byte {
	args := make([][]byte, len(words))
	for i, word := range words {
		args[i] = []byte(word)
	}
	return args
}
