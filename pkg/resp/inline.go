package resp

// The rules of an inline line are those of Redis's sdssplitargs: blanks separate
// words, "…" takes escapes, '…' takes only \', and a closing quote must be followed
// by a blank or by the line's end. A quote may also begin within a word.

// quotesBalanced reports whether Redis would split line without an error.
func quotesBalanced(line []byte) bool {
	for i := 0; i < len(line); i++ {
		quote := line[i]
		if quote != '"' && quote != '\'' {
			continue
		}
		if i = closingQuote(line, i); i < 0 {
			return false
		}
	}
	return true
}

// closingQuote returns where the quote that opens at line[open] closes, -1 if it
// does not, or not before a blank.
func closingQuote(line []byte, open int) int {
	quote := line[open]
	for i := open + 1; i < len(line); i++ {
		switch {
		case line[i] == '\\' && i+1 < len(line) && (quote == '"' || line[i+1] == '\''):
			i++
		case line[i] == quote:
			if i+1 < len(line) && !isSpace(line[i+1]) {
				return -1
			}
			return i
		}
	}
	return -1
}

// appendInlineArgs splits an inline line, as Redis does, into dst. Words without
// quotes are slices of line; quoted ones are copies.
func appendInlineArgs(dst [][]byte, line []byte) [][]byte {
	for i := 0; ; {
		for i < len(line) && isSpace(line[i]) {
			i++
		}
		if i == len(line) {
			return dst
		}
		word, next := inlineWord(line, i)
		dst = append(dst, word)
		i = next
	}
}

// inlineWord returns the word that begins at line[i] and where it ends.
func inlineWord(line []byte, i int) (word []byte, next int) {
	for next = i; next < len(line); next++ {
		switch line[next] {
		case ' ', '\t', '\r', '\n':
			return line[i:next], next
		case '"', '\'':
			word = append(make([]byte, 0, len(line)-i), line[i:next]...)
			end := closingQuote(line, next)
			if end < 0 {
				end = len(line) - 1 // not reached for what Scan accepted
			}
			return appendUnquoted(word, line[next+1:end], line[next]), end + 1
		}
	}
	return line[i:], len(line)
}

// appendUnquoted appends the text that stood between two quotes to dst.
func appendUnquoted(dst, text []byte, quote byte) []byte {
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c != '\\' || i+1 == len(text):
		case quote == '\'':
			if text[i+1] == '\'' {
				i++
				c = '\''
			}
		case text[i+1] == 'x' && i+3 < len(text) && isHex(text[i+2]) && isHex(text[i+3]):
			c = hexValue(text[i+2])<<4 | hexValue(text[i+3])
			i += 3
		default:
			i++
			c = unescaped(text[i])
		}
		dst = append(dst, c)
	}
	return dst
}

func unescaped(c byte) byte {
	switch c {
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	case 'b':
		return '\b'
	case 'a':
		return '\a'
	default:
		return c
	}
}

func isSpace(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' }

func isHex(c byte) bool { return c-'0' <= 9 || (c|0x20)-'a' <= 5 }

func hexValue(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return (c | 0x20) - 'a' + 10
}
