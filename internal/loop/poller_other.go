//go:build !linux

package loop

import (
	"net"
	"time"
)

// HasEpoll tells that plain sockets take the epoll transport on this system.
const HasEpoll = false

// parker is the poller of systems without epoll: connections take the stream transport, whose goroutines post.
type parker struct {
	loop   *Loop
	wakeup chan struct{}
	timer  *time.Timer
}

func newPoller(l *Loop) (poller, error) {
	return &parker{loop: l, wakeup: make(chan struct{}, 1), timer: time.NewTimer(time.Hour)}, nil
}

func (p *parker) wait(timeout time.Duration) {
	if timeout < 0 {
		<-p.wakeup
	} else {
		p.timer.Reset(timeout)
		select {
		case <-p.wakeup:
		case <-p.timer.C:
		}
	}
	p.loop.awake()
}

func (p *parker) wake() {
	select {
	case p.wakeup <- struct{}{}:
	default:
	}
}

func (p *parker) eachConn(func(*Conn)) {}

func (p *parker) close() { p.timer.Stop() }

// AttachFD is for systems with epoll.
func (l *Loop) AttachFD(*Conn, int) error { panic("BUG: no epoll on this system") }

// Detach is for systems with epoll; other transports stay on their loop.
func (c *Conn) Detach() (fd int, unread []byte, ok bool) { return 0, nil, false }

// TakeDescriptor reports false: every connection takes the stream transport.
func TakeDescriptor(net.Conn) (fd int, ok bool, err error) { return -1, false, nil }
