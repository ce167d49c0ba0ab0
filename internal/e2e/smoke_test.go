package e2e

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/redistest"
)

func TestSmokeStandalone(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	p := startProxy(t, standaloneYAML(server.Addr()))
	c := redistest.Dial(t, p.Addr)
	require.Equal(t, "+OK\r\n", string(c.Do("SET", "k", "v")))
	require.Equal(t, "$1\r\nv\r\n", string(c.Do("GET", "k")))
	require.Equal(t, "$1\r\nv\r\n", string(server.Do("GET", "k")))
}

func TestSmokeCluster(t *testing.T) {
	t.Parallel()
	servers := redistest.Cluster(t, 3, 0)
	p := startProxy(t, clusterYAML(servers.Addrs()))
	c := redistest.Dial(t, p.Addr)
	require.Eventually(t, func() bool { return string(c.Do("SET", "a", "1")) == "+OK\r\n" }, eventually, tick)
	require.Equal(t, "+OK\r\n", string(c.Do("MSET", "a", "1", "b", "2", "c", "3")))
	require.Equal(t, "*4\r\n$1\r\n1\r\n$1\r\n2\r\n$1\r\n3\r\n$-1\r\n", string(c.Do("MGET", "a", "b", "c", "nope")))
	require.Equal(t, ":3\r\n", string(c.Do("DEL", "a", "b", "c", "d")))
}
