package command

import "math"

// handFinder names the code that finds keys which specs cannot describe, or that tells a key's flags from the options.
type handFinder uint8

const (
	handNone handFinder = iota
	handSet
	handBitfield
	handSort
	handSortRO
	handMigrate
	handGeoRadius
	handKeyCount
)

// collectByHand is Redis's fallback for lines that the key specs do not fit.
func (c *Command) collectByHand(list *keyList, args [][]byte) {
	switch c.byHand {
	case handSort:
		list.sort(args)
	case handSortRO:
		list.add(1, KeyRO|KeyAccess)
	case handMigrate:
		list.migrate(args)
	case handGeoRadius:
		list.geoRadius(args)
	case handKeyCount:
		c.collectCounted(list, args)
	}
}

// variableFlags tells whether SET also reads (GET) and whether BITFIELD only reads.
func (h handFinder) variableFlags(args [][]byte) KeyFlags {
	if h == handBitfield {
		if bitfieldReadsOnly(args) {
			return KeyRO | KeyAccess
		}
		return KeyRW | KeyAccess | KeyUpdate
	}
	for i := 3; i < len(args); i++ {
		if equalFold(args[i], "get") {
			return KeyRW | KeyAccess | KeyUpdate
		}
	}
	return KeyOW | KeyUpdate
}

func bitfieldReadsOnly(args [][]byte) bool {
	for i := 2; i < len(args); i++ {
		left := len(args) - i - 1
		switch {
		case left >= 2 && equalFold(args[i], "get"):
			i += 2
		case left >= 3 && (equalFold(args[i], "set") || equalFold(args[i], "incrby")):
			return false
		case left >= 1 && equalFold(args[i], "overflow"):
			i++
		default:
			return false // a syntax error: assume the worst, as Redis does
		}
	}
	return true
}

// sort finds the last STORE that is no operand of another option.
func (l *keyList) sort(args [][]byte) {
	l.add(1, KeyRO|KeyAccess)
	store := 0
	for i := 2; i < len(args); i++ {
		switch {
		case equalFold(args[i], "limit"):
			i += 2
		case equalFold(args[i], "get"), equalFold(args[i], "by"):
			i++
		case equalFold(args[i], "store") && i+1 < len(args):
			// The operand is looked at again as an option, as Redis does.
			store = i + 1
		}
	}
	if store > 0 {
		l.add(store, KeyOW|KeyUpdate)
	}
}

// migrate takes the one key of the plain form, or all that follows KEYS, which asks for an empty key before.
func (l *keyList) migrate(args [][]byte) {
	const flags = KeyRW | KeyAccess | KeyDelete
	for i := 6; i < len(args); i++ {
		switch {
		case equalFold(args[i], "auth"):
			i++
		case equalFold(args[i], "auth2"):
			i += 2
		case equalFold(args[i], "keys"):
			if len(args[3]) > 0 {
				return // a syntax error
			}
			for at := i + 1; at < len(args); at++ {
				l.add(at, flags)
			}
			return
		}
	}
	l.add(3, flags)
}

// geoRadius takes the last STORE or STOREDIST that has an operand.
func (l *keyList) geoRadius(args [][]byte) {
	l.add(1, 0)
	store := 0
	for i := 5; i+1 < len(args); i++ {
		if equalFold(args[i], "store") || equalFold(args[i], "storedist") {
			i++
			store = i
		}
	}
	if store > 0 {
		l.add(store, 0)
	}
}

// collectCounted reads the count of keys more loosely than the spec does, as the older finder in Redis.
func (c *Command) collectCounted(list *keyList, args [][]byte) {
	destination := 0
	for i := range c.KeySpecs {
		spec := &c.KeySpecs[i]
		if spec.Find != FindKeyNum {
			destination = spec.Index
			continue
		}
		first := spec.Index + spec.FirstKey
		if first > len(args) {
			return
		}
		count := looseInteger(args[spec.Index+spec.CountAt])
		if count < 1 || count > (len(args)-first)/spec.KeyStep {
			return
		}
		for n := range count {
			list.add(first+n*spec.KeyStep, 0)
		}
		if destination > 0 {
			list.add(destination, 0)
		}
	}
}

// looseInteger reads leading digits as C's atoi does: blanks and a sign may come before, anything after.
func looseInteger(b []byte) int {
	i := 0
	for i < len(b) && (b[i] == ' ' || b[i]-'\t' < 5) {
		i++
	}
	negative := i < len(b) && b[i] == '-'
	if i < len(b) && (b[i] == '-' || b[i] == '+') {
		i++
	}
	v := int64(0)
	for ; i < len(b) && b[i]-'0' < 10; i++ {
		digit := int64(b[i] - '0')
		if v > (math.MaxInt64-digit)/10 {
			return 0 // atoi gives -1 or 0 here: no key either way
		}
		v = v*10 + digit
	}
	if negative {
		v = -v
	}
	return int(int32(v))
}
