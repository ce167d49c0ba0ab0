package redistest

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReadReplyReturnsExactlyOneReply(t *testing.T) {
	replies := []string{
		"+OK\r\n", "-ERR no\r\n", ":1\r\n", "$-1\r\n", "$0\r\n\r\n", "$4\r\na\r\nb\r\n", "*-1\r\n", "*0\r\n",
		"*2\r\n$1\r\na\r\n*1\r\n:1\r\n", "_\r\n", "#t\r\n", ",1.5\r\n", "(12\r\n", "=5\r\ntxt:x\r\n", "!3\r\nERR\r\n",
		"%1\r\n+a\r\n~1\r\n:1\r\n", ">2\r\n+message\r\n+x\r\n", "|1\r\n+ttl\r\n:3\r\n$1\r\nx\r\n",
		"$?\r\n;3\r\nabc\r\n;0\r\n", "*?\r\n:1\r\n*0\r\n.\r\n", "%?\r\n+a\r\n:1\r\n.\r\n",
	}
	node := NewScripted(t)
	step := node.Expect("GO")
	for _, reply := range replies {
		step.Reply(reply)
	}
	c := Dial(t, node.Addr())
	c.SendCommand("GO")
	for _, reply := range replies {
		require.Equal(t, reply, string(c.ReadReply()))
	}
}

func TestTryReadReturnsWhatCameBeforeTheEnd(t *testing.T) {
	node := NewScripted(t)
	node.Expect("GET", "k").Reply("$5\r\nab").Close()
	got, err := Dial(t, node.Addr()).TryDo("GET", "k")
	require.Error(t, err)
	require.Equal(t, "$5\r\nab", string(got))
}

func TestInlineAndPipelinedCommandsAgainstRealServer(t *testing.T) {
	c := Standalone(t).Dial()
	c.Send("SET a 1\r\n" + Command("GET", "a") + "PING\r\n")
	c.RequireReply("+OK\r\n")
	c.RequireReply("$1\r\n1\r\n")
	c.RequireReply("+PONG\r\n")
	c.SendCommand("HELLO", "3")
	require.Equal(t, byte('%'), c.ReadReply()[0])
	c.SendCommand("QUIT")
	c.RequireReply("+OK\r\n")
	c.RequireClosed()
}
