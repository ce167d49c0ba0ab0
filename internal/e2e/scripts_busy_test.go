package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/redistest"
)

const (
	nothingToKill = "-NOTBUSY No scripts in execution right now.\r\n"
	endless       = "while true do end"
	// afterWrite cannot be killed, and ends by itself after two seconds.
	afterWrite = "redis.call('SET',KEYS[1],1) local t=redis.call('TIME') local e=t[1]+2 while redis.call('TIME')[1]+0 < e do end return 'ended'"
)

// TestBusyScripts: a script that does not end is ended by SCRIPT KILL of another client, although it blocks the connections
// that clients share.
func TestBusyScripts(t *testing.T) {
	t.Parallel()
	t.Run("cluster", func(t *testing.T) {
		servers := redistest.Cluster(t, 3, 0)
		p := clusterProxy(t, servers, "", "loops: 1", "pipes: {max: 1}")
		killBusy(t, p, servers.Primaries)
	})
	t.Run("standalone with a password", func(t *testing.T) {
		server := redistest.Standalone(t, redistest.WithPassword("secret"))
		p := startProxy(t, tenantYAML("standalone", []string{server.Addr()}, "databases: [3]", "loops: 1", "cluster: auth: {password: secret}"))
		p.awaitReady(t)
		killBusy(t, p, []*redistest.Server{server})
	})
}

func killBusy(t *testing.T, p *proxy, servers []*redistest.Server) {
	direct := redistest.Standalone(t)
	for _, s := range append(servers[:len(servers):len(servers)], direct) {
		require.Equal(t, "+OK\r\n", string(s.Do("CONFIG", "SET", "busy-reply-threshold", "50")))
	}
	for _, protocol := range []int{2, 3} {
		busy, killer := hello(t, p.Addr, protocol), hello(t, p.Addr, protocol)
		busyDirect, killerDirect := hello(t, direct.Addr(), protocol), hello(t, direct.Addr(), protocol)
		require.Equal(t, nothingToKill, string(killer.Do("SCRIPT", "KILL")))
		require.Equal(t, nothingToKill, string(killer.Do("FUNCTION", "KILL")))
		library := "#!lua name=busy\nredis.register_function('busy',function() while true do end end)"
		for i := range 3 {
			key := keyOfShard(i, "busy")
			for _, c := range []*redistest.Conn{busy, busyDirect} {
				c.SendCommand("EVAL", endless, "1", key)
			}
			awaitKill(t, killer, "SCRIPT", "KILL")
			awaitKill(t, killerDirect, "SCRIPT", "KILL")
			require.Equal(t, string(busyDirect.ReadReply()), string(busy.ReadReply()))

			require.Equal(t, bulk("busy"), string(killer.Do("FUNCTION", "LOAD", "REPLACE", library)))
			require.Equal(t, bulk("busy"), string(killerDirect.Do("FUNCTION", "LOAD", "REPLACE", library)))
			for _, c := range []*redistest.Conn{busy, busyDirect} {
				c.SendCommand("FCALL", "busy", "1", key)
			}
			require.Eventually(t, func() bool {
				return strings.Contains(string(killer.Do("FUNCTION", "STATS")), "running_script\r\n"+map[int]string{2: "*6", 3: "%3"}[protocol])
			}, eventually, tick)
			awaitKill(t, killer, "FUNCTION", "KILL")
			awaitKill(t, killerDirect, "FUNCTION", "KILL")
			require.Equal(t, string(busyDirect.ReadReply()), string(busy.ReadReply()))
			require.Equal(t, string(killerDirect.Do("FUNCTION", "STATS")), string(killer.Do("FUNCTION", "STATS")))
		}
		busy.SendCommand("EVAL", afterWrite, "1", keyOfShard(1, "unkillable"))
		require.Eventually(t, func() bool {
			return strings.HasPrefix(string(killer.Do("SCRIPT", "KILL")), "-UNKILLABLE ")
		}, eventually, tick)
		require.Equal(t, bulk("ended"), string(busy.ReadReply()))
		// A client's own commands are in order: what it asks for is asked when what it sent before is answered.
		killer.Send(redistest.Command("SET", "k", fmt.Sprint(protocol)) + redistest.Command("SCRIPT", "KILL") + redistest.Command("GET", "k"))
		require.Equal(t, "+OK\r\n", string(killer.ReadReply()))
		require.Equal(t, nothingToKill, string(killer.ReadReply()))
		require.Equal(t, bulk(fmt.Sprint(protocol)), string(killer.ReadReply()))
	}
}

// awaitKill repeats a command until something is killed.
func awaitKill(t *testing.T, c *redistest.Conn, args ...string) {
	t.Helper()
	require.Eventually(t, func() bool {
		reply := string(c.Do(args...))
		if reply != "+OK\r\n" {
			require.Equal(t, nothingToKill, reply)
		}
		return reply == "+OK\r\n"
	}, eventually, tick)
}

// TestKillOfUnreachableNode: a node that cannot be asked is told of, unless another has killed something.
func TestKillOfUnreachableNode(t *testing.T) {
	t.Parallel()
	servers := redistest.Cluster(t, 3, 0)
	p := clusterProxy(t, servers, "", "cluster: connect_timeout: 500ms")
	c := hello(t, p.Addr, 2)
	servers.Primaries[1].Kill()
	reply := string(c.Do("SCRIPT", "KILL"))
	require.Equal(t, "-ERR upstream unavailable: a node cannot be reached; the command was not executed there\r\n", reply)
	reply = string(c.Do("SCRIPT", "LOAD", "return 1"))
	require.Contains(t, reply, "-ERR ")
	require.False(t, tellsAddress([]byte(reply)), reply)
}
