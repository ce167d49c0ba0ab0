package resp

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// wholeReplies holds replies of every RESP2 and RESP3 type.
func wholeReplies() []string {
	return []string{
		"+OK\r\n", "+\r\n", "+QUEUED\r\n", "+a\rb\nc\r\r\n", "+" + strings.Repeat("x", 500) + "\r\n",
		"-ERR unknown command\r\n", "-MOVED 3999 127.0.0.1:6381\r\n",
		":0\r\n", ":1\r\n", ":-9223372036854775808\r\n",
		"$-1\r\n", "$0\r\n\r\n", "$1\r\na\r\n", "$9\r\n123456789\r\n", "$10\r\n1234567890\r\n", "$32\r\n" + strings.Repeat("v", 32) + "\r\n",
		"$4\r\n\r\n\r\n\r\n", "$100\r\n" + strings.Repeat("v", 100) + "\r\n", "$1024\r\n" + strings.Repeat("v", 1024) + "\r\n",
		"*-1\r\n", "*0\r\n", "*1\r\n$-1\r\n", "*2\r\n$1\r\na\r\n:1\r\n", "*3\r\n*0\r\n*-1\r\n*2\r\n+a\r\n*1\r\n-ERR x\r\n",
		"*12\r\n" + strings.Repeat("$1\r\na\r\n", 12),
		"_\r\n", "#t\r\n", "#f\r\n", ",3.14\r\n", ",-inf\r\n", ",nan\r\n", "(3492890328409238509324850943850943825024385\r\n",
		"!21\r\nSYNTAX invalid syntax\r\n", "=15\r\ntxt:Some string\r\n",
		"%0\r\n", "%2\r\n+first\r\n:1\r\n$6\r\nsecond\r\n*1\r\n:2\r\n", "~0\r\n", "~3\r\n+a\r\n#t\r\n_\r\n",
		">3\r\n+message\r\n+channel\r\n$5\r\nhello\r\n", ">2\r\n$10\r\ninvalidate\r\n_\r\n",
		"|1\r\n+ttl\r\n:3600\r\n$1\r\na\r\n", "|0\r\n+OK\r\n", "|1\r\n+a\r\n|1\r\n+b\r\n:1\r\n:2\r\n*1\r\n:3\r\n",
		"*3\r\n:1\r\n|1\r\n+ttl\r\n:3600\r\n:2\r\n:3\r\n", "|1\r\n+k\r\n%1\r\n+a\r\n+b\r\n|1\r\n+c\r\n+d\r\n+e\r\n",
		"$?\r\n;4\r\nHell\r\n;5\r\no wor\r\n;1\r\nd\r\n;0\r\n", "$?\r\n;0\r\n", "*2\r\n$?\r\n;1\r\na\r\n;0\r\n:1\r\n",
		"*?\r\n.\r\n", "*?\r\n:1\r\n*2\r\n:2\r\n:3\r\n.\r\n", "~?\r\n+a\r\n.\r\n", "%?\r\n+a\r\n:1\r\n+b\r\n*?\r\n.\r\n.\r\n",
		"*2\r\n*?\r\n%?\r\n.\r\n$?\r\n;1\r\na\r\n;0\r\n.\r\n:9\r\n", "|?\r\n+a\r\n:1\r\n.\r\n+OK\r\n", "*?\r\n|1\r\n+a\r\n:1\r\n+b\r\n.\r\n",
	}
}

// feedChunks feeds p in the chunks that end at the given offsets and at its end.
func feedChunks(s *ReplyScanner, p string, ends ...int) (n int, done bool, err error) {
	from := 0
	for _, end := range append(ends, len(p)) {
		n, done, err = s.Feed([]byte(p[from:end]))
		if done || err != nil {
			return from + n, done, err
		}
		if n != end-from {
			return 0, false, fmt.Errorf("feed left %d bytes without an end", end-from-n)
		}
		from = end
	}
	return from, false, nil
}

