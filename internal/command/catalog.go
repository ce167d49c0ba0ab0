package command

import (
	"encoding/binary"
	"strings"
)

const (
	// slotBits sizes the hash table: about four slots per command keep nearly every probe at one step.
	slotBits  = 10
	slotCount = 1 << slotBits
	// hashFactor is the golden ratio in 64 bits; its high product bits mix well.
	hashFactor = 0x9E3779B97F4A7C15
)

// index is the table made ready for use: rows linked to each other, and a hash table from name to command.
type index struct {
	all   []*Command
	slots [slotCount]slot // open addressing, linear probing; never full
}

// slot is one place of the hash table, free when it has no command.
type slot struct {
	packed  uint64
	length  int
	exact   bool // equal length and packed bytes are proof enough
	command *Command
}

// catalog is the one table of the program, immutable once built.
var catalog = buildIndex(rows[:])

// buildIndex links generated rows. A container's row comes before those of its subcommands.
func buildIndex(rows []Command) *index {
	x := &index{all: make([]*Command, len(rows))}
	var added []*Command
	for i := range rows {
		c := &rows[i]
		c.ID = i
		c.single = singleKey(c)
		x.all[i] = c
		container, _, isSub := strings.Cut(c.Name, "|")
		switch {
		case isSub:
			c.Parent = x.lookup([]byte(container))
			c.Parent.Subcommands = append(c.Parent.Subcommands, c)
		case c.Added:
			added = append(added, c)
		default:
			x.insert(c)
		}
	}
	// Rarely used: they come last, so that none takes the first slot of a common command.
	for _, c := range added {
		x.insert(c)
	}
	return x
}

func (x *index) insert(c *Command) {
	packed := pack([]byte(c.Name))
	at := hash(packed, len(c.Name))
	for x.slots[at].command != nil {
		at = (at + 1) % slotCount
	}
	x.slots[at] = slot{packed: packed, length: len(c.Name), exact: isExact(c.Name), command: c}
}

func (x *index) lookup(name []byte) *Command {
	if len(name) < 2 {
		return nil
	}
	packed := pack(name)
	for at := hash(packed, len(name)); ; at = (at + 1) % slotCount {
		s := &x.slots[at]
		if s.packed == packed && s.length == len(name) && (s.exact || equalFold(name, s.command.Name)) {
			return s.command
		}
		if s.command == nil {
			return nil
		}
	}
}

// lookupFull finds a command or, by "container|sub", a subcommand, as COMMAND INFO and COMMAND DOCS name them.
func (x *index) lookupFull(name []byte) *Command {
	container, sub, isSub := strings.Cut(string(name), "|")
	c := x.lookup([]byte(container))
	if c == nil || !isSub {
		return c
	}
	return c.subcommand([]byte(sub))
}

// pack puts up to eight bytes of a name into a word, letter case apart: all of a name of two to eight bytes, the first and
// last four of a longer one.
func pack(name []byte) uint64 {
	const lower = 0x2020202020202020
	n := len(name)
	switch {
	case n >= 4:
		first, last := binary.LittleEndian.Uint32(name), binary.LittleEndian.Uint32(name[n-4:])
		return uint64(first) | uint64(last)<<32 | lower
	default:
		return uint64(binary.LittleEndian.Uint16(name)) | uint64(name[n-1])<<16 | lower
	}
}

func hash(packed uint64, length int) uint64 {
	return (packed + uint64(length)) * hashFactor >> (64 - slotBits)
}

// isExact tells of the names that pack keeps whole: short, and with letters alone. Only a letter in either case becomes a
// lower-case letter when packed, but other bytes have a second one that packs alike.
func isExact(name string) bool {
	return len(name) <= 8 && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz") == ""
}

// equalFold compares b with a lower-case word, ASCII letters in any case: exactly Redis's rule.
func equalFold(b []byte, lower string) bool {
	if len(b) != len(lower) {
		return false
	}
	for i, ch := range b {
		if ch-'A' < 26 {
			ch |= 0x20
		}
		if ch != lower[i] {
			return false
		}
	}
	return true
}
