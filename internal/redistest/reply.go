package redistest

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strconv"
)

// replyReader collects the bytes of one reply.
type replyReader struct {
	in  *bufio.Reader
	raw []byte
}

// readReply reads one reply with all that belongs to it; attributes belong to
// the reply that follows them.
func (r *replyReader) readReply() error {
	_, err := r.readValue()
	return err
}

// readValue reads one value and says whether it was the "." that ends a
// streamed aggregate.
func (r *replyReader) readValue() (ended bool, err error) {
	header, err := r.readLine()
	if err != nil {
		return false, err
	}
	if len(header) == 0 {
		return false, fmt.Errorf("cannot read reply: empty line")
	}
	switch header[0] {
	case '+', '-', ':', '_', ',', '#', '(':
		return false, nil
	case '$', '=', '!':
		return false, r.readBlob(header)
	case '*', '~', '>':
		return false, r.readAggregate(header, 1)
	case '%':
		return false, r.readAggregate(header, 2)
	case '|':
		if err := r.readAggregate(header, 2); err != nil {
			return false, err
		}
		return r.readValue()
	case '.':
		return true, nil
	}
	return false, fmt.Errorf("cannot read reply: unknown type %q", header[0])
}

func (r *replyReader) readLine() ([]byte, error) {
	line, err := r.in.ReadBytes('\n')
	r.raw = append(r.raw, line...)
	return bytes.TrimSuffix(line, []byte("\r\n")), err
}

func (r *replyReader) readBlob(header []byte) error {
	if string(header[1:]) == "?" {
		return r.readStreamedBlob()
	}
	length, err := headerLength(header)
	if err != nil || length < 0 {
		return err
	}
	return r.readBytes(length + len("\r\n"))
}

func (r *replyReader) readStreamedBlob() error {
	for {
		header, err := r.readLine()
		if err != nil {
			return err
		}
		length, err := headerLength(header)
		if err != nil || length == 0 {
			return err
		}
		if err := r.readBytes(length + len("\r\n")); err != nil {
			return err
		}
	}
}

func (r *replyReader) readBytes(n int) error {
	start := len(r.raw)
	r.raw = append(r.raw, make([]byte, n)...)
	got, err := io.ReadFull(r.in, r.raw[start:])
	r.raw = r.raw[:start+got]
	return err
}

func (r *replyReader) readAggregate(header []byte, valuesPerElement int) error {
	if string(header[1:]) == "?" {
		for {
			if ended, err := r.readValue(); ended || err != nil {
				return err
			}
		}
	}
	count, err := headerLength(header)
	if err != nil {
		return err
	}
	for range count * valuesPerElement {
		if _, err := r.readValue(); err != nil {
			return err
		}
	}
	return nil
}

func headerLength(header []byte) (int, error) {
	if len(header) == 0 {
		return 0, fmt.Errorf("cannot read reply: empty header")
	}
	n, err := strconv.Atoi(string(header[1:]))
	if err != nil {
		return 0, fmt.Errorf("cannot read reply header %q: %w", header, err)
	}
	return n, nil
}

// replyError is an error reply without its "-".
type replyError string

// decode turns a whole RESP2 reply into string, int, nil, replyError or []any.
func decode(raw []byte) any {
	value, _ := decodeValue(raw)
	return value
}

func decodeValue(raw []byte) (value any, rest []byte) {
	line, rest, _ := bytes.Cut(raw, []byte("\r\n"))
	if len(line) == 0 {
		return nil, nil
	}
	text := string(line[1:])
	switch line[0] {
	case '-':
		return replyError(text), rest
	case ':':
		n, _ := strconv.Atoi(text)
		return n, rest
	case '$':
		n, _ := strconv.Atoi(text)
		if n < 0 {
			return nil, rest
		}
		return string(rest[:n]), rest[n+2:]
	case '*':
		n, _ := strconv.Atoi(text)
		values := []any{}
		for range n {
			var element any
			element, rest = decodeValue(rest)
			values = append(values, element)
		}
		return values, rest
	}
	return text, rest
}
