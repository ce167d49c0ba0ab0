//go:build linux

package server

import (
	"errors"
	"net/netip"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sluiceproxy/sluice/internal/session"
)

// acceptOnLoop accepts the clients of a plain listener on loop 0, without a goroutine, and gives their descriptors to
// loops.
func (s *Server) acceptOnLoop(l *listening) (started bool, err error) {
	s.shared.Workers[0].Loop.Call(func() { err = s.watch(l) })
	return err == nil, err
}

// watch begins to accept on loop 0.
func (s *Server) watch(l *listening) error {
	raw, err := l.ln.(syscall.Conn).SyscallConn()
	if err != nil {
		return err
	}
	first := s.shared.Workers[0].Loop
	ctlErr := raw.Control(func(fd uintptr) {
		l.stop, err = first.Listen(int(fd), func(fd int, peer unix.Sockaddr, err error) { s.accepted(l, fd, peer, err) })
	})
	return errors.Join(ctlErr, err)
}

// accepted gives a new client to a loop. It runs on loop 0.
func (s *Server) accepted(l *listening, fd int, peer unix.Sockaddr, err error) {
	if err != nil {
		s.acceptFailed(err)
		s.pauseAccept(l)
		return
	}
	if s.closed.Load() {
		s.rejected[rejectDrained].Add(1)
		_ = unix.Close(fd)
		return
	}
	if s.full() {
		s.rejected[rejectFull].Add(1)
		_, _ = unix.Write(fd, []byte(tooMany))
		_ = unix.Close(fd)
		return
	}
	if l.Network == "tcp" {
		s.setOptions(fd)
	}
	from := session.Origin{Peer: peerName(peer), Listener: localName(fd, l.Address), Number: l.number, Tenant: l.Tenant}
	w := s.place()
	if w == s.shared.Workers[0] {
		join(w, fd, from)
		return
	}
	s.handshake.Add(1)
	w.Loop.Post(func() {
		s.handshake.Add(-1)
		join(w, fd, from)
	})
}

// localName is the address that the client connected to, which a listener on all addresses or on any port does not tell.
func localName(fd int, listener string) string {
	local, err := unix.Getsockname(fd)
	if _, isUnix := local.(*unix.SockaddrUnix); err != nil || isUnix {
		return listener
	}
	return peerName(local)
}

// pauseAccept stops accepting for a moment: without descriptors left, the listener would stay readable.
func (s *Server) pauseAccept(l *listening) {
	first := s.shared.Workers[0].Loop
	if l.stop == nil {
		return
	}
	l.stop()
	l.stop = nil
	first.After(acceptPause, func() {
		if !s.draining.Load() {
			_ = s.watch(l)
		}
	})
}

// join makes the session of a client on its loop.
func join(w *session.Worker, fd int, from session.Origin) {
	c := w.New(from).Conn()
	if err := w.Loop.AttachFD(c, fd); err != nil {
		_ = unix.Close(fd)
		c.Close(err)
	}
}

func (s *Server) setOptions(fd int) {
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	if seconds := int(s.options.TCPKeepalive / time.Second); seconds > 0 {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1)
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, seconds)
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, max(1, seconds/3))
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_KEEPCNT, 3)
	}
}

func peerName(peer unix.Sockaddr) string {
	switch a := peer.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(a.Addr), uint16(a.Port)).String()
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(a.Addr).Unmap(), uint16(a.Port)).String()
	default:
		return "unix"
	}
}
