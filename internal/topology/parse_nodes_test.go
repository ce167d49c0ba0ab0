package topology

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const nodesReply = `07c3 127.0.0.1:30004@31004,hostname4 slave e7d1 0 1426238317239 4 connected
67ed 127.0.0.1:30002@31002,,tls-port=40002,shard-id=1 master - 0 1426238316232 2 connected 5461-10922
292f 2001:db8::3:30003@31003 master - 0 1426238318243 3 connected 10923-16382 16383 [93->-292f] [77-<-e7d1]
6ec2 :0@0 slave,fail,noaddr 67ed 1426238316 1426238315 5 disconnected
824f 127.0.0.1:30006@31006 slave,fail 292f 1426238316 1426238315 3 disconnected
9999 127.0.0.1:30009@31009 handshake - 1426238316 0 0 disconnected
e7d1 :30001@31001 myself,master - 0 0 9 connected 0-5460
`

func TestNodes(t *testing.T) {
	m, err := ParseNodes(nodesReply, asked)
	require.NoError(t, err)
	requireSound(t, m)
	require.NoError(t, m.Validate())
	require.Equal(t, uint64(9), m.Epoch)
	require.False(t, m.Minority)
	require.Equal(t, SlotCount, m.Covered())
	addrs := map[string]string{}
	for _, n := range m.Nodes {
		addrs[n.ID] = n.Addr
	}
	require.Equal(t, map[string]string{
		"e7d1": "10.0.0.9:30001", "07c3": "127.0.0.1:30004", "67ed": "127.0.0.1:30002",
		"292f": "[2001:db8::3]:30003", "824f": "127.0.0.1:30006",
	}, addrs)
	require.False(t, m.Nodes[m.IndexOf("127.0.0.1:30006")].Healthy)
}

func TestNodesPortOfTheProtocolSpoken(t *testing.T) {
	tls := asked
	tls.TLS = true
	m, err := ParseNodes(nodesReply, tls)
	require.NoError(t, err)
	require.Equal(t, "127.0.0.1:40002", m.Nodes[m.Primary(6000)].Addr)
	m, err = ParseNodes("a ?:1@2,n1.example,tcp-port=7 master - 0 0 1 connected 0-5", asked)
	require.NoError(t, err)
	require.Equal(t, "n1.example:7", m.Nodes[0].Addr)
}

func TestNodesOfAMinority(t *testing.T) {
	cutOff := strings.NewReplacer(
		"master - 0 1426238316232 2", "master,fail? - 0 1426238316232 2",
		"master - 0 1426238318243 3", "master,fail? - 0 1426238318243 3").Replace(nodesReply)
	m, err := ParseNodes(cutOff, asked)
	require.NoError(t, err)
	require.True(t, m.Minority)
	require.True(t, m.Nodes[m.Primary(6000)].Healthy, "one node's suspicion is not the cluster's verdict")

	oneDead := strings.Replace(nodesReply, "master - 0 1426238316232 2", "master,fail - 0 1426238316232 2", 1)
	m, err = ParseNodes(oneDead, asked)
	require.NoError(t, err)
	require.False(t, m.Minority)
	require.False(t, m.Nodes[m.Primary(6000)].Healthy)
}

func TestNodesThatCannotBeRead(t *testing.T) {
	for _, reply := range []string{
		"a b c",
		"a h:1@2 master - 0 0 x connected 0-5",
		"a h:1@2 master - 0 0 1 connected 0-16384",
		"a h:1@2 master - 0 0 1 connected zero",
	} {
		_, err := ParseNodes("\n"+reply, asked)
		require.ErrorContains(t, err, "line 2 has another form")
	}
	_, err := ParseNodes("", asked)
	require.ErrorIs(t, err, errNoNodes)
}

func TestInfo(t *testing.T) {
	info, ok := ParseInfo("cluster_state:fail\r\ncluster_slots_pfail:10923\r\ncluster_current_epoch:12\r\n")
	require.True(t, ok)
	require.Equal(t, Info{CurrentEpoch: 12, SuspectedSlots: 10923}, info)
	_, ok = ParseInfo("redis_version:7.0.15\r\n")
	require.False(t, ok)

	m := mustShards(t, threeShards(resp2))
	judged := m.WithInfo(info)
	require.True(t, judged.Minority)
	require.Equal(t, uint64(12), judged.Epoch)
	require.Zero(t, m.Epoch, "the map itself is not changed")
	require.True(t, m.Equal(judged))
	require.False(t, m.WithInfo(Info{CurrentEpoch: 12}).Minority, "down for a missing slot, in touch with all")
}
