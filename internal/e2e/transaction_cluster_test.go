package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/redistest"
)

// clusterTransactions are dialogues that a cluster behind the proxy answers as one server.
var clusterTransactions = []string{ //nolint:gochecknoglobals // constant
	"SET a 1|SET b 2|SET c 3|MULTI|SET {k}1 x|DBSIZE|GET {k}1|EXEC|DBSIZE",
	"SET a 1|MULTI|KEYS *|RANDOMKEY|EXEC",
	"SET a 1|SET b 2|MULTI|FLUSHDB|DBSIZE|EXEC|DBSIZE",
	"SET a 1|SET b 2|MULTI|SET {k}1 x|FLUSHALL ASYNC|DBSIZE|KEYS *|EXEC|GET a",
	"SET a 1|SET b 2|MULTI|FLUSHDB|DISCARD|DBSIZE",
	"SET a 1|SET b 2|MULTI|FLUSHDB|NOSUCH|EXEC|DBSIZE",
	"SET a 1|WATCH a|SET a 2|MULTI|FLUSHDB|DBSIZE|EXEC|DBSIZE",
	"SET a 1|WATCH a|MULTI|GET a|FLUSHDB|EXEC|DBSIZE",
	"WATCH a|MULTI|DBSIZE|EXEC",
	"MULTI|FLUSHDB NOW|DBSIZE|EXEC",
	"MULTI|SCRIPT LOAD \"return redis.call('GET',KEYS[1])\"|SCRIPT EXISTS d3c21d0c2b9ca22f82737626a27bcaf5d288f99f|EVALSHA d3c21d0c2b9ca22f82737626a27bcaf5d288f99f 1 a|EXEC|EVALSHA d3c21d0c2b9ca22f82737626a27bcaf5d288f99f 1 b",
	"SCRIPT LOAD \"return 1\"|MULTI|SCRIPT EXISTS e0e1f9fabfc9d4800c877a703b823ac0578ff8db x|SCRIPT FLUSH|SCRIPT EXISTS e0e1f9fabfc9d4800c877a703b823ac0578ff8db|EXEC|EVALSHA e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0",
	"MULTI|FUNCTION LOAD \"#!lua name=lib\\nredis.register_function('f',function() return 1 end)\"|FUNCTION LOAD x|FUNCTION LIST LIBRARYNAME lib|SCRIPT KILL|EXEC|FCALL f 0|FUNCTION FLUSH",
	"MULTI|SELECT 0|SET a 1|CLIENT SETNAME x|CLIENT GETNAME|EXEC|CLIENT GETNAME",
	"MULTI|HELLO 3|HGETALL a|GET a|EXEC|GET a|HELLO 2",
	"WATCH a|HELLO 3|MULTI|GET a|EXEC|HELLO 2",
	"MULTI|PUBSUB NUMPAT|PUBSUB NUMSUB a|UNWATCH|PING|PUBLISH ch x|EXEC",
	"MULTI|MGET {k}1 {k}2|DEL {k}1 {k}2|CLUSTER KEYSLOT a|EXEC",
}

