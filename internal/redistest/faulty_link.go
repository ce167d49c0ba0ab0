package redistest

import (
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// direction holds the faults of one direction of all connections.
type direction struct {
	mu struct {
		sync.Mutex
		faults  Faults
		changed chan struct{} // closed and replaced by every change
	}
}

func (d *direction) set(f Faults) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.mu.changed != nil {
		close(d.mu.changed)
	}
	d.mu.faults, d.mu.changed = f, make(chan struct{})
}

func (d *direction) get() (Faults, <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.mu.faults, d.mu.changed
}

// grant says how many of want bytes the next write may carry, and whether the
// connection is to be cut after them.
func (d *direction) grant(want int) (n int, cut bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f := &d.mu.faults
	n = want
	if f.MaxWrite > 0 {
		n = min(n, f.MaxWrite)
	}
	if f.CutAfter == 0 {
		return n, false
	}
	n = min(n, f.CutAfter)
	f.CutAfter -= n
	return n, f.CutAfter == 0
}

// link is one relayed connection.
type link struct {
	client, server net.Conn
	once           sync.Once
	ended          chan struct{} // closed by cut
}

func newLink(client, server net.Conn) *link {
	return &link{client: client, server: server, ended: make(chan struct{})}
}

// cut resets both sides; what is still on its way is lost.
func (l *link) cut() {
	l.once.Do(func() {
		close(l.ended)
		reset(l.client)
		reset(l.server)
	})
}

// relay returns when both directions have ended.
func (l *link) relay(toServer, toClient *direction) {
	var wg sync.WaitGroup
	wg.Go(func() { l.pump(toServer, l.client, l.server) })
	wg.Go(func() { l.pump(toClient, l.server, l.client) })
	wg.Wait()
	l.once.Do(func() {
		close(l.ended)
		_ = l.client.Close()
		_ = l.server.Close()
	})
}

func (l *link) pump(d *direction, from, to net.Conn) {
	piece := make([]byte, 64<<10)
	for {
		n, err := from.Read(piece)
		if !l.forward(d, to, piece[:n]) {
			l.cut()
			return
		}
		if err != nil {
			l.passEnd(d, to, err)
			return
		}
	}
}

// passEnd hands on how one side ended: a close as a close, all else as a reset.
func (l *link) passEnd(d *direction, to net.Conn, err error) {
	tcp, ok := to.(*net.TCPConn)
	if !ok || !errors.Is(err, io.EOF) || !l.passHole(d) {
		l.cut()
		return
	}
	_ = tcp.CloseWrite()
}

// forward writes a piece as the faults allow; false when the link is to end.
func (l *link) forward(d *direction, to net.Conn, piece []byte) bool {
	if len(piece) > 0 && !l.holdBack(d) {
		return false
	}
	for len(piece) > 0 {
		if !l.passHole(d) {
			return false
		}
		n, cut := d.grant(len(piece))
		if _, err := to.Write(piece[:n]); err != nil {
			return false
		}
		if cut {
			_ = to.Close() // not a reset: that would take back what the peer has not read yet
			return false
		}
		piece = piece[n:]
	}
	return true
}

func (l *link) holdBack(d *direction) bool {
	f, _ := d.get()
	if f.Delay == 0 {
		return true
	}
	timer := time.NewTimer(f.Delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-l.ended:
		return false
	}
}

// passHole waits until the direction is no black hole.
func (l *link) passHole(d *direction) bool {
	for {
		f, changed := d.get()
		if !f.BlackHole {
			return true
		}
		select {
		case <-changed:
		case <-l.ended:
			return false
		}
	}
}
