package route

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMerges(t *testing.T) {
	first := func(int64) int64 { return 0 }
	last := func(n int64) int64 { return n - 1 }
	for _, c := range []struct {
		merge   Merge
		replies []string
		want    string
	}{
		{MergeOK, []string{"+OK\r\n", "+OK\r\n"}, "+OK\r\n"},
		{MergeOK, []string{"+OK\r\n", "-ERR x\r\n"}, "-ERR x\r\n"},
		{MergeOK, []string{"+OK\r\n", ":1\r\n"}, string(badShard)},
		{MergeLeast, []string{":7\r\n", ":3\r\n", ":9\r\n"}, ":3\r\n"},
		{MergeLeast, []string{":7\r\n", "+OK\r\n"}, string(badShard)},
		{MergeLeastEach, []string{"*2\r\n:1\r\n:5\r\n", "*2\r\n:0\r\n:7\r\n"}, "*2\r\n:0\r\n:5\r\n"},
		{MergeLeastEach, []string{"*2\r\n:1\r\n:5\r\n", "*1\r\n:0\r\n"}, string(badShard)},
		{MergeLeastEach, []string{"-ERR unknown command 'WAITAOF'\r\n", "*1\r\n:0\r\n"}, "-ERR unknown command 'WAITAOF'\r\n"},
		{MergeArrays, []string{"*1\r\n$1\r\na\r\n", "*0\r\n", "*2\r\n$1\r\nb\r\n$1\r\nc\r\n"}, "*3\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n"},
		{MergeArrays, []string{"*0\r\n", "-LOADING x\r\n"}, "-LOADING x\r\n"},
		{MergeWeighted(first), []string{":0\r\n", "$-1\r\n", ":2\r\n", "$1\r\na\r\n"}, "$1\r\na\r\n"},
		{MergeWeighted(last), []string{":3\r\n", "$1\r\na\r\n", ":2\r\n", "$1\r\nb\r\n"}, "$1\r\nb\r\n"},
		{MergeWeighted(first), []string{":0\r\n", "_\r\n", ":0\r\n", "_\r\n"}, "_\r\n"},
		{MergeWeighted(first), []string{":5\r\n", "$-1\r\n", ":0\r\n", "$1\r\nb\r\n"}, "$1\r\nb\r\n"},
		{MergeWeighted(first), []string{"-ERR x\r\n", "$-1\r\n"}, "-ERR x\r\n"},
	} {
		replies := make([][]byte, len(c.replies))
		for i, r := range c.replies {
			replies[i] = []byte(r)
		}
		require.Equal(t, c.want, string(c.merge(nil, replies)), "%q", c.replies)
	}
}

func TestAskBoundsRepliesButNotWhatIsReduced(t *testing.T) {
	long := make([]byte, 100)
	keep := func([]byte) []byte { return []byte("+x\r\n") }
	joined := func(dst []byte, replies [][]byte) []byte { return append(append(dst, replies[0]...), replies[1]...) }
	g := Ask([]Part{{Reduce: keep}, {Reduce: keep}}, 150, joined)
	require.False(t, g.Add(0, long, true))
	require.True(t, g.Add(1, long, true))
	require.Equal(t, "+x\r\n+x\r\n", string(g.AppendReply(nil)))
	g = Ask([]Part{{}, {}}, 150, joined)
	g.Add(0, long, true)
	g.Add(1, long, true)
	require.Regexp(t, "^-ERR the reply of all shards together is longer than 150 bytes", string(g.AppendReply(nil)))
}
