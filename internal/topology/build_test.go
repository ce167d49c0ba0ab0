package topology

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// asked is the node that gave the replies of these tests.
var asked = Endpoint{Host: "10.0.0.9", Port: 7000}

// resp3 builds a RESP3 map and resp2 the list that RESP2 has for it.
func resp3(pairs ...any) any {
	m := map[any]any{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	return m
}

func resp2(pairs ...any) any { return pairs }

type recordShape func(pairs ...any) any

func shapes() map[string]recordShape {
	return map[string]recordShape{"RESP2": resp2, "RESP3": resp3}
}

func bounds(numbers ...int64) []any {
	list := []any{}
	for _, n := range numbers {
		list = append(list, n)
	}
	return list
}

// simpleNode is a node of CLUSTER SHARDS at 10.0.0.1.
func simpleNode(record recordShape, id, role string, port int64) any {
	return record("id", id, "port", port, "ip", "10.0.0.1", "endpoint", "10.0.0.1",
		"role", role, "replication-offset", int64(10), "health", "online")
}

// threeShards is a sound cluster: ids a, b, c with replicas ra, rb, rc.
func threeShards(record recordShape) []any {
	var shards []any
	for i, id := range []string{"a", "b", "c"} {
		first := int64(i) * SlotCount / 3
		last := int64(i+1)*SlotCount/3 - 1
		shards = append(shards, record("slots", bounds(first, last), "nodes", []any{
			simpleNode(record, "r"+id, "replica", int64(7101+i)),
			simpleNode(record, id, "master", int64(7001+i)),
		}))
	}
	return shards
}

func mustShards(t testing.TB, v any) *Map {
	t.Helper()
	m, err := ParseShards(v, asked)
	require.NoError(t, err)
	require.NoError(t, m.Validate())
	return m
}

func aliases(m *Map) map[string]string {
	byID := map[string]string{}
	for _, n := range m.Nodes {
		byID[identity(&n)] = n.Alias
	}
	return byID
}

// requireSound asserts what every map promises, whatever it was made of.
func requireSound(t testing.TB, m *Map) {
	t.Helper()
	require.NoError(t, m.checkShape())
	seen := map[string]bool{}
	for i := range m.Nodes {
		n := &m.Nodes[i]
		require.NotEmpty(t, n.Addr)
		require.True(t, strings.HasPrefix(n.Alias, "shard-"), n.Alias)
		require.False(t, seen[n.Alias], "alias %s is given twice", n.Alias)
		seen[n.Alias] = true
		require.GreaterOrEqual(t, m.IndexOf(n.Addr), 0)
	}
	covered := 0
	for slot := range SlotCount {
		primary := m.Primary(uint16(slot))
		if primary >= 0 {
			covered++
			require.Equal(t, RolePrimary, m.Nodes[primary].Role)
		}
	}
	require.Equal(t, covered, m.Covered())
	require.True(t, m.Equal(m.draft().build()), "a map taken apart and built again is the same")
}

func TestMapDoesNotDependOnTheOrderOfTheReply(t *testing.T) {
	want := mustShards(t, threeShards(resp2))
	requireSound(t, want)
	for range 20 {
		shuffled := threeShards(resp2)
		rand.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		got := mustShards(t, shuffled)
		require.True(t, want.Equal(got))
		require.Equal(t, aliases(want), aliases(got))
	}
	require.Equal(t, map[string]string{
		"a": "shard-0/primary", "ra": "shard-0/replica-1",
		"b": "shard-1/primary", "rb": "shard-1/replica-1",
		"c": "shard-2/primary", "rc": "shard-2/replica-1",
	}, aliases(want))
}

func TestStandaloneServesEverything(t *testing.T) {
	m := Standalone("[::1]:6379")
	requireSound(t, m)
	require.Equal(t, SlotCount, m.Covered())
	require.Equal(t, 0, m.Primary(0))
	require.Equal(t, 0, m.Primary(SlotCount-1))
	require.Equal(t, "shard-0/primary", m.Nodes[0].Alias)
	require.Equal(t, 0, m.IndexOf("[::1]:6379"))
	require.Equal(t, -1, m.IndexOf("[::1]:6380"))
}

func TestFragmentedMapOf500Nodes(t *testing.T) {
	const primaries = 250
	slots := make([][]any, primaries)
	for slot := range int64(SlotCount) {
		slots[slot%primaries] = append(slots[slot%primaries], slot, slot)
	}
	var shards, entries []any
	for i := range primaries {
		id := fmt.Sprintf("%040d", i)
		shards = append(shards, resp2("slots", slots[i], "nodes", []any{
			simpleNode(resp2, id, "master", int64(10000+i)),
			simpleNode(resp2, "r"+id, "replica", int64(20000+i)),
		}))
	}
	for slot := range int64(SlotCount) {
		i := slot % primaries
		entries = append(entries, []any{
			slot, slot,
			[]any{"10.0.0.1", 10000 + i, fmt.Sprintf("%040d", i), []any{}},
			[]any{"10.0.0.1", 20000 + i, fmt.Sprintf("r%040d", i), []any{}},
		})
	}
	byShards := mustShards(t, shards)
	requireSound(t, byShards)
	require.Len(t, byShards.Nodes, 2*primaries)
	require.Equal(t, SlotCount, byShards.Covered())
	bySlots, err := ParseSlots(entries, asked)
	require.NoError(t, err)
	require.True(t, byShards.Equal(bySlots))
	for _, slot := range []uint16{0, 249, 250, 16383} {
		require.Equal(t, fmt.Sprintf("%040d", slot%primaries), bySlots.Nodes[bySlots.Primary(slot)].ID)
	}
	require.Len(t, bySlots.Shards[0].Slots, SlotCount/primaries+1)
}

func TestEqualSeesEveryDifference(t *testing.T) {
	base := mustShards(t, threeShards(resp3))
	changes := map[string]func(d *draft){
		"address": func(d *draft) { d.shards[0].primary.Addr = "10.0.0.1:1" },
		"health":  func(d *draft) { d.shards[0].primary.Healthy = false },
		"slots":   func(d *draft) { d.shards[0].slots[0].Last--; d.shards[1].slots[0].First-- },
		"gap":     func(d *draft) { d.shards[0].slots[0].Last-- },
		"roles":   func(d *draft) { d.shards[0].promote("10.0.0.1:7101") },
		"replica": func(d *draft) { d.shards[0].replicas = nil },
		"moved": func(d *draft) {
			d.shards[1].replicas = slices.Concat(d.shards[1].replicas, d.shards[0].replicas)
			d.shards[0].replicas = nil
		},
	}
	for name, change := range changes {
		d := base.draft()
		change(d)
		other := d.build()
		require.False(t, base.Equal(other), name)
		require.False(t, other.Equal(base), name)
	}
	require.False(t, base.Equal(nil))
	require.True(t, base.Equal(mustShards(t, threeShards(resp2))))
}

func TestNothingPrintedHoldsAnAddress(t *testing.T) {
	m := mustShards(t, threeShards(resp2))
	for _, printed := range []any{m, m.Nodes, m.Nodes[0], &m.Nodes[0], m.Shards, m.Shards[0], &m.Shards[0]} {
		for _, format := range []string{"%v", "%+v", "%s"} {
			require.NotContains(t, fmt.Sprintf(format, printed), "10.0.0.1")
		}
	}
}
