package e2e

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/redistest"
)

// TestScriptsAfterRestart: a server that comes back without its scripts runs them all the same, also in pipelines and
// transactions.
func TestScriptsAfterRestart(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	p := startProxy(t, standaloneYAML(server.Addr(), "loops: 2"))
	p.awaitReady(t)
	other := hello(t, p.Addr, 3) // its target is another
	loaded := loadScript(t, other, "return redis.call('INCR',KEYS[1])")
	other.Do("EVAL", "return 'by eval'", "0")
	evaluated := loadedName(t, "return 'by eval'")
	c := hello(t, p.Addr, 2)
	require.Equal(t, "+OK\r\n", string(c.Do("SELECT", "1")))
	for round := range 3 {
		server.Restart()
		for _, conn := range []*redistest.Conn{c, other} {
			require.Eventually(t, func() bool { return string(conn.Do("SET", "n", fmt.Sprint(round))) == "+OK\r\n" }, eventually, tick)
		}
		require.Equal(t, "*1\r\n:0\r\n", string(server.Do("SCRIPT", "EXISTS", loaded)))
		switch round {
		case 0:
			c.Send(redistest.Command("EVALSHA", loaded, "1", "n") + redistest.Command("EVALSHA", evaluated, "0") + redistest.Command("GET", "n"))
			require.Equal(t, ":1\r\n", string(c.ReadReply()))
			require.Equal(t, bulk("by eval"), string(c.ReadReply()))
			require.Equal(t, bulk("1"), string(c.ReadReply()))
			require.Equal(t, ":1\r\n", string(other.Do("EVALSHA", loaded, "1", "n")))
		case 1:
			c.Send("MULTI\r\n" + redistest.Command("EVALSHA", loaded, "1", "n") + redistest.Command("EVALSHA_RO", evaluated, "0") + "EXEC\r\n")
			for range 3 {
				c.ReadReply()
			}
			require.Equal(t, "*2\r\n:2\r\n"+bulk("by eval"), string(c.ReadReply()))
		case 2:
			require.Equal(t, "+OK\r\n", string(other.Do("SCRIPT", "FLUSH")))
			require.Equal(t, noScript, string(c.Do("EVALSHA", loaded, "1", "n")))
			require.Equal(t, noScript, string(c.Do("EVALSHA", evaluated, "0")))
		}
	}
	require.Positive(t, p.metric(t, "sluice_scripts_provided_total"))
}

// TestFunctionsThatDiffer: what was done on some primaries only is told.
func TestFunctionsThatDiffer(t *testing.T) {
	t.Parallel()
	servers := redistest.Cluster(t, 3, 0)
	p := clusterProxy(t, servers, "")
	c := hello(t, p.Addr, 2)
	library := "#!lua name=lib\nredis.register_function('f',function() return 1 end)"
	servers.Primaries[1].Do("FUNCTION", "LOAD", library)
	require.Equal(t, "-ERR 'function|load' was done on 2 of 3 primaries only, so they differ now; another said: ERR Library 'lib' already exists\r\n",
		string(c.Do("FUNCTION", "LOAD", library)))
	require.Equal(t, "-ERR Library 'lib' already exists\r\n", string(c.Do("FUNCTION", "LOAD", library)))
	require.Equal(t, bulk("lib"), string(c.Do("FUNCTION", "LOAD", "REPLACE", library)))
	servers.Primaries[1].Do("FUNCTION", "DELETE", "lib")
	lacking := []string{"FCALL", "f", "1", keyOfShard(1, "f")} // as at a primary that joined and was not given the libraries
	require.Contains(t, string(c.Do(lacking...)), "-ERR Function not found")
	require.Equal(t, string(servers.Primaries[1].Do(lacking...)), string(c.Do(lacking...)))
	require.Equal(t, ":1\r\n", string(c.Do("FCALL", "f", "1", keyOfShard(0, "f"))))
	require.Equal(t, bulk("lib"), string(c.Do("FUNCTION", "LOAD", "REPLACE", library)))
	require.Equal(t, ":1\r\n", string(c.Do(lacking...)))
	servers.Primaries[1].Do("FUNCTION", "DELETE", "lib")
	require.Contains(t, string(c.Do("FUNCTION", "LIST")), "lib")
	require.Equal(t, "+OK\r\n", string(c.Do("FUNCTION", "DELETE", "lib")))
	require.Equal(t, "*0\r\n", string(c.Do("FUNCTION", "LIST")))
	servers.Primaries[2].Do("FUNCTION", "LOAD", library)
	require.Equal(t, string(servers.Primaries[2].Do("FUNCTION", "LIST")), string(c.Do("FUNCTION", "LIST")), "one that the last alone has")
}
