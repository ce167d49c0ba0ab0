package resp

// CommandRest follows the rest of one command whose beginning a CommandScanner
// saw, without the rest being buffered. Once an argument's content passes through
// it, nothing of that content is looked at.
type CommandRest struct {
	lim   CommandLimits
	left  int32 // arguments that have not ended, the open one included
	inRun bool  // within an argument's content or the two bytes after it
	run   int64 // bytes of that still to come
	line  lengthLine
}

// lengthLine is the "$<length>\r\n" line that is being received.
type lengthLine struct {
	number headerNumber
	size   int  // bytes seen, CR not counted
	first  byte // the line's first byte
	hidden bool // a NUL came: the line never ends, see CommandScanner.find
	cr     bool // CR came, one byte is left
}

// Rest turns the scanner's position, after Scan asked for more than b, into a
// CommandRest that goes on behind b. The command's argument count must be known,
// as it is whenever OpenBulk reports an argument.
func (s *CommandScanner) Rest(b []byte, lim CommandLimits) CommandRest {
	r := CommandRest{lim: lim, left: s.left}
	switch s.phase {
	case phaseBulk:
		r.inRun = true
		r.run = s.bulk + 2 - int64(len(b)-s.at)
	case phaseLength:
		// Scan saw no more than an unfinished line here, so no error can be met
		// and no argument can end.
		for _, c := range b[s.at:] {
			r.line.add(c)
		}
	default:
		panic("BUG: the rest of a command was asked for before its argument count came")
	}
	return r
}

// Feed consumes bytes of the rest of the command: p[:n] belong to it, and done
// says that it ended there. An error is a *[ProtocolError].
func (r *CommandRest) Feed(p []byte) (n int, done bool, err error) {
	for n < len(p) && r.left > 0 {
		if r.inRun {
			n += r.skip(len(p) - n)
			continue
		}
		whole := r.line.add(p[n])
		n++
		if err := r.judgeLine(whole); err != nil {
			return n, false, err
		}
	}
	return n, r.left == 0, nil
}

// Open returns how many bytes of the open argument, and of the line end behind
// it, are still to come; 0 between arguments.
func (r *CommandRest) Open() int64 { return r.run }

// skip passes over up to limit bytes of an argument and returns how many.
func (r *CommandRest) skip(limit int) int {
	skipped := min(int64(limit), r.run)
	r.run -= skipped
	if r.run == 0 {
		r.inRun = false
		r.left--
	}
	return int(skipped)
}

// judgeLine opens the argument that a whole line announces.
func (r *CommandRest) judgeLine(whole bool) error {
	switch {
	case !whole && !r.line.cr && r.line.size > r.lim.MaxInline:
		return protocolError("too big bulk count string")
	case !whole:
		return nil
	case r.line.first != '$':
		return expectedBulk(r.line.first)
	}
	length, ok := r.line.number.length()
	if !ok {
		return protocolError("invalid bulk length")
	}
	if err := r.lim.checkBulk(length); err != nil {
		return err
	}
	r.line = lengthLine{}
	r.inRun, r.run = true, length+2
	return nil
}

// add takes the line's next byte and reports whether the line is whole.
func (l *lengthLine) add(c byte) (whole bool) {
	switch {
	case l.cr:
		return true
	case c == '\r' && !l.hidden:
		if l.size == 0 {
			l.first = c
		}
		l.cr = true
		return false
	case c == 0:
		l.hidden = true
	case l.size == 0:
		l.first = c
	default:
		l.number.add(c)
	}
	l.size++
	return false
}
