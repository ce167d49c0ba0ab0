package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/redistest"
)

// rogue is a proxy in front of one scripted node. The node answers GET good, INCR and all that the test does not say
// otherwise; misbehave makes it do something else for the next command named.
func rogue(t *testing.T, serve func(c *redistest.ScriptedConn, args [][]byte)) (*proxy, *redistest.ScriptedNode) {
	t.Helper()
	return rogueWithin(t, time.Second, serve)
}

// rogueWithin is rogue with another command timeout.
func rogueWithin(t *testing.T, timeout time.Duration, serve func(c *redistest.ScriptedConn, args [][]byte)) (*proxy, *redistest.ScriptedNode) {
	t.Helper()
	node := redistest.NewScripted(t)
	node.HandleConn(serve)
	p := startProxy(t, tenantYAML("standalone", []string{node.Addr()}, "command_timeout: "+timeout.String(), "loops: 1", "pipes: {max: 1}"))
	p.awaitReady(t)
	return p, node
}

// answersKeys is a node that answers GET with the key's name and misbehaves for the command BAD's stand-in, SETNX, and
// for GETs of keys that begin with "bad".
func answersKeys(bad func(c *redistest.ScriptedConn)) func(c *redistest.ScriptedConn, args [][]byte) {
	return func(c *redistest.ScriptedConn, args [][]byte) {
		if key := string(args[1]); !strings.HasPrefix(key, "bad") {
			c.Write(bulk(key))
			return
		}
		bad(c)
	}
}

// TestGarbageFromANode: the client whose turn it is gets an error, those behind it are answered over another connection or
// get an error too; nobody gets what is not his.
func TestGarbageFromANode(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 100_000)
	for name, garbage := range map[string]string{
		"no RESP":               "HTTP/1.1 400 Bad Request\r\n\r\n",
		"no length":             "$x\r\nabc\r\n",
		"bad length":            "$3\r\nabcdef\r\n",
		"absurd length":         "$9000000000000000000\r\n",
		"negative":              "*-5\r\n",
		"huge array":            "*9000000000000000000\r\n",
		"zero byte":             "\x00\x00\x00\x00",
		"lone LF":               "\n\n\n",
		"unknown type":          "@1\r\n",
		"garbage inside":        "*2\r\n$1\r\na\r\nhello\r\n",
		"garbage after 32 KiB":  "*2\r\n$100000\r\n" + long + "\r\n?\r\n",
		"streamed depth":        strings.Repeat("*?\r\n", 1000),
		"map of absurd size":    "%4611686018427387904\r\n",
		"number out of range":   "*18446744073709551616\r\n",
		"end of no aggregate":   ".\r\n",
		"chunk without a start": ";3\r\nabc\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			p, _ := rogue(t, answersKeys(func(c *redistest.ScriptedConn) { c.Write(garbage) }))
			c, other := hello(t, p.Addr, 2), hello(t, p.Addr, 2)
			require.Equal(t, bulk("one"), string(c.Do("GET", "one")))
			c.SendCommand("GETSET", "bad", "v")
			reply, err := c.TryRead()
			if err == nil {
				require.Equal(t, "-ERR upstream sent a malformed reply; the command may have been executed, its outcome is unknown\r\n", string(reply))
			} else {
				require.Contains(t, string(reply), long[:1000], "closed though nothing had been passed on")
				c = hello(t, p.Addr, 2)
			}
			for _, key := range []string{"two", "three"} {
				require.Equal(t, bulk(key), string(c.Do("GET", key)))
				require.Equal(t, bulk(key), string(other.Do("GET", key)))
			}
			require.Positive(t, p.metric(t, "sluice_upstream_errors_total", "protocol"))
		})
	}
}

// TestRepliesNobodyAskedFor: more replies than commands end the connection before they can be taken for another's.
func TestRepliesNobodyAskedFor(t *testing.T) {
	t.Parallel()
	p, node := rogue(t, answersKeys(func(c *redistest.ScriptedConn) {
		c.Write(bulk("bad") + bulk("for nobody"))
	}))
	c := hello(t, p.Addr, 3)
	for i := range 20 {
		require.Equal(t, bulk("bad"), string(c.Do("GET", "bad")), "the first of two replies")
		reply := string(c.Do("GET", "good"))
		if reply != bulk("good") { // the connection was being given up
			require.Regexp(t, "^-ERR upstream", reply, "round %d", i)
		}
	}
	require.Greater(t, node.Accepted(), 5)

	// Push messages are for nobody and allowed.
	p, node = rogue(t, answersKeys(func(c *redistest.ScriptedConn) {
		c.Write(">2\r\n+invalidate\r\n*1\r\n$1\r\nk\r\n" + bulk("bad") + ">1\r\n+more\r\n")
	}))
	c = hello(t, p.Addr, 3)
	require.Equal(t, bulk("good"), string(c.Do("GET", "good")))
	accepted := node.Accepted()
	for range 20 {
		require.Equal(t, bulk("bad"), string(c.Do("GET", "bad")))
		require.Equal(t, bulk("good"), string(c.Do("GET", "good")))
	}
	require.Equal(t, accepted, node.Accepted())
}

