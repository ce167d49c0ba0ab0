package e2e

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/redistest"
)

// TestACrowdUsesItsConnectionsAgain: clients that all want a connection of their own at once, time and again, cost as many
// connections as there are clients, and not as many each time.
func TestACrowdUsesItsConnectionsAgain(t *testing.T) {
	t.Parallel()
	const clients = 100
	server := redistest.Standalone(t)
	p := startProxy(t, standaloneYAML(server.Addr(), "loops: 1", "dedicated: {idle_timeout: 1h}"))
	conns := make([]*redistest.Conn, clients)
	for i := range conns {
		conns[i] = redistest.Dial(t, p.Addr)
	}
	together := func(command string) {
		for _, c := range conns {
			c.SendCommand(strings.Fields(command)...)
		}
		for _, c := range conns {
			c.RequireReply("+OK\r\n")
		}
	}
	direct := redistest.Dial(t, server.Addr())
	round := func() int {
		together("WATCH k")
		require.InDelta(t, clients, p.metric(t, "sluice_pinned_sessions", `reason="watch"`), 0)
		together("UNWATCH")
		_, opened, found := strings.Cut(string(direct.Do("INFO", "stats")), "total_connections_received:")
		require.True(t, found)
		opened, _, _ = strings.Cut(opened, "\r\n")
		total, err := strconv.Atoi(opened)
		require.NoError(t, err)
		return total
	}
	first := round()
	for range 2 {
		require.Less(t, round()-first, 10, "but for a shared one now and then")
	}
}
