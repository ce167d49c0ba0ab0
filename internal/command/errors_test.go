package command

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func itoa(n int) string { return strconv.Itoa(n) }

// refusal is the reply that the functions of this package give to a line that cannot be served, "" when it can.
func refusal(args [][]byte) string {
	c := Lookup(args[0])
	if c == nil {
		return "-ERR " + UnknownCommand(args) + "\r\n"
	}
	c, err := c.Resolve(args)
	if err != nil {
		return "-ERR " + err.Error() + "\r\n"
	}
	if !c.CheckArity(len(args)) {
		return "-ERR " + WrongArity(c.Name) + "\r\n"
	}
	return ""
}

func TestRefusalsEqualServer(t *testing.T) {
	long := strings.Repeat("x", 300)
	lines := [][][]byte{
		line("foo"), line(""), line("foo", ""), line("foo", "a", "b"), line("foo", long, "b"), line(long, long),
		line("foo", long[:125], "b"), line("foo", long[:126], "b"), line("foo", long[:120], "b", "c", "d"),
		line("foo", strings.Repeat("ab ", 20), strings.Repeat("c", 60), strings.Repeat("d", 60)),
		line("foo\r\nbar", "a\r\n", "\n"), line("foo\x00bar", "a\x00b", "c"), line("\xff\xfe", "\x80\xc3"), line("g"), line("get\x00"),
		line("get"), line("GET", "a", "b"), line("set", "a"), line("mset"), line("config"), line("CONFIG", "GET"), line("client", "setname"),
		line("config", "nope"), line("Config", "no\r\npe", "x"), line("config", long), line("object", "\x00"), line("CLIENT", ""),
		line("xgroup", "create", "a"), line("config", "\xff\x80"), line("command", "getkeys"), line("memory", "usage"),
	}
	replies := startServer(t, 2).doAll(lines)
	for i, args := range lines {
		require.Equal(t, string(replies[i]), refusal(args), "%q", args)
	}
}

func TestTexts(t *testing.T) {
	require.Equal(t, "unknown command 'foo', with args beginning with: 'a' 'b' ", UnknownCommand(line("foo", "a", "b")))
	require.Equal(t, "wrong number of arguments for 'config|get' command", WrongArity("config|get"))
}