// TestClusterTransactionsAsOneServer: what concerns all shards, and what the proxy answers, is executed in a transaction.
func TestClusterTransactionsAsOneServer(t *testing.T) {
	redistest.LeakCheck(t)
	servers := redistest.Cluster(t, 3, 0)
	single := redistest.Standalone(t)
	p := clusterProxy(t, servers, "")
	for _, protocol := range []int{2, 3} {
		for _, dialogue := range clusterTransactions {
			t.Run(fmt.Sprint(protocol, " ", dialogue), func(t *testing.T) {
				through, direct := hello(t, p.Addr, protocol), hello(t, single.Addr(), protocol)
				for _, c := range []*redistest.Conn{through, direct} {
					c.Do("FLUSHALL")
					c.Do("SCRIPT", "FLUSH")
				}
				for _, line := range strings.Split(dialogue, "|") {
					args := words(t, line)
					want, got := string(direct.Do(args...)), string(through.Do(args...))
					require.Equal(t, helloID.ReplaceAllString(want, "the id"), helloID.ReplaceAllString(got, "the id"), line)
				}
			})
		}
	}
	c := hello(t, p.Addr, 2)
	for _, lines := range []string{
		"FLUSHDB|SET a 1|set|flushdb", "FLUSHALL|GET a|get|flushall", "KEYS *|SET a 1|set|keys", "DBSIZE|EVAL x 0|eval|dbsize",
		"SCAN 0|DEL a|del|scan", "FUNCTION FLUSH|FCALL f 0|fcall|function|flush", "SCRIPT FLUSH|EVALSHA x 0|evalsha|script|flush",
	} {
		parts := strings.SplitN(lines, "|", 4)
		require.Equal(t, "+OK\r\n", string(c.Do("MULTI")))
		require.Equal(t, "+QUEUED\r\n", string(c.Do(strings.Fields(parts[0])...)), lines)
		require.Equal(t, fmt.Sprintf("-ERR '%s' behind '%s' inside MULTI is not supported by this proxy: what concerns all shards is done when the node has run the rest; send it behind\r\n", parts[2], parts[3]),
			string(c.Do(strings.Fields(parts[1])...)), lines)
		require.Regexp(t, "^-EXECABORT ", string(c.Do("EXEC")))
	}
	for _, lines := range []string{"DBSIZE|GET a|*2\r\n:0\r\n$-1\r\n", "FLUSHDB|PING|*2\r\n+OK\r\n+PONG\r\n", "SCRIPT FLUSH|SET a 1|*2\r\n+OK\r\n+OK\r\n"} {
		parts := strings.Split(lines, "|")
		require.Equal(t, "+OK\r\n", string(c.Do("MULTI")))
		require.Equal(t, "+QUEUED\r\n", string(c.Do(strings.Fields(parts[0])...)))
		require.Equal(t, "+QUEUED\r\n", string(c.Do(strings.Fields(parts[1])...)))
		require.Equal(t, parts[2], string(c.Do("EXEC")), lines)
	}
}

// TestScriptsOfWatchingTransactions: a script that the node has lost is given to it also over a session's own connection.
func TestScriptsOfWatchingTransactions(t *testing.T) {
	redistest.LeakCheck(t)
	server := redistest.Standalone(t)
	p := startProxy(t, standaloneYAML(server.Addr()))
	p.awaitReady(t)
	c := hello(t, p.Addr, 3)
	scripts := make([]string, 4)
	for i := range scripts {
		scripts[i] = loadScript(t, c, fmt.Sprintf("return {KEYS[1],%d}", i))
	}
	server.Restart()
	require.Eventually(t, func() bool { return string(c.Do("SET", "n", "1")) == "+OK\r\n" }, eventually, tick)
	for i, before := range []string{"WATCH n", "PING", "WATCH n", "WATCH n"} {
		inside := "GET n"
		switch i {
		case 1:
			inside = "SELECT 0"
		case 2:
			require.Equal(t, "+OK\r\n", string(c.Do("CLIENT", "TRACKING", "ON")))
		case 3:
			require.Equal(t, "+OK\r\n", string(c.Do("CLIENT", "TRACKING", "OFF")))
		}
		c.Do(strings.Fields(before)...)
		require.Equal(t, "+OK\r\n", string(c.Do("MULTI")))
		require.Equal(t, "+QUEUED\r\n", string(c.Do(strings.Fields(inside)...)))
		require.Equal(t, "+QUEUED\r\n", string(c.Do("EVALSHA", scripts[i], "1", "n")))
		require.Regexp(t, fmt.Sprintf(`(?s)^\*2\r\n.*\*2\r\n\$1\r\nn\r\n:%d\r\n$`, i), strings.ReplaceAll(string(c.Do("EXEC")), "$1\r\n1\r\n", ""))
	}
}
