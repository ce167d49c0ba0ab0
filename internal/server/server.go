// Package server is the front end's edge: listeners, accepting, TLS, spreading clients over loops, and draining.
package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/sluiceproxy/sluice/internal/session"
)

const (
	// headroom is the utilisation up to which a loop gets more clients. Commands of many clients on one loop share
	// system calls, so a loop is filled before the next one is used.
	headroom = 0.7
	// handshakeTimeout bounds TLS handshakes.
	handshakeTimeout = 10 * time.Second
	drainPoll        = 20 * time.Millisecond
	// drainPatience is how long a client that drains may go on sending before its commands are waited for.
	drainPatience = time.Second
)

// Listener is one address to listen on.
type Listener struct {
	Network string // tcp or unix
	Address string
	// Tenant is the one that clients of this listener belong to; empty: they say so by AUTH.
	Tenant string
	// TLS, when set, is spoken on this listener.
	TLS *tls.Config
	// Mode is the permission of a unix socket.
	Mode os.FileMode
}

// Options bound what clients may take.
type Options struct {
	MaxClients   int
	TCPKeepalive time.Duration
}

// Server accepts clients and gives each to a loop.
type Server struct {
	options Options
	shared  *session.Shared
	log     *zap.Logger

	listeners []*listening
	running   sync.WaitGroup
	draining  atomic.Bool
	closed    atomic.Bool // new clients are turned away, for a while
	rejected  [rejectReasons]atomic.Uint64
	handshake atomic.Int64 // clients that are not yet a session

	handshakes    context.Context //nolint:containedctx // the life of TLS handshakes, ended by a drain
	endHandshakes context.CancelFunc
}

// listening is one open listener.
type listening struct {
	Listener
	number int // among the server's
	ln     net.Listener
	stop   func() // on loop 0; nil for listeners with a goroutine
}

// New makes a server for the workers of shared.
func New(options Options, shared *session.Shared, log *zap.Logger) *Server {
	s := &Server{options: options, shared: shared, log: log}
	s.handshakes, s.endHandshakes = context.WithCancel(context.Background())
	return s
}

// Listen opens all listeners, or none: on an error those already open are closed.
func (s *Server) Listen(ctx context.Context, wanted []Listener) error {
	for i, l := range wanted {
		opened, err := open(ctx, l)
		if err != nil {
			s.closeListeners()
			return err
		}
		opened.number = i
		s.listeners = append(s.listeners, opened)
	}
	return nil
}

// listenError says what to do about the mistake that is made most: another daemon runs already.
func listenError(address string, err error) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("cannot listen on %s: another program does; is sluiced running already? Stop it, or choose another address: --listen (listeners)", address)
	}
	return fmt.Errorf("cannot listen on %s: %w", address, err)
}

// Open opens a listener as those of clients are opened, for others to serve.
func Open(ctx context.Context, l Listener) (net.Listener, error) {
	opened, err := open(ctx, l)
	if err != nil {
		return nil, err
	}
	return opened.ln, nil
}

func open(ctx context.Context, l Listener) (*listening, error) {
	if l.Network == "unix" {
		if err := removeStale(ctx, l.Address); err != nil {
			return nil, err
		}
	}
	ln, err := (&net.ListenConfig{KeepAlive: -1}).Listen(ctx, l.Network, l.Address)
	if err != nil {
		return nil, listenError(l.Address, err)
	}
	if l.Network == "unix" && l.Mode != 0 {
		if err := os.Chmod(l.Address, l.Mode); err != nil {
			_ = ln.Close()
			return nil, fmt.Errorf("cannot set the mode of %s: %w", l.Address, err)
		}
	}
	return &listening{Listener: l, ln: ln}, nil
}

// removeStale removes a unix socket that a process which is gone has left.
func removeStale(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return nil //nolint:nilerr // nothing is there, or listening will say what is wrong
	}
	if info.Mode()&os.ModeSocket == 0 {
		return fmt.Errorf("cannot listen on %s: there is a file that is not a socket", path)
	}
	conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "unix", path)
	if err == nil {
		_ = conn.Close()
		return fmt.Errorf("cannot listen on %s: another process does", path)
	}
	return os.Remove(path)
}

// Addresses are where clients can connect, as the system gave them.
func (s *Server) Addresses() []net.Addr {
	var all []net.Addr
	for _, l := range s.listeners {
		all = append(all, l.ln.Addr())
	}
	return all
}

// Serve begins to accept clients.
func (s *Server) Serve() error {
	for _, l := range s.listeners {
		if err := s.serve(l); err != nil {
			return err
		}
	}
	return nil
}

func (s *Server) serve(l *listening) error {
	if l.TLS == nil {
		started, err := s.acceptOnLoop(l)
		if started || err != nil {
			return err
		}
	}
	s.running.Go(func() { s.acceptLoop(l) })
	return nil
}

