package route

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/tenant"
)

func splitLine(t testing.TB, line string) *Gather {
	t.Helper()
	args := argsOf(line)
	cmd := resolved(t, args)
	d, _, positions := Decide(cmd, args, tenant.Split, nil)
	require.Equal(t, Split, d, line)
	return SplitCommand(cmd, args, positions)
}

// requests shows the parts' requests as lines.
func requests(t testing.TB, g *Gather) []string {
	t.Helper()
	var lines []string
	for i := range g.Parts {
		lines = append(lines, strings.Join(readRequest(t, g.Parts[i].Request), " "))
	}
	return lines
}

func TestSplitMakesOnePartForEachSlot(t *testing.T) {
	require.Equal(t, []string{"MGET a {a}2 a", "MGET b", "MGET c"}, requests(t, splitLine(t, "MGET a b {a}2 c a")))
	require.Equal(t, []string{"MSET a 1 {a}2 3 a 5", "MSET b 2", "MSET c 4"}, requests(t, splitLine(t, "MSET a 1 b 2 {a}2 3 c 4 a 5")))
	require.Equal(t, []string{"del a a", "del b"}, requests(t, splitLine(t, "del a b a")))
}

func TestSplitKeepsBinaryArguments(t *testing.T) {
	args := [][]byte{[]byte("MSET"), []byte("a\r\n\x00"), []byte("*1\r\n$4\r\nQUIT\r\n"), []byte("\xff\xfe"), {}}
	cmd := resolved(t, args)
	_, _, positions := Decide(cmd, args, tenant.Split, nil)
	g := SplitCommand(cmd, args, positions)
	require.Len(t, g.Parts, 2)
	require.Equal(t, []string{"MSET", "a\r\n\x00", "*1\r\n$4\r\nQUIT\r\n"}, readRequest(t, g.Parts[0].Request))
	require.Equal(t, []string{"MSET", "\xff\xfe", ""}, readRequest(t, g.Parts[1].Request))
}

// Nothing is written by an MSET whose last key has no value: it goes as one part that a node refuses for the same reason.
func TestSplitOfMSETWithoutTheLastValue(t *testing.T) {
	for _, line := range []string{"MSET a 1 b", "MSET a 1 b 2 c", "MSET a 1 {a}b 2 {a}c 3 d"} {
		require.Equal(t, []string{"MSET a"}, requests(t, splitLine(t, line)), line)
	}
}

// answer gives the parts their replies in the order of the parts, or the other way round, and returns the merged reply.
func answer(t testing.TB, g *Gather, backwards bool, replies ...string) string {
	t.Helper()
	require.Len(t, replies, len(g.Parts))
	for n := range replies {
		i := n
		if backwards {
			i = len(replies) - 1 - n
		}
		done := g.Add(i, []byte(replies[i]), true)
		require.Equal(t, n == len(replies)-1, done)
	}
	return string(g.AppendReply(nil))
}

func TestMergeFollowsTheKeysNotTheReplies(t *testing.T) {
	const line = "MGET a b {a}2 c a" // parts: a {a}2 a | b | c
	replies := []string{"*3\r\n$1\r\n1\r\n$-1\r\n$1\r\n1\r\n", "*1\r\n$0\r\n\r\n", "*1\r\n$4\r\n\r\n\r\n\r\n"}
	const want = "*5\r\n$1\r\n1\r\n$0\r\n\r\n$-1\r\n$4\r\n\r\n\r\n\r\n$1\r\n1\r\n"
	for _, backwards := range []bool{false, true} {
		require.Equal(t, want, answer(t, splitLine(t, line), backwards, replies...))
	}
}

func TestMergeKeepsNullsOfEitherProtocol(t *testing.T) {
	require.Equal(t, "*2\r\n_\r\n$1\r\nx\r\n", answer(t, splitLine(t, "MGET a b"), false, "*1\r\n_\r\n", "*1\r\n$1\r\nx\r\n"))
	require.Equal(t, "*2\r\n$-1\r\n$1\r\nx\r\n", answer(t, splitLine(t, "MGET a b"), true, "*1\r\n$-1\r\n", "*1\r\n$1\r\nx\r\n"))
}

