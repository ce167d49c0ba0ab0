package route

import (
	"github.com/tidwall/redcon"

	"github.com/sluiceproxy/sluice/pkg/resp"
)

// MergeUnion answers with every element of the arrays once, in the order of the replies.
func MergeUnion(dst []byte, replies [][]byte) []byte {
	if e := FirstError(replies); e != nil {
		return append(dst, e...)
	}
	seen := make(map[string]struct{})
	var all []byte
	for _, r := range replies {
		elements, ok := elementsOf(r)
		if !ok {
			return append(dst, badPart...)
		}
		for _, e := range elements {
			if _, known := seen[string(e)]; !known {
				seen[string(e)] = struct{}{}
				all = append(all, e...)
			}
		}
	}
	dst = redcon.AppendArray(dst, len(seen))
	return append(dst, all...)
}

// MergeTotals adds up lists of names and numbers, which name the same in the same order, and answers with what total
// makes of the i-th sum.
func MergeTotals(total func(i int, sum int64) int64) Merge {
	return func(dst []byte, replies [][]byte) []byte {
		if e := FirstError(replies); e != nil {
			return append(dst, e...)
		}
		var names [][]byte
		var sums []int64
		for _, r := range replies {
			elements, ok := elementsOf(r)
			if !ok || len(elements)%2 != 0 || names != nil && len(elements) != 2*len(names) {
				return append(dst, badPart...)
			}
			if names == nil {
				names, sums = make([][]byte, len(elements)/2), make([]int64, len(elements)/2)
			}
			for i := range names {
				n, ok := resp.IntReply(elements[2*i+1])
				if !ok {
					return append(dst, badPart...)
				}
				names[i] = elements[2*i]
				sums[i] += n
			}
		}
		dst = redcon.AppendArray(dst, 2*len(names))
		for i, name := range names {
			dst = redcon.AppendInt(append(dst, name...), total(i, sums[i]))
		}
		return dst
	}
}

// MergeTotal answers with what total makes of the sum of integers.
func MergeTotal(total func(sum int64) int64) Merge {
	return func(dst []byte, replies [][]byte) []byte {
		merged := MergeSum(nil, replies)
		if sum, ok := resp.IntReply(merged); ok {
			return redcon.AppendInt(dst, total(sum))
		}
		return append(dst, merged...)
	}
}

// elementsOf cuts an array into its elements.
func elementsOf(reply []byte) (elements [][]byte, ok bool) {
	count, n, ok := resp.ArrayHeader(reply)
	if !ok {
		return nil, false
	}
	for rest := reply[n:]; count > 0; count-- {
		length, err := resp.ReplyLen(rest)
		if err != nil || length == 0 {
			return nil, false
		}
		elements = append(elements, rest[:length])
		rest = rest[length:]
	}
	return elements, true
}
