package facade

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/topology"
)

func endpoints(t *testing.T, texts ...string) (all []Endpoint) {
	t.Helper()
	for _, text := range texts {
		e, ok := ParseEndpoint(text)
		require.True(t, ok, text)
		all = append(all, e)
	}
	return all
}

func TestParseEndpoint(t *testing.T) {
	require.Equal(t, []Endpoint{{"proxy", 6380}, {"::1", 1}, {"10.0.0.1", 65535}}, endpoints(t, "proxy:6380", "[::1]:1", "10.0.0.1:65535"))
	for _, text := range []string{"", "proxy", "proxy:", ":6380", "proxy:0", "proxy:65536", "::1:6380", "/run/sluice.sock", "unix"} {
		_, ok := ParseEndpoint(text)
		require.False(t, ok, text)
	}
}

// The slots of any number of endpoints cover all of them once, and no share is more than one slot larger than another.
func TestSlotsAreSharedEvenly(t *testing.T) {
	for _, n := range []int{1, 2, 3, 7, 1000, 1024} {
		next, least, most := 0, topology.SlotCount, 0
		for i := range n {
			r := share(i, n)
			require.EqualValues(t, next, r.First)
			next = int(r.Last) + 1
			size := next - int(r.First)
			least, most = min(least, size), max(most, size)
		}
		require.Equal(t, topology.SlotCount, next)
		require.LessOrEqual(t, most-least, 1)
	}
}

func TestSelf(t *testing.T) {
	fleet := Fleet{Endpoints: endpoints(t, "a:1", "10.0.0.2:2", "c:3")}
	for _, c := range []struct {
		self, connectedTo string
		want              int
	}{
		{"", "10.0.0.2:2", 1},
		{"", "10.0.0.2:3", 0},
		{"", "/run/sluice.sock", 0},
		{"c:3", "10.0.0.2:2", 2},
		{"c:3", "/run/sluice.sock", 2},
	} {
		fleet.Self, _ = ParseEndpoint(c.self)
		v, ok := fleet.View("acme", c.connectedTo)
		require.True(t, ok)
		require.Equal(t, c.want, v.Self, c)
	}
}

func TestWithoutAdvertiseTheAddressConnectedToIsTold(t *testing.T) {
	v, ok := Fleet{}.View("acme", "[2001:db8::1]:6380")
	require.True(t, ok)
	require.Len(t, v.Nodes, 1)
	require.Equal(t, Endpoint{"2001:db8::1", 6380}, v.Nodes[0].Endpoint)
	require.Equal(t, topology.Range{Last: topology.SlotCount - 1}, v.Nodes[0].Slots)
	for _, nowhere := range []string{"/run/sluice.sock", "0.0.0.0:6380", "[::]:6380", ""} {
		_, ok = Fleet{}.View("acme", nowhere)
		require.False(t, ok, nowhere)
	}
}

// An id is the same at every proxy and in every process, and nobody else's.
func TestIdentities(t *testing.T) {
	fleet := Fleet{Endpoints: endpoints(t, "a:1", "b:1", "a:2")}
	one, _ := fleet.View("acme", "")
	other, _ := fleet.View("umbrella", "")
	seen := map[string]bool{}
	for _, n := range append(one.Nodes, other.Nodes...) {
		for _, id := range []string{n.ID, n.ShardID} {
			require.Regexp(t, "^[0-9a-f]{40}$", id)
			require.False(t, seen[id])
			seen[id] = true
		}
	}
	require.Equal(t, "9c15674b16b353aa72f13e7c84d103f4c84a287a", one.Nodes[0].ID, "clients and other proxies know it")
	fleet.Self = Endpoint{"b", 1}
	again, _ := fleet.View("acme", "10.0.0.1:6380")
	require.Equal(t, one.Nodes, again.Nodes)
	require.True(t, again.Knows(one.Nodes[2].ID))
	require.False(t, again.Knows(other.Nodes[2].ID))
	require.Equal(t, one.Nodes[1].ID, again.Myself().ID)
}

// The proxy's own reader of cluster topologies takes it: a fleet can be another's backend.
func TestNodes(t *testing.T) {
	v, _ := Fleet{Endpoints: endpoints(t, "10.0.0.1:6380", "proxy-b.example.com:60000", "[2001:db8::1]:6380")}.View("acme", "")
	nodes := v.Lines(time.UnixMilli(1700000000000))
	require.Equal(t, []string{
		fmt.Sprintf("%s 10.0.0.1:6380@16380 myself,master - 0 1700000000000 1 connected 0-5460", v.Nodes[0].ID),
		fmt.Sprintf("%s proxy-b.example.com:60000@0,proxy-b.example.com master - 0 1700000000000 2 connected 5461-10921", v.Nodes[1].ID),
		fmt.Sprintf("%s 2001:db8::1:6380@16380 master - 0 1700000000000 3 connected 10922-16383", v.Nodes[2].ID),
		"",
	}, strings.Split(nodes, "\n"))
	m, err := topology.ParseNodes(nodes, topology.Endpoint{Host: "10.0.0.1", Port: 6380})
	require.NoError(t, err)
	require.Equal(t, topology.SlotCount, m.Covered())
	require.Len(t, m.Shards, 3)
	require.Equal(t, "[2001:db8::1]:6380", m.Nodes[m.Primary(topology.SlotCount-1)].Addr)
}

func TestTLSPort(t *testing.T) {
	v, _ := Fleet{Endpoints: endpoints(t, "10.0.0.1:6380"), TLS: true}.View("acme", "")
	require.Contains(t, string(v.AppendShards(nil, 3)), "$8\r\ntls-port\r\n:6380\r\n")
	require.NotContains(t, string(v.AppendShards(nil, 3)), "$4\r\nport\r\n")
}

func TestInfoTellsWhatTheBackendDoesNotServe(t *testing.T) {
	v, _ := Fleet{Endpoints: endpoints(t, "a:1", "b:1"), Self: Endpoint{"b", 1}}.View("acme", "")
	require.Contains(t, v.Info(topology.SlotCount), "cluster_state:ok\r\ncluster_slots_assigned:16384\r\ncluster_slots_ok:16384\r\n")
	require.Contains(t, v.Info(topology.SlotCount), "cluster_size:2\r\ncluster_current_epoch:2\r\ncluster_my_epoch:2\r\n")
	require.Contains(t, v.Info(10923), "cluster_state:fail\r\ncluster_slots_assigned:16384\r\ncluster_slots_ok:10923\r\ncluster_slots_pfail:0\r\ncluster_slots_fail:5461\r\n")
}
