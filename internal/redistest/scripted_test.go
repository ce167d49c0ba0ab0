package redistest

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

func TestScriptIsPlayedInOrder(t *testing.T) {
	LeakCheck(t)
	node := NewScripted(t)
	node.Expect("GET", "k").Reply("$1\r\nv\r\n")
	node.Expect("PING").Reply("+SCRIPTED\r\n")
	c := Dial(t, node.Addr())
	require.Equal(t, "$1\r\nv\r\n", string(c.Do("GET", "k")))
	require.Equal(t, "+SCRIPTED\r\n", string(c.Do("PING")))
	require.Equal(t, "+PONG\r\n", string(c.Do("PING")), "the handshake answers what the script does not expect")
	node.AwaitScript()
	require.Equal(t, []string{"GET k", "PING"}, node.Commands())
}

func TestGateHoldsTheRestOfAReply(t *testing.T) {
	node := NewScripted(t)
	gate := make(chan struct{})
	node.Expect("GET", "k").Reply("$1").When(gate).Reply("\r\nv\r\n")
	c := Dial(t, node.Addr())
	c.SendCommand("GET", "k")
	first, err := c.replies.Peek(2)
	require.NoError(t, err)
	require.Equal(t, "$1", string(first))
	require.Equal(t, 2, c.replies.Buffered())
	close(gate)
	c.RequireReply("$1\r\nv\r\n")
}

func TestUnexpectedAndUntakenFailTheTest(t *testing.T) {
	recorder := &fatalRecorder{TB: t}
	node := NewScripted(recorder)
	node.Expect("SET", "k", "v")
	reply := Dial(t, node.Addr()).Do("GET", "k")
	require.Equal(t, "-ERR not in the script\r\n", string(reply))
	recorder.end()
	require.Contains(t, recorder.failure(), `"GET k"`)

	recorder = &fatalRecorder{TB: t}
	node = NewScripted(recorder)
	node.Expect("SET", "k", "v")
	recorder.end()
	require.Contains(t, recorder.failure(), "never asked: SET k v")
}

func TestHandlerCountsAndClosesConnections(t *testing.T) {
	LeakCheck(t)
	node := NewScripted(t)
	node.HandleConn(func(c *ScriptedConn, args [][]byte) {
		if string(args[0]) == "DIE" {
			c.Write("$10\r\nhalf")
			c.Reset()
			return
		}
		c.Delay(time.Millisecond)
		c.Write("+" + string(args[0]) + "\r\n")
	})
	first, second := Dial(t, node.Addr()), Dial(t, node.Addr())
	require.Equal(t, "+ONE\r\n", string(first.Do("ONE")))
	require.Equal(t, "+TWO\r\n", string(second.Do("TWO")))
	require.Equal(t, 2, node.Accepted())
	_, err := first.TryDo("DIE")
	require.Error(t, err)
	node.AwaitOpen(1)
	node.CloseConnections()
	second.RequireClosed()
	node.AwaitOpen(0)
	require.Equal(t, 2, node.Accepted())
}

func TestGoRedisConnectsToScriptedNode(t *testing.T) {
	for _, refuse := range []bool{false, true} {
		node := NewScripted(t)
		if refuse {
			node.RefuseHello()
		}
		node.Handle(func(args [][]byte) []byte {
			if string(args[0]) == "get" {
				return []byte("$1\r\nv\r\n")
			}
			return []byte("-ERR unknown command\r\n")
		})
		client := redis.NewClient(&redis.Options{Addr: node.Addr(), Password: "p", DB: 3, ClientName: "n"})
		got, err := client.Get(context.Background(), "k").Result()
		require.NoError(t, err)
		require.Equal(t, "v", got)
		require.NoError(t, client.Close())
	}
}
