package command

import "strconv"

// encoder appends RESP to dst. Sets, maps and null fall back to what Redis sends in their place to RESP2 clients.
type encoder struct {
	dst   []byte
	resp3 bool
}

func (e *encoder) header(kind byte, n int) {
	e.dst = append(e.dst, kind)
	e.dst = strconv.AppendInt(e.dst, int64(n), 10)
	e.dst = append(e.dst, "\r\n"...)
}

func (e *encoder) array(n int)   { e.header('*', n) }
func (e *encoder) integer(n int) { e.header(':', n) }

func (e *encoder) set(n int) {
	if e.resp3 {
		e.header('~', n)
		return
	}
	e.header('*', n)
}

func (e *encoder) mapping(n int) {
	if e.resp3 {
		e.header('%', n)
		return
	}
	e.header('*', 2*n)
}

func (e *encoder) null() {
	if e.resp3 {
		e.dst = append(e.dst, "_\r\n"...)
		return
	}
	e.dst = append(e.dst, "$-1\r\n"...)
}

func (e *encoder) bulk(s string) {
	e.header('$', len(s))
	e.dst = append(e.dst, s...)
	e.dst = append(e.dst, "\r\n"...)
}

func (e *encoder) bulkBytes(b []byte) {
	e.header('$', len(b))
	e.dst = append(e.dst, b...)
	e.dst = append(e.dst, "\r\n"...)
}

func (e *encoder) status(s string) {
	e.dst = append(e.dst, '+')
	e.dst = append(e.dst, s...)
	e.dst = append(e.dst, "\r\n"...)
}

// fail appends an error; text has no code, all errors made here have Redis's common one.
func (e *encoder) fail(text string) {
	e.dst = append(e.dst, "-ERR "...)
	e.dst = append(e.dst, text...)
	e.dst = append(e.dst, "\r\n"...)
}

// pair appends a map entry with a bulk string.
func (e *encoder) pair(key, value string) {
	e.bulk(key)
	e.bulk(value)
}

// flagSet appends the names of the bits that are set, as a set of status strings.
func (e *encoder) flagSet(bits uint64, names []string, prefix string) {
	n := 0
	for i := range names {
		n += int(bits >> i & 1)
	}
	e.set(n)
	for i, name := range names {
		if bits>>i&1 != 0 {
			e.status(prefix + name)
		}
	}
}

// statusSet appends a set of status strings.
func (e *encoder) statusSet(members []string) {
	e.set(len(members))
	for _, member := range members {
		e.status(member)
	}
}
