package topology

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestShardsInBothProtocols(t *testing.T) {
	for name, record := range shapes() {
		t.Run(name, func(t *testing.T) {
			m := mustShards(t, threeShards(record))
			requireSound(t, m)
			require.Len(t, m.Shards, 3)
			first := m.Shards[0]
			require.Equal(t, Node{ID: "a", Addr: "10.0.0.1:7001", Alias: "shard-0/primary", Healthy: true}, *first.Primary)
			require.Equal(t, Node{
				ID: "ra", Addr: "10.0.0.1:7101", Alias: "shard-0/replica-1", Role: RoleReplica, Healthy: true,
			}, *first.Replicas[0])
			require.Equal(t, []Range{{0, 5460}}, first.Slots)
			require.Equal(t, "b", m.Nodes[m.Primary(5461)].ID)
		})
	}
}

func TestShardsNodeAddress(t *testing.T) {
	tls := Endpoint{Host: "10.0.0.9", Port: 7000, TLS: true}
	ported := func(pairs ...any) []any {
		return append([]any{"id", "a", "role", "master", "port", int64(7001)}, pairs...)
	}
	cases := []struct {
		name string
		from Endpoint
		node []any
		want string // empty: the node cannot be reached
	}{
		{"ip", asked, ported("ip", "10.0.0.1", "endpoint", "10.0.0.1"), "10.0.0.1:7001"},
		{"endpoint wins over ip", asked, ported("ip", "10.0.0.1", "endpoint", "n1.example"), "n1.example:7001"},
		{"null endpoint", asked, ported("ip", "10.0.0.1", "endpoint", nil), "10.0.0.9:7001"},
		{"empty endpoint of a node that knows no ip", asked, ported("ip", "", "endpoint", ""), "10.0.0.9:7001"},
		{"no endpoint at all", asked, ported(), "10.0.0.9:7001"},
		{"unset host name, ip known", asked, ported("ip", "10.0.0.1", "endpoint", "?"), "10.0.0.1:7001"},
		{"unset host name, name elsewhere", asked, ported("endpoint", "?", "hostname", "n1.example"), "n1.example:7001"},
		{"nothing known", asked, ported("endpoint", "?", "ip", "?", "hostname", ""), ""},
		{"IPv6", asked, ported("endpoint", "2001:db8::1"), "[2001:db8::1]:7001"},
		{"TLS port", tls, ported("endpoint", "h", "tls-port", int64(8001)), "h:8001"},
		{"plain port beside TLS port", asked, ported("endpoint", "h", "tls-port", int64(8001)), "h:7001"},
		{"TLS asked, plain only", tls, ported("endpoint", "h"), "h:7001"},
		{"TLS port only", asked, []any{"id", "a", "role", "master", "tls-port", int64(8001), "endpoint", "h"}, "h:8001"},
		{"no address", asked, []any{"id", "a", "role", "master", "port", int64(0), "endpoint", ""}, ""},
		{"port out of range", asked, []any{"id", "a", "role", "master", "port", int64(70000), "endpoint", "h"}, ""},
		{"harmful host", asked, ported("endpoint", "h\r\nX"), ""},
		{"nobody knows the host", Endpoint{}, ported(), ""},
	}
	for _, c := range cases {
		for shape, record := range shapes() {
			t.Run(c.name+"/"+shape, func(t *testing.T) {
				reply := []any{record("slots", bounds(0, 99), "nodes", []any{record(c.node...)})}
				m, err := ParseShards(reply, c.from)
				if c.want == "" {
					require.ErrorIs(t, err, errNoNodes)
					return
				}
				require.NoError(t, err)
				require.Equal(t, c.want, m.Nodes[0].Addr)
			})
		}
	}
}

func TestShardsHealth(t *testing.T) {
	node := func(id, role, health string, port int64) any {
		return resp2("id", id, "role", role, "health", health, "port", port, "endpoint", "h")
	}
	m := mustShards(t, []any{resp2("slots", bounds(0, 16383), "nodes", []any{
		node("p", "master", "loading", 1), node("r1", "replica", "online", 2),
		node("r2", "replica", "loading", 3), node("r3", "slave", "fail", 4),
	})})
	health := map[string]bool{}
	for _, n := range m.Nodes {
		health[n.ID] = n.Healthy
	}
	require.Equal(t, map[string]bool{"p": true, "r1": true, "r2": false, "r3": false}, health)
}

