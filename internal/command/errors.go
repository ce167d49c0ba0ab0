package command

import "strings"

// shownLimit is how many bytes of what a client sent Redis repeats in an error.
const shownLimit = 128

var lineBreaks = strings.NewReplacer("\r", " ", "\n", " ")

// ReplyError is an error for the client. Text is Redis's own, without the leading "ERR ".
type ReplyError struct{ Text string }

// Error is the text.
func (e *ReplyError) Error() string { return e.Text }

// UnknownCommand is Redis's text for a command that does not exist, without the leading "ERR ". args[0] is the name.
func UnknownCommand(args [][]byte) string {
	var shown strings.Builder
	for _, arg := range args[1:] {
		if shown.Len() >= shownLimit {
			break
		}
		shown.WriteByte('\'')
		shown.Write(printable(arg, shownLimit-shown.Len()+1))
		shown.WriteString("' ")
	}
	return oneLine("unknown command '" + string(printable(args[0], shownLimit)) +
		"', with args beginning with: " + shown.String())
}

// WrongArity is Redis's text for a command line of the wrong length, without the leading "ERR ". name is Command.Name.
func WrongArity(name string) string {
	return "wrong number of arguments for '" + name + "' command"
}

func unknownSubcommand(args [][]byte) string {
	return oneLine("unknown subcommand '" + string(printable(args[1], shownLimit)) +
		"'. Try " + strings.ToUpper(string(args[0])) + " HELP.")
}

// printable is what C's "%.*s" prints of b: at most limit bytes and nothing from a zero byte on.
func printable(b []byte, limit int) []byte {
	if len(b) > limit {
		b = b[:limit]
	}
	for i, ch := range b {
		if ch == 0 {
			return b[:i]
		}
	}
	return b
}

// oneLine keeps an error reply on its line. It works on bytes: what a client sends need not be UTF-8.
func oneLine(text string) string {
	return lineBreaks.Replace(text)
}
