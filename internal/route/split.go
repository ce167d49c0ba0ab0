package route

import (
	"bytes"

	"github.com/tidwall/redcon"

	"github.com/sluiceproxy/sluice/internal/command"
	"github.com/sluiceproxy/sluice/pkg/resp"
	"github.com/sluiceproxy/sluice/pkg/slot"
)

// Part is the share of a split command that lies in one slot.
type Part struct {
	Slot int32
	// Request is the command for this slot, in RESP.
	Request []byte
	// keys are the positions that the part's keys have among all keys of the command.
	keys  []int
	reply []byte
	// Reduce, if there is one, makes what the merge needs of the part's whole reply, so that the rest is not kept.
	Reduce func(reply []byte) []byte
}

// Gather is a split command: its parts and, as they come, their replies. Redis Cluster takes a command only for keys of
// one slot, also when one node has several, so there is one part per slot.
type Gather struct {
	Parts   []Part
	merge   merge
	keys    int
	waiting int
	join    Merge    // mergeJoin
	limit   int      // of the bytes of all replies; 0: none
	refusal []byte   // the answer instead of what has come; nil: none
	line    [][]byte // the client\'s command line, when the parts are other commands
	size    int
}

type merge uint8

const (
	mergeArray merge = iota // MGET: the elements in the order of the keys
	mergeSum                // DEL UNLINK EXISTS TOUCH: the sum
	mergeOK                 // MSET: OK
	mergeJoin               // FanOut: as its Merge does
)

// SplitCommand divides a command whose keys are at positions by slot. The parts keep the order of the keys.
func SplitCommand(cmd *command.Command, args [][]byte, positions []int) *Gather {
	g := &Gather{merge: mergeOf(cmd.Name), keys: len(positions)}
	width := 1
	if g.merge == mergeOK {
		width = 2 // MSET: a value follows each key
	}
	if (len(args)-1)%width != 0 {
		positions = positions[:1] // the last value is missing: the command with its first key alone gets Redis's error for it
		args, width = args[:positions[0]+1], 1
	}
	index := make(map[uint16]int)
	for k, position := range positions {
		s := slot.Of(args[position])
		i, known := index[s]
		if !known {
			i = len(g.Parts)
			index[s] = i
			g.Parts = append(g.Parts, Part{Slot: int32(s)})
		}
		g.Parts[i].keys = append(g.Parts[i].keys, k)
	}
	for i := range g.Parts {
		g.Parts[i].encode(args, positions, width)
	}
	g.waiting = len(g.Parts)
	return g
}

func mergeOf(name string) merge {
	switch name {
	case "mget":
		return mergeArray
	case "mset":
		return mergeOK
	default:
		return mergeSum
	}
}

func (p *Part) encode(args [][]byte, positions []int, width int) {
	b := redcon.AppendArray(nil, 1+len(p.keys)*width)
	b = redcon.AppendBulk(b, args[0])
	for _, k := range p.keys {
		for i := range width {
			b = redcon.AppendBulk(b, args[positions[k]+i])
		}
	}
	p.Request = b
}

// Add takes bytes of the reply to one part; last ends it. done tells that all parts have been answered.
func (g *Gather) Add(part int, reply []byte, last bool) (done bool) {
	p := &g.Parts[part]
	if g.size += len(reply); g.keeps() {
		p.reply = append(p.reply, reply...)
	} else {
		g.release()
	}
	if last {
		if p.Reduce != nil && p.reply != nil {
			g.size -= len(p.reply)
			p.reply = p.Reduce(p.reply)
			g.size += len(p.reply)
		}
		g.waiting--
	}
	return g.waiting == 0
}

// Fail answers a part with an error, also when the beginning of its reply has come: that is dropped, because an error
// glued to it could pass as the rest of a value.
func (g *Gather) Fail(part int, reply []byte) (done bool) {
	g.Parts[part].reply = g.Parts[part].reply[:0]
	return g.Add(part, reply, true)
}

// AppendReply appends the merged reply. The first error in the order of the keys is the answer to all.
func (g *Gather) AppendReply(dst []byte) []byte {
	if g.refusal != nil {
		return append(dst, g.refusal...)
	}
	if g.merge == mergeJoin {
		return g.appendJoined(dst)
	}
	for i := range g.Parts {
		if r := g.Parts[i].reply; len(r) > 0 && (r[0] == '-' || r[0] == '!') {
			return append(dst, r...)
		}
	}
	switch g.merge {
	case mergeArray:
		return g.appendElements(dst)
	case mergeSum:
		return appendSum(dst, g.replies())
	default:
		return g.appendOK(dst)
	}
}

var badPart = []byte("-ERR a node sent an unexpected reply to a part of a split command\r\n") //nolint:gochecknoglobals // constant

func (g *Gather) appendOK(dst []byte) []byte {
	for i := range g.Parts {
		if r := g.Parts[i].reply; len(r) == 0 || r[0] != '+' {
			return append(dst, badPart...)
		}
	}
	return append(dst, g.Parts[0].reply...)
}

func appendSum(dst []byte, replies [][]byte) []byte {
	var sum int64
	for _, r := range replies {
		v, ok := resp.IntReply(r)
		if !ok {
			return append(dst, badPart...)
		}
		sum += v
	}
	return redcon.AppendInt(dst, sum)
}

// appendElements puts the elements of the parts' arrays, as the nodes sent them, into the order of the keys.
func (g *Gather) appendElements(dst []byte) []byte {
	elements := make([][]byte, g.keys)
	for i := range g.Parts {
		p := &g.Parts[i]
		count, n, ok := resp.ArrayHeader(p.reply)
		if !ok || count != len(p.keys) {
			return append(dst, badPart...)
		}
		rest := p.reply[n:]
		for _, k := range p.keys {
			length, err := resp.ReplyLen(rest)
			if err != nil || length == 0 {
				return append(dst, badPart...)
			}
			elements[k], rest = rest[:length], rest[length:]
		}
	}
	dst = redcon.AppendArray(dst, g.keys)
	return append(dst, bytes.Join(elements, nil)...)
}
