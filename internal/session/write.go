package session

import (
	"strconv"

	"github.com/tidwall/redcon"
)

// appendError appends an error reply. text must be one line.
func appendError(dst []byte, text string) []byte { return redcon.AppendError(dst, text) }

func (s *Session) appendError(text string) {
	w := s.worker
	w.buf = appendError(w.buf[:0], text)
	s.replyLocal(w.buf)
}

func (s *Session) replyOK() { s.replyLocal(replyOK) }

var (
	replyOK   = []byte("+OK\r\n")   //nolint:gochecknoglobals // constant
	replyPong = []byte("+PONG\r\n") //nolint:gochecknoglobals // constant
)

func (s *Session) replyInt(v int64) {
	w := s.worker
	w.buf = redcon.AppendInt(w.buf[:0], v)
	s.replyLocal(w.buf)
}

func (s *Session) replyBulk(b []byte) {
	w := s.worker
	w.buf = keepSmall(redcon.AppendBulk(w.buf[:0], b))
	if w.buf == nil {
		s.replyLocal(redcon.AppendBulk(nil, b))
		return
	}
	s.replyLocal(w.buf)
}

// appendNull appends the null of the session's protocol version.
func (s *Session) appendNull(dst []byte) []byte {
	if s.protocol >= 3 {
		return append(dst, "_\r\n"...)
	}
	return redcon.AppendNull(dst)
}

// appendMap appends the header of a map of n pairs, which RESP2 knows as an array.
func (s *Session) appendMap(dst []byte, n int) []byte {
	if s.protocol < 3 {
		return redcon.AppendArray(dst, 2*n)
	}
	dst = append(dst, '%')
	dst = strconv.AppendInt(dst, int64(n), 10)
	return append(dst, '\r', '\n')
}

// appendText appends a text that redis-cli prints as it is: a verbatim string in RESP3.
func (s *Session) appendText(dst []byte, text string) []byte {
	if s.protocol < 3 {
		return redcon.AppendBulkString(dst, text)
	}
	dst = append(dst, '=')
	dst = strconv.AppendInt(dst, int64(len(text)+4), 10)
	dst = append(dst, "\r\ntxt:"...)
	dst = append(dst, text...)
	return append(dst, '\r', '\n')
}

// replyMode is what CLIENT REPLY set.
type replyMode uint8

const (
	replyOn replyMode = iota
	replyOff
	replySkipNext // set by CLIENT REPLY SKIP: the next command is not answered
	replySkipThis
)

// muted reports whether the command at hand is not answered.
func (s *Session) muted() bool { return s.reply == replyOff || s.reply == replySkipThis }

// unskip is called after each command: CLIENT REPLY SKIP is about the one command behind it only.
func (s *Session) unskip() {
	switch s.reply {
	case replySkipNext:
		s.reply = replySkipThis
	case replySkipThis:
		s.reply = replyOn
	}
}