// acceptLoop accepts clients that take the stream transport, until the listener is closed.
func (s *Server) acceptLoop(l *listening) {
	for {
		nc, err := l.ln.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			s.acceptFailed(err)
			time.Sleep(acceptPause)
			continue
		}
		if s.closed.Load() {
			s.rejected[rejectDrained].Add(1)
			_ = nc.Close()
			continue
		}
		if s.full() {
			s.rejected[rejectFull].Add(1)
			_ = nc.SetWriteDeadline(time.Now().Add(time.Second))
			_, _ = nc.Write([]byte(tooMany))
			_ = nc.Close()
			continue
		}
		s.handshake.Add(1)
		s.running.Go(func() { s.admit(l, nc) })
	}
}

// admit finishes the TLS handshake of a client and gives it to a loop.
func (s *Server) admit(l *listening, nc net.Conn) {
	defer s.handshake.Add(-1)
	if tcp, isTCP := nc.(*net.TCPConn); isTCP {
		_ = tcp.SetKeepAliveConfig(net.KeepAliveConfig{Enable: s.options.TCPKeepalive > 0, Idle: s.options.TCPKeepalive, Interval: s.options.TCPKeepalive / 3})
	}
	if l.TLS != nil {
		secure := tls.Server(nc, l.TLS)
		ctx, cancel := context.WithTimeout(s.handshakes, handshakeTimeout)
		err := secure.HandshakeContext(ctx)
		cancel()
		if err != nil {
			s.rejected[rejectHandshake].Add(1)
			_ = nc.Close()
			return
		}
		nc = secure
	}
	w := s.place()
	from := session.Origin{Peer: nc.RemoteAddr().String(), Listener: nc.LocalAddr().String(), Number: l.number, Tenant: l.Tenant}
	taken := w.Loop.Call(func() { w.Loop.AttachStream(w.New(from).Conn(), nc) })
	if !taken {
		_ = nc.Close()
	}
}

const (
	tooMany     = "-ERR max number of clients reached\r\n"
	acceptPause = 50 * time.Millisecond
)

func (s *Server) full() bool {
	return s.shared.Clients()+int(s.handshake.Load()) >= s.options.MaxClients
}

func (s *Server) acceptFailed(err error) {
	s.rejected[rejectAccept].Add(1)
	s.log.Error("cannot accept a client; too many open files?", zap.Error(err))
}

// place chooses the loop of a new client: the fullest that still has headroom, else the least busy.
func (s *Server) place() *session.Worker {
	workers := s.shared.Workers
	best, least := -1, 0
	for i, w := range workers {
		u := w.Loop.Utilisation()
		if u < headroom && (best < 0 || u > workers[best].Loop.Utilisation()+0.05) {
			best = i
		}
		if u < workers[least].Loop.Utilisation() {
			least = i
		}
	}
	if best < 0 {
		best = least
	}
	return workers[best]
}

func (s *Server) closeListeners() {
	for _, l := range s.listeners {
		if l.stop != nil {
			s.shared.Workers[0].Loop.Call(l.stop)
		}
		_ = l.ln.Close()
	}
}

// Drain stops accepting, lets every client's commands finish and closes its connection. Clients that are not done when
// ctx ends are disconnected; it returns how many.
func (s *Server) Drain(ctx context.Context) (cut int) {
	s.draining.Store(true)
	s.closeListeners()
	s.endHandshakes()
	s.running.Wait()
	patient := time.Now().Add(drainPatience)
	ticker := time.NewTicker(drainPoll)
	defer ticker.Stop()
	for {
		if time.Now().Before(patient) {
			s.each((*session.Session).Drain) // again and again: a client may have been on its way to a loop
		} else {
			s.each((*session.Session).StopReading)
		}
		if s.shared.Clients() == 0 {
			return 0
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return s.cutOff()
		}
	}
}

// cutOff disconnects all clients and returns how many were still owed something.
func (s *Server) cutOff() (cut int) {
	s.each(func(c *session.Session) {
		if !c.Ended() {
			cut++
		}
		c.Kill(nil)
	})
	return cut
}

func (s *Server) each(fn func(*session.Session)) {
	for _, w := range s.shared.Workers {
		w.Loop.Call(func() { w.Each(fn) })
	}
}

// TurnAway makes the server close the connections of new clients at once, or take them again.
func (s *Server) TurnAway(on bool) { s.closed.Store(on) }

// AskToLeave lets every client go as soon as its commands are done.
func (s *Server) AskToLeave() { s.each((*session.Session).Drain) }

// Draining reports whether Drain has been called.
func (s *Server) Draining() bool { return s.draining.Load() }
