package e2e

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/redistest"
)

// TestClusterWait waits for the replicas of every shard: the writes before may have gone to any.
func TestClusterWait(t *testing.T) {
	t.Parallel()
	servers := redistest.Cluster(t, 3, 3)
	p := clusterProxy(t, servers, "", "dedicated: {idle_timeout: 200ms}")
	c := redistest.Dial(t, p.Addr)
	for i := range 50 {
		require.Equal(t, "+OK\r\n", string(c.Do("SET", fmt.Sprint("key:", i), "v")))
	}
	require.Equal(t, ":1\r\n", string(c.Do("WAIT", "1", "5000")))
	require.Equal(t, ":1\r\n", string(c.Do("WAIT", "9", "50")))
	c.Send("SET a 1\r\nWAIT 1 5000\r\nGET a\r\n")
	for _, want := range []string{"+OK\r\n", ":1\r\n", "$1\r\n1\r\n"} {
		c.RequireReply(want)
	}
	require.Equal(t, "-ERR value is not an integer or out of range\r\n", string(c.Do("WAIT", "x", "0")))

	gone := redistest.Dial(t, p.Addr)
	gone.SendCommand("WAIT", "9", "0")
	await(t, func() bool { return p.metric(t, "sluice_dedicated_connections") == 3 })
	gone.Close()
	await(t, func() bool { return p.metric(t, "sluice_dedicated_connections") == 0 })

	servers.Replicas[0].Stop()
	c.Do("SET", "a", "2")
	for i := range 50 {
		c.Do("SET", fmt.Sprint("key:", i), "w")
	}
	require.Equal(t, ":0\r\n", string(c.Do("WAIT", "1", "200")), "one shard's replica is silent")
	servers.Replicas[0].Continue()
	await(t, func() bool { return p.metric(t, "sluice_dedicated_connections") == 0 })
}
