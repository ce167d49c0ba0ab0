package topology

import "bytes"

// RedirectKind says which redirect an error reply is.
type RedirectKind uint8

// The kinds of redirect.
const (
	RedirectNone  RedirectKind = iota
	RedirectMoved              // the slot has moved for good
	RedirectAsk                // this once, after ASKING
)

func (k RedirectKind) String() string {
	switch k {
	case RedirectMoved:
		return "moved"
	case RedirectAsk:
		return "ask"
	}
	return "none"
}

// ParseRedirect reads "-MOVED 3999 127.0.0.1:6381\r\n"; the "-" and the line end
// may be missing. addr is part of line, as the node wrote it: Endpoint.Resolve
// makes an address of it. A line that begins as a redirect and goes on as none
// has its kind and ok false; it must not reach a client either, for it may
// hold an address.
func ParseRedirect(line []byte) (kind RedirectKind, slot uint16, addr []byte, ok bool) {
	line = bytes.TrimPrefix(bytes.TrimSuffix(line, []byte("\r\n")), []byte("-"))
	kind, rest := cutKind(line)
	if kind == RedirectNone {
		return RedirectNone, 0, nil, false
	}
	slotText, addr, found := bytes.Cut(rest, []byte(" "))
	slot, isSlot := parseSlotBytes(slotText)
	if !found || !isSlot || !plausibleAddr(addr) {
		return kind, 0, nil, false
	}
	return kind, slot, addr, true
}

func cutKind(line []byte) (RedirectKind, []byte) {
	if rest, ok := bytes.CutPrefix(line, []byte("MOVED ")); ok {
		return RedirectMoved, rest
	}
	if rest, ok := bytes.CutPrefix(line, []byte("ASK ")); ok {
		return RedirectAsk, rest
	}
	return RedirectNone, nil
}

// parseSlotBytes makes no string: it is on the path of every redirect of a
// slot that moves under load.
func parseSlotBytes(text []byte) (uint16, bool) {
	if len(text) == 0 || len(text) > len("16383") {
		return 0, false
	}
	n := 0
	for _, c := range text {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	return uint16(n), n < SlotCount
}

// plausibleAddr asks for a colon and no blanks or control characters.
func plausibleAddr(addr []byte) bool {
	if len(addr) > maxHost+len(":65535") || bytes.IndexByte(addr, ':') < 0 {
		return false
	}
	for _, c := range addr {
		if c <= ' ' || c == 0x7f {
			return false
		}
	}
	return true
}
