//go:build linux

package loop

import (
	"fmt"
	"io"
	"math"
	"net"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// HasEpoll tells that plain sockets take the epoll transport on this system.
const HasEpoll = true

// maxEvents is the number of ready connections that one wait returns.
const maxEvents = 256

// epoll is the poller of Linux: level-triggered, because one read per event is then enough.
type epoll struct {
	loop   *Loop
	fd     int
	wakeFD int
	woken  atomic.Bool
	events [maxEvents]unix.EpollEvent
	table  []entry // by file descriptor
	gen    int32   // tells a descriptor from its number's former owner
}

// entry is who gets the events of one descriptor.
type entry struct {
	gen    int32
	socket *socket
	accept func()
}

func newPoller(l *Loop) (poller, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("cannot create epoll instance: %w", err)
	}
	wakeFD, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("cannot create eventfd: %w", err)
	}
	p := &epoll{loop: l, fd: fd, wakeFD: wakeFD}
	ev := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(wakeFD)}
	if err := unix.EpollCtl(fd, unix.EPOLL_CTL_ADD, wakeFD, &ev); err != nil {
		_ = unix.Close(fd)
		_ = unix.Close(wakeFD)
		return nil, fmt.Errorf("cannot watch eventfd: %w", err)
	}
	return p, nil
}

func (p *epoll) wait(timeout time.Duration) {
	msec := -1
	if timeout >= 0 {
		msec = int(min((timeout+time.Millisecond-1)/time.Millisecond, math.MaxInt32))
	}
	// The wait is the one system call that may block, so it is an ordinary one: the scheduler takes the processor away
	// and garbage collection is not held up.
	n, err := unix.EpollWait(p.fd, p.events[:], msec)
	p.loop.awake()
	if err != nil {
		return // EINTR; anything else would be a bug of ours and shows as a busy loop
	}
	for i := range p.events[:n] {
		p.dispatch(&p.events[i])
	}
}

func (p *epoll) dispatch(ev *unix.EpollEvent) {
	if int(ev.Fd) == p.wakeFD {
		// In this order: a wake that came in between would be taken, yet leave woken set, and be the last one ever.
		var b [8]byte
		_, _ = rawRead(p.wakeFD, b[:])
		p.woken.Store(false)
		return
	}
	e := &p.table[ev.Fd]
	if e.gen != ev.Pad {
		return // closed earlier in this tick; its number may have a new owner
	}
	if e.accept != nil {
		e.accept()
		return
	}
	if s := e.socket; s != nil {
		s.ready(ev.Events)
	}
}

func (p *epoll) wake() {
	if p.woken.CompareAndSwap(false, true) {
		one := [8]byte{1}
		_, _ = rawWrite(p.wakeFD, one[:])
	}
}

// close releases the poller's descriptors. A later wake does nothing: its number may be another descriptor's by then.
func (p *epoll) close() {
	for !p.woken.CompareAndSwap(false, true) { // a wake has begun: its write must come first
		pending := []unix.PollFd{{Fd: int32(p.wakeFD), Events: unix.POLLIN}}
		if n, _ := unix.Poll(pending, -1); n == 1 {
			break
		}
	}
	_ = unix.Close(p.fd)
	_ = unix.Close(p.wakeFD)
}

func (p *epoll) eachConn(fn func(*Conn)) {
	for i := range p.table {
		if s := p.table[i].socket; s != nil {
			fn(s.conn)
		}
	}
}

func (p *epoll) add(fd int, e entry) error {
	for fd >= len(p.table) {
		p.table = append(p.table, make([]entry, fd+64-len(p.table))...)
	}
	p.gen++
	e.gen = p.gen
	p.table[fd] = e
	ev := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd), Pad: e.gen}
	if err := unix.EpollCtl(p.fd, unix.EPOLL_CTL_ADD, fd, &ev); err != nil {
		p.table[fd] = entry{}
		return fmt.Errorf("cannot watch descriptor %d: %w", fd, err)
	}
	return nil
}

func (p *epoll) remove(fd int) {
	p.table[fd] = entry{}
	_ = unix.EpollCtl(p.fd, unix.EPOLL_CTL_DEL, fd, nil)
}

// socket is the epoll transport: a non-blocking descriptor with raw system calls, which skip the hand-over to the
// scheduler that a call which cannot block does not need.
type socket struct {
	poll     *epoll
	conn     *Conn
	fd       int
	interest uint32
}

// AttachFD gives a connection a non-blocking socket, which the loop owns from now on, also when it returns an error: it
// has closed the socket then, and the connection is as before.
func (l *Loop) AttachFD(c *Conn, fd int) error {
	p := l.poller.(*epoll)
	s := &socket{poll: p, conn: c, fd: fd, interest: unix.EPOLLIN}
	if err := p.add(fd, entry{socket: s}); err != nil {
		_ = unix.Close(fd)
		return err
	}
	c.Attach(s)
	return nil
}

// ready handles the events of one wait.
func (s *socket) ready(events uint32) {
	c := s.conn
	if events&unix.EPOLLOUT != 0 {
		s.setInterest(s.interest &^ unix.EPOLLOUT)
		c.Writable()
	}
	if s.fd < 0 {
		return
	}
	switch {
	case events&unix.EPOLLIN != 0 && s.interest&unix.EPOLLIN != 0:
		s.read()
	case events&(unix.EPOLLHUP|unix.EPOLLERR) != 0:
		c.Close(s.socketError())
	}
}

