package route

import (
	"bytes"
	"fmt"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/command"
	"github.com/sluiceproxy/sluice/internal/tenant"
	"github.com/sluiceproxy/sluice/pkg/resp"
	"github.com/sluiceproxy/sluice/pkg/slot"
)

// readRequest takes a command in RESP apart.
func readRequest(t testing.TB, request []byte) []string {
	t.Helper()
	var scan resp.CommandScanner
	limits := resp.DefaultLimits()
	n, err := scan.Scan(request, &limits)
	require.NoError(t, err)
	require.Equal(t, len(request), n, "%q is not one whole command", request)
	var args []string
	for _, arg := range resp.AppendArgs(nil, request) {
		args = append(args, string(arg))
	}
	return args
}

// memory is a keyspace that runs the commands that can be split.
type memory map[string]string

func (m memory) run(args []string) []byte {
	switch args[0] {
	case "MSET":
		if len(args) < 3 || len(args)%2 == 0 {
			return []byte("-ERR wrong number of arguments\r\n")
		}
		for i := 1; i < len(args); i += 2 {
			m[args[i]] = args[i+1]
		}
		return []byte("+OK\r\n")
	case "MGET":
		reply := fmt.Appendf(nil, "*%d\r\n", len(args)-1)
		for _, key := range args[1:] {
			if v, known := m[key]; known {
				reply = fmt.Appendf(reply, "$%d\r\n%s\r\n", len(v), v)
			} else {
				reply = append(reply, "$-1\r\n"...)
			}
		}
		return reply
	}
	count := 0
	for _, key := range args[1:] {
		if _, known := m[key]; known {
			count++
			if args[0] == "DEL" || args[0] == "UNLINK" {
				delete(m, key)
			}
		}
	}
	return strconv.AppendInt([]byte(":"), int64(count), 10)
}

// FuzzSplitEqualsWhole runs each command on one keyspace whole and on another in parts, in an order of its own, with
// replies that come in pieces: reply and keyspace must be the same.
func FuzzSplitEqualsWhole(f *testing.F) {
	f.Add("MGET", []byte("a\x00b\x00{a}c\x00a"), byte(3))
	f.Add("MSET", []byte("a\x00a\x00b\x00c\x00a\x00{b}"), byte(0))
	f.Add("DEL", []byte("a\x00b\x00a"), byte(1))
	f.Add("EXISTS", []byte("\x00\x00k\x00{}k"), byte(9))
	f.Fuzz(func(t *testing.T, name string, packed []byte, order byte) {
		cmd := command.Lookup([]byte(name))
		if cmd == nil || cmd.Kind != command.KindSplit || len(packed) > 4096 {
			return
		}
		name = string(bytes.ToUpper([]byte(cmd.Name)))
		args := append([][]byte{[]byte(name)}, bytes.Split(packed, []byte{0})...)
		if !cmd.CheckArity(len(args)) {
			return
		}
		d, at, positions := Decide(cmd, args, tenant.Split, nil)
		if d == Forward {
			for _, i := range positions {
				require.EqualValues(t, slot.Of(args[i]), at)
			}
			return
		}
		require.Equal(t, Split, d)
		whole, parts := fullMemory(), fullMemory()
		words := make([]string, len(args))
		for i, arg := range args {
			words[i] = string(arg)
		}
		want := whole.run(words)
		if want[0] == ':' {
			want = append(want, "\r\n"...)
		}
		require.Equal(t, string(want), string(runParts(t, parts, SplitCommand(cmd, args, positions), int(order))))
		require.Equal(t, whole, parts)
	})
}

func fullMemory() memory { return memory{"a": "1", "b": "\r\n", "{a}c": "", "": "empty"} }

func runParts(t *testing.T, on memory, g *Gather, order int) []byte {
	t.Helper()
	seen := make(map[int32]bool)
	for n := range g.Parts {
		i := (n + order) % len(g.Parts)
		require.False(t, seen[g.Parts[i].Slot], "two parts for one slot")
		seen[g.Parts[i].Slot] = true
		reply := on.run(readRequest(t, g.Parts[i].Request))
		if reply[0] == ':' {
			reply = append(reply, "\r\n"...)
		}
		cut := order % len(reply)
		require.False(t, g.Add(i, reply[:cut], false))
		require.Equal(t, n == len(g.Parts)-1, g.Add(i, reply[cut:], true))
	}
	return g.AppendReply(nil)
}

// FuzzMergeOfHostileReplies gives parts any bytes for replies: what comes out is one whole reply.
func FuzzMergeOfHostileReplies(f *testing.F) {
	f.Add("MGET", []byte("*1\r\n$1\r\nx\r\n"), []byte("*1\r\n$5\r\nab"))
	f.Add("DEL", []byte(":9223372036854775807\r\n"), []byte(":9223372036854775807\r\n"))
	f.Add("MSET", []byte("+OK\r\n"), []byte("-"))
	f.Add("MGET", []byte("*1\r\n*1\r\n*1\r\n"), []byte("!3\r\nabc\r\n"))
	f.Add("MSET", []byte(""), []byte("+OK\r\n"))
	f.Fuzz(func(t *testing.T, name string, first, second []byte) {
		cmd := command.Lookup([]byte(name))
		if cmd == nil || cmd.Kind != command.KindSplit {
			return
		}
		line := [][]byte{[]byte(cmd.Name), []byte("a"), []byte("b")}
		if cmd.Name == "mset" {
			line = [][]byte{[]byte("mset"), []byte("a"), []byte("1"), []byte("b"), []byte("2")}
		}
		_, _, positions := Decide(cmd, line, tenant.Split, nil)
		g := SplitCommand(cmd, line, positions)
		g.Add(0, first, true)
		require.True(t, g.Add(1, second, true))
		reply := g.AppendReply(nil)
		if wholeReply(first) && wholeReply(second) { // a pipe delivers nothing else
			require.True(t, wholeReply(reply), "%q", reply)
		}
	})
}

func wholeReply(b []byte) bool {
	n, err := resp.ReplyLen(b)
	return err == nil && n == len(b) && n > 0
}
