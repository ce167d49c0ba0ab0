package command

// MatchGlob reports whether a text, such as a channel's name, matches a pattern as Redis compares them.
func MatchGlob(pattern string, text []byte) bool { return glob[string, []byte](pattern, text, asIs) }

// GlobFold is MatchGlob with case ignored.
func GlobFold(pattern []byte, text string) bool { return globMatch(pattern, text) }

// globMatch is MatchGlob with case ignored.
func globMatch(pattern []byte, text string) bool {
	return glob[[]byte, string](pattern, text, lowerASCII)
}

func asIs(ch byte) byte { return ch }

// bytestring is text in either of its forms.
type bytestring interface{ string | []byte }

// glob is Redis's: * ? [a-z] [^a] and backslash. It needs time proportional to the product of both lengths at most,
// whatever the pattern: only the last star is ever tried again. fold makes equal what is compared as equal.
func glob[P, T bytestring](pattern P, text T, fold func(byte) byte) bool {
	var retry P // what follows the last star
	starred := false
	retryAt, at := 0, 0
	for at < len(text) {
		if len(pattern) > 0 && pattern[0] == '*' {
			pattern = pattern[1:]
			retry, retryAt, starred = pattern, at, true
			if len(pattern) == 0 {
				return true
			}
			continue
		}
		if rest, ok := matchOne(pattern, text[at], fold); ok {
			pattern = rest
			at++
			continue
		}
		if !starred {
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
func matchOne[P bytestring](pattern P, ch byte, fold func(byte) byte) (rest P, ok bool) {
	if len(pattern) == 0 {
		return pattern, false
	}
	switch {
	case pattern[0] == '?':
		return pattern[1:], true
	case pattern[0] == '[':
		return matchSet(pattern[1:], ch, fold)
	case pattern[0] == '\\' && len(pattern) > 1:
		pattern = pattern[1:]
	}
	return pattern[1:], fold(pattern[0]) == fold(ch)
}

// matchSet matches one character with a bracketed set; a set that is not closed ends with the pattern.
func matchSet[P bytestring](set P, ch byte, fold func(byte) byte) (rest P, ok bool) {
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
			ok = ok || fold(low) <= fold(ch) && fold(ch) <= fold(high)
			set = set[3:]
		default:
			ok = ok || fold(set[0]) == fold(ch)
			set = set[1:]
		}
	}
	if len(set) > 0 {
		set = set[1:]
	}
	return set, ok != negated
}
