package resp

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// multibulk encodes args as a client library does.
func multibulk(args ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, arg := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(arg), arg)
	}
	return b.String()
}

// scanGrown lets a new scanner see input grow to each of the given lengths in turn
// and returns what it said at the end.
func scanGrown(s *CommandScanner, input string, lim CommandLimits, lengths ...int) (int, error) {
	for _, length := range lengths {
		if n, err := s.Scan([]byte(input[:length]), &lim); n > 0 || err != nil {
			return n, err
		}
	}
	return s.Scan([]byte(input), &lim)
}

// requireScan asserts the outcome of input however it arrives: whole, cut once at
// every point, cut twice, and byte by byte.
func requireScan(t *testing.T, input string, lim CommandLimits, wantN int, wantText string) {
	t.Helper()
	expect := func(n int, err error, how string) {
		if wantText == "" && err == nil && n == wantN {
			return
		}
		t.Helper()
		if wantText == "" {
			require.NoError(t, err, how)
			require.Equal(t, wantN, n, how)
			return
		}
		var protocol *ProtocolError
		require.ErrorAs(t, err, &protocol, how)
		require.Equal(t, wantText, protocol.Text, how)
	}
	n, err := scanGrown(new(CommandScanner), input, lim)
	expect(n, err, "whole")
	every := make([]int, len(input))
	for i := range input {
		every[i] = i
		n, err := scanGrown(new(CommandScanner), input, lim, i)
		expect(n, err, fmt.Sprintf("cut at %d", i))
		for j := i + 1; j < len(input) && len(input) <= 100; j++ {
			n, err := scanGrown(new(CommandScanner), input, lim, i, j)
			expect(n, err, "cut twice")
		}
	}
	n, err = scanGrown(new(CommandScanner), input, lim, every...)
	expect(n, err, "byte by byte")
}

func argsOf(command string) []string {
	args := []string{}
	for _, arg := range AppendArgs(nil, []byte(command)) {
		args = append(args, string(arg))
	}
	return args
}

func TestScanBoundsCommandHoweverItArrives(t *testing.T) {
	long := strings.Repeat("v", 1234)
	cases := map[string][]string{
		multibulk("PING"):                        {"PING"},
		multibulk("GET", "user:1234567890:name"): {"GET", "user:1234567890:name"},
		multibulk("SET", "k", long):              {"SET", "k", long},
		multibulk("SET", "", ""):                 {"SET", "", ""},
		multibulk("SET", "k", "\r\n$3\r\n\x00*"): {"SET", "k", "\r\n$3\r\n\x00*"},
		multibulk("A", "123456789", "1234567890", strings.Repeat("x", 99), strings.Repeat("y", 100)): {
			"A", "123456789", "1234567890", strings.Repeat("x", 99), strings.Repeat("y", 100)},
		multibulk(strings.Split("MSET a 1 b 2 c 3 d 4 e 5 f 6", " ")...): strings.Split("MSET a 1 b 2 c 3 d 4 e 5 f 6", " "),
		"*0\r\n":                    {},
		"*-1\r\n":                   {},
		"*-77\r\n":                  {},
		"*-9223372036854775808\r\n": {},
		"PING\r\n":                  {"PING"},
		"PING\n":                    {"PING"},
		"\r\n":                      {},
		"\n":                        {},
		"  \t \r\n":                 {},
		"$4 is inline\r\n":          {"$4", "is", "inline"},
		"$4\r\n":                    {"$4"},
		"+x\r\n":                    {"+x"},
	}
	for input, args := range cases {
		t.Run(fmt.Sprintf("%.30q", input), func(t *testing.T) {
			requireScan(t, input, DefaultLimits(), len(input), "")
			require.Equal(t, args, argsOf(input))
			for _, next := range []string{"\r\n", "*", multibulk("GET", "k")} {
				n, err := scanGrown(new(CommandScanner), input+next, DefaultLimits())
				require.NoError(t, err)
				require.Equal(t, len(input), n, "followed by %q", next)
			}
		})
	}
}

