package resp

// resume continues where the last Scan stopped, or handles what the straight
// path of Scan leaves aside.
func (s *CommandScanner) resume(b []byte, lim *CommandLimits) (int, error) {
	if s.phase <= phaseAfterLoose {
		if len(b) == 0 {
			return 0, nil
		}
		*s = CommandScanner{phase: phaseInline}
		if b[0] == '*' {
			s.phase = phaseCount
		}
	}
	switch s.phase {
	case phaseInline:
		return s.scanInline(b, lim)
	case phaseCount:
		whole, err := s.scanCount(b, lim)
		if !whole || err != nil {
			return 0, err
		}
	}
	return s.scanArgs(b, lim)
}

// scanInline looks for the end of an inline line. Anything but '*' begins one,
// '$' too.
func (s *CommandScanner) scanInline(b []byte, lim *CommandLimits) (int, error) {
	end := s.find(b, '\n', lim.MaxInline)
	if end < 0 {
		if len(b) > lim.MaxInline {
			return 0, protocolError("too big inline request")
		}
		return 0, nil
	}
	if !quotesBalanced(b[:end]) {
		return 0, protocolError("unbalanced quotes in request")
	}
	s.loose = true
	return s.finish(end + 1), nil
}

// scanCount reads "*<count>\r\n".
func (s *CommandScanner) scanCount(b []byte, lim *CommandLimits) (whole bool, err error) {
	end, err := s.lineEnd(b, lim, "too big mbulk count string")
	if end < 0 || err != nil {
		return false, err
	}
	count, ok := parseInteger(b[1:end])
	if !ok {
		return false, protocolError("invalid multibulk length")
	}
	if err := lim.checkCount(count); err != nil {
		return false, err
	}
	s.leaveLine(b, end)
	if count > 0 {
		s.argc, s.left = int32(count), int32(count)
	}
	return true, nil
}

// scanArgs goes over the arguments from s.at on.
func (s *CommandScanner) scanArgs(b []byte, lim *CommandLimits) (int, error) {
	for s.left > 0 {
		if s.phase == phaseLength {
			if s.seen == 0 {
				at, left := skipArgs(b, s.at, int(s.left), lim.MaxBulk)
				if s.at, s.left = at, int32(left); left == 0 {
					break
				}
			}
			whole, err := s.scanLength(b, lim)
			if !whole || err != nil {
				return 0, err
			}
		}
		if int64(len(b)-s.at)-2 < s.bulk {
			return 0, nil
		}
		end := s.at + int(s.bulk)
		s.loose = s.loose || b[end] != '\r' || b[end+1] != '\n'
		s.at, s.phase = end+2, phaseLength
		s.left--
	}
	return s.finish(s.at), nil
}

// scanLength reads "$<length>\r\n".
func (s *CommandScanner) scanLength(b []byte, lim *CommandLimits) (whole bool, err error) {
	end, err := s.lineEnd(b, lim, "too big bulk count string")
	if end < 0 || err != nil {
		return false, err
	}
	if b[s.at] != '$' {
		return false, expectedBulk(b[s.at])
	}
	length, ok := parseInteger(b[s.at+1 : end])
	if !ok {
		return false, protocolError("invalid bulk length")
	}
	if err := lim.checkBulk(length); err != nil {
		return false, err
	}
	s.leaveLine(b, end)
	s.bulk, s.phase = length, phaseBulk
	return true, nil
}

// lineEnd returns where the CR of the header line at s.at is, -1 while the line
// is not whole. Like Redis it judges a line only then, or when it is too long.
func (s *CommandScanner) lineEnd(b []byte, lim *CommandLimits, tooLong string) (int, error) {
	end := s.find(b, '\r', lim.MaxInline)
	if end >= 0 {
		if end+1 == len(b) {
			return -1, nil
		}
		return end, nil
	}
	if len(b)-s.at > lim.MaxInline {
		return -1, protocolError(tooLong)
	}
	return -1, nil
}

// find returns where the first stop byte of the line at s.at is, -1 if it has not
// come. Redis looks with strchr, so that a NUL hides all that follows it: such a
// line never ends, it grows until it is too long.
func (s *CommandScanner) find(b []byte, stop byte, longest int) int {
	i := s.at + int(s.seen)
	for ; i < len(b) && i-s.at <= longest; i++ {
		if b[i] == stop {
			s.seen = int32(i - s.at)
			return i
		}
		if b[i] == 0 {
			break
		}
	}
	s.seen = int32(i - s.at)
	return -1
}

// leaveLine goes behind the header line whose CR is at end.
func (s *CommandScanner) leaveLine(b []byte, end int) {
	s.loose = s.loose || b[end+1] != '\n'
	s.at, s.seen, s.phase = end+2, 0, phaseLength
}

// finish makes the scanner ready for the next command and returns n.
func (s *CommandScanner) finish(n int) int {
	loose := s.loose
	*s = CommandScanner{}
	if loose {
		s.loose, s.phase = true, phaseAfterLoose
	}
	return n
}