// TestConnectionLostInAReply: a reply that never ended is never passed for whole.
func TestConnectionLostInAReply(t *testing.T) {
	t.Parallel()
	const unknown = "-ERR upstream connection lost; the command may have been executed, its outcome is unknown\r\n"
	half := "$10\r\nabc"
	bad := half
	p, node := rogueWithin(t, 10*time.Second, answersKeys(func(c *redistest.ScriptedConn) { c.Write(bad); c.Close() }))
	c := hello(t, p.Addr, 2)
	require.Equal(t, unknown, string(c.Do("GETSET", "bad", "v")), "a write is not sent again")
	node.AwaitCommands(1)
	require.Equal(t, []string{"GETSET bad v"}, node.Commands())
	require.Equal(t, bulk("k"), string(c.Do("GET", "k")))
	// A read is tried again, but not for ever.
	require.Equal(t, unknown, string(within(t, 10*time.Second, func() []byte { return c.Do("GET", "bad") })))
	require.Greater(t, len(node.Commands()), 3)
	require.Less(t, len(node.Commands()), 15)

	// Once a part has gone to the client, only the end of its connection can tell it that the rest does not come.
	bad = "$100000\r\n" + strings.Repeat("x", 90_000)
	c.SendCommand("GET", "bad")
	reply, err := c.TryRead()
	require.Error(t, err)
	require.True(t, strings.HasPrefix(bad, string(reply)))
	c = hello(t, p.Addr, 2)
	require.Equal(t, bulk("k"), string(c.Do("GET", "k")))
}

// TestReadLostWithItsConnectionIsSentAgain: a read that is lost with its connection is answered over the next one.
func TestReadLostWithItsConnectionIsSentAgain(t *testing.T) {
	t.Parallel()
	lost := false
	p, node := rogue(t, answersKeys(func(c *redistest.ScriptedConn) {
		if !lost {
			lost = true
			c.Write("$3\r\nb")
			c.Close()
			return
		}
		c.Write(bulk("bad"))
	}))
	c := hello(t, p.Addr, 2)
	require.Equal(t, bulk("bad"), string(c.Do("GET", "bad")))
	require.Equal(t, []string{"GET bad", "GET bad"}, node.Commands())
}

// TestPartOfASplitCommandIsLost: what came of a part before its connection was lost does not become data.
func TestPartOfASplitCommandIsLost(t *testing.T) {
	t.Parallel()
	const failure = "-ERR upstream connection lost; the command may have been executed, its outcome is unknown\r\n"
	const size = 50_000
	f := newFakeCluster(t, 2, func(node int, c *redistest.ScriptedConn, args [][]byte) {
		if node == 0 {
			c.Write("*1\r\n" + bulk("whole"))
			return
		}
		// What is missing is as long as the error's text: glued to it, the error would complete the value.
		c.Write("*1\r\n$50000\r\n" + strings.Repeat("x", size+len("\r\n")-len(failure)))
		c.Close()
	})
	p := startProxy(t, tenantYAML("cluster", f.addrs(), ""))
	p.awaitReady(t)
	c := hello(t, p.Addr, 2)
	require.Equal(t, failure, string(c.Do("MGET", keyOfHalf(0, "k"), keyOfHalf(1, "k"))))
	require.Equal(t, "*1\r\n"+bulk("whole"), string(c.Do("GET", keyOfHalf(0, "k"))), "what comes is passed as it is")
}

// TestLongErrorPassesAsItIs: an error has no bound of its own, so it is not held back whole.
func TestLongErrorPassesAsItIs(t *testing.T) {
	t.Parallel()
	long := "-" + strings.Repeat("E", 300_000) + "\r\n"
	p, _ := rogue(t, answersKeys(func(c *redistest.ScriptedConn) { c.Write(long) }))
	c := hello(t, p.Addr, 2)
	require.Equal(t, long, string(c.Do("GET", "bad")))
	require.Equal(t, bulk("k"), string(c.Do("GET", "k")))
}

// TestRedirectOfAStandaloneBackend is a configuration error, which must not tell an address.
func TestRedirectOfAStandaloneBackend(t *testing.T) {
	t.Parallel()
	p, _ := rogue(t, answersKeys(func(c *redistest.ScriptedConn) { c.Write("-MOVED 1 127.0.0.1:7001\r\n") }))
	require.Equal(t, "-ERR the backend is a Redis Cluster but is configured as standalone; set kind: cluster\r\n", string(hello(t, p.Addr, 3).Do("GET", "bad")))
	for _, malformed := range []string{"-MOVED\r\n", "-MOVED x 127.0.0.1:1\r\n", "-ASK 1\r\n", "-MOVED 1 127.0.0.1:1 extra\r\n", "-MOVED 99999 127.0.0.1:1\r\n"} {
		p, _ := rogue(t, answersKeys(func(c *redistest.ScriptedConn) { c.Write(malformed) }))
		reply := hello(t, p.Addr, 2).Do("GET", "bad")
		require.Equal(t, byte('-'), reply[0])
		require.False(t, tellsAddress(reply), "%q", reply)
	}
}
