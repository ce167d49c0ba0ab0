package upstream

import "github.com/sluiceproxy/sluice/internal/loop"

// Dialer makes the connections that pipes speak over. It is called on a loop and never blocks it.
type Dialer interface {
	// Dial makes a connection to the node at addr for one protocol version and database, and calls done on l, once and
	// after Dial has returned, with the connection or the reason why there is none.
	Dial(l *loop.Loop, addr string, target Target, done func(Link, error))
}

// Link is a connection to a node that is ready for commands: dialled, authenticated, set to its protocol and database. Its
// methods are called on its loop and do not block.
type Link interface {
	// Attach gives the connection to c, which closes it. On an error it is released as after a close.
	Attach(c *loop.Conn) error
	// Drop gives up a connection that was not attached.
	Drop()
	// Release follows when c, which the connection was attached to, has been closed.
	Release()
}
