package resp

import "math"

// parseInteger reads a whole number as Redis's string2ll does: no sign but '-',
// no leading zeros, no blanks, within int64.
func parseInteger(b []byte) (int64, bool) {
	const longest = 20 // "-9223372036854775808"
	if len(b) == 0 || len(b) > longest {
		return 0, false
	}
	if len(b) == 1 && b[0] == '0' {
		return 0, true
	}
	negative := b[0] == '-'
	if negative {
		b = b[1:]
	}
	if len(b) == 0 || b[0] < '1' || b[0] > '9' {
		return 0, false
	}
	var v uint64
	for _, c := range b {
		d := uint64(c - '0')
		if d > 9 || v > (math.MaxUint64-d)/10 {
			return 0, false
		}
		v = v*10 + d
	}
	if negative {
		return -int64(v), v <= 1<<63
	}
	return int64(v), v <= math.MaxInt64
}

// headerNumber reads the number of a header line byte by byte, so that a line
// cut in two needs no buffer. Its zero value is ready.
type headerNumber struct {
	value    int64
	digits   uint8
	negative bool
	streamed bool // '?' stands for the number
	bad      bool
}

// maxHeaderDigits keeps value far from overflow; every bound is smaller.
const maxHeaderDigits = 18

func (h *headerNumber) add(c byte) {
	d := c - '0'
	switch {
	case d <= 9:
		leadingZero := h.digits > 0 && h.value == 0
		if leadingZero || h.streamed || h.digits == maxHeaderDigits {
			h.bad = true
			return
		}
		h.value = h.value*10 + int64(d)
		h.digits++
	case c == '-' && h.digits == 0 && !h.negative && !h.streamed:
		h.negative = true
	case c == '?' && h.digits == 0 && !h.negative && !h.streamed:
		h.streamed = true
	default:
		h.bad = true
	}
}

// length is the number when it is a plain one, "0" or more.
func (h *headerNumber) length() (int64, bool) {
	return h.value, !h.bad && !h.negative && !h.streamed && h.digits > 0
}

// isNull reports "-1", which announces a null bulk or a null array.
func (h *headerNumber) isNull() bool {
	return !h.bad && h.negative && h.digits == 1 && h.value == 1
}
