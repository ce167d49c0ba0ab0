package resp

import "bytes"

// AppendArgs appends the arguments of command, which must be what one Scan
// bounded, to dst. They are slices of command, except quoted words of an inline
// line, which are copies. An empty command adds none.
func AppendArgs(dst [][]byte, command []byte) [][]byte {
	if command[0] != '*' {
		return appendInlineArgs(dst, trimLineEnd(command))
	}
	at := bytes.IndexByte(command, '\r') + 2
	for at < len(command) {
		length, i := 0, at+1
		for ; command[i] != '\r'; i++ {
			length = length*10 + int(command[i]-'0')
		}
		start := i + 2
		end := start + length
		dst = append(dst, command[start:end:end])
		at = end + 2
	}
	return dst
}

// trimLineEnd takes the LF, and a CR before it, off an inline line.
func trimLineEnd(line []byte) []byte {
	line = line[:len(line)-1]
	if n := len(line); n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	return line
}