func TestShardWithFailedAndNewPrimary(t *testing.T) {
	node := func(id, health string, port int64) any {
		return resp3("id", id, "role", "master", "health", health, "port", port, "endpoint", "h")
	}
	for _, nodes := range [][]any{
		{node("dead", "fail", 1), node("new", "online", 2)},
		{node("new", "online", 2), node("dead", "fail", 1)},
	} {
		m := mustShards(t, []any{resp3("slots", bounds(0, 16383), "nodes", nodes)})
		require.Equal(t, "new", m.Shards[0].Primary.ID)
		require.Equal(t, "dead", m.Shards[0].Replicas[0].ID)
		require.Equal(t, RoleReplica, m.Shards[0].Replicas[0].Role)
		require.False(t, m.Shards[0].Replicas[0].Healthy)
	}
}

func TestShardWhosePrimaryHasNoAddressIsUncovered(t *testing.T) {
	shards := threeShards(resp2)
	shards[1] = resp2("slots", bounds(5461, 10921), "nodes", []any{
		resp2("id", "b", "role", "master", "port", int64(0), "endpoint", "", "health", "fail"),
		simpleNode(resp2, "rb", "replica", 7102),
	})
	m := mustShards(t, shards)
	requireSound(t, m)
	require.Equal(t, -1, m.Primary(5461))
	require.Equal(t, SlotCount-5461, m.Covered())
}

func TestContestedSlotGoesToTheHealthyPrimary(t *testing.T) {
	node := func(id, health string, port int64) any {
		return resp2("id", id, "role", "master", "health", health, "port", port, "endpoint", "h")
	}
	shards := []any{
		resp2("slots", bounds(0, 100), "nodes", []any{node("a", "fail", 1)}),
		resp2("slots", bounds(50, 200), "nodes", []any{node("b", "online", 2)}),
	}
	m := mustShards(t, shards)
	requireSound(t, m)
	require.Equal(t, "a", m.Nodes[m.Primary(49)].ID)
	require.Equal(t, "b", m.Nodes[m.Primary(50)].ID)
}

func TestShardsThatCannotBeRead(t *testing.T) {
	cases := map[string]any{
		"reply is a <nil>":         nil,
		"reply is a string":        "OK",
		"nodes are a <nil>":        []any{resp2()},
		"slots are no pairs":       []any{resp2("nodes", []any{}, "slots", bounds(1))},
		"slot range 0 is none":     []any{resp2("nodes", []any{}, "slots", bounds(5, 4))},
		"slot range 1 is none":     []any{resp2("nodes", []any{}, "slots", bounds(5, 6, 7, 16384))},
		errNoNodes.Error():         []any{},
		errNoSlots.Error():         []any{resp2("nodes", []any{simpleNode(resp2, "a", "master", 1)}, "slots", []any{})},
		"shard 1: nodes are a int": []any{resp2("nodes", []any{}), resp2("nodes", 1)},
	}
	for want, reply := range cases {
		_, err := ParseShards(reply, asked)
		require.ErrorContains(t, err, want)
	}
}

func TestHostileSizesAreRefused(t *testing.T) {
	var many []int64
	for range 5 {
		many = append(many, 0, SlotCount-1)
	}
	_, err := ParseShards([]any{resp2("slots", bounds(many...), "nodes",
		[]any{simpleNode(resp2, "a", "master", 1)})}, asked)
	require.ErrorIs(t, err, errTooManySlots)

	nodes := []any{simpleNode(resp2, "a", "master", 1)}
	for i := range maxNodes {
		nodes = append(nodes, resp2("id", string(rune(i+1000)), "role", "replica", "port", int64(i%65000+1), "endpoint", "h"))
	}
	_, err = ParseShards([]any{resp2("slots", bounds(0, 1), "nodes", nodes)}, asked)
	require.ErrorIs(t, err, errTooManyNodes)
}
