package resp

import "bytes"

// ReplyLen returns the length of the first whole reply in b, 0 when it is not
// whole.
func ReplyLen(b []byte) (n int, err error) {
	var s ReplyScanner
	n, done, err := s.Feed(b)
	if !done || err != nil {
		return 0, err
	}
	return n, nil
}

// ArrayHeader reads the header of an array reply: how many elements it has (-1
// for the null array) and where the first begins.
func ArrayHeader(b []byte) (count, n int, ok bool) {
	v, n, ok := numberLine(b, '*')
	if !ok || v < -1 || v > maxReplyElements {
		return 0, 0, false
	}
	return int(v), n, true
}

// IntReply returns the value of an integer reply.
func IntReply(b []byte) (v int64, ok bool) {
	v, n, ok := numberLine(b, ':')
	return v, ok && n == len(b)
}

// numberLine reads "<kind><number>\r\n" at the start of b.
func numberLine(b []byte, kind byte) (v int64, n int, ok bool) {
	if len(b) == 0 || b[0] != kind {
		return 0, 0, false
	}
	end := bytes.IndexByte(b, '\r')
	if end < 0 || end+1 == len(b) || b[end+1] != '\n' {
		return 0, 0, false
	}
	v, ok = parseInteger(b[1:end])
	return v, end + 2, ok
}
