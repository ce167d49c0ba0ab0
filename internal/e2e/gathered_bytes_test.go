package e2e

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/redistest"
)

// TestGatheredRepliesAreBoundedForAllClients: what the process holds of replies that are being merged has one bound, and
// none of it is counted on when its client has got the reply, or is gone.
func TestGatheredRepliesAreBoundedForAllClients(t *testing.T) {
	t.Parallel()
	servers := redistest.Cluster(t, 3, 0)
	p := clusterProxy(t, servers, "", "loops: 1", "clients: {gather_buffer: 4MiB}")
	c, other := redistest.Dial(t, p.Addr), redistest.Dial(t, p.Addr)
	keys := []string{keyOfShard(0, "k"), keyOfShard(1, "k"), keyOfShard(2, "k")}
	megabyte := strings.Repeat("m", 1<<20)
	for _, key := range keys {
		require.Equal(t, "+OK\r\n", string(c.Do("SET", key, megabyte)))
	}
	held := func() float64 { return p.metric(t, "sluice_gathered_reply_bytes") }
	read := func(times int) []string {
		args := []string{"MGET"}
		for range times {
			args = append(args, keys...)
		}
		return args
	}
	require.Len(t, string(c.Do(read(1)...)), len("*3\r\n")+3*len(bulk(megabyte)))
	require.Zero(t, held())

	const full = "-ERR this proxy holds as many bytes of replies of several nodes as it may; ask for less at a time, or try again\r\n"
	require.Equal(t, full, string(c.Do(read(4)...)), "the bound holds for one command")
	require.Zero(t, held())
	require.EqualValues(t, 1, p.metric(t, "sluice_gathered_replies_refused_total"))

	servers.Primaries[2].Stop()
	waiting := redistest.Dial(t, p.Addr)
	waiting.SendCommand("MGET", keys[0], keys[1], keys[0], keys[2])
	require.Eventually(t, func() bool { return held() > 3<<20 }, eventually, tick)
	require.Equal(t, full, string(other.Do("MGET", keys[0], keys[0], keys[1], keys[1])), "it holds for all together")
	require.Equal(t, ":2\r\n", string(other.Do("EXISTS", keys[0], keys[1])), "a short reply is merged all the same")
	waiting.Close()
	require.Eventually(t, func() bool { return held() == 0 }, eventually, tick)
	servers.Primaries[2].Continue()
	servers.AwaitSettled() // it has been away long enough to be missed
	require.Len(t, string(c.Do(read(1)...)), len("*3\r\n")+3*len(bulk(megabyte)))
	require.Zero(t, held())
}