func TestFeedFindsEndHoweverReplyArrives(t *testing.T) {
	const next = "$3\r\nfoo\r\n"
	for _, reply := range wholeReplies() {
		t.Run(fmt.Sprintf("%.40q", reply), func(t *testing.T) {
			expectEnd := func(how string, ends ...int) {
				t.Helper()
				var s ReplyScanner
				n, done, err := feedChunks(&s, reply+next, ends...)
				require.NoError(t, err, how)
				require.True(t, done, how)
				require.Equal(t, len(reply), n, how)
				require.True(t, s.Idle(), how)
				require.Equal(t, ReplyScanner{}, s, how)
			}
			expectEnd("whole")
			every := make([]int, 0, len(reply))
			for i := 1; i <= len(reply); i++ {
				every = append(every, i)
				expectEnd(fmt.Sprintf("cut at %d", i), i)
				for j := i + 1; j < len(reply) && len(reply) <= 80; j++ {
					expectEnd(fmt.Sprintf("cut at %d and %d", i, j), i, j)
				}
			}
			expectEnd("byte by byte", every...)
		})
	}
}

func TestFeedIsNotDoneBeforeTheEnd(t *testing.T) {
	for _, reply := range wholeReplies() {
		for cut := 1; cut < len(reply); cut++ {
			var s ReplyScanner
			n, done, err := s.Feed([]byte(reply[:cut]))
			require.NoError(t, err)
			require.False(t, done, "%q", reply[:cut])
			require.Equal(t, cut, n)
			require.False(t, s.Idle())
		}
	}
}

func TestFeedGoesThroughPipeline(t *testing.T) {
	replies := wholeReplies()
	input := strings.Join(replies, "")
	for _, step := range []int{1, 2, 3, 5, 16, 100, len(input)} {
		var s ReplyScanner
		var got []string
		begin := 0
		for at := 0; at < len(input); {
			n, done, err := s.Feed([]byte(input[at:min(at+step, len(input))]))
			require.NoError(t, err)
			if at += n; done {
				got = append(got, input[begin:at])
				begin = at
			}
		}
		require.Equal(t, replies, got, "step %d", step)
	}
}

func TestFeedRefusesWhatIsNoReply(t *testing.T) {
	for _, input := range []string{
		"x", "\r\n", "OK\r\n", "\x00", ".\r\n", ";1\r\na\r\n",
		"$-2\r\n", "$\r\n", "$01\r\n", "$01\r\na\r\n", "$1x\r\n", "$-01\r\n", "$--1\r\n", "$ 1\r\n", "$+1\r\n", "$1\n", "$1\r\r",
		"$9223372036854775807\r\n", "$99999999999999999999\r\n", "$4294967297\r\n", "$1\r\nabc", "$1\r\na\n", "$0\r\nab", "$123\rx",
		"*-2\r\n", "*9000000000000000000\r\n", "*9223372036854775807\r\n", "%9223372036854775807\r\n", "*99999999999\r\n", "*abc\r\n", "*?1\r\n", "*1?\r\n", "*-?\r\n",
		"|-1\r\n", ">-1\r\n", "!?\r\n", "=?\r\n", ";?",
		"_x\r\n", "#true\r\n", ":" + strings.Repeat("1", 40) + "\r\n", "," + strings.Repeat("1", 9000) + "\r\n",
		"*1\r\n.\r\n", "*?\r\n*1\r\n.\r\n", "*?\r\n|1\r\n+a\r\n+b\r\n.\r\n", "*?\r\n.x\r\n",
		"$?\r\n+OK\r\n", "$?\r\n;-1\r\n", "$?\r\n;?\r\n", "$?\r\n$1\r\na\r\n",
		strings.Repeat("*?\r\n", 100),
	} {
		t.Run(fmt.Sprintf("%.40q", input), func(t *testing.T) {
			for _, step := range []int{1, 2, 3, len(input)} {
				var s ReplyScanner
				var done bool
				var err error
				for at := 0; at < len(input) && err == nil && !done; {
					var n int
					n, done, err = s.Feed([]byte(input[at:min(at+step, len(input))]))
					at += n
				}
				var reply *ReplyError
				require.ErrorAs(t, err, &reply, "step %d", step)
				require.Contains(t, err.Error(), "cannot frame reply: ")
				require.False(t, done)
			}
			n, err := ReplyLen([]byte(input))
			require.Error(t, err)
			require.Zero(t, n)
		})
	}
}

