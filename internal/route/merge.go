package route

import (
	"bytes"
	"slices"

	"github.com/tidwall/redcon"

	"github.com/sluiceproxy/sluice/pkg/resp"
)

// badShard answers when a shard's reply is not what the command's reply is.
var badShard = []byte("-ERR a node sent an unexpected reply to its part of a command for all shards\r\n") //nolint:gochecknoglobals // constant

// MergeOK answers with OK when every shard has.
func MergeOK(dst []byte, replies [][]byte) []byte {
	if e := FirstError(replies); e != nil {
		return append(dst, e...)
	}
	for _, r := range replies {
		if len(r) == 0 || r[0] != '+' {
			return append(dst, badShard...)
		}
	}
	return append(dst, replies[0]...)
}

// MergeLeast answers with the least of integers.
func MergeLeast(dst []byte, replies [][]byte) []byte {
	if e := FirstError(replies); e != nil {
		return append(dst, e...)
	}
	var least int64
	for i, r := range replies {
		v, ok := resp.IntReply(r)
		if !ok {
			return append(dst, badShard...)
		}
		if i == 0 || v < least {
			least = v
		}
	}
	return redcon.AppendInt(dst, least)
}

// MergeLeastEach answers arrays of as many integers with the least of each place.
func MergeLeastEach(dst []byte, replies [][]byte) []byte {
	if e := FirstError(replies); e != nil {
		return append(dst, e...)
	}
	var least []int64
	for i, r := range replies {
		values, ok := integers(r)
		if !ok || i > 0 && len(values) != len(least) {
			return append(dst, badShard...)
		}
		if i == 0 {
			least = values
			continue
		}
		for k, v := range values {
			least[k] = min(least[k], v)
		}
	}
	dst = redcon.AppendArray(dst, len(least))
	for _, v := range least {
		dst = redcon.AppendInt(dst, v)
	}
	return dst
}

// integers reads an array of integers.
func integers(reply []byte) (values []int64, ok bool) {
	count, n, ok := resp.ArrayHeader(reply)
	if !ok {
		return nil, false
	}
	rest := reply[n:]
	for range count {
		length, err := resp.ReplyLen(rest)
		if err != nil || length == 0 {
			return nil, false
		}
		v, ok := resp.IntReply(rest[:length])
		if !ok {
			return nil, false
		}
		values, rest = append(values, v), rest[length:]
	}
	return values, true
}

// MergeArrays answers with one array of the elements of all.
func MergeArrays(dst []byte, replies [][]byte) []byte {
	if e := FirstError(replies); e != nil {
		return append(dst, e...)
	}
	total, size := 0, 0
	for _, r := range replies {
		count, _, ok := resp.ArrayHeader(r)
		if !ok {
			return append(dst, badShard...)
		}
		total += count
		size += len(r)
	}
	dst = redcon.AppendArray(slices.Grow(dst, size+32), total)
	for _, r := range replies {
		_, n, _ := resp.ArrayHeader(r)
		dst = append(dst, r[n:]...)
	}
	return dst
}

// MergeWeighted answers with one of several replies. Each shard has been asked twice, for its number of keys and for the
// reply; a shard is chosen as often as its share of all keys says, roll being a random number below the sum it is given.
// A null is chosen only when no shard has another reply.
func MergeWeighted(roll func(n int64) int64) Merge {
	return func(dst []byte, replies [][]byte) []byte {
		if e := FirstError(replies); e != nil {
			return append(dst, e...)
		}
		var sum int64
		weights := make([]int64, len(replies)/2)
		for i := range weights {
			keys, ok := resp.IntReply(replies[2*i])
			if !ok {
				return append(dst, badShard...)
			}
			if !isNull(replies[2*i+1]) {
				weights[i] = max(keys, 1)
				sum += weights[i]
			}
		}
		if sum == 0 {
			return append(dst, replies[1]...)
		}
		chosen := roll(sum)
		for i, weight := range weights {
			if chosen -= weight; chosen < 0 {
				return append(dst, replies[2*i+1]...)
			}
		}
		panic("BUG: a random number is not below its bound")
	}
}

func isNull(reply []byte) bool {
	return len(reply) > 0 && (reply[0] == '_' || bytes.HasPrefix(reply, []byte("$-1")) || bytes.HasPrefix(reply, []byte("*-1")))
}
