package resp

import "encoding/binary"

// Bounds on what a server may announce. The scanner's own memory does not depend
// on them: counted aggregates cost nothing however deep they nest, and who
// buffers a reply bounds its size.
const (
	maxReplyBulk     = 4 << 30
	maxReplyElements = 1 << 31
	maxReplyPending  = 1 << 48
	maxReplyLine     = 512 << 20
	maxReplyStreams  = 64 // nesting of streamed aggregates ("*?")
)

// ReplyScanner finds where one reply ends. It is fed consecutive chunks; nothing
// is buffered or looked at twice. An attribute belongs to the reply that follows
// it. A push is a reply of its own. The zero value is ready.
type ReplyScanner struct {
	// pending counts the replies that must still end before the innermost
	// streamed aggregate, or else the whole reply, can end. A counted aggregate
	// only adds its elements here, so nesting needs no stack.
	pending int64
	bulk    int64   // bytes of a bulk's content and CRLF still to come
	outer   []int64 // pending of the levels around a streamed aggregate
	line    int64   // bytes of the line's content seen so far
	number  headerNumber
	state   replyState
	kind    byte // first byte of the line that is being received
	chunked bool // within a streamed string: a ';' chunk must come
	cr      bool // the line's last byte was CR
}

type replyState uint8

const (
	replyAtType   replyState = iota // a reply's first byte comes next
	replyInLine                     // within a line that is passed over
	replyInHeader                   // within a line that holds a number
	replyInBulk                     // within a bulk's content or its CRLF
)

// ReplyError says why a server's bytes cannot be framed. The connection they came
// by cannot be used any more.
type ReplyError struct {
	Text string
}

// Error describes the failure.
func (e *ReplyError) Error() string { return "cannot frame reply: " + e.Text }

// Feed looks at p, which follows what was fed before. done means that the reply
// ended at p[:n] and the scanner is ready for the next one; otherwise n is len(p)
// and more is needed. An error is a *[ReplyError].
func (s *ReplyScanner) Feed(p []byte) (n int, done bool, err error) {
	if s.pending == 0 && s.state == replyAtType && len(s.outer) == 0 {
		if n = scalarLen(p); n > 0 {
			return n, true, nil
		}
	}
	return s.follow(p)
}

// BulkRemaining returns how many bytes of the bulk that is being received, top
// level or nested, are still to come, its CRLF included; 0 outside of one.
func (s *ReplyScanner) BulkRemaining() int64 { return s.bulk }

// Idle reports whether the scanner stands between two replies.
func (s *ReplyScanner) Idle() bool {
	return s.pending == 0 && s.state == replyAtType && len(s.outer) == 0
}

// Reset forgets the reply that is being scanned.
func (s *ReplyScanner) Reset() { *s = ReplyScanner{} }

// scalarLen returns the length of the reply at the start of p when it is whole and
// neither an aggregate nor unusual, else 0. What it accepts, follow accepts too.
func scalarLen(p []byte) int {
	const shortest = len("_\r\n")
	if len(p) < shortest {
		return 0
	}
	switch p[0] {
	case '$':
		return plainBulkLen(p)
	case '+', '-', ':', ',', '(', '#', '_':
		return shortLineLen(p)
	default:
		return 0
	}
}

// plainBulkLen is scalarLen for a bulk string.
func plainBulkLen(p []byte) int {
	const crlf = '\r' | '\n'<<8
	if len(p) < len("$-1\r\n") {
		return 0
	}
	length, start := int(p[1]-'0'), 2
	switch {
	case length > 9:
		if p[1] == '-' && p[2] == '1' && p[3] == '\r' && p[4] == '\n' {
			return 5
		}
		return 0
	case length > 0:
		for start < len(p) && start <= 10 && p[start]-'0' <= 9 {
			length = length*10 + int(p[start]-'0')
			start++
		}
	}
	end := start + 2 + length
	if end > len(p)-2 || length > maxReplyBulk ||
		binary.LittleEndian.Uint16(p[start:]) != crlf || binary.LittleEndian.Uint16(p[end:]) != crlf {
		return 0
	}
	return end + 2
}

// shortLineLen is scalarLen for a reply of one line.
func shortLineLen(p []byte) int {
	const longest = 64
	for i := 1; i < len(p)-1 && i < longest; i++ {
		if p[i] == '\r' && p[i+1] == '\n' {
			if int64(i-1) > longestLine(p[0]) {
				return 0
			}
			return i + 2
		}
	}
	return 0
}

// longestLine bounds the content of a line, so that a stream that lost its frame
// is noticed.
func longestLine(kind byte) int64 {
	switch kind {
	case '_', '.':
		return 0
	case '#':
		return 1
	case ':':
		return int64(len("-9223372036854775808"))
	case ',':
		return 8 << 10
	default:
		return maxReplyLine
	}
}
