package command

// globMatch is Redis's glob with case ignored: * ? [a-z] [^a] and backslash. It needs time proportional to the product
// of both lengths at most, whatever the pattern: only the last star is ever tried again.
func globMatch(pattern []byte, text string) bool {
	var retry []byte // what follows the last star, nil before there was one
	retryAt, at := 0, 0
	for at < len(text) {
		if len(pattern) > 0 && pattern[0] == '*' {
			pattern = pattern[1:]
			retry, retryAt = pattern, at
			if len(pattern) == 0 {
				return true
			}
			continue
		}
		if rest, ok := matchOne(pattern, text[at]); ok {
			pattern = rest
			at++
			continue
		}
		if retry == nil {
			return false
		}
		retryAt++
		pattern, at = retry, retryAt
	}
	for len(pattern) > 0 && pattern[0] == '*' {
		pattern = pattern[1:]
	}
	return len(pattern) == 0
}

// matchOne matches one character with the pattern's first element and gives the rest of the pattern.
func matchOne(pattern []byte, ch byte) (rest []byte, ok bool) {
	if len(pattern) == 0 {
		return nil, false
	}
	switch {
	case pattern[0] == '?':
		return pattern[1:], true
	case pattern[0] == '[':
		return matchSet(pattern[1:], ch)
	case pattern[0] == '\\' && len(pattern) > 1:
		pattern = pattern[1:]
	}
	return pattern[1:], lowerASCII(pattern[0]) == lowerASCII(ch)
}

// matchSet matches one character with a bracketed set; a set that is not closed ends with the pattern.
func matchSet(set []byte, ch byte) (rest []byte, ok bool) {
	negated := len(set) > 0 && set[0] == '^'
	if negated {
		set = set[1:]
	}
	for len(set) > 0 && set[0] != ']' {
		switch {
		case set[0] == '\\' && len(set) > 1:
			ok = ok || set[1] == ch // an escaped character of a set keeps its case in Redis
			set = set[2:]
		case len(set) > 2 && set[1] == '-':
			low, high := set[0], set[2]
			if low > high {
				low, high = high, low
			}
			ok = ok || lowerASCII(low) <= lowerASCII(ch) && lowerASCII(ch) <= lowerASCII(high)
			set = set[3:]
		default:
			ok = ok || lowerASCII(set[0]) == lowerASCII(ch)
			set = set[1:]
		}
	}
	if len(set) > 0 {
		set = set[1:]
	}
	return set, ok != negated
}