func TestMergeSumsAndOK(t *testing.T) {
	for _, name := range []string{"DEL", "UNLINK", "EXISTS", "TOUCH"} {
		require.Equal(t, ":5\r\n", answer(t, splitLine(t, name+" a b c a a"), true, ":3\r\n", ":0\r\n", ":2\r\n"))
	}
	require.Equal(t, "+OK\r\n", answer(t, splitLine(t, "MSET a 1 b 2"), true, "+OK\r\n", "+OK\r\n"))
}

func TestMergeAnswersWithTheFirstErrorInKeyOrder(t *testing.T) {
	for _, line := range []string{"MGET a b c", "MSET a 1 b 2 c 3", "DEL a b c"} {
		for _, backwards := range []bool{false, true} {
			require.Equal(t, "-OOM first\r\n", answer(t, splitLine(t, line), backwards, "+OK\r\n", "-OOM first\r\n", "-ERR second\r\n"))
			require.Equal(t, "!5\r\nERR x\r\n", answer(t, splitLine(t, line), backwards, "!5\r\nERR x\r\n", ":1\r\n", "-ERR second\r\n"))
		}
	}
}

// Whatever a node sends for a part, the client gets a whole reply with as many elements as it asked for, or an error.
func TestMergeRefusesUnexpectedReplies(t *testing.T) {
	for _, bad := range []string{"*0\r\n", "*2\r\n$1\r\n1\r\n$1\r\n2\r\n", "*-1\r\n", "_\r\n", ":1\r\n", "+OK\r\n", "$1\r\n1\r\n", "%1\r\n$1\r\na\r\n$1\r\nb\r\n", "~1\r\n:1\r\n", "*?\r\n:1\r\n.\r\n"} {
		require.Equal(t, string(badPart), answer(t, splitLine(t, "MGET a b"), false, bad, "*1\r\n$1\r\nx\r\n"), bad)
	}
	for _, bad := range []string{"+OK\r\n", "$1\r\n1\r\n", "*0\r\n", "_\r\n"} {
		require.Equal(t, string(badPart), answer(t, splitLine(t, "DEL a b"), false, ":1\r\n", bad), bad)
	}
	require.Equal(t, string(badPart), answer(t, splitLine(t, "MSET a 1 b 2"), false, "+OK\r\n", ":1\r\n"))
	require.Equal(t, string(badPart), answer(t, splitLine(t, "MSET a 1 b 2"), false, "$2\r\nOK\r\n", "+OK\r\n"))
}

// A failure in the middle of a part's reply replaces what had come of it: glued to it, the error's text could pass as
// the rest of a value.
func TestFailReplacesWhatCameOfAPart(t *testing.T) {
	const failure = "-ERR upstream connection lost\r\n"
	beginning := "*1\r\n$40\r\n" + strings.Repeat("x", 42-len(failure))
	g := splitLine(t, "MGET a b")
	require.False(t, g.Add(0, []byte(beginning), false))
	require.False(t, g.Fail(0, []byte(failure)))
	require.True(t, g.Add(1, []byte("*1\r\n$1\r\ny\r\n"), true))
	require.Equal(t, failure, string(g.AppendReply(nil)))
}

func TestAddTakesAReplyInPieces(t *testing.T) {
	g := splitLine(t, "MGET a b")
	for _, piece := range []string{"*1\r", "\n$5\r\nhe", "llo\r"} {
		require.False(t, g.Add(1, []byte(piece), false))
	}
	require.False(t, g.Add(1, []byte("\n"), true))
	require.True(t, g.Add(0, []byte("*1\r\n$-1\r\n"), true))
	require.Equal(t, "*2\r\n$-1\r\n$5\r\nhello\r\n", string(g.AppendReply(nil)))
}