// read reads once. Level triggering brings the rest in the next tick, so one busy connection does not starve others.
func (s *socket) read() {
	buf, tail, own := s.conn.inputBuffer()
	n, errno := rawRead(s.fd, buf[tail:])
	switch {
	case n > 0:
		s.conn.received(buf, tail, n, own)
	case n == 0:
		s.conn.InputEnded()
	case errno == syscall.EAGAIN || errno == syscall.EINTR:
	default:
		s.conn.Close(fmt.Errorf("read: %w", errno))
	}
}

// Write implements Transport.
func (s *socket) Write(p []byte) (int, error) {
	n, errno := rawWrite(s.fd, p)
	if n < 0 {
		if errno != syscall.EAGAIN && errno != syscall.EINTR {
			return 0, fmt.Errorf("write: %w", errno)
		}
		n = 0
	}
	if n < len(p) {
		s.setInterest(s.interest | unix.EPOLLOUT)
	}
	return n, nil
}

// SetReading implements Transport.
func (s *socket) SetReading(on bool) {
	if on {
		s.setInterest(s.interest | unix.EPOLLIN)
	} else {
		s.setInterest(s.interest &^ unix.EPOLLIN)
	}
}

// CloseWrite ends the output: the peer sees the end of the stream after what was written.
func (s *socket) CloseWrite() error { return unix.Shutdown(s.fd, unix.SHUT_WR) }

func (s *socket) setInterest(want uint32) {
	if want == s.interest || s.fd < 0 {
		return
	}
	s.interest = want
	ev := unix.EpollEvent{Events: want, Fd: int32(s.fd), Pad: s.poll.table[s.fd].gen}
	_ = unix.EpollCtl(s.poll.fd, unix.EPOLL_CTL_MOD, s.fd, &ev)
}

// Close implements Transport.
func (s *socket) Close() {
	if s.fd < 0 {
		return
	}
	s.poll.remove(s.fd)
	_ = unix.Close(s.fd)
	s.fd = -1
}

func (s *socket) socketError() error {
	if code, err := unix.GetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_ERROR); err == nil && code != 0 {
		return syscall.Errno(code)
	}
	return io.EOF
}

// Detach takes the socket from a connection so that another loop can have it; unconsumed input comes with it. No callback
// follows, Closed neither. ok is false when it cannot be had: it is not a socket, output waits, or Data is running.
func (c *Conn) Detach() (fd int, unread []byte, ok bool) {
	s, isSocket := c.transport.(*socket)
	if !isSocket || c.closed || c.head != nil || c.blocked || c.dirty || c.again || c.inData || c.eof {
		return 0, nil, false
	}
	fd, unread = s.fd, c.in
	s.poll.remove(fd)
	s.fd = -1
	c.closeChunk()
	c.transport, c.in, c.closed = nil, nil, true
	return fd, unread, true
}

// Listen calls accept on the loop for each connection that arrives at a listening socket, until the returned stop is
// called on the loop. The descriptor stays the caller's; it is made non-blocking, because the loop never waits in accept.
func (l *Loop) Listen(fd int, accept func(fd int, peer unix.Sockaddr, err error)) (stop func(), err error) {
	p := l.poller.(*epoll)
	stopped := false
	acceptAll := func() {
		for i := 0; i < maxEvents && !stopped; i++ {
			conn, peer, err := unix.Accept4(fd, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
			switch err {
			case nil:
				accept(conn, peer, nil)
			case unix.EAGAIN:
				return
			case unix.EINTR, unix.ECONNABORTED:
			default:
				accept(-1, nil, fmt.Errorf("cannot accept a connection: %w", err))
				return
			}
		}
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, fmt.Errorf("cannot make the listening socket non-blocking: %w", err)
	}
	if err := p.add(fd, entry{accept: acceptAll}); err != nil {
		return nil, err
	}
	return func() {
		if !stopped {
			stopped = true
			p.remove(fd)
		}
	}, nil
}

// TakeDescriptor duplicates the descriptor of a plain TCP or unix connection and closes the original, which takes it out
// of Go's own poller. ok is false for every other net.Conn: those need the stream transport.
func TakeDescriptor(nc net.Conn) (fd int, ok bool, err error) {
	var raw syscall.RawConn
	switch conn := nc.(type) {
	case *net.TCPConn:
		raw, err = conn.SyscallConn()
	case *net.UnixConn:
		raw, err = conn.SyscallConn()
	default:
		return -1, false, nil
	}
	if err != nil {
		return -1, false, fmt.Errorf("cannot reach the descriptor: %w", err)
	}
	fd = -1
	ctlErr := raw.Control(func(original uintptr) {
		fd, err = unix.FcntlInt(original, unix.F_DUPFD_CLOEXEC, 0)
	})
	if ctlErr != nil {
		err = ctlErr
	}
	if err != nil {
		return -1, false, fmt.Errorf("cannot duplicate the descriptor: %w", err)
	}
	_ = nc.Close()
	return fd, true, nil
}

func rawRead(fd int, p []byte) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall(syscall.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)))
	if errno != 0 {
		return -1, errno
	}
	return int(n), 0
}

func rawWrite(fd int, p []byte) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall(syscall.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)))
	if errno != 0 {
		return -1, errno
	}
	return int(n), 0
}
