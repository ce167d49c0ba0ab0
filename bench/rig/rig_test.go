package rig

import (
	"io"
	"net"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func needs(t *testing.T, program string) *Rig {
	t.Helper()
	if !Installed(program) {
		t.Skipf("%s is not installed", program)
	}
	r, err := New()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	return r
}

func TestRedisServesFilledKeysAndEnds(t *testing.T) {
	r := needs(t, "redis-server")
	p, err := r.Redis(t.Context())
	require.NoError(t, err)
	require.NoError(t, Fill(t.Context(), []*Process{p}, 1500, 32))
	client := connect(p.Addr)
	size, err := client.DBSize(t.Context()).Result()
	require.NoError(t, err)
	require.EqualValues(t, 1500, size)
	require.NoError(t, client.Close())

	require.NoError(t, r.Close())
	require.False(t, p.Running())
	_, err = net.Dial("tcp", p.Addr)
	require.Error(t, err)
	_, err = os.Stat(r.dir)
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestClusterOfPrimariesServesEverySlot(t *testing.T) {
	r := needs(t, "redis-server")
	nodes, err := r.RedisCluster(t.Context(), 3)
	require.NoError(t, err)
	require.NoError(t, Fill(t.Context(), nodes, 300, 32))
	var total int64
	for _, node := range nodes {
		client := connect(node.Addr)
		size, err := client.DBSize(t.Context()).Result()
		require.NoError(t, err)
		require.Positive(t, size)
		total += size
		require.NoError(t, client.Close())
	}
	require.EqualValues(t, 300, total)
}

func TestPeersForwardToTheBackend(t *testing.T) {
	for name, program := range map[string]string{"haproxy": "haproxy", "twemproxy": "nutcracker", "predixy": "predixy"} {
		t.Run(name, func(t *testing.T) {
			r := needs(t, "redis-server")
			if !Installed(program) {
				t.Skipf("%s is not installed", program)
			}
			backend, err := r.Redis(t.Context())
			require.NoError(t, err)
			proxy, err := r.Proxy(t.Context(), name, Backend{Nodes: []*Process{backend}}, Sluiced{})
			require.NoError(t, err)
			require.NoError(t, Fill(t.Context(), []*Process{backend}, 1, 32))
			conn, err := net.Dial("tcp", proxy.Addr)
			require.NoError(t, err)
			defer conn.Close()
			// Nothing but the command: not every peer knows what clients send at connect.
			_, err = conn.Write([]byte("*2\r\n$3\r\nGET\r\n$12\r\nkey:10000000\r\n"))
			require.NoError(t, err)
			reply := make([]byte, len("$32\r\n")+32+2)
			_, err = io.ReadFull(conn, reply)
			require.NoError(t, err)
			require.Equal(t, "$32\r\nabc", string(reply[:8]))
		})
	}
}

func TestFloorAnswersEveryCommand(t *testing.T) {
	r := needs(t, "cc")
	p, err := r.Floor(t.Context(), "../..", 32)
	require.NoError(t, err)
	conn, err := net.Dial("tcp", p.Addr)
	require.NoError(t, err)
	defer conn.Close()
	// Two and a half commands, then the rest: three replies.
	_, err = conn.Write([]byte("*2\r\n$3\r\nGET\r\n$1\r\na\r\n*2\r\n$3\r\nGET\r\n$1\r\nb\r\n*1\r\n$4\r\nPI"))
	require.NoError(t, err)
	buffer := make([]byte, 3*39)
	for total := 0; total < len(buffer); {
		n, err := conn.Read(buffer[total:])
		require.NoError(t, err)
		total += n
		if total == 2*39 {
			_, err = conn.Write([]byte("NG\r\n"))
			require.NoError(t, err)
		}
	}
	require.Equal(t, "$32\r\nxx", string(buffer[:7]))
}

func TestAProgramThatEndsAtOnceIsTold(t *testing.T) {
	r := needs(t, "redis-server")
	broken := redisProgram(1, func([]int) []string { return []string{"--no-such-option", "x"} })
	_, err := r.start(t.Context(), broken)
	require.ErrorContains(t, err, "cannot start redis-server")
	require.ErrorContains(t, err, "no-such-option", "what it printed is part of the error")
}
