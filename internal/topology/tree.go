package topology

import (
	"math"
	"strconv"
)

// The parsers read what go-redis decodes: []any, map[any]any, string, int64 and
// nil. RESP2 has flat lists of names and values where RESP3 has maps.

// lookup is the value under name in a RESP3 map or a RESP2 list; nil if none.
func lookup(record any, name string) any {
	switch r := record.(type) {
	case map[any]any:
		return r[name]
	case []any:
		for i := 0; i+1 < len(r); i += 2 {
			if key, ok := r[i].(string); ok && key == name {
				return r[i+1]
			}
		}
	}
	return nil
}

// text is a string, empty for nil and for all else.
func text(v any) string {
	s, _ := v.(string)
	return s
}

// integer accepts a number written as a string too.
func integer(v any) (int, bool) {
	switch n := v.(type) {
	case int64:
		return int(n), n >= math.MinInt32 && n <= math.MaxInt32
	case string:
		i, err := strconv.ParseInt(n, 10, 32)
		return int(i), err == nil
	}
	return 0, false
}

// slotRange reads two bounds, both included.
func slotRange(first, last any) (Range, bool) {
	low, okLow := integer(first)
	high, okHigh := integer(last)
	if !okLow || !okHigh || low < 0 || high < low || high >= SlotCount {
		return Range{}, false
	}
	return Range{uint16(low), uint16(high)}, true
}