// Redis looks neither at the byte behind a header's CR nor at the two behind an
// argument.
func TestScanTakesLooseLineEndsAsRedisDoes(t *testing.T) {
	for _, input := range []string{
		"*1\rX$4\r\nPING\r\n",
		"*1\r\n$4\rXPING\r\n",
		"*1\r\n$4\r\nPINGXY",
		"*1\r\n$4\r\nPINGX\n",
		"*1\r\n$4\r\nPING\rX",
		"*1\r\n$0\r\nXY",
		"*2\r\n$4\r\nPINGXY$1\r\na\r\n",
		"*10\rX" + strings.Repeat("$1\r\na\r\n", 10),
		"PING\r\n",
	} {
		requireScan(t, input, DefaultLimits(), len(input), "")
		lim := DefaultLimits()
		var s CommandScanner
		_, err := s.Scan([]byte(input), &lim)
		require.NoError(t, err)
		require.False(t, s.Verbatim(), "%q", input)

		good := []byte(multibulk("GET", "k"))
		for range 2 {
			n, err := s.Scan(good, &lim)
			require.NoError(t, err)
			require.Equal(t, len(good), n)
			require.True(t, s.Verbatim(), "after %q", input)
		}
	}
}

func TestScanRefusesInRedisWords(t *testing.T) {
	const (
		badCount  = "Protocol error: invalid multibulk length"
		badLength = "Protocol error: invalid bulk length"
	)
	cases := []struct{ input, text string }{
		{"*9000000000000000000\r\n", badCount},
		{"*1048577\r\n", badCount},
		{"*2147483648\r\n", badCount},
		{"*9223372036854775808\r\n", badCount},
		{"*-9223372036854775809\r\n", badCount},
		{"*99999999999999999999999999\r\n", badCount},
		{"*\r\n", badCount},
		{"*-\r\n", badCount},
		{"*-0\r\n", badCount},
		{"*+1\r\n", badCount},
		{"*01\r\n", badCount},
		{"* 1\r\n", badCount},
		{"*1 \r\n", badCount},
		{"*abc\r\n", badCount},
		{"*1\r\n$9223372036854775807\r\n", badLength},
		{"*1\r\n$9223372036854775808\r\n", badLength},
		{"*1\r\n$18446744073709551615\r\n", badLength},
		{"*1\r\n$536870913\r\n", badLength},
		{"*1\r\n$-1\r\n", badLength},
		{"*1\r\n$\r\n", badLength},
		{"*1\r\n$01\r\n", badLength},
		{"*1\r\n$01\r\na\r\n", badLength},
		{"*1\r\n$001\r\na\r\n", badLength},
		{"*1\r\n$1x\r\n", badLength},
		{"*2\r\n$3\r\nGET\r\n$x\r\n", badLength},
		{"*1\r\n:4\r\n", "Protocol error: expected '$', got ':'"},
		{"*2\r\n$3\r\nGET\r\nk\r\n", "Protocol error: expected '$', got 'k'"},
		{"*1\r\n\r\n", "Protocol error: expected '$', got ' '"},
		{"*1\r\n\n\r\n", "Protocol error: expected '$', got ' '"},
		{"*1\r\n\xff\r\n", "Protocol error: expected '$', got '\xff'"},
		{"*1\r\n*1\r\n", "Protocol error: expected '$', got '*'"},
		{"GET \"k\r\n", "Protocol error: unbalanced quotes in request"},
		{"GET 'k\n", "Protocol error: unbalanced quotes in request"},
		{"GET \"k\"x\r\n", "Protocol error: unbalanced quotes in request"},
	}
	for _, c := range cases {
		t.Run(fmt.Sprintf("%q", c.input), func(t *testing.T) {
			requireScan(t, c.input, DefaultLimits(), 0, c.text)
		})
	}
}

