package session

import (
	"bytes"

	"github.com/tidwall/redcon"

	"github.com/sluiceproxy/sluice/internal/route"
	"github.com/sluiceproxy/sluice/pkg/resp"
)

// mergeDone answers for a command that every primary must have done, when all say the same, with that. What some have done
// and others have not is told, because it is for the client to do again or to undo.
func mergeDone(dst []byte, name string, replies [][]byte) []byte {
	refusal := route.FirstError(replies)
	if refusal == nil {
		return append(dst, replies[0]...)
	}
	done, absent := 0, 0
	for _, r := range replies {
		switch {
		case !isError(r):
			done++
		case name == "function|delete" && bytes.HasPrefix(r, libraryNotFound):
			absent++
		}
	}
	switch {
	case done == 0:
		return append(dst, refusal...)
	case done+absent == len(replies):
		return append(dst, "+OK\r\n"...) // it is nowhere now
	}
	return append(dst, appendError(nil, errPartlyDone(name, done, len(replies), errorText(refusal)))...)
}

var libraryNotFound = []byte("-ERR Library not found") //nolint:gochecknoglobals // constant

func isError(reply []byte) bool { return len(reply) > 0 && (reply[0] == '-' || reply[0] == '!') }

// errorText is what an error reply says, without its frame.
func errorText(reply []byte) string { return string(bytes.TrimRight(reply[1:], "\r\n")) }

// mergeExists answers SCRIPT EXISTS.
func mergeExists(dst []byte, remembered []bool, replies [][]byte) []byte {
	if e := route.FirstError(replies); e != nil {
		return append(dst, e...)
	}
	having := make([]int, len(remembered))
	for _, r := range replies {
		count, n, ok := resp.ArrayHeader(r)
		if !ok || count != len(remembered) {
			return route.MergeBad(dst)
		}
		for i := range having {
			length, err := resp.ReplyLen(r[n:])
			if err != nil || length == 0 {
				return route.MergeBad(dst)
			}
			if v, _ := resp.IntReply(r[n : n+length]); v == 1 {
				having[i]++
			}
			n += length
		}
	}
	dst = redcon.AppendArray(dst, len(having))
	for i, n := range having {
		exists := int64(0)
		if n == len(replies) || n > 0 && remembered[i] {
			exists = 1
		}
		dst = redcon.AppendInt(dst, exists)
	}
	return dst
}

// mergeKill answers SCRIPT KILL and FUNCTION KILL: a script that was killed counts, then one that could not be, and only
// when no node runs one there is nothing to kill.
func mergeKill(dst []byte, replies [][]byte) []byte {
	answer := replies[0]
	for _, r := range replies {
		switch {
		case !isError(r):
			return append(dst, r...)
		case !bytes.HasPrefix(r, notBusy) && bytes.HasPrefix(answer, notBusy):
			answer = r
		}
	}
	return append(dst, answer...)
}

var notBusy = []byte("-NOTBUSY") //nolint:gochecknoglobals // constant

// mergeFunctionStats answers with what a primary says that runs a function, else with what the first says.
func mergeFunctionStats(dst []byte, replies [][]byte) []byte {
	for _, r := range replies {
		if runsFunction(r) {
			return append(dst, r...)
		}
	}
	return mergeFirstGood(dst, replies)
}

// runsFunction reports whether the first value of a reply to FUNCTION STATS, which is "running_script", is not null.
func runsFunction(reply []byte) bool {
	elements := elementsOf(reply)
	return len(elements) > 1 && (elements[1][0] == '*' || elements[1][0] == '%') && !bytes.HasPrefix(elements[1], []byte("*-1"))
}

// mergeFirstGood answers with the first reply that is no error, else with the first.
func mergeFirstGood(dst []byte, replies [][]byte) []byte {
	for _, r := range replies {
		if !isError(r) {
			return append(dst, r...)
		}
	}
	return append(dst, replies[0]...)
}

// mergeLibraries answers FUNCTION LIST. All primaries should have the same libraries; one that only some have is listed
// too, as the first of them tells it.
func mergeLibraries(dst []byte, replies [][]byte) []byte {
	if e := route.FirstError(replies); e != nil {
		return append(dst, e...)
	}
	listed := map[string]bool{}
	var libraries [][]byte
	for _, r := range replies {
		for _, library := range elementsOf(r) {
			fields := elementsOf(library)
			if len(fields) < 2 || listed[string(fields[1])] {
				continue
			}
			listed[string(fields[1])] = true
			libraries = append(libraries, library)
		}
	}
	dst = redcon.AppendArray(dst, len(libraries))
	return append(dst, bytes.Join(libraries, nil)...)
}

// elementsOf cuts an array or a map into its elements; a map's are keys and values in turns. It returns none of what is
// neither.
func elementsOf(reply []byte) [][]byte {
	if len(reply) == 0 || reply[0] != '*' && reply[0] != '%' {
		return nil
	}
	header := bytes.IndexByte(reply, '\n') + 1
	var elements [][]byte
	for rest := reply[header:]; len(rest) > 0; {
		n, err := resp.ReplyLen(rest)
		if err != nil || n == 0 {
			return nil
		}
		elements, rest = append(elements, rest[:n]), rest[n:]
	}
	return elements
}
