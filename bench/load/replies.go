package load

import "bytes"

// replyCounter counts the replies in a stream of bytes without keeping them. It knows what GET and SET can be answered:
// strings, bulk strings, errors, integers and nulls. The zero value is ready.
type replyCounter struct {
	bulk       int64 // bytes still to come of a bulk string, with its CRLF
	header     [64]byte
	headerLen  int // bytes held of a header that arrived in part
	misses     uint64
	failed     uint64
	firstError string
}

// feed takes what was read next and returns how many replies ended within it; ok is false for what is not RESP.
func (c *replyCounter) feed(p []byte) (replies int, ok bool) {
	for len(p) > 0 {
		if c.bulk > 0 {
			n := min(c.bulk, int64(len(p)))
			c.bulk -= n
			p = p[n:]
			if c.bulk == 0 {
				replies++
			}
			continue
		}
		line, rest := c.nextLine(p)
		if line == nil {
			return replies, c.headerLen < len(c.header)
		}
		p = rest
		ended, ok := c.begin(line)
		if !ok {
			return replies, false
		}
		if ended {
			replies++
		}
	}
	return replies, true
}

// nextLine returns the header line without its CRLF, or nil when its end has not come yet.
func (c *replyCounter) nextLine(p []byte) (line, rest []byte) {
	end := bytes.IndexByte(p, '\n')
	if end >= 0 && c.headerLen == 0 {
		return bytes.TrimSuffix(p[:end], []byte{'\r'}), p[end+1:]
	}
	taken := len(p)
	if end >= 0 {
		taken = end
	}
	// A long error text is cut to what fits; a length never needs that much.
	c.headerLen += copy(c.header[c.headerLen:len(c.header)-1], p[:taken])
	if end < 0 {
		return nil, nil
	}
	line = bytes.TrimSuffix(c.header[:c.headerLen], []byte{'\r'})
	c.headerLen = 0
	return line, p[end+1:]
}

// begin looks at a header line; ended is true when it is the whole reply.
func (c *replyCounter) begin(line []byte) (ended, ok bool) {
	if len(line) == 0 {
		return false, false
	}
	switch line[0] {
	case '$':
		length, ok := bulkLength(line[1:])
		if length < 0 {
			c.misses++
			return true, ok
		}
		c.bulk = length + 2
		return false, ok
	case '_':
		c.misses++
		return true, true
	case '+', ':':
		return true, true
	case '-':
		c.failed++
		if c.firstError == "" {
			c.firstError = string(line[1:])
		}
		return true, true
	}
	return false, false
}

func bulkLength(digits []byte) (length int64, ok bool) {
	if len(digits) == 2 && digits[0] == '-' && digits[1] == '1' {
		return -1, true
	}
	if len(digits) == 0 || len(digits) > 10 {
		return 0, false
	}
	for _, d := range digits {
		if d < '0' || d > '9' {
			return 0, false
		}
		length = length*10 + int64(d-'0')
	}
	return length, true
}
