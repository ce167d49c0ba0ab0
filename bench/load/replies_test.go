package load

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRepliesAreCountedHoweverTheyAreSplit(t *testing.T) {
	stream := "$3\r\nabc\r\n+OK\r\n$-1\r\n_\r\n:12\r\n-ERR no\r\n$0\r\n\r\n$12\r\nabcdefghij\r\n\r\n"
	for size := 1; size <= len(stream); size++ {
		var c replyCounter
		total := 0
		for from := 0; from < len(stream); from += size {
			n, ok := c.feed([]byte(stream[from:min(from+size, len(stream))]))
			require.True(t, ok, "chunks of %d", size)
			total += n
		}
		require.Equal(t, 8, total, "chunks of %d", size)
		require.EqualValues(t, 2, c.misses)
		require.EqualValues(t, 1, c.failed)
		require.Equal(t, "ERR no", c.firstError)
	}
}

func TestWhatIsNotAReplyIsRefused(t *testing.T) {
	for _, stream := range []string{"\r\n", "hello\r\n", "$x\r\n", "$\r\n", "$99999999999\r\n", "*1\r\n"} {
		var c replyCounter
		_, ok := c.feed([]byte(stream))
		require.False(t, ok, "%q", stream)
	}
}

func TestALongErrorTextInPartsIsOneReply(t *testing.T) {
	var c replyCounter
	n, ok := c.feed([]byte("-ERR " + strings.Repeat("x", 40)))
	require.True(t, ok)
	require.Zero(t, n)
	n, ok = c.feed([]byte(strings.Repeat("y", 40) + "\r\n+OK\r\n"))
	require.True(t, ok)
	require.Equal(t, 2, n)
	require.True(t, strings.HasPrefix(c.firstError, "ERR xxx"))
}

func BenchmarkCountOneReply(b *testing.B) {
	var c replyCounter
	reply := []byte("$32\r\nabcdefghijklmnopqrstuvwxyzabcdef\r\n")
	for b.Loop() {
		c.feed(reply)
	}
}
