package route

import "fmt"

// Merge makes one reply of those of all parts, in the order of the parts. It sees errors too; FirstError finds them.
type Merge func(dst []byte, replies [][]byte) []byte

// FanOut is one command for several shards, each named by a slot that it serves. The replies together may have limit
// bytes, 0 means no limit; what is longer is answered with an error, so that no keyspace is too large for the proxy.
func FanOut(request []byte, slots []int32, limit int, merge Merge) *Gather {
	parts := make([]Part, len(slots))
	for i, at := range slots {
		parts[i] = Part{Slot: at, Request: request}
	}
	return Ask(parts, limit, merge)
}

// Ask is FanOut with a request for each part.
func Ask(parts []Part, limit int, merge Merge) *Gather {
	return &Gather{Parts: parts, merge: mergeJoin, join: merge, waiting: len(parts), limit: limit}
}

// FirstError is the first error among replies, nil if there is none.
func FirstError(replies [][]byte) []byte {
	for _, r := range replies {
		if len(r) > 0 && (r[0] == '-' || r[0] == '!') {
			return r
		}
	}
	return nil
}

// Held is how many bytes of replies are kept.
func (g *Gather) Held() int64 {
	if !g.keeps() {
		return 0
	}
	return int64(g.size)
}

// Refuse forgets the replies; the command's answer is the error.
func (g *Gather) Refuse(reply []byte) {
	g.refusal = reply
	g.release()
}

// keeps reports whether replies are kept, which those that are too long together are not.
func (g *Gather) keeps() bool { return g.refusal == nil && (g.limit == 0 || g.size <= g.limit) }

// release forgets replies that are together too long.
func (g *Gather) release() {
	for i := range g.Parts {
		g.Parts[i].reply = nil
	}
}

func (g *Gather) appendJoined(dst []byte) []byte {
	if g.limit > 0 && g.size > g.limit {
		return fmt.Appendf(dst, "-ERR the reply of all shards together is longer than %d bytes; ask for less at a time, as SCAN does\r\n", g.limit)
	}
	return g.join(dst, g.replies())
}

func (g *Gather) replies() [][]byte {
	replies := make([][]byte, len(g.Parts))
	for i := range g.Parts {
		replies[i] = g.Parts[i].reply
	}
	return replies
}

// MergeSum answers with the sum of integers.
func MergeSum(dst []byte, replies [][]byte) []byte {
	if e := FirstError(replies); e != nil {
		return append(dst, e...)
	}
	return appendSum(dst, replies)
}

// MergeFirst answers with the first error, or else with the first reply: for commands that all shards answer alike.
func MergeFirst(dst []byte, replies [][]byte) []byte {
	if e := FirstError(replies); e != nil {
		return append(dst, e...)
	}
	return append(dst, replies[0]...)
}

// MergeBad answers for replies that are not what the command's are.
func MergeBad(dst []byte) []byte { return append(dst, badPart...) }
