package session

import (
	"bytes"
	"slices"
	"strconv"

	"github.com/sluiceproxy/sluice/pkg/resp"
)

// slowLine is a command line as the slow log keeps it: its arguments one after the other in memory that the next line in
// the same place uses again.
type slowLine struct {
	text []byte
	ends []int32 // of the arguments within text
}

func (l *slowLine) reset() { l.text, l.ends = l.text[:0], l.ends[:0] }

// end ends the argument that was appended to the text.
func (l *slowLine) end() { l.ends = append(l.ends, int32(len(l.text))) }

// set makes it a line that has been shortened before.
func (l *slowLine) set(args []string) {
	l.reset()
	for _, arg := range args {
		l.text = append(l.text, arg...)
		l.end()
	}
}

// shorten makes it a copy of a command line, as Redis does for its slow log: not all of a long one, and no secrets.
func (l *slowLine) shorten(args [][]byte) {
	l.reset()
	secret := secrets(args)
	n := min(len(args), slowArguments)
	for i := range n {
		switch {
		case i == n-1 && n < len(args):
			l.text = append(l.text, "... ("...)
			l.text = strconv.AppendInt(l.text, int64(len(args)-n+1), 10)
			l.text = append(l.text, " more arguments)"...)
		case secret(i):
			l.text = append(l.text, redacted...)
		default:
			l.text = append(l.text, args[i][:min(len(args[i]), slowArgument)]...)
			l.text = append(l.text, more(len(args[i])-slowArgument)...)
		}
		l.end()
	}
}

func (l *slowLine) clone() slowLine { return slowLine{bytes.Clone(l.text), slices.Clone(l.ends)} }

// args are the arguments, as copies.
func (l *slowLine) args() []string {
	all := make([]string, 0, len(l.ends))
	start := int32(0)
	for _, end := range l.ends {
		all = append(all, string(l.text[start:end]))
		start = end
	}
	return all
}

// appendLastArgs appends the arguments of the last one of several commands.
func appendLastArgs(dst [][]byte, request []byte) [][]byte {
	var scan resp.CommandScanner
	limits := resp.DefaultLimits()
	own := len(dst)
	for len(request) > 0 {
		n, err := scan.Scan(request, &limits)
		if err != nil || n == 0 {
			break
		}
		dst = resp.AppendArgs(dst[:own], request[:n])
		request = request[n:]
	}
	return dst
}

// dropLarge keeps the room for arguments of ordinary commands, and none of the arguments.
func dropLarge(args [][]byte) [][]byte {
	if cap(args) > 64 {
		return nil
	}
	clear(args)
	return args[:0]
}
