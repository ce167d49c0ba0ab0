package pipe

import (
	"fmt"

	"github.com/sluiceproxy/sluice/internal/loop"
)

// Receiver gets what becomes of a call: its reply, whole or in parts, or one failure; never both, never twice (law: a
// call is delivered or failed exactly once). A failure may follow the first parts of a large reply.
type Receiver interface {
	// Reply delivers bytes of the reply as the node sent them; b is valid only during the call. last ends the reply, and
	// the pipe does not know the call afterwards.
	Reply(c *Call, b []byte, last bool)
	// Failed tells that no (further) reply will come. After it the call may still be known to the pipe, see Call.Free.
	Failed(c *Call, f Failure)
	// WaitAlone asks whether the call may be tried again after a while: only when nothing of its session is in flight
	// behind it. When it returns true, the receiver sends nothing else until the call has ended.
	WaitAlone(c *Call) bool
	// Free tells that no pipe knows the call any more, so that it may be used again. It follows the last Reply or the
	// Failed, at once or, when a command has timed out, after its late reply was read and dropped.
	Free(c *Call)
}

// PrefaceReceiver is a Receiver that looks at the replies before the one that counts.
type PrefaceReceiver interface {
	// Prefaced is given a whole reply, valid only during the call.
	Prefaced(c *Call, reply []byte)
}

// Reason says why a call failed.
type Reason uint8

// The reasons.
const (
	Lost        Reason = iota + 1 // the connection was lost
	TimedOut                      // no reply within the command timeout
	Unavailable                   // no connection could be had
	Malformed                     // the node sent bytes that are not RESP
	Overloaded                    // the queue is full
	Busy                          // no connection could be had, because the node runs a script
	Reasons                       // their number, plus one
)

// String returns the reason as a metric label.
func (r Reason) String() string {
	switch r {
	case Lost:
		return "connection_lost"
	case TimedOut:
		return "timeout"
	case Unavailable:
		return "unavailable"
	case Malformed:
		return "protocol"
	case Overloaded:
		return "overloaded"
	case Busy:
		return "busy"
	default:
		return fmt.Sprintf("reason_%d", uint8(r))
	}
}

// Failure tells why there is no reply and whether the node may have run the command.
type Failure struct {
	Reason Reason
	// InDoubt: the request had been written whole, so the node may have run it.
	InDoubt bool
}

// Origin is what the calls of one session have in common. It belongs to the session.
type Origin struct {
	// lossID is the number of the last connection loss in which a call of this session that is not read-only was left
	// in doubt.
	lossID uint64
}

// Call is one command in flight on one pipe. The sender embeds it in its own record and sets the exported fields before
// Send; the pipe owns the rest until Receiver.Free.
type Call struct {
	Receiver Receiver
	Origin   *Origin
	// Deadline is when the call times out, on the loop's clock in nanoseconds; 0 means never.
	Deadline int64
	// ConnectBy is when the call times out if there is no connection yet; 0 means never.
	ConnectBy int64
	// Slot is the hash slot that the command's keys lie in; -1 when it has no key.
	Slot int32
	// Lane chooses among the pipes to a node; all calls of a session that are in flight at once have the same.
	Lane uint32
	// Target is the upstream's key for protocol version and database.
	Target uint32
	// ReadOnly: the command may be sent again after a loss, because it changes nothing.
	ReadOnly bool
	// Stay: the command belongs to what its session has on the connection, so it is sent nowhere else.
	Stay bool
	// Preface is the number of replies that come before the one that counts: a transaction is one call of several
	// commands, and what the node says to those before EXEC is not delivered.
	Preface uint32
	// Attempts counts how often the call was sent.
	Attempts uint8

	// SentAt is the loop's time of the first Send.
	SentAt int64

	node     *string // alias of the node that it was last sent to
	pipe     *Pipe
	next     *Call
	chunk    *loop.Chunk
	off      int32
	length   int32
	end      uint64 // position behind the request in the connection's output
	prefaced uint32 // replies of the preface that have come
	refusal  []byte // the first error among them, a copy
	settled  bool   // failed before its reply came; the reply is dropped
	parts    bool   // a part of the reply was delivered
}

// Request returns the bytes of the command, valid until the call is freed or sent elsewhere.
func (c *Call) Request() []byte { return c.chunk.Bytes(int(c.off), int(c.length)) }

// HasRequest reports whether there is a request: the call is on its way, and did not stream.
func (c *Call) HasRequest() bool { return c.chunk != nil && c.length > 0 }

// Node is the alias of the node that the call was last sent to.
func (c *Call) Node() string {
	if c.node == nil {
		return ""
	}
	return *c.node
}

// Pipe is the pipe that the call is on; nil before Send and after the call left it.
func (c *Call) Pipe() *Pipe { return c.pipe }
