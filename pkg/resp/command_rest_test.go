package resp

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// followRest feeds p in chunks of the given size.
func followRest(r *CommandRest, p string, size int) (n int, done bool, err error) {
	for n < len(p) && !done && err == nil {
		used := 0
		used, done, err = r.Feed([]byte(p[n:min(n+size, len(p))]))
		n += used
	}
	return n, done, err
}

func TestRestEndsWhereScanWould(t *testing.T) {
	lim := DefaultLimits()
	for _, command := range []string{
		multibulk("SET", "key", strings.Repeat("v", 40), "EX", "100"),
		multibulk("SET", "", ""),
		"*2\r\n$3\rXGET??$11\rX\r\n$1\r\n*\x00abcXY",
	} {
		countEnd := strings.IndexByte(command, '\r') + 2
		for cut := countEnd; cut < len(command); cut++ {
			for _, size := range []int{1, 2, 5, 1000} {
				var s CommandScanner
				n, err := s.Scan([]byte(command[:cut]), &lim)
				require.NoError(t, err)
				require.Zero(t, n)
				rest := s.Rest([]byte(command[:cut]), lim)
				n, done, err := followRest(&rest, command[cut:]+"*1\r\n$4\r\nPING\r\n", size)
				require.NoError(t, err)
				require.True(t, done)
				require.Equal(t, len(command), cut+n, "%q cut at %d, chunks of %d", command, cut, size)
				require.Zero(t, rest.Open())
			}
		}
	}
}

func TestRestRefusesWhatScanRefuses(t *testing.T) {
	lim := CommandLimits{MaxArgs: 10, MaxBulk: 100, MaxInline: 30}
	const begin = "*3\r\n"
	for _, rest := range []string{
		"$1\r\na\r\n$101\r\n", "$1\r\na\r\n$-1\r\n", "$1\r\na\r\n$\r\n", "$1\r\na\r\n$9223372036854775807\r\n",
		"$1\r\na\r\n:1\r\n", "$1\r\na\r\n\r\n", "$1\r\na\r\n$01\r\n", "$1\r\na\r\n$1 \r\n",
		"$1\r\na\r\n$" + strings.Repeat("1", 40), "$1\r\na\r\n\x00$1\r\n" + strings.Repeat("1", 40),
		"$1\r\na\r\n$999999999999999999999\r\n",
	} {
		var s CommandScanner
		_, want := s.Scan([]byte(begin+rest), &lim)
		require.Error(t, want)
		for cut := 0; cut < len(rest); cut++ {
			seen := []byte(begin + rest[:cut])
			s.Reset()
			if _, err := s.Scan(seen, &lim); err != nil {
				break
			}
			for _, size := range []int{1, 7, 1000} {
				follower := s.Rest(seen, lim)
				_, done, err := followRest(&follower, rest[cut:], size)
				require.False(t, done)
				require.EqualError(t, err, want.Error(), "%q cut at %d", rest, cut)
				require.True(t, errors.As(err, new(*ProtocolError)))
			}
		}
	}
}

func TestRestTellsWhatIsOpen(t *testing.T) {
	lim := DefaultLimits()
	seen := []byte("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1000\r\nabc")
	var s CommandScanner
	_, err := s.Scan(seen, &lim)
	require.NoError(t, err)
	rest := s.Rest(seen, lim)
	require.Equal(t, int64(1000+2-3), rest.Open())
	n, done, err := rest.Feed(make([]byte, 900))
	require.NoError(t, err)
	require.False(t, done)
	require.Equal(t, 900, n)
	require.Equal(t, int64(99), rest.Open())
}

func TestRestNeedsArgumentCount(t *testing.T) {
	lim := DefaultLimits()
	var s CommandScanner
	_, err := s.Scan([]byte("*3"), &lim)
	require.NoError(t, err)
	require.Panics(t, func() { s.Rest([]byte("*3"), lim) })
}
