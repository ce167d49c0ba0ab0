package pipe

// PushReceiver is an Owner whose connection has been asked for out-of-band messages, which are RESP3's. For any other
// owner they are read and dropped.
type PushReceiver interface {
	// Push is given a whole message, valid only during the call. It never comes within a reply.
	Push(p *Pipe, message []byte)
}

const (
	// pushMax bounds an out-of-band message that nobody asked for, which is received whole and dropped.
	pushMax = 1 << 20
	// pushWantedMax bounds one that was asked for: a node tells of all keys that changed at once in one.
	pushWantedMax = 64 << 20
)

// pushed handles an out-of-band message.
func (p *Pipe) pushed(message []byte) {
	if owner, wants := p.owner.(PushReceiver); wants {
		owner.Push(p, message)
	}
}

func (p *Pipe) pushLimit() int {
	if _, wants := p.owner.(PushReceiver); wants {
		return pushWantedMax
	}
	return pushMax
}

// Precede is Send for a command that must come before those which wait for the connection to be made. None of these may
// have been begun by SendOpen, because the bytes of such a one lie in the output and nowhere else.
func (p *Pipe) Precede(c *Call, request []byte) {
	if p.head == nil {
		p.Send(c, request)
		return
	}
	next, old := p.head, p.conn
	p.conn = old.Loop().NewConn(handler{p}, p.cfg.Traffic)
	p.conn.SetWindow(p.cfg.Window)
	p.head, p.tail, p.inflight, p.waiting = nil, nil, 0, 0
	p.Send(c, request)
	for next != nil {
		moved := next
		next, moved.next = moved.next, nil
		p.Resend(moved)
		moved.Attempts-- // it was never sent before
	}
	old.SetHandler(abandoned{})
	old.Close(nil)
}
