package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/redistest"
)

// serverCalled is a node that says it is another server than those of the other tests.
func serverCalled(t *testing.T, product, version string) *redistest.ScriptedNode {
	t.Helper()
	node := redistest.NewScripted(t)
	node.NoHandshake()
	node.HandleConn(func(c *redistest.ScriptedConn, args [][]byte) {
		switch strings.ToUpper(string(args[0])) {
		case "HELLO":
			header := "*8"
			if len(args) > 1 && string(args[1]) == "3" {
				header = "%4"
			}
			c.Write(fmt.Sprintf("%s\r\n$6\r\nserver\r\n$%d\r\n%s\r\n$7\r\nversion\r\n$%d\r\n%s\r\n$5\r\nproto\r\n:%s\r\n$7\r\nmodules\r\n*0\r\n",
				header, len(product), product, len(version), version, args[1]))
		case "PING":
			c.Write("+PONG\r\n")
		default:
			c.Write("+OK\r\n")
		}
	})
	return node
}

// TestClientsAreToldTheirServer: what the backend is, and not what the proxy was made with, since clients decide by it what
// they may use.
func TestClientsAreToldTheirServer(t *testing.T) {
	t.Parallel()
	for _, protocol := range []int{2, 3} {
		for _, server := range []struct{ product, version, info string }{
			{"redis", "8.2.1", "redis_version:8.2.1\r\n"}, {"valkey", "9.0.0", "redis_version:7.0.15\r\n"},
		} {
			p := startProxy(t, standaloneYAML(serverCalled(t, server.product, server.version).Addr()))
			p.awaitReady(t)
			c := hello(t, p.Addr, protocol)
			want := fmt.Sprintf("$6\r\nserver\r\n$%d\r\n%s\r\n$7\r\nversion\r\n$5\r\n%s\r\n", len(server.product), server.product, server.version)
			await(t, func() bool {
				c.Do("GET", "k")
				return strings.Contains(string(c.Do("HELLO", fmt.Sprint(protocol))), want)
			})
			require.Contains(t, string(c.Do("INFO", "server")), server.info)
		}
	}
}
