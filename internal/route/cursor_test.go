package route

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func nodeIDs(n int) (ids []string) {
	for i := range n {
		ids = append(ids, fmt.Sprintf("%040x", i))
	}
	return ids
}

func TestCursorIsReadAsItWasWritten(t *testing.T) {
	for _, n := range []int{1, 2, 3, 4, 7, 8, 100, 1000} {
		ids := nodeIDs(n)
		for range 100 {
			c := Cursor{Node: rand.Uint64N(1 << nodeBits), Repeated: rand.IntN(2) == 0, Rank: rand.IntN(n + 1), Owners: rand.Uint64()}
			number, ok := c.Encode(ids)
			require.True(t, ok)
			require.NotZero(t, number)
			require.Less(t, number, uint64(1)<<63, "for clients that read it as a signed number")
			back, ok := DecodeCursor(number, ids)
			require.True(t, ok)
			require.True(t, back.SameOwners(c.Owners, ids))
			back.Owners = c.Owners
			require.Equal(t, c, back)
			again, ok := back.Encode(ids)
			require.True(t, ok)
			require.Equal(t, number, again)
		}
	}
}

func TestCursorNeverEndsAWalkByItself(t *testing.T) {
	number, ok := Cursor{}.Encode(nodeIDs(3))
	require.True(t, ok)
	require.NotZero(t, number)
}

func TestCursorOfOtherNodesIsNotRead(t *testing.T) {
	number, _ := Cursor{Node: 5, Rank: 1, Owners: 99}.Encode(nodeIDs(3))
	read := 0
	for i := range 1000 {
		ids := nodeIDs(3)
		ids[2] = fmt.Sprint("other ", i)
		if _, ok := DecodeCursor(number, ids); ok {
			read++
		}
	}
	require.Less(t, read, 50, "of a thousand; one of 64 passes the check")
	_, ok := DecodeCursor(0, nodeIDs(3))
	require.False(t, ok)
}

// A cursor of a node with a table per slot: 14 bits of slot below the place in a table of 16 million entries.
func TestCursorHoldsThoseOfServersWithATablePerSlot(t *testing.T) {
	_, ok := Cursor{Node: (1<<24-1)<<14 | 16383}.Encode(nodeIDs(1000))
	require.True(t, ok)
	_, ok = Cursor{Node: 1 << nodeBits}.Encode(nodeIDs(3))
	require.False(t, ok)
}

func TestParseCursorAsStrtoul(t *testing.T) {
	for text, want := range map[string]uint64{"": 0, "0": 0, "17": 17, "007": 7, "+1": 1, "-1": 1<<64 - 1, "18446744073709551615": 1<<64 - 1} {
		number, ok := ParseCursor([]byte(text))
		require.True(t, ok, text)
		require.Equal(t, want, number, text)
	}
	for _, text := range []string{"x", " 1", "1 ", "1.0", "0x1", "-", "+", "18446744073709551616", "--1"} {
		_, ok := ParseCursor([]byte(text))
		require.False(t, ok, text)
	}
}
