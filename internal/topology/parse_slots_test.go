package topology

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSlotsOfAllVersions(t *testing.T) {
	redis3 := []any{
		[]any{int64(0), int64(99), []any{"10.0.0.1", int64(7001)}, []any{"10.0.0.1", int64(7002)}},
		[]any{int64(200), int64(299), []any{"10.0.0.1", int64(7001)}, []any{"10.0.0.1", int64(7003)}},
		[]any{int64(100), int64(199), []any{"10.0.0.2", int64(7001)}},
	}
	m, err := ParseSlots(redis3, asked)
	require.NoError(t, err)
	requireSound(t, m)
	require.Len(t, m.Shards, 2)
	require.Len(t, m.Shards[0].Replicas, 2, "the replicas of one primary's ranges are joined")
	require.Equal(t, []Range{{0, 99}, {200, 299}}, m.Shards[0].Slots)
	require.Equal(t, "10.0.0.2:7001", m.Nodes[m.Primary(150)].Addr)
	require.Equal(t, 300, m.Covered())
}

func TestSlotsNodeAddress(t *testing.T) {
	cases := []struct {
		name string
		node []any
		want string
	}{
		{"null host", []any{nil, int64(7001), "a"}, "10.0.0.9:7001"},
		{"empty host", []any{"", int64(7001), "a"}, "10.0.0.9:7001"},
		{"host name", []any{"n1.example", int64(7001), "a", []any{"ip", "10.0.0.1"}}, "n1.example:7001"},
		{"unset host name in RESP2", []any{"?", int64(7001), "a", []any{"ip", "10.0.0.1"}}, "10.0.0.1:7001"},
		{"unset host name in RESP3", []any{"?", int64(7001), "a", resp3("ip", "10.0.0.1")}, "10.0.0.1:7001"},
		{"unset host name, nothing else", []any{"?", int64(7001), "a", []any{}}, ""},
		{"unset host name of old servers", []any{"?", int64(7001), "a"}, ""},
		{"IPv6", []any{"::1", int64(7001), "a"}, "[::1]:7001"},
		{"no port", []any{"h", int64(0), "a"}, ""},
		{"too short", []any{"h"}, ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			m, err := ParseSlots([]any{[]any{int64(1), int64(2), any(c.node)}}, asked)
			if c.want == "" {
				require.ErrorIs(t, err, errNoNodes)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.want, m.Nodes[0].Addr)
		})
	}
}

func TestSlotsThatCannotBeRead(t *testing.T) {
	cases := map[string]any{
		"reply is a int64":      int64(1),
		"entry 0: it is a":      []any{"x"},
		"bounds are no slots":   []any{[]any{int64(-1), int64(2)}},
		"entry 1: its bounds":   []any{[]any{int64(1), int64(2)}, []any{int64(1), int64(99999)}},
		"cannot use topology: ": []any{[]any{int64(1), int64(2)}},
	}
	for want, reply := range cases {
		_, err := ParseSlots(reply, asked)
		require.ErrorContains(t, err, want)
	}
}