func TestScanIsStricterBeforeAuthentication(t *testing.T) {
	lim := UnauthenticatedLimits()
	ten := multibulk(strings.Split("a b c d e f g h i j", " ")...)
	requireScan(t, ten, lim, len(ten), "")
	requireScan(t, "*11\r\n", lim, 0, "Protocol error: unauthenticated multibulk length")
	requireScan(t, "*2147483647\r\n", lim, 0, "Protocol error: unauthenticated multibulk length")
	requireScan(t, "*2147483648\r\n", lim, 0, "Protocol error: invalid multibulk length")
	requireScan(t, "*1\r\n$16384\r\n", lim, 0, "")
	requireScan(t, "*1\r\n$16385\r\n", lim, 0, "Protocol error: unauthenticated bulk length")
	requireScan(t, "*1\r\n$536870912\r\n", lim, 0, "Protocol error: unauthenticated bulk length")
	requireScan(t, "*1\r\n$536870913\r\n", lim, 0, "Protocol error: invalid bulk length")
	requireScan(t, "*1\r\n$-1\r\n", lim, 0, "Protocol error: invalid bulk length")
}

func TestScanHoldsSmallLimitsOnTheStraightPath(t *testing.T) {
	lim := CommandLimits{MaxArgs: 2, MaxBulk: 5, MaxInline: 100}
	whole := multibulk("GET", "12345")
	requireScan(t, whole, lim, len(whole), "")
	requireScan(t, multibulk("GET", "123456"), lim, 0, "Protocol error: invalid bulk length")
	requireScan(t, multibulk("GET", strings.Repeat("k", 20)), lim, 0, "Protocol error: invalid bulk length")
	requireScan(t, multibulk("SET", "k", "v"), lim, 0, "Protocol error: invalid multibulk length")
}

func TestScanBoundsLinesWithoutEnd(t *testing.T) {
	const longest = 20
	lim := CommandLimits{MaxArgs: 5, MaxBulk: 100, MaxInline: longest}
	for prefix, text := range map[string]string{
		"":                   "Protocol error: too big inline request",
		"*":                  "Protocol error: too big mbulk count string",
		"*1\r\n":             "Protocol error: too big bulk count string",
		"*1\r\n$":            "Protocol error: too big bulk count string",
		"*2\r\n$1\r\na\r\n$": "Protocol error: too big bulk count string",
	} {
		line := len(prefix) - (strings.LastIndex(prefix, "\n") + 1)
		fits := prefix + strings.Repeat("1", longest-line)
		requireScan(t, fits, lim, 0, "")
		requireScan(t, fits+"1", lim, 0, text)
		requireScan(t, fits+"1\r\n", lim, 0, text)
	}
	exact := strings.Repeat("a", longest) + "\n"
	requireScan(t, exact, lim, len(exact), "")
	require.Equal(t, 64<<10, DefaultLimits().MaxInline)
	hugeHeader := "*" + strings.Repeat("1", 64<<10)
	n, err := scanGrown(new(CommandScanner), hugeHeader, DefaultLimits(), 1, 1000, 64<<10)
	require.EqualError(t, err, "Protocol error: too big mbulk count string")
	require.Zero(t, n)
}

// Redis searches line ends with strchr, which a NUL stops.
func TestScanNeverEndsLineWithNUL(t *testing.T) {
	lim := CommandLimits{MaxArgs: 5, MaxBulk: 100, MaxInline: 30}
	for prefix, text := range map[string]string{
		"PI\x00NG\r\nPING\r\n":        "Protocol error: too big inline request",
		"*1\x00\r\nPING\r\n":          "Protocol error: too big mbulk count string",
		"*1\r\n$4\x00\r\nPING\r\n":    "Protocol error: too big bulk count string",
		"*1\r\n\x00$4\r\nPING\r\nabc": "Protocol error: too big bulk count string",
	} {
		requireScan(t, prefix, lim, 0, "")
		requireScan(t, prefix+strings.Repeat("x", 40), lim, 0, text)
	}
}

