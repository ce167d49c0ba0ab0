package command

// KeySpec tells where some of a command's keys are: first how to find the place, then how many keys follow and how far
// apart. See https://redis.io/docs/latest/develop/reference/key-specs/.
type KeySpec struct {
	Flags KeyFlags
	Notes string

	// Begin says how the first argument of interest is found, and with that which of the next three count.
	Begin     BeginSearch
	Index     int
	Keyword   string
	StartFrom int

	// Find says how the keys follow from there, and with that which of the fields below count.
	Find     FindKeys
	KeyStep  int
	LastKey  int
	Limit    int
	CountAt  int // where the count of keys is, relative to the first argument of interest
	FirstKey int // where the first key is, relative to the same
}

// BeginSearch is a way to find the first argument of interest.
type BeginSearch uint8

// The ways to begin.
const (
	// BeginUnknown cannot be described; keys are found by hand.
	BeginUnknown BeginSearch = iota
	// BeginIndex is a fixed position.
	BeginIndex
	// BeginKeyword is the argument after a keyword, searched from StartFrom on, backwards when that is negative.
	BeginKeyword
)

// FindKeys is a way to find the keys from the first argument of interest on.
type FindKeys uint8

// The ways to find keys.
const (
	// FindUnknown cannot be described; keys are found by hand.
	FindUnknown FindKeys = iota
	// FindRange takes keys up to LastKey, which counts from the end of the line when negative.
	FindRange
	// FindKeyNum reads how many keys there are from an argument.
	FindKeyNum
)

// begin is the position of the first argument of interest, 0 when the keyword is not there; ok is false when the
// spec cannot tell.
func (s *KeySpec) begin(args [][]byte) (first int, ok bool) {
	switch s.Begin {
	case BeginIndex:
		return s.Index, true
	case BeginKeyword:
		return s.findKeyword(args), true
	default:
		return 0, false
	}
}

func (s *KeySpec) findKeyword(args [][]byte) int {
	at, end, step := s.StartFrom, len(args)-1, 1
	if s.StartFrom < 0 {
		at, end = len(args)+s.StartFrom, 1
	}
	if at > end {
		step = -1
	}
	// As in Redis, the argument at end itself is not looked at: nothing could follow it.
	for ; at != end && at >= 1 && at < len(args); at += step {
		if equalFoldAny(args[at], s.Keyword) {
			return at + 1
		}
	}
	return 0
}

// span gives the first and the last key position when the first argument of interest is at begin. ok is false when the
// arguments do not fit.
func (s *KeySpec) span(begin int, args [][]byte) (first, last int, ok bool) {
	switch s.Find {
	case FindRange:
		first, last = begin, s.lastOfRange(begin, len(args))
	case FindKeyNum:
		if begin+s.CountAt >= len(args) {
			return 0, 0, false
		}
		count, valid := parseInteger(args[begin+s.CountAt])
		if !valid || count < 0 {
			return 0, 0, false
		}
		first = begin + s.FirstKey
		// Redis narrows the count to 32 bits, and so does this: what it says of absurd counts is kept.
		last = first + (int(int32(count))-1)*s.KeyStep
	default:
		return 0, 0, false
	}
	return first, last, first < len(args) && last < len(args) && last >= first
}

func (s *KeySpec) lastOfRange(first, argc int) int {
	switch {
	case s.LastKey >= 0:
		return first + s.LastKey
	case s.Limit == 0:
		return argc + s.LastKey
	default:
		return first + (argc-first)/s.Limit + s.LastKey
	}
}

// equalFoldAny compares b with a word of any case, ASCII letters alike.
func equalFoldAny(b []byte, word string) bool {
	if len(b) != len(word) {
		return false
	}
	for i, ch := range b {
		if lowerASCII(ch) != lowerASCII(word[i]) {
			return false
		}
	}
	return true
}

func lowerASCII(ch byte) byte {
	if ch-'A' < 26 {
		return ch | 0x20
	}
	return ch
}
