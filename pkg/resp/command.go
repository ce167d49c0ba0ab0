package resp

import "encoding/binary"

// CommandScanner finds where one command ends. It is resumable: bytes that one
// Scan looked at are not looked at by the next. The zero value is ready.
type CommandScanner struct {
	at    int   // where the line or the argument that is being received begins
	bulk  int64 // announced length of the open argument, in phaseBulk
	seen  int32 // bytes of the line at `at` that hold no line end
	argc  int32
	left  int32 // arguments that have not ended, the open one included
	phase commandPhase
	loose bool // see Verbatim; false whenever phase is phaseStart
}

type commandPhase uint8

const (
	phaseStart      commandPhase = iota // nothing seen of the command
	phaseAfterLoose                     // phaseStart, after a command that was not verbatim
	phaseInline                         // within an inline line
	phaseCount                          // within "*<count>\r\n"
	phaseLength                         // within "$<length>\r\n"
	phaseBulk                           // within an argument's content
)

// Reset forgets the command that is being scanned.
func (s *CommandScanner) Reset() { *s = CommandScanner{} }

// Scan looks at b, which begins with the command's first byte and, on a later
// call, holds the same bytes and more. n > 0 means that the command is b[:n] and
// the scanner is ready for the next one; the command may be empty ("*0", "*-1", a
// blank line), which Redis skips without a reply. n == 0 without an error asks
// for more bytes. An error is a *[ProtocolError]; the scanner is of no use after.
func (s *CommandScanner) Scan(b []byte, lim *CommandLimits) (n int, err error) {
	if s.phase == phaseStart && len(b) > 4 {
		// "*<1 to 9>\r\n", as nearly every command begins.
		const shortCount = '*' | '\r'<<16 | '\n'<<24
		header := binary.LittleEndian.Uint32(b)
		argc := int(uint8(header>>8) - '0')
		if header&0xffff00ff == shortCount && argc-1 < 9 && argc > 0 && int64(argc) <= lim.MaxArgs {
			at, left := skipArgs(b, 4, argc, lim.MaxBulk)
			if left == 0 {
				return at, nil
			}
			s.at, s.argc, s.left, s.phase = at, int32(argc), int32(left), phaseLength
		}
	}
	return s.resume(b, lim)
}

// skipArgs passes over the whole arguments that b holds from at on, while they
// are written as client libraries write them, and returns where the next one
// begins and how many are left. What it does not know it leaves to resume.
func skipArgs(b []byte, at, left int, maxBulk int64) (int, int) {
	const (
		shortest = len("$0\r\n\r\n")
		oneDigit = '$' | '\r'<<16 | '\n'<<24
		twoDigit = '$' | '\r'<<24
		crlf     = '\r' | '\n'<<8
	)
	for left > 0 && len(b)-at >= shortest {
		header := binary.LittleEndian.Uint32(b[at:])
		first, second := int(uint8(header>>8)-'0'), int(uint8(header>>16)-'0')
		var length, start int
		switch {
		case header&0xffff00ff == oneDigit && first <= 9:
			length, start = first, at+4
		case header&0xff0000ff == twoDigit && b[at+4] == '\n' && first-1 < 9 && first > 0 && second <= 9:
			length, start = first*10+second, at+5
		default:
			length, start = longLength(b, at)
			if start == 0 {
				return at, left
			}
		}
		end := start + length
		if end > len(b)-2 || int64(length) > maxBulk || binary.LittleEndian.Uint16(b[end:]) != crlf {
			return at, left
		}
		at = end + 2
		left--
	}
	return at, left
}

// longLength reads "$<length>\r\n" at b[at:] and returns the length and where the
// content starts; start is 0 when the header is not whole or not plain.
func longLength(b []byte, at int) (length, start int) {
	const mostDigits = 10
	if b[at] != '$' || b[at+1] < '1' || b[at+1] > '9' {
		return 0, 0
	}
	for i := at + 1; i < len(b)-1 && i-at <= mostDigits+1; i++ {
		d := b[i] - '0'
		if d > 9 {
			if b[i] == '\r' && b[i+1] == '\n' {
				return length, i + 2
			}
			return 0, 0
		}
		length = length*10 + int(d)
	}
	return 0, 0
}

// Need is a lower bound of the whole command's length as known now, 0 if
// unknown. It counts an announced argument but not announced arguments, so that a
// header alone cannot make a caller reserve more than one argument's room.
func (s *CommandScanner) Need() int {
	if s.phase != phaseBulk {
		return 0
	}
	return s.at + int(s.bulk) + 2
}

// OpenBulk tells of the argument that was being received when Scan asked for
// more: its index, where its content starts in what Scan saw, its announced
// length, and how many arguments the command has. ok is false when none is open.
func (s *CommandScanner) OpenBulk() (index, start int, length int64, argc int, ok bool) {
	if s.phase != phaseBulk {
		return 0, 0, 0, 0, false
	}
	return int(s.argc - s.left), s.at, s.bulk, int(s.argc), true
}

// Verbatim reports whether the command that Scan returned last is an array of
// bulk strings with CRLF wherever the protocol asks for it. Redis also takes
// inline lines, and any two bytes after an argument, and any byte after a header's
// CR: such a command must be encoded anew before it goes to a server, since other
// servers read those bytes differently.
func (s *CommandScanner) Verbatim() bool { return !s.loose }
