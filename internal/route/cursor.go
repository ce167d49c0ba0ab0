package route

import (
	"hash/fnv"
	"math/bits"
	"strconv"
)

// Cursor is a place in a walk over the keys of a whole cluster, see docs/adr/0009. The client keeps it, as the number that
// SCAN's cursor is: the proxy has no state of a walk, and any proxy of the same cluster can go on with it.
//
// From the lowest bit on the number holds the node's own cursor, whether the pass is a repeated one, the place of the node
// among all by id, a check of which nodes these are, and a fingerprint of who had which slots when the pass began. The
// highest bit is never set, for clients that read cursors as signed numbers.
type Cursor struct {
	// Node is the node's own cursor. Redis's is below the size of the node's hash table; where a node has a table for each
	// slot (Redis 8, Valkey 8) the lower 14 bits are the slot.
	Node uint64
	// Repeated tells that the pass before this one saw the same fingerprint.
	Repeated bool
	// Rank is which node is walked; one behind the last: the pass is to be judged.
	Rank int
	// Owners is the fingerprint, never 0, so that the number of a walk that goes on is never 0 either.
	Owners uint64
}

const (
	cursorBits  = 63
	nodeBits    = 38
	membersBits = 6
)

// rankBits is how many bits a rank needs that may be one behind the last of n nodes.
func rankBits(n int) int { return bits.Len(uint(n)) }

func ownersBits(n int) int { return cursorBits - nodeBits - 1 - membersBits - rankBits(n) }

// members is a check of which nodes there are.
func members(ids []string) uint64 {
	h := fnv.New64a()
	for _, id := range ids {
		_, _ = h.Write([]byte(id))
		_, _ = h.Write([]byte{'\n'})
	}
	return fold(h.Sum64(), membersBits)
}

// fold makes a hash as short as its place.
func fold(hash uint64, width int) uint64 {
	short := uint64(0)
	for ; hash > 0; hash >>= width {
		short ^= hash & (1<<width - 1)
	}
	return short
}

// Encode is the cursor's number in a walk over the nodes with these ids. ok is false if the node's own cursor is larger
// than any that is known of servers.
func (c Cursor) Encode(ids []string) (number uint64, ok bool) {
	if c.Node >= 1<<nodeBits {
		return 0, false
	}
	number = c.shortOwners(len(ids))
	number = number<<membersBits | members(ids)
	number = number<<rankBits(len(ids)) | uint64(c.Rank)
	number <<= 1
	if c.Repeated {
		number |= 1
	}
	return number<<nodeBits | c.Node, true
}

// shortOwners is the fingerprint as short as its place in the number, which is not 0 either.
func (c Cursor) shortOwners(n int) uint64 {
	return max(fold(c.Owners, ownersBits(n)), 1)
}

// DecodeCursor reads a number that Encode made. ok is false if it was made for other nodes, or is none of Encode's: the
// walk begins anew then.
func DecodeCursor(number uint64, ids []string) (c Cursor, ok bool) {
	c.Node = number & (1<<nodeBits - 1)
	number >>= nodeBits
	c.Repeated = number&1 == 1
	number >>= 1
	c.Rank = int(number & (1<<rankBits(len(ids)) - 1))
	number >>= rankBits(len(ids))
	check := number & (1<<membersBits - 1)
	c.Owners = number >> membersBits
	ok = check == members(ids) && c.Rank <= len(ids) && c.Owners > 0 && c.Owners < 1<<ownersBits(len(ids))
	return c, ok
}

// SameOwners reports whether the fingerprint is that of the cursor, as far as a cursor tells.
func (c Cursor) SameOwners(owners uint64, ids []string) bool {
	return Cursor{Owners: owners}.shortOwners(len(ids)) == c.shortOwners(len(ids))
}

// ParseCursor reads what a client gives as cursor, as leniently as Redis does, which leaves it to strtoul.
func ParseCursor(arg []byte) (number uint64, ok bool) {
	if len(arg) == 0 {
		return 0, true
	}
	digits, negative := arg, false
	if arg[0] == '-' || arg[0] == '+' {
		digits, negative = arg[1:], arg[0] == '-'
	}
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, false
		}
	}
	number, err := strconv.ParseUint(string(digits), 10, 64)
	if negative {
		number = -number
	}
	return number, err == nil
}
