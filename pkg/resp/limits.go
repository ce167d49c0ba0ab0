package resp

import "math"

// Bounds that Redis sets for its clients.
const (
	redisMaxBulk      = 512 << 20
	redisMaxInline    = 64 << 10
	redisUnauthedArgs = 10
	redisUnauthedBulk = 16 << 10
	defaultMaxArgs    = 1 << 20
)

// CommandLimits bounds what a client may send.
type CommandLimits struct {
	// MaxArgs is the most elements that a command's array may announce.
	MaxArgs int64
	// MaxBulk is the most bytes that one argument may announce.
	MaxBulk int64
	// MaxInline is the most bytes of an inline line, or of a header line, that
	// may come without the line's end.
	MaxInline int
	// Unauthenticated selects the error texts that Redis has for clients that
	// are not logged in yet.
	Unauthenticated bool
}

// DefaultLimits are the bounds for an authenticated client. Redis 7.0 itself
// allows 2^31-1 arguments; a proxy has no use for a command of that many.
func DefaultLimits() CommandLimits {
	return CommandLimits{MaxArgs: defaultMaxArgs, MaxBulk: redisMaxBulk, MaxInline: redisMaxInline}
}

// UnauthenticatedLimits are the bounds before AUTH.
func UnauthenticatedLimits() CommandLimits {
	return CommandLimits{
		MaxArgs:         redisUnauthedArgs,
		MaxBulk:         redisUnauthedBulk,
		MaxInline:       redisMaxInline,
		Unauthenticated: true,
	}
}

// checkCount judges the element count of a command's array.
func (l *CommandLimits) checkCount(count int64) error {
	switch {
	case count <= l.MaxArgs && count <= math.MaxInt32:
		return nil
	case l.Unauthenticated && count <= math.MaxInt32:
		return protocolError("unauthenticated multibulk length")
	default:
		return protocolError("invalid multibulk length")
	}
}

// checkBulk judges the announced length of one argument.
func (l *CommandLimits) checkBulk(length int64) error {
	switch {
	case length >= 0 && length <= l.MaxBulk:
		return nil
	case l.Unauthenticated && length >= 0 && length <= redisMaxBulk:
		return protocolError("unauthenticated bulk length")
	default:
		return protocolError("invalid bulk length")
	}
}

// ProtocolError says what is wrong with a client's bytes, in Redis's words. The
// connection cannot be used after it: reply "-ERR " + Text and close.
type ProtocolError struct {
	Text string // "Protocol error: invalid multibulk length"
}

// Error returns Redis's text.
func (e *ProtocolError) Error() string { return e.Text }

func protocolError(what string) error {
	return &ProtocolError{Text: "Protocol error: " + what}
}

// expectedBulk is Redis's error for an argument that does not begin with '$'.
// Redis replaces line ends, which would break the reply, by spaces.
func expectedBulk(got byte) error {
	if got == '\r' || got == '\n' {
		got = ' '
	}
	return protocolError("expected '$', got '" + string([]byte{got}) + "'")
}
