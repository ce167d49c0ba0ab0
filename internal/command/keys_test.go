package command

import (
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// keyLines reads testdata/keys.txt.
func keyLines(t testing.TB) [][][]byte {
	t.Helper()
	file, err := os.ReadFile("testdata/keys.txt")
	require.NoError(t, err)
	var lines [][][]byte
	for text := range strings.Lines(string(file)) {
		words := strings.Fields(text)
		if len(words) == 0 || words[0] == "#" {
			continue
		}
		for i, word := range words {
			if word == `""` {
				words[i] = ""
			}
		}
		lines = append(lines, line(words...))
	}
	require.Greater(t, len(lines), 150)
	return lines
}

// asked puts each line behind COMMAND GETKEYS and COMMAND GETKEYSANDFLAGS.
func asked(lines [][][]byte) [][][]byte {
	var questions [][][]byte
	for _, args := range lines {
		questions = append(questions, append(line("COMMAND", "GETKEYS"), args...),
			append(line("COMMAND", "GETKEYSANDFLAGS"), args...))
	}
	return questions
}

func requireSameReplies(t *testing.T, server realServer, protocol int, questions [][][]byte) {
	t.Helper()
	for i, want := range server.doAll(questions) {
		got := AppendReply(nil, questions[i], protocol)
		require.Equal(t, string(want), string(got), "%q", questions[i])
	}
}

func TestKeysEqualServer(t *testing.T) {
	for _, protocol := range []int{2, 3} {
		requireSameReplies(t, startServer(t, protocol), protocol, asked(keyLines(t)))
	}
}

// TestKeysOfRandomLinesEqualServer mixes the words of the known lines.
func TestKeysOfRandomLinesEqualServer(t *testing.T) {
	const seed, rounds = 7, 6000
	random := rand.New(rand.NewPCG(seed, seed))
	lines := keyLines(t)
	special := []string{"store", "STOREDIST", "keys", "streams", "get", "by", "limit", "count", "block", "group", "", "0", "1", "2", "3", "k"}
	mixed := make([][][]byte, 0, rounds)
	for range rounds {
		args := append([][]byte(nil), lines[random.IntN(len(lines))]...)
		for range 1 + random.IntN(3) {
			at := 1 + random.IntN(len(args))
			word := []byte(special[random.IntN(len(special))])
			if at == len(args) || random.IntN(2) == 0 {
				args = append(args[:at:at], append([][]byte{word}, args[at:]...)...)
				continue
			}
			args[at] = word
		}
		mixed = append(mixed, args)
	}
	requireSameReplies(t, startServer(t, 3), 3, asked(mixed))
}

func TestAppendKeys(t *testing.T) {
	for _, test := range []struct {
		line string
		want []int
	}{
		{"get k", []int{1}},
		{"mset a 1 b 2", []int{1, 3}},
		{"eval x 2 a b c", []int{3, 4}},
		{"eval x 0 a", nil},
		{"zunionstore d 2 a b", []int{1, 3, 4}},
		{"xread block 0 streams a b 0 0", []int{4, 5}},
		{"sort k by nosort store d", []int{1, 5}},
		{"migrate h 1 k 0 10", []int{3}},
		{"georadius k 1 2 3 m storedist d", []int{1, 7}},
		{"memory usage k", []int{2}},
		{"xgroup create s g $", []int{2}},
		{"spublish channel m", []int{1}},
		{"ssubscribe a b", []int{1, 2}},
		{"publish channel m", nil},
		{"hexpire h 10 fields 1 f", []int{1}},
		{"msetex 2 a 1 b 2 ex 10", []int{2, 4}},
		{"script show x", nil},
	} {
		args := line(strings.Fields(test.line)...)
		c, err := Lookup(args[0]).Resolve(args)
		require.NoError(t, err, test.line)
		got, err := c.AppendKeys(nil, args)
		require.NoError(t, err, test.line)
		require.Equal(t, test.want, got, test.line)
	}
}

func TestAppendKeysKeepsWhatWasThere(t *testing.T) {
	for _, text := range []string{"get k", "mget k", "migrate h 1 k 0 10", "zunion 1x k", "sort k"} {
		args := line(strings.Fields(text)...)
		got, err := Lookup(args[0]).AppendKeys([]int{42}, args)
		require.NoError(t, err)
		require.Len(t, got, 2, text)
		require.Equal(t, 42, got[0], text)
	}
}

func TestAppendKeysOfMalformedLine(t *testing.T) {
	for _, text := range []string{"zunion 9 a", "xread a b c", "get", "mset", "migrate h 1 k 0 10 keys a"} {
		args := line(strings.Fields(text)...)
		got, err := Lookup(args[0]).AppendKeys([]int{42}, args)
		require.ErrorIs(t, err, ErrNoKeys, text)
		require.Equal(t, []int{42}, got, text)
	}
}

func TestAppendKeysAllocatesNothing(t *testing.T) {
	positions := make([]int, 0, 16)
	for _, text := range []string{"get k", "mget a b c", "eval x 2 a b", "sort k store d", "xread streams a 0", "bitfield k get u8 0"} {
		args := line(strings.Fields(text)...)
		require.Zero(t, testing.AllocsPerRun(100, func() {
			c, _ := Lookup(args[0]).Resolve(args)
			_, _ = c.AppendKeys(positions, args)
		}), text)
	}
}

func TestSingleKey(t *testing.T) {
	for text, want := range map[string]int{
		"get": 1, "set": 1, "incr": 1, "bitfield": 1, "spublish": 1, "mget": 0, "eval": 0, "rename": 0, "sort": 0, "ping": 0, "hgetex": 1,
	} {
		require.Equal(t, want, Lookup([]byte(text)).SingleKey(), text)
	}
	usage, err := Lookup([]byte("memory")).Resolve(line("memory", "usage", "k"))
	require.NoError(t, err)
	require.Equal(t, 2, usage.SingleKey())
}

func FuzzAppendKeys(f *testing.F) {
	for _, args := range keyLines(f) {
		var text []byte
		for i, arg := range args {
			if i > 0 {
				text = append(text, '\n')
			}
			text = append(text, arg...)
		}
		f.Add(text)
	}
	f.Add([]byte("eval\nx\n2147483648\na"))
	f.Add([]byte("zunion\n-9223372036854775808\na"))
	f.Add([]byte("zunionstore\nd\n 4294967297\na"))
	f.Fuzz(func(t *testing.T, text []byte) {
		var args [][]byte
		for word := range strings.SplitSeq(string(text), "\n") {
			args = append(args, []byte(word))
		}
		parseReply(t, AppendReply(nil, append(line("COMMAND", "GETKEYSANDFLAGS"), args...), 3))
		c := Lookup(args[0])
		if c == nil {
			return
		}
		if c, _ = c.Resolve(args); c == nil {
			return
		}
		positions, err := c.AppendKeys(nil, args)
		if err != nil {
			require.Empty(t, positions)
		}
		for _, at := range positions {
			require.Positive(t, at)
			require.Less(t, at, len(args))
		}
		if only := c.SingleKey(); only > 0 && c.CheckArity(len(args)) {
			require.Equal(t, []int{only}, positions)
		}
	})
}

func BenchmarkAppendKeys(b *testing.B) {
	positions := make([]int, 0, 16)
	for _, text := range []string{"get k", "mget a b c", "eval x 2 a b"} {
		args := line(strings.Fields(text)...)
		c := Lookup(args[0])
		b.Run(text, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = c.AppendKeys(positions, args)
			}
		})
	}
}
