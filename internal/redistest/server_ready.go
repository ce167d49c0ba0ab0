package redistest

import (
	"errors"
	"net"
	"strings"
	"time"
)

// awaitOpenPort returns when the process accepts connections.
func (s *Server) awaitOpenPort(p *process) error {
	deadline := time.Now().Add(startTimeout)
	for time.Now().Before(deadline) {
		select {
		case <-p.exited:
			return errors.New("the server ended while starting")
		case <-time.After(pollInterval):
		}
		conn, err := net.DialTimeout("tcp", s.Addr(), time.Second)
		if err == nil {
			_ = conn.Close()
			return nil
		}
	}
	return errors.New("the server's port does not open")
}

// awaitAnswer returns when PING is answered, so also when data was loaded.
func (s *Server) awaitAnswer() {
	s.t.Helper()
	s.eventually("server answers PING", func() bool {
		reply, err := s.tryDo("PING")
		return err == nil && strings.HasPrefix(string(reply), "+PONG")
	})
}

// eventually polls what only another process can make true.
func (s *Server) eventually(what string, holds func() bool) {
	s.t.Helper()
	eventually(s.t, what, holds)
}

type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

func eventually(t fataler, what string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(startTimeout)
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("not reached in %v: %s", startTimeout, what)
		}
		time.Sleep(pollInterval)
	}
}

// Dial opens a connection as the server's default user: with TLS and the
// password if it has them.
func (s *Server) Dial() *Conn {
	s.t.Helper()
	conn, err := s.dial()
	if err != nil {
		s.t.Fatalf("cannot dial server: %v", err)
	}
	s.t.Cleanup(conn.Close)
	return conn
}

// Do runs one command on a connection of its own and returns the raw reply.
func (s *Server) Do(args ...string) []byte {
	s.t.Helper()
	reply, err := s.tryDo(args...)
	if err != nil {
		s.t.Fatalf("cannot run %s: %v", args[0], err)
	}
	return reply
}

// mustDo is Do for commands whose error reply is a failure of the test.
func (s *Server) mustDo(args ...string) any {
	s.t.Helper()
	value := decode(s.Do(args...))
	if err, ok := value.(replyError); ok {
		s.t.Fatalf("%s: %s", strings.Join(args, " "), string(err))
	}
	return value
}

// tryDo may be called from any goroutine.
func (s *Server) tryDo(args ...string) ([]byte, error) {
	conn, err := s.dial()
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return conn.TryDo(args...)
}

func (s *Server) dial() (*Conn, error) {
	conn, err := s.dialBare()
	if err != nil {
		return nil, err
	}
	if s.options.password == "" {
		return conn, nil
	}
	reply, err := conn.TryDo("AUTH", s.options.password)
	if err == nil && string(reply) != "+OK\r\n" {
		err = errors.New("AUTH was refused")
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

func (s *Server) dialBare() (*Conn, error) {
	if s.options.tls == nil {
		return dial(s.t, s.Addr(), nil)
	}
	return dial(s.t, s.Addr(), s.options.tls.ClientConfig(s.t))
}
