package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const hasEventLoops = true

const (
	readBytes = 256 << 10
	maxEvents = 256
	// maxReads bounds how long one connection with large replies keeps the others waiting.
	maxReads = 8
	// longestWait bounds how late a cancelled run is noticed.
	longestWait = 100 * time.Millisecond
)

// eventLoop drives all connections of a thread from one goroutine. Reads and writes never block, so they are raw system
// calls, which the Go scheduler does not see; only the wait for events is an ordinary one.
type eventLoop struct {
	epoll       int
	connections []socket
	open        int
	failures    *failures
	buffer      []byte
}

// socket is one connection of an event loop.
type socket struct {
	fd           int // -1: closed
	index        int // in the loop's connections; epoll's name for it
	flow         *flow
	unsent       []byte // what a short write left over
	awaitsOutput bool   // epoll also tells when it is writable
}

func openEventLoop(ctx context.Context, addr string, flows []flow, f *failures) (fleet, error) {
	to, err := netip.ParseAddrPort(addr)
	if err != nil {
		return nil, fmt.Errorf("cannot read the address: %w", err)
	}
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("cannot make an epoll instance: %w", err)
	}
	l := &eventLoop{epoll: epoll, failures: f, buffer: make([]byte, readBytes)}
	l.connections = make([]socket, 0, len(flows))
	for i := range flows {
		if err := errors.Join(ctx.Err(), l.connect(to, &flows[i])); err != nil {
			l.close()
			return nil, err
		}
	}
	return l, nil
}

func (l *eventLoop) connect(to netip.AddrPort, f *flow) error {
	fd, err := dialSocket(to, f.login)
	if err != nil {
		return err
	}
	l.connections = append(l.connections, socket{fd: fd, index: len(l.connections), flow: f})
	l.open++
	return l.control(unix.EPOLL_CTL_ADD, &l.connections[len(l.connections)-1], unix.EPOLLIN)
}

func dialSocket(to netip.AddrPort, login []byte) (int, error) {
	domain, sockaddr := unix.AF_INET6, unix.Sockaddr(&unix.SockaddrInet6{Port: int(to.Port()), Addr: to.Addr().As16()})
	if to.Addr().Is4() {
		domain, sockaddr = unix.AF_INET, &unix.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()}
	}
	fd, err := unix.Socket(domain, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("cannot make a socket: %w", err)
	}
	// Connecting and logging in block, which on loopback takes no time; all that follows does not.
	if err = unix.Connect(fd, sockaddr); err == nil {
		limit := unix.NsecToTimeval(int64(loginTime))
		err = errors.Join(
			unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit),
			logIn(blocking(fd), login),
			unix.SetNonblock(fd, true),
			unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1),
		)
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// blocking is a socket that blocks. With a time limit a call of it ends with EINTR at any signal, such as the runtime's own.
type blocking int

func (b blocking) Read(p []byte) (int, error) {
	n, err := uninterrupted(unix.Read, int(b), p)
	if n == 0 && err == nil {
		err = io.EOF
	}
	return n, err
}

func (b blocking) Write(p []byte) (int, error) { return uninterrupted(unix.Write, int(b), p) }

func uninterrupted(call func(int, []byte) (int, error), fd int, p []byte) (int, error) {
	for {
		if n, err := call(fd, p); !errors.Is(err, unix.EINTR) {
			return max(n, 0), err
		}
	}
}

func (l *eventLoop) run(r *run, rec *recorder) {
	events := make([]unix.EpollEvent, maxEvents)
	l.fill(r)
	for l.open > 0 {
		n, err := l.wait(events, r)
		if err != nil {
			l.failures.add(fmt.Errorf("cannot wait for events: %w", err))
			return
		}
		for _, event := range events[:n] {
			c := &l.connections[event.Fd]
			if event.Events&unix.EPOLLOUT != 0 {
				l.flush(c)
			}
			if event.Events&^uint32(unix.EPOLLOUT) != 0 {
				l.receive(c, r, rec)
			}
		}
		now := r.now()
		if r.over(now) && (l.inFlight() == 0 || r.abandoned(now)) {
			return
		}
		if l.connections[0].flow.schedule != nil {
			l.fill(r)
		}
	}
}

// fill sends on every connection what may be sent now.
func (l *eventLoop) fill(r *run) {
	now := r.now()
	if r.over(now) {
		return
	}
	for i := range l.connections {
		c := &l.connections[i]
		if c.fd < 0 {
			continue
		}
		if s := c.flow.schedule; s != nil {
			c.flow.due = s.dueAt(now)
		}
		l.send(c, now)
	}
}

func (l *eventLoop) inFlight() (n uint64) {
	for i := range l.connections {
		if l.connections[i].fd >= 0 {
			n += l.connections[i].flow.inFlight()
		}
	}
	return n
}

