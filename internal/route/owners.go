package route

import (
	"bytes"
	"hash/fnv"
	"slices"
	"strings"
)

// What a walk must know of the cluster it learns from CLUSTER NODES, the only command that tells slots in motion, and
// config epochs. See docs/adr/0009.

// The fields of a line of CLUSTER NODES that count here; slots follow the last.
const (
	nodesID    = 0
	nodesFlags = 2
	nodesEpoch = 6
	nodesSlots = 8
)

// NodesAsKnown reduces a node's reply to CLUSTER NODES to what it says of all primaries: "id epoch slots…" in each line.
func NodesAsKnown(reply []byte) []byte {
	return reduceNodes(reply, func(dst []byte, fields []string, _ bool) []byte {
		return appendOwner(dst, fields)
	})
}

// NodesAsSeen reduces a node's reply to CLUSTER NODES to what it says of itself, "= id epoch slots…", which other primaries
// it knows to have slots, "+ id", and where it gets keys from or sends them to, "~ id".
func NodesAsSeen(reply []byte) []byte {
	return reduceNodes(reply, func(dst []byte, fields []string, myself bool) []byte {
		if !myself {
			if len(fields) > nodesSlots {
				dst = append(append(append(dst, "+ "...), fields[nodesID]...), '\n')
			}
			return dst
		}
		for _, field := range fields[nodesSlots:] {
			if other, moves := partner(field); moves {
				dst = append(append(append(dst, "~ "...), other...), '\n')
			}
		}
		return appendOwner(append(dst, "= "...), fields)
	})
}

// partner reads a slot in motion, "[93->-id]" or "[93-<-id]".
func partner(field string) (id string, moves bool) {
	if !strings.HasPrefix(field, "[") {
		return "", false
	}
	return strings.TrimSuffix(field[strings.LastIndexByte(field, '-')+1:], "]"), true
}

func appendOwner(dst []byte, fields []string) []byte {
	dst = append(dst, fields[nodesID]...)
	dst = append(append(dst, ' '), fields[nodesEpoch]...)
	for _, field := range fields[nodesSlots:] {
		if _, moves := partner(field); !moves {
			dst = append(append(dst, ' '), field...)
		}
	}
	return append(dst, '\n')
}

// reduceNodes calls keep for the line of each primary. An error is kept as it is; what is no text becomes one.
func reduceNodes(reply []byte, keep func(dst []byte, fields []string, myself bool) []byte) []byte {
	if FirstError([][]byte{reply}) != nil {
		return reply
	}
	text, ok := Text(reply)
	if !ok {
		return badShard
	}
	var kept []byte
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) < nodesSlots {
			continue
		}
		if flags := strings.Split(fields[nodesFlags], ","); slices.Contains(flags, "master") {
			kept = keep(kept, fields, slices.Contains(flags, "myself"))
		}
	}
	return kept
}

// Text is what is in a bulk or verbatim string.
func Text(reply []byte) (text []byte, ok bool) {
	end := bytes.Index(reply, []byte("\r\n"))
	if end < 2 || reply[0] != '$' && reply[0] != '=' || reply[1] == '-' {
		return nil, false
	}
	text = bytes.TrimSuffix(reply[end+2:], []byte("\r\n"))
	if reply[0] == '=' {
		_, text, ok = bytes.Cut(text, []byte(":"))
		return text, ok
	}
	return text, true
}

// OwnersKnown is the fingerprint of the nodes with these ids, as one of them knows all in NodesAsKnown.
func OwnersKnown(known []byte, ids []string) uint64 {
	var lines []string
	for line := range strings.Lines(string(known)) {
		id, _, _ := strings.Cut(line, " ")
		if slices.Contains(ids, id) {
			lines = append(lines, line)
		}
	}
	return fingerprint(lines)
}

func fingerprint(lines []string) uint64 {
	slices.Sort(lines)
	h := fnv.New64a()
	for _, line := range lines {
		_, _ = h.Write([]byte(line))
	}
	return h.Sum64()
}

// Seen is what the primaries with slots, each asked itself, say in NodesAsSeen.
type Seen struct {
	Owners uint64
	// Moving tells that keys of some slot may be on two nodes.
	Moving bool
	// Strangers tells that there are primaries with keys that were not asked, or that one which was is no primary any more.
	Strangers bool
}

// OwnersSeen puts together what the nodes with these ids say.
func OwnersSeen(seen [][]byte, ids []string) Seen {
	var all Seen
	var lines []string
	for i, text := range seen {
		itself := false
		for line := range strings.Lines(string(text)) {
			what, id := line[:1], strings.TrimSpace(line[2:])
			switch what {
			case "=":
				lines = append(lines, line[2:])
				itself = strings.HasPrefix(line[2:], ids[i]+" ")
			case "~":
				all.Moving = true
				fallthrough
			default:
				all.Strangers = all.Strangers || !slices.Contains(ids, id)
			}
		}
		all.Strangers = all.Strangers || !itself
	}
	all.Owners = fingerprint(lines)
	return all
}
