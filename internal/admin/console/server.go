// Package console speaks RESP to operators who have only redis-cli. It knows connections, their bounds and the commands that
// clients send when they connect; whose a token is and what PROXY commands answer is its Service's. It is no part of the
// data plane: each connection has a goroutine.
package console

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

// Service is what a console is in front of. Its methods may be used from any goroutine.
type Service interface {
	// Login finds out whether the secret that a client at this address gives is a valid token. The error is the client's
	// reply.
	Login(address, secret string) error
	// Proxy answers PROXY with these arguments to a client that has given the secret; an empty one: none. What JSON makes of
	// the answer is the reply: nil is OK, and Help is written as HELP commands are. An error is the client's reply.
	Proxy(ctx context.Context, address, secret string, args []string) (any, error)
}

// Help is lines of text.
type Help []string

// Error is an error's reply, with its prefix: ERR, NOAUTH, WRONGPASS or NOPERM.
type Error string

// Error implements error.
func (e Error) Error() string { return string(e) }

// NoAuth is the reply to what needs a token. A Service that returns it ends the client's login.
const NoAuth Error = "NOAUTH Authentication required: AUTH with a token of the admin API"

const (
	// connectionsMax bounds the connections of a port, strangersMax those of them that have given no token. One more
	// stranger takes the place of the one that has been there for longest, so that strangers do not keep operators out.
	connectionsMax, strangersMax = 64, 32
	// loginTime is what a connection may take until it has given a token, the TLS handshake included; then it may be idle
	// for idleTime. A reply is taken within writeTime.
	loginTime, idleTime, writeTime = time.Minute, 30 * time.Minute, 10 * time.Second
	acceptPause                    = 50 * time.Millisecond
)

// Options say what a console serves.
type Options struct {
	Service Service
	// Version is that of the proxy, for HELLO and INFO.
	Version string
	Log     *zap.Logger
}

// Server is one port.
type Server struct {
	options  Options
	listener net.Listener
	tls      atomic.Pointer[tls.Config] // nil: plain
	running  sync.WaitGroup             // the accepting goroutine and the connections'
	ended    context.Context            //nolint:containedctx // the port's own life
	cancel   context.CancelFunc
	lastID   atomic.Int64

	mu struct {
		sync.Mutex
		closed   bool
		conns    map[*conn]struct{}
		stranger []*conn // those of conns that have given no token, the oldest first
	}
}

// New makes a console on an open listener, which it takes over. With a TLS configuration it speaks TLS alone.
func New(listener net.Listener, secure *tls.Config, o Options) *Server {
	s := &Server{options: o, listener: listener}
	s.ended, s.cancel = context.WithCancel(context.Background())
	s.mu.conns = make(map[*conn]struct{})
	if secure != nil {
		s.tls.Store(secure)
	}
	return s
}

// Addr is where it listens.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// SetTLS gives connections that are made from now on these certificates. It is for a port that speaks TLS already.
func (s *Server) SetTLS(c *tls.Config) { s.tls.Store(c) }

// Serve answers on goroutines of its own until Close.
func (s *Server) Serve() { s.running.Go(s.accept) }

func (s *Server) accept() {
	for {
		nc, err := s.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			s.options.Log.Error("cannot accept an operator; too many open files?", zap.Error(err))
			select {
			case <-s.ended.Done():
			case <-time.After(acceptPause):
			}
			continue
		}
		c := newConn(s, nc)
		if !s.admit(c) {
			_ = nc.SetWriteDeadline(time.Now().Add(time.Second))
			_, _ = nc.Write([]byte("-ERR max number of clients reached\r\n"))
			_ = nc.Close()
			continue
		}
		s.running.Go(c.serve)
	}
}

// admit counts a connection in, unless there are too many.
func (s *Server) admit(c *conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closed {
		return false
	}
	if len(s.mu.stranger) >= strangersMax {
		_ = s.mu.stranger[0].raw.Close() // its goroutine counts it out
		s.forgetStrangerLocked(s.mu.stranger[0])
	}
	if len(s.mu.conns) >= connectionsMax {
		return false
	}
	s.mu.conns[c] = struct{}{}
	s.mu.stranger = append(s.mu.stranger, c)
	return true
}

// known notes that a connection has given a token.
func (s *Server) known(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forgetStrangerLocked(c)
}

func (s *Server) forgetStrangerLocked(c *conn) {
	for i, other := range s.mu.stranger {
		if other == c {
			s.mu.stranger = append(s.mu.stranger[:i:i], s.mu.stranger[i+1:]...)
			return
		}
	}
}

func (s *Server) gone(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forgetStrangerLocked(c)
	delete(s.mu.conns, c)
}

// Close ends the port and its connections and waits for their goroutines. A command that is being answered is given up.
func (s *Server) Close() {
	s.mu.Lock()
	s.mu.closed = true
	for c := range s.mu.conns {
		_ = c.raw.Close()
	}
	s.mu.Unlock()
	s.cancel()
	_ = s.listener.Close()
	s.running.Wait()
}
