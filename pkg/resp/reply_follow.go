package resp

import (
	"bytes"
	"fmt"
)

// follow is Feed for everything but a whole plain reply.
func (s *ReplyScanner) follow(p []byte) (n int, done bool, err error) {
	for n < len(p) {
		if used := s.skipScalars(p[n:]); used > 0 {
			n += used
		} else {
			used, err = s.step(p[n:])
			if n += used; err != nil {
				return n, false, err
			}
		}
		if s.Idle() {
			*s = ReplyScanner{}
			return n, true, nil
		}
	}
	return n, false, nil
}

// skipScalars passes over the whole plain elements that p begins with and returns
// their length.
func (s *ReplyScanner) skipScalars(p []byte) (n int) {
	if s.state != replyAtType || s.chunked {
		return 0
	}
	for s.pending > 0 {
		length := scalarLen(p[n:])
		if length == 0 {
			break
		}
		n += length
		s.pending--
	}
	return n
}

// step consumes at least one byte of p.
func (s *ReplyScanner) step(p []byte) (int, error) {
	switch s.state {
	case replyInLine:
		return s.skipLine(p)
	case replyInHeader:
		return s.readHeader(p)
	case replyInBulk:
		return s.skipBulk(p)
	default:
		return 1, s.readType(p[0])
	}
}

// begin makes sure that the reply whose first byte came is counted: between
// replies, and between the elements of a streamed aggregate, nothing is pending.
func (s *ReplyScanner) begin() {
	if s.pending == 0 {
		s.pending = 1
	}
}

// readType takes the first byte of a reply, of a chunk or of a stream's end.
func (s *ReplyScanner) readType(kind byte) error {
	if s.chunked != (kind == ';') {
		return replyError("unexpected byte %q where a string chunk begins or ends", kind)
	}
	switch kind {
	case '+', '-', ':', ',', '(', '#', '_':
		s.begin()
		s.state = replyInLine
	case '$', '!', '=', '*', '~', '%', '>', '|':
		s.begin()
		s.state = replyInHeader
	case ';':
		s.state = replyInHeader
	case '.':
		if s.pending > 0 || len(s.outer) == 0 {
			return replyError("end of a stream that is not open")
		}
		s.state = replyInLine
	default:
		return replyError("unknown type %q", kind)
	}
	s.kind, s.line, s.cr, s.number = kind, 0, false, headerNumber{}
	return nil
}

// skipLine passes over a line's content up to CRLF.
func (s *ReplyScanner) skipLine(p []byte) (n int, err error) {
	longest := longestLine(s.kind)
	for n < len(p) {
		if s.cr && p[n] == '\n' {
			s.endLine()
			return n + 1, nil
		}
		next := bytes.IndexByte(p[n:], '\r')
		if s.cr = next >= 0; !s.cr {
			next = len(p) - n - 1
		}
		n += next + 1
		s.line += int64(next) + 1
		if s.line-1 > longest {
			return n, replyError("line too long for type %q", s.kind)
		}
	}
	return n, nil
}

// endLine ends a reply of one line, or a streamed aggregate.
func (s *ReplyScanner) endLine() {
	s.state = replyAtType
	if s.kind != '.' {
		s.pending--
		return
	}
	last := len(s.outer) - 1
	s.pending, s.outer = s.outer[last], s.outer[:last]
}

// readHeader reads the number of a bulk's, an aggregate's or a chunk's header.
func (s *ReplyScanner) readHeader(p []byte) (n int, err error) {
	for n < len(p) {
		c := p[n]
		n++
		switch {
		case s.cr && c == '\n':
			s.state = replyAtType
			return n, s.endHeader()
		case c == '\r' && !s.cr:
			s.cr = true
		default:
			s.number.add(c)
			if s.cr || s.number.bad {
				return n, replyError("bad length in header of type %q", s.kind)
			}
		}
	}
	return n, nil
}

// endHeader acts on a whole header.
func (s *ReplyScanner) endHeader() error {
	length, plain := s.number.length()
	switch {
	case plain:
		return s.announce(length)
	case s.number.streamed:
		return s.openStream()
	case s.number.isNull() && s.kind != ';' && s.kind != '|' && s.kind != '>':
		s.pending--
		return nil
	default:
		return replyError("bad length in header of type %q", s.kind)
	}
}

// announce acts on a header with a length.
func (s *ReplyScanner) announce(length int64) error {
	switch s.kind {
	case ';':
		if length == 0 {
			s.chunked = false
			s.pending--
			return nil
		}
		return s.openBulk(length)
	case '$', '!', '=':
		return s.openBulk(length)
	case '%':
		return s.addElements(2*length, 1)
	case '|':
		return s.addElements(2*length, 0)
	default:
		return s.addElements(length, 1)
	}
}

// addElements counts an aggregate's elements in; the aggregate itself has ended
// then, but an attribute leaves the reply that it belongs to.
func (s *ReplyScanner) addElements(count, ended int64) error {
	if count > 2*maxReplyElements || s.pending+count > maxReplyPending {
		return replyError("too many elements in type %q", s.kind)
	}
	s.pending += count - ended
	return nil
}

// openBulk begins a bulk's content.
func (s *ReplyScanner) openBulk(length int64) error {
	if length > maxReplyBulk {
		return replyError("bulk of %d bytes is too long", length)
	}
	s.bulk, s.state = length+2, replyInBulk
	return nil
}

// openStream begins a streamed string or aggregate.
func (s *ReplyScanner) openStream() error {
	after := s.pending - 1
	switch s.kind {
	case '$':
		s.chunked = true
		return nil
	case '|':
		after = s.pending
	case '*', '~', '%', '>':
	default:
		return replyError("type %q cannot be streamed", s.kind)
	}
	if len(s.outer) == maxReplyStreams {
		return replyError("streamed aggregates nest too deep")
	}
	s.outer = append(s.outer, after)
	s.pending = 0
	return nil
}

// skipBulk passes over a bulk's content and checks the CRLF behind it.
func (s *ReplyScanner) skipBulk(p []byte) (int, error) {
	n := 0
	if s.bulk > 2 {
		content := min(int64(len(p)), s.bulk-2)
		s.bulk -= content
		n = int(content)
	}
	for ; n < len(p) && s.bulk > 0; n++ {
		if p[n] != "\n\r"[s.bulk-1] {
			return n, replyError("no line end behind a bulk")
		}
		s.bulk--
	}
	if s.bulk == 0 {
		s.state = replyAtType
		if !s.chunked {
			s.pending--
		}
	}
	return n, nil
}

func replyError(format string, args ...any) error {
	return &ReplyError{Text: fmt.Sprintf(format, args...)}
}
