package resp

import (
	"bytes"
	"errors"
	"testing"

	"github.com/tidwall/redcon"
)

// fuzzLimits are small enough for a fuzzer to reach them.
func fuzzLimits() CommandLimits {
	return CommandLimits{MaxArgs: 100, MaxBulk: 1000, MaxInline: 200}
}

// FuzzScanAgainstRedcon compares with redcon what both accept, and demands that
// redcon accepts what is verbatim.
func FuzzScanAgainstRedcon(f *testing.F) {
	for _, command := range usualCommands() {
		f.Add([]byte(command))
	}
	f.Add([]byte("*1\r\n$9223372036854775807\r\n"))
	f.Add([]byte("*9000000000000000000\r\n"))
	f.Add([]byte("*-1\r\n*1\r\n$4\r\nPING\r\n"))
	f.Add([]byte("$4\r\nPING\r\n"))
	f.Add([]byte("SET k \"v\"\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		lim := fuzzLimits()
		var s CommandScanner
		n, err := s.Scan(b, &lim)
		if n == 0 || err != nil || len(AppendArgs(nil, b[:n])) == 0 {
			return
		}
		args, length, ok := redconCommand(b)
		if !ok {
			if s.Verbatim() {
				t.Fatalf("redcon does not take verbatim command %q", b[:n])
			}
			return
		}
		// redcon has its own idea of quotes and of blanks, and takes a leading '$'
		// for Tile38's protocol.
		if b[0] != '*' && (b[0] == '$' || bytes.ContainsAny(b[:n], "'\"\\\t\v\f\r")) {
			return
		}
		mine := AppendArgs(nil, b[:n])
		if n != length || len(mine) != len(args) {
			t.Fatalf("%q: %d bytes %q, redcon %d bytes %q", b, n, mine, length, args)
		}
		for i := range mine {
			if !bytes.Equal(mine[i], args[i]) {
				t.Fatalf("%q: argument %d is %q, redcon's %q", b, i, mine[i], args[i])
			}
		}
	})
}

// redconCommand is redcon.ReadNextCommand without its panics.
func redconCommand(b []byte) (args [][]byte, length int, ok bool) {
	defer func() {
		if recover() != nil {
			ok = false
		}
	}()
	complete, args, _, rest, err := redcon.ReadNextCommand(b, nil)
	return args, len(b) - len(rest), complete && err == nil
}

// FuzzScanSplits demands the same outcome however a command is cut, and the same
// from a CommandRest that takes over at the cut.
func FuzzScanSplits(f *testing.F) {
	for _, command := range usualCommands() {
		f.Add([]byte(command), uint16(7), uint16(20))
	}
	f.Add([]byte("*3\r\n$3\rXSET??$1\r\nk\r\n$5000\r\nv"), uint16(4), uint16(12))
	f.Add([]byte("*1\r\n$4\x00\r\nPING\r\n"), uint16(5), uint16(9))
	f.Add([]byte("ECHO 'a b' \"\\x41\"\r\n"), uint16(3), uint16(8))
	f.Fuzz(func(t *testing.T, b []byte, first, second uint16) {
		lim := fuzzLimits()
		var whole, split, steps CommandScanner
		n, err := whole.Scan(b, &lim)
		lo, hi := cuts(len(b), first, second)
		requireSame(t, b, n, err, scanPrefixes(&split, b, lo, hi))
		requireSame(t, b, n, err, scanEveryPrefix(&steps, b))

		var s CommandScanner
		if n, err := s.Scan(b[:lo], &lim); n != 0 || err != nil || s.phase < phaseLength {
			return
		}
		rest := s.Rest(b[:lo], lim)
		used, done, restErr := rest.Feed(b[lo:])
		end := 0
		if done {
			end = lo + used
		}
		requireSame(t, b, n, err, outcome{end, restErr})
	})
}

type outcome struct {
	n   int
	err error
}

func scanPrefixes(s *CommandScanner, b []byte, lengths ...int) outcome {
	lim := fuzzLimits()
	for _, length := range append(lengths, len(b)) {
		if n, err := s.Scan(b[:length], &lim); n > 0 || err != nil {
			return outcome{n, err}
		}
	}
	return outcome{}
}

func scanEveryPrefix(s *CommandScanner, b []byte) outcome {
	every := make([]int, len(b))
	for i := range every {
		every[i] = i
	}
	return scanPrefixes(s, b, every...)
}

func requireSame(t *testing.T, b []byte, n int, err error, got outcome) {
	t.Helper()
	if n != got.n || (err == nil) != (got.err == nil) || err != nil && err.Error() != got.err.Error() {
		t.Fatalf("%q: whole %d %v, in parts %d %v", b, n, err, got.n, got.err)
	}
}

// cuts makes two ordered offsets within length of any two numbers.
func cuts(length int, first, second uint16) (lo, hi int) {
	lo, hi = int(first)%(length+1), int(second)%(length+1)
	return min(lo, hi), max(lo, hi)
}

// FuzzReplySplits demands that a stream of replies is framed the same however it
// is cut, and that ReplyLen agrees.
func FuzzReplySplits(f *testing.F) {
	for i, reply := range wholeReplies() {
		f.Add([]byte(reply+"+OK\r\n"), uint16(i), uint16(2*i+3))
	}
	f.Add([]byte("*?\r\n*1\r\n.\r\n"), uint16(4), uint16(5))
	f.Add([]byte("$9223372036854775807\r\n"), uint16(4), uint16(5))
	f.Fuzz(func(t *testing.T, b []byte, first, second uint16) {
		whole, wholeErr := frames(b)
		lo, hi := cuts(len(b), first, second)
		split, splitErr := frames(b[:lo], b[lo:hi], b[hi:])
		single := make([][]byte, len(b))
		for i := range b {
			single[i] = b[i : i+1]
		}
		bytewise, bytewiseErr := frames(single...)
		if !equalInts(whole, split) || !equalInts(whole, bytewise) || wholeErr != splitErr || wholeErr != bytewiseErr {
			t.Fatalf("%q: whole %v %v, cut %v %v, bytewise %v %v", b, whole, wholeErr, split, splitErr, bytewise, bytewiseErr)
		}
		n, err := ReplyLen(b)
		switch {
		case err != nil && (!wholeErr || len(whole) > 0), err == nil && n == 0 && len(whole) > 0, n > 0 && (len(whole) == 0 || whole[0] != n):
			t.Fatalf("%q: ReplyLen %d %v, frames %v", b, n, err, whole)
		}
	})
}

// frames returns where the replies in the chunks end.
func frames(chunks ...[]byte) (ends []int, failed bool) {
	var s ReplyScanner
	at := 0
	for _, chunk := range chunks {
		for len(chunk) > 0 {
			n, done, err := s.Feed(chunk)
			var reply *ReplyError
			if errors.As(err, &reply) {
				return ends, true
			}
			at += n
			chunk = chunk[n:]
			if done {
				ends = append(ends, at)
			}
		}
	}
	return ends, false
}

func equalInts(a, b []int) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}
