package e2e

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/redistest"
)

// TestBusyNodeSaysSo: a node that runs a script takes no further connection, because it refuses the handshake. Clients get
// what it says, as those get it who are connected to it, and a script can be ended all the same.
func TestBusyNodeSaysSo(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	require.Equal(t, "+OK\r\n", string(server.Do("CONFIG", "SET", "busy-reply-threshold", "10")))
	p := startProxy(t, standaloneYAML(server.Addr(), "loops: 1", "pipes: {max: 1}", "dedicated: {min: 0}"))
	p.awaitReady(t)
	library := "#!lua name=endless\nredis.register_function('endless', function() while true do end end)"
	require.Equal(t, bulk("endless"), string(server.Do("FUNCTION", "LOAD", library)))
	for _, run := range [][]string{{"EVAL", endless, "0"}, {"FCALL", "endless", "0"}} {
		kind := map[string]string{"EVAL": "SCRIPT", "FCALL": "FUNCTION"}[run[0]]
		busy, killer := redistest.Dial(t, p.Addr), redistest.Dial(t, p.Addr)
		busy.SendCommand(run...)
		direct := redistest.Dial(t, server.Addr())
		var want string
		require.Eventually(t, func() bool {
			want = string(direct.Do("GET", "k"))
			return strings.HasPrefix(want, "-BUSY ")
		}, eventually, tick)
		require.Contains(t, want, kind+" KILL")

		resp3 := hello(t, p.Addr, 3) // whose commands take another connection
		require.Equal(t, want, string(resp3.Do("GET", "k")))
		require.Equal(t, want, string(resp3.Do("GET", "k")), "while the node is known to be busy")
		require.Equal(t, want, string(resp3.Do("BLPOP", "list", "0")))
		require.Equal(t, want, string(resp3.Do("WATCH", "k")))
		require.Equal(t, want, string(resp3.Do("SET", "k", strings.Repeat("s", longer))))
		require.Equal(t, want, string(resp3.Do("CLIENT", "TRACKING", "ON")))

		awaitKill(t, killer, kind, "KILL")
		require.Contains(t, string(busy.ReadReply()), "killed by user")
		// Other connections are tried again by themselves.
		require.Eventually(t, func() bool { return string(resp3.Do("GET", "k")) == "_\r\n" }, eventually, tick)
	}
	require.Positive(t, p.metric(t, "sluice_command_errors_total", `reason="busy"`))
}