// A Lua script makes Redis 7.0 nest almost 8,000 deep, so depth alone is no fault.
func TestFeedNestsAtNoCost(t *testing.T) {
	const depth = 20_000
	for _, open := range []string{"*1\r\n", "*2\r\n:1\r\n", "~1\r\n", ">1\r\n", "%1\r\n+k\r\n", "|1\r\n+k\r\n"} {
		var s ReplyScanner
		chunk := []byte(open)
		allocs := testing.AllocsPerRun(depth, func() {
			_, done, err := s.Feed(chunk)
			if done || err != nil {
				t.Fatal(done, err)
			}
		})
		require.Zero(t, allocs, "%q", open)
	}
	deep := strings.Repeat("*1\r\n", depth) + ":1\r\n"
	n, err := ReplyLen([]byte(deep))
	require.NoError(t, err)
	require.Equal(t, len(deep), n)
}

func TestFeedBoundsPendingElements(t *testing.T) {
	var s ReplyScanner
	var err error
	for range 1 << 18 {
		if _, _, err = s.Feed([]byte("*2147483648\r\n")); err != nil {
			break
		}
	}
	require.ErrorContains(t, err, "too many elements")
}

func TestBulkRemainingCountsDown(t *testing.T) {
	var s ReplyScanner
	feed := func(p string, remaining int64) {
		t.Helper()
		_, _, err := s.Feed([]byte(p))
		require.NoError(t, err)
		require.Equal(t, remaining, s.BulkRemaining())
	}
	feed("$10", 0)
	feed("00\r", 0)
	feed("\n", 1002)
	feed(strings.Repeat("v", 999), 3)
	feed("v", 2)
	feed("\r", 1)
	feed("\n", 0)
	require.True(t, s.Idle())
	feed("*2\r\n:1\r\n$5\r\na", 6)
	s.Reset()
	require.True(t, s.Idle())
	feed("$536870912\r\n", 536870914)
}

func TestReadersOfWholeReplies(t *testing.T) {
	for _, reply := range wholeReplies() {
		n, err := ReplyLen([]byte(reply + "+more\r\n"))
		require.NoError(t, err)
		require.Equal(t, len(reply), n)
		n, err = ReplyLen([]byte(reply[:len(reply)-1]))
		require.NoError(t, err)
		require.Zero(t, n)
	}
	for header, want := range map[string]int{"*0\r\n": 0, "*-1\r\n": -1, "*12\r\n:1\r\n": 12} {
		count, n, ok := ArrayHeader([]byte(header))
		require.True(t, ok)
		require.Equal(t, want, count)
		require.Equal(t, strings.IndexByte(header, '\n')+1, n)
	}
	for _, bad := range []string{"", "*", "*1", "*1\r", "*1\rx", "*x\r\n", "*-2\r\n", "$1\r\na\r\n", "*?\r\n", "*9000000000000000000\r\n"} {
		_, _, ok := ArrayHeader([]byte(bad))
		require.False(t, ok, "%q", bad)
	}
	for reply, want := range map[string]int64{":0\r\n": 0, ":123\r\n": 123, ":-9\r\n": -9} {
		v, ok := IntReply([]byte(reply))
		require.True(t, ok)
		require.Equal(t, want, v)
	}
	for _, bad := range []string{"", ":\r\n", ":1", ":x\r\n", "+1\r\n", ":1\r\n:2\r\n", "$1\r\n1\r\n"} {
		_, ok := IntReply([]byte(bad))
		require.False(t, ok, "%q", bad)
	}
}
