package route

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func merged(m Merge, replies ...string) string {
	all := make([][]byte, len(replies))
	for i, r := range replies {
		all[i] = []byte(r)
	}
	return string(m(nil, all))
}

func TestUnionHasEveryElementOnce(t *testing.T) {
	require.Equal(t, "*3\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n", merged(MergeUnion, "*2\r\n$1\r\na\r\n$1\r\nb\r\n", "*0\r\n", "*2\r\n$1\r\nb\r\n$1\r\nc\r\n"))
	require.Equal(t, "-ERR x\r\n", merged(MergeUnion, "*0\r\n", "-ERR x\r\n"))
	require.Contains(t, merged(MergeUnion, "*0\r\n", ":1\r\n"), "unexpected reply")
}

func TestTotalsAreAddedByPosition(t *testing.T) {
	double := MergeTotals(func(i int, sum int64) int64 { return 2*sum + int64(i) })
	require.Equal(t, "*4\r\n$1\r\na\r\n:6\r\n$1\r\nb\r\n:1\r\n", merged(double, "*4\r\n$1\r\na\r\n:1\r\n$1\r\nb\r\n:0\r\n", "*4\r\n$1\r\na\r\n:2\r\n$1\r\nb\r\n:0\r\n"))
	require.Equal(t, "*0\r\n", merged(double, "*0\r\n", "*0\r\n"))
	for _, odd := range []string{"*1\r\n$1\r\na\r\n", ":1\r\n", "*2\r\n$1\r\na\r\n$1\r\nb\r\n"} {
		require.Contains(t, merged(double, "*2\r\n$1\r\na\r\n:1\r\n", odd), "unexpected reply", odd)
	}
	require.Equal(t, "-ERR x\r\n", merged(double, "-ERR x\r\n", "*0\r\n"))
}

func TestTotalOfIntegers(t *testing.T) {
	less := MergeTotal(func(sum int64) int64 { return sum - 1 })
	require.Equal(t, ":4\r\n", merged(less, ":2\r\n", ":3\r\n"))
	require.Equal(t, "-ERR x\r\n", merged(less, ":2\r\n", "-ERR x\r\n"))
}
