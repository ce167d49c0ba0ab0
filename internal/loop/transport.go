package loop

// Transport moves bytes between a Conn and the outside. It is used on the loop only, never blocks, and tells the Conn
// about readable and writable through the loop that it belongs to. There are three: epoll (plain TCP and unix sockets
// on Linux), stream (every net.Conn) and the fake one of tests.
type Transport interface {
	// Write takes as much of p as it can now. When n < len(p) and err is nil, the transport calls Conn.Writable when it
	// takes more. p is not kept.
	Write(p []byte) (n int, err error)
	// SetReading switches the delivery of input on or off. The end of input and errors may still be told while it is off.
	SetReading(on bool)
	// Close releases the connection at once. No call into the Conn follows.
	Close()
}

// Handler is the owner of a Conn: a session or a pipe. All methods are called on the loop.
type Handler interface {
	// Data is given what has been received and not consumed; it returns how many bytes it consumed. The rest is given
	// again, with more behind it, when more has arrived or after Conn.Resume. b is valid only during the call.
	Data(b []byte) (consumed int)
	// Drained tells that output which had to be held back is now with the transport.
	Drained()
	// EOF tells that the peer has finished sending. The handler closes the Conn when it is done.
	EOF()
	// Closed is the last call, exactly once, also after Conn.Close; err is nil when the owner closed without an error.
	Closed(err error)
}
