package topology

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSupersedes(t *testing.T) {
	full := mustShards(t, threeShards(resp2))
	fewer := mustShards(t, threeShards(resp2)[:2])
	at := func(m *Map, epoch uint64) *Map { return m.WithInfo(Info{OK: true, CurrentEpoch: epoch}) }
	cutOff := func(m *Map, epoch uint64) *Map {
		return m.WithInfo(Info{CurrentEpoch: epoch, SuspectedSlots: 9000})
	}
	d := full.draft()
	d.shards[0].primary.Healthy, d.shards[1].primary.Healthy = false, false
	mostFailed := d.build()
	stranger := func(slots ...int64) *Map {
		return mustShards(t, []any{resp2("slots", bounds(slots...), "nodes",
			[]any{resp2("id", "other", "role", "master", "port", int64(1), "endpoint", "h")})})
	}
	cases := []struct {
		name     string
		new, old *Map
		want     bool
	}{
		{"the first map", fewer, nil, true},
		{"the same again", full, full, true},
		{"more slots", full, fewer, true},
		{"fewer slots", fewer, full, false},
		{"a newer epoch", at(full, 8), at(full, 7), true},
		{"an older epoch", at(full, 6), at(full, 7), false},
		{"a newer epoch with fewer slots", at(fewer, 8), at(full, 7), true},
		{"the same epoch with fewer slots", at(fewer, 7), at(full, 7), false},
		{"an epoch known on one side alone", full, at(full, 7), true},
		{"a minority whose elections raised its epoch", cutOff(full, 20), at(full, 7), false},
		{"a minority when we know no better", cutOff(full, 8), cutOff(full, 7), true},
		{"a majority after a minority, whatever its epoch", at(full, 8), cutOff(full, 7), true},
		{"most primaries failed", mostFailed, full, false},
		{"most primaries failed and had", mostFailed, mostFailed, true},
		{"another cluster, whole", stranger(0, 16383), at(full, 99), true},
		{"another cluster or a node that was reset", stranger(0, 10), full, false},
	}
	for _, c := range cases {
		require.Equal(t, c.want, c.new.Supersedes(c.old), c.name)
	}
}

func TestValidate(t *testing.T) {
	require.ErrorIs(t, (&draft{}).build().Validate(), errNoNodes)
	empty := draft{shards: []shardDraft{{primary: Node{Addr: "h:1"}}}}
	require.ErrorIs(t, empty.build().Validate(), errNoSlots)
	require.NoError(t, Standalone("h:1").Validate())
}