func TestScanGoesThroughPipelineInOnePass(t *testing.T) {
	commands := []string{
		multibulk("SET", "k", "v"), "PING\r\n", multibulk("GET", strings.Repeat("k", 300)), "*0\r\n",
		multibulk(strings.Split(strings.Repeat("MGET ", 500), " ")...), "\r\n", multibulk("GET", "k"),
	}
	input := strings.Join(commands, "")
	for _, step := range []int{1, 2, 3, 7, 16, 1000, len(input)} {
		var s CommandScanner
		var got []string
		lim := DefaultLimits()
		from := 0
		for to := min(step, len(input)); ; to = min(to+step, len(input)) {
			for from < to {
				n, err := s.Scan([]byte(input[from:to]), &lim)
				require.NoError(t, err)
				if n == 0 {
					break
				}
				got = append(got, input[from:from+n])
				from += n
			}
			if to == len(input) {
				break
			}
		}
		require.Equal(t, commands, got, "step %d", step)
	}
}

// What a Scan has seen the next must not look at again: it may be changed.
func TestScanLooksAtNoByteTwice(t *testing.T) {
	lim := DefaultLimits()
	command := multibulk("SET", "key", strings.Repeat("v", 50), "EX", "10")
	inValue := strings.Index(command, "vvv") + 10
	b := []byte(command)
	var s CommandScanner
	n, err := s.Scan(b[:inValue], &lim)
	require.NoError(t, err)
	require.Zero(t, n)
	for i := range b[:inValue] {
		b[i] = '!'
	}
	n, err = s.Scan(b, &lim)
	require.NoError(t, err)
	require.Equal(t, len(command), n)

	line := []byte("PING with a long message\r\n")
	n, err = s.Scan(line[:20], &lim)
	require.NoError(t, err)
	require.Zero(t, n)
	line[3] = '\n'
	n, err = s.Scan(line[:22], &lim)
	require.NoError(t, err)
	require.Zero(t, n, "a line end in what was searched must not be found")
}

func TestScanTellsOfOpenArgument(t *testing.T) {
	lim := DefaultLimits()
	head := "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5000000\r\n"
	var s CommandScanner
	_, _, _, _, ok := s.OpenBulk()
	require.False(t, ok)
	require.Zero(t, s.Need())
	for _, seen := range []string{head[:len(head)-1], head[:20], "*3\r\n", "*3"} {
		s.Reset()
		n, err := s.Scan([]byte(seen), &lim)
		require.NoError(t, err)
		require.Zero(t, n)
		_, _, _, _, ok := s.OpenBulk()
		require.False(t, ok, "%q", seen)
		require.Zero(t, s.Need())
	}
	for _, seen := range []string{head, head + "abc"} {
		s.Reset()
		_, err := s.Scan([]byte(seen), &lim)
		require.NoError(t, err)
		index, start, length, argc, ok := s.OpenBulk()
		require.True(t, ok)
		require.Equal(t, 2, index)
		require.Equal(t, len(head), start)
		require.Equal(t, int64(5000000), length)
		require.Equal(t, 3, argc)
		require.Equal(t, len(head)+5000000+2, s.Need())
	}
	s.Reset()
	_, err := s.Scan([]byte("*1000000\r\n"), &lim)
	require.NoError(t, err)
	require.Zero(t, s.Need(), "announced arguments alone reserve nothing")
}

func TestParseIntegerIsRedisString2ll(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "7": 7, "10": 10, "-1": -1, "-10": -10,
		"9223372036854775807": math.MaxInt64, "-9223372036854775808": math.MinInt64,
	} {
		v, ok := parseInteger([]byte(text))
		require.True(t, ok, text)
		require.Equal(t, want, v, text)
	}
	for _, text := range []string{
		"", "-", "-0", "00", "01", "+1", " 1", "1 ", "1a", "a", "--1", "9223372036854775808", "-9223372036854775809",
		"18446744073709551616", "99999999999999999999", "999999999999999999999",
	} {
		_, ok := parseInteger([]byte(text))
		require.False(t, ok, text)
	}
}