// receive reads what has come and sends as many commands as were answered.
func (l *eventLoop) receive(c *socket, r *run, rec *recorder) {
	for range maxReads {
		if c.fd < 0 {
			return
		}
		n, errno := rawRead(c.fd, l.buffer)
		switch {
		case errno == unix.EAGAIN || errno == unix.EINTR:
			return
		case errno != 0:
			l.lose(c, errno)
			return
		case n == 0:
			l.lose(c, io.ErrUnexpectedEOF)
			return
		}
		now := r.now()
		if !c.flow.arrived(l.buffer[:n], now, rec) {
			l.lose(c, errBadReply)
			return
		}
		if !r.over(now) {
			l.send(c, now)
		}
		if n < len(l.buffer) {
			return
		}
	}
}

func (l *eventLoop) send(c *socket, now time.Duration) {
	if len(c.unsent) > 0 {
		return // what is due meanwhile goes out after it
	}
	c.unsent = c.flow.next(now)
	l.flush(c)
}

// flush writes what is unsent as far as the socket takes it, and asks to be told when it takes the rest.
func (l *eventLoop) flush(c *socket) {
	for c.fd >= 0 && len(c.unsent) > 0 {
		n, errno := rawWrite(c.fd, c.unsent)
		if errno == unix.EAGAIN {
			break
		}
		if errno != 0 && errno != unix.EINTR {
			l.lose(c, errno)
			return
		}
		if errno == 0 {
			c.unsent = c.unsent[n:]
		}
	}
	if awaits := len(c.unsent) > 0; c.fd >= 0 && awaits != c.awaitsOutput {
		c.awaitsOutput = awaits
		l.watch(c)
	}
}

func (l *eventLoop) watch(c *socket) {
	interest := uint32(unix.EPOLLIN)
	if c.awaitsOutput {
		interest |= unix.EPOLLOUT
	}
	if err := l.control(unix.EPOLL_CTL_MOD, c, interest); err != nil {
		l.lose(c, err)
	}
}

// control registers a connection under its index.
func (l *eventLoop) control(operation int, c *socket, interest uint32) error {
	event := unix.EpollEvent{Events: interest, Fd: int32(c.index)}
	return unix.EpollCtl(l.epoll, operation, c.fd, &event)
}

func (l *eventLoop) lose(c *socket, err error) {
	l.failures.add(fmt.Errorf("connection lost: %w", err))
	l.shut(c)
}

func (l *eventLoop) shut(c *socket) {
	if c.fd >= 0 {
		_ = unix.Close(c.fd)
		c.fd, c.unsent = -1, nil
		l.open--
	}
}

func (l *eventLoop) close() {
	for i := range l.connections {
		l.shut(&l.connections[i])
	}
	_ = unix.Close(l.epoll)
}

// wait waits for events, in an open loop only until the next command is due.
func (l *eventLoop) wait(events []unix.EpollEvent, r *run) (int, error) {
	timeout := longestWait
	if now := r.now(); !r.over(now) {
		timeout = min(timeout, r.end-now)
		for i := range l.connections {
			c := &l.connections[i]
			if c.flow.schedule == nil {
				break
			}
			if c.fd >= 0 && c.flow.due-c.flow.sent < c.flow.depth {
				timeout = min(timeout, c.flow.schedule.intended(c.flow.due)-now)
			}
		}
	}
	n, errno := epollWait(l.epoll, events, max(timeout, 0))
	if errno == unix.EINTR {
		return 0, nil
	}
	if errno != 0 {
		return 0, errno
	}
	return n, nil
}

// epollWait is epoll_pwait2, whose timeout is finer than a millisecond, or epoll_wait where the kernel lacks it.
func epollWait(epoll int, events []unix.EpollEvent, timeout time.Duration) (int, unix.Errno) {
	limit := unix.NsecToTimespec(int64(timeout))
	n, _, errno := unix.Syscall6(unix.SYS_EPOLL_PWAIT2, uintptr(epoll), uintptr(unsafe.Pointer(&events[0])),
		uintptr(len(events)), uintptr(unsafe.Pointer(&limit)), 0, 0)
	if errno == unix.ENOSYS {
		milliseconds := (timeout + time.Millisecond - 1) / time.Millisecond
		n, err := unix.EpollWait(epoll, events, int(milliseconds))
		if err != nil {
			errors.As(err, &errno)
			return 0, errno
		}
		return n, 0
	}
	return int(n), errno
}

func rawRead(fd int, p []byte) (int, unix.Errno) {
	n, _, errno := unix.RawSyscall(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)))
	return int(n), errno
}

func rawWrite(fd int, p []byte) (int, unix.Errno) {
	n, _, errno := unix.RawSyscall(unix.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)))
	return int(n), errno
}
