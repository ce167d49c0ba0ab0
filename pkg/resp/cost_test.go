package resp

import (
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/redcon"
)

func usualCommands() map[string]string {
	return map[string]string{
		"ping":    multibulk("PING"),
		"get":     multibulk("GET", "user:000000000001234"),
		"set":     multibulk("SET", "user:000000000001234", strings.Repeat("v", 32)),
		"set1k":   multibulk("SET", "user:000000000001234", strings.Repeat("v", 1024)),
		"mset100": multibulk(append([]string{"MSET"}, strings.Fields(strings.Repeat("user:0001234 value ", 100))...)...),
	}
}

func usualReplies() map[string]string {
	return map[string]string{
		"bulk32":    "$32\r\n" + strings.Repeat("v", 32) + "\r\n",
		"bulk1k":    "$1024\r\n" + strings.Repeat("v", 1024) + "\r\n",
		"ok":        "+OK\r\n",
		"integer":   ":1\r\n",
		"nullbulk":  "$-1\r\n",
		"null":      "_\r\n",
		"moved":     "-MOVED 3999 127.0.0.1:6381\r\n",
		"array100":  "*100\r\n" + strings.Repeat("$5\r\nvalue\r\n", 100),
		"map":       "%2\r\n+first\r\n:1\r\n+second\r\n:2\r\n",
		"attribute": "|1\r\n+ttl\r\n:3600\r\n$1\r\na\r\n",
	}
}

func TestScannersAreSmall(t *testing.T) {
	require.LessOrEqual(t, unsafe.Sizeof(CommandScanner{}), uintptr(48))
	require.LessOrEqual(t, unsafe.Sizeof(ReplyScanner{}), uintptr(80))
	require.LessOrEqual(t, unsafe.Sizeof(CommandRest{}), uintptr(112))
}

func TestScanAllocatesNothing(t *testing.T) {
	lim := DefaultLimits()
	args := make([][]byte, 0, 256)
	for name, command := range usualCommands() {
		b := []byte(command)
		var s CommandScanner
		require.Zero(t, testing.AllocsPerRun(200, func() {
			if n, err := s.Scan(b, &lim); n != len(b) || err != nil {
				t.Fatal(n, err)
			}
			args = AppendArgs(args[:0], b)
		}), name)
		require.Zero(t, testing.AllocsPerRun(200, func() {
			for cut := range b {
				if n, err := s.Scan(b[:cut], &lim); n != 0 || err != nil {
					t.Fatal(n, err)
				}
			}
			if n, err := s.Scan(b, &lim); n != len(b) || err != nil {
				t.Fatal(n, err)
			}
		}), "%s byte by byte", name)
	}
	inline := []byte("SET key value\r\n")
	var s CommandScanner
	require.Zero(t, testing.AllocsPerRun(200, func() {
		if n, err := s.Scan(inline, &lim); n != len(inline) || err != nil {
			t.Fatal(n, err)
		}
		args = AppendArgs(args[:0], inline)
	}))
}

func TestRestAllocatesNothing(t *testing.T) {
	lim := DefaultLimits()
	command := []byte(multibulk("SET", "key", strings.Repeat("v", 2000), "EX", "10"))
	const cut = 100
	require.Zero(t, testing.AllocsPerRun(200, func() {
		var s CommandScanner
		if n, err := s.Scan(command[:cut], &lim); n != 0 || err != nil {
			t.Fatal(n, err)
		}
		rest := s.Rest(command[:cut], lim)
		if _, done, err := rest.Feed(command[cut:]); !done || err != nil {
			t.Fatal(done, err)
		}
	}))
}

func TestFeedAllocatesNothing(t *testing.T) {
	for name, reply := range usualReplies() {
		b := []byte(reply)
		var s ReplyScanner
		require.Zero(t, testing.AllocsPerRun(200, func() {
			if n, done, err := s.Feed(b); n != len(b) || !done || err != nil {
				t.Fatal(n, done, err)
			}
			if n, err := ReplyLen(b); n != len(b) || err != nil {
				t.Fatal(n, err)
			}
		}), name)
		require.Zero(t, testing.AllocsPerRun(200, func() {
			for i := range b {
				if _, done, err := s.Feed(b[i : i+1]); done != (i == len(b)-1) || err != nil {
					t.Fatal(i, done, err)
				}
			}
		}), "%s byte by byte", name)
	}
}

func BenchmarkScan(b *testing.B) {
	lim := DefaultLimits()
	for name, command := range usualCommands() {
		p := []byte(command)
		b.Run(name, func(b *testing.B) {
			var s CommandScanner
			for b.Loop() {
				if n, err := s.Scan(p, &lim); n != len(p) || err != nil {
					b.Fatal(n, err)
				}
			}
		})
	}
}

func BenchmarkScanAndArgs(b *testing.B) {
	lim := DefaultLimits()
	args := make([][]byte, 0, 256)
	for name, command := range usualCommands() {
		p := []byte(command)
		b.Run(name, func(b *testing.B) {
			var s CommandScanner
			for b.Loop() {
				n, err := s.Scan(p, &lim)
				if err != nil {
					b.Fatal(n, err)
				}
				args = AppendArgs(args[:0], p[:n])
			}
		})
		b.Run(name+"/redcon", func(b *testing.B) {
			for b.Loop() {
				complete, found, _, _, err := redcon.ReadNextCommand(p, args[:0])
				if !complete || err != nil {
					b.Fatal(err)
				}
				args = found
			}
		})
	}
}

func BenchmarkScanInTwoParts(b *testing.B) {
	lim := DefaultLimits()
	p := []byte(usualCommands()["set"])
	var s CommandScanner
	for b.Loop() {
		if n, err := s.Scan(p[:40], &lim); n != 0 || err != nil {
			b.Fatal(n, err)
		}
		if n, err := s.Scan(p, &lim); n != len(p) || err != nil {
			b.Fatal(n, err)
		}
	}
}

func BenchmarkFeed(b *testing.B) {
	for name, reply := range usualReplies() {
		p := []byte(reply)
		b.Run(name, func(b *testing.B) {
			var s ReplyScanner
			for b.Loop() {
				if n, done, err := s.Feed(p); n != len(p) || !done || err != nil {
					b.Fatal(n, done, err)
				}
			}
		})
	}
}

func BenchmarkFeedPipeline(b *testing.B) {
	p := []byte(strings.Repeat("$32\r\n"+strings.Repeat("v", 32)+"\r\n+OK\r\n:1\r\n", 100))
	var s ReplyScanner
	b.SetBytes(int64(len(p)))
	for b.Loop() {
		for at := 0; at < len(p); {
			n, _, err := s.Feed(p[at:])
			if err != nil {
				b.Fatal(err)
			}
			at += n
		}
	}
}
