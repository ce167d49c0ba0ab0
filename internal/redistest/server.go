package redistest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// BinaryVariable is the environment variable that names another server than
// the redis-server in PATH, for example a Valkey.
const BinaryVariable = "SLUICE_REDIS_SERVER"

const (
	startAttempts = 10
	shownLog      = 2000 // bytes of a server's log that a failed test shows
	startTimeout  = 30 * time.Second
	pollInterval  = 10 * time.Millisecond
)

var errAddressInUse = errors.New("address already in use")

// Server is one redis-server process of a test. Its methods may be called from
// several goroutines, except that a failure ends the test.
type Server struct {
	t       testing.TB
	binary  string
	options options
	cluster bool
	dir     string
	socket  string

	port, busPort *portLease // replaced only while the first start finds them taken

	mu struct {
		sync.Mutex
		process *process
		stopped bool // by Stop
	}
}

// Standalone starts a redis-server without persistence on a free port of
// 127.0.0.1 and returns when it answers. The test's end kills it.
func Standalone(t testing.TB, opts ...Option) *Server {
	t.Helper()
	s := newServer(t, gather(opts), false)
	s.start()
	s.awaitAnswer()
	return s
}

func newServer(t testing.TB, o options, cluster bool) *Server {
	t.Helper()
	s := &Server{t: t, binary: findBinary(t), options: o, cluster: cluster, dir: t.TempDir()}
	if o.socket {
		s.socket = filepath.Join(shortTempDir(t), "redis.sock")
	}
	t.Cleanup(s.dispose)
	return s
}

func findBinary(t testing.TB) string {
	t.Helper()
	name := os.Getenv(BinaryVariable)
	if name == "" {
		name = "redis-server"
	}
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("cannot find %s (%v): run `make test`, which installs redis-server, or set %s to its path",
			name, err, BinaryVariable)
	}
	return path
}

// shortTempDir exists because a unix socket's path has room for about 100 bytes
// only, and t.TempDir holds the test's name.
func shortTempDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "sluice")
	if err != nil {
		t.Fatalf("cannot create socket folder: %v", err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// start launches the process, on other ports when somebody was faster.
func (s *Server) start() {
	s.t.Helper()
	for range startAttempts {
		s.leasePorts()
		err := s.launch()
		if err == nil {
			return
		}
		if !errors.Is(err, errAddressInUse) {
			s.t.Fatalf("cannot start server: %v", err)
		}
		s.releasePorts()
	}
	s.t.Fatalf("cannot start server: no port free in %d attempts", startAttempts)
}

func (s *Server) leasePorts() {
	s.t.Helper()
	var err error
	if s.port, err = leasePort(); err != nil {
		s.t.Fatal(err)
	}
	if !s.cluster {
		return
	}
	if s.busPort, err = leasePort(); err != nil {
		s.t.Fatal(err)
	}
}

func (s *Server) releasePorts() {
	for _, lease := range []*portLease{s.port, s.busPort} {
		if lease != nil {
			lease.release()
		}
	}
}

// launch starts the process and returns when its port is open or it has failed.
func (s *Server) launch() error {
	confPath := filepath.Join(s.dir, "redis.conf")
	if err := os.WriteFile(confPath, []byte(s.config()), 0o600); err != nil {
		return fmt.Errorf("cannot write redis.conf: %w", err)
	}
	logSize := len(s.Log())
	p, err := startProcess(s.binary, s.logPath(), append([]string{confPath}, s.options.args...)...)
	if err != nil {
		return err
	}
	if err := s.awaitOpenPort(p); err != nil {
		p.kill()
		return s.startFailure(err, logSize)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.process, s.mu.stopped = p, false
	return nil
}

// startFailure tells a taken port, which another attempt mends, from all else;
// the log before logSize belongs to former starts.
func (s *Server) startFailure(err error, logSize int) error {
	text := s.Log()[logSize:]
	if strings.Contains(text, "already in use") {
		return errAddressInUse
	}
	return fmt.Errorf("%w; its log:\n%s", err, text)
}

// Kill ends the process at once, as a crash would; Restart brings it back.
func (s *Server) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.process != nil {
		s.mu.process.kill()
	}
}

// Stop freezes the process (SIGSTOP): its connections stay open and silent.
func (s *Server) Stop() { s.t.Helper(); s.signal(syscall.SIGSTOP, true) }

// Continue wakes a process that Stop froze.
func (s *Server) Continue() { s.t.Helper(); s.signal(syscall.SIGCONT, false) }

func (s *Server) signal(sig syscall.Signal, stops bool) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.mu.process.signal(sig); err != nil {
		s.t.Fatalf("cannot send %v to server: %v", sig, err)
	}
	s.mu.stopped = stops
}

// Restart ends the process if it still runs and starts it again on the same
// port with the same folder; without persistence its data is gone.
func (s *Server) Restart() {
	s.t.Helper()
	s.Kill()
	if err := s.launch(); err != nil {
		s.t.Fatalf("cannot restart server: %v", err)
	}
	s.awaitAnswer()
}

// Running says whether the process exists and was not stopped.
func (s *Server) Running() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.process != nil && !s.mu.stopped && !s.mu.process.hasExited()
}

// PID is the process's id, to read its CPU time for example.
func (s *Server) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.process.cmd.Process.Pid
}

func (s *Server) dispose() {
	s.Kill()
	s.releasePorts()
	if s.t.Failed() {
		text := s.Log()
		s.t.Logf("end of the log in %s:\n%s", s.dir, text[max(0, len(text)-shownLog):])
	}
}

// Addr is the server's host:port.
func (s *Server) Addr() string { return loopback(s.port.number) }

// Port is the port of Addr.
func (s *Server) Port() int { return s.port.number }

// SocketPath is the unix socket of WithUnixSocket, else empty.
func (s *Server) SocketPath() string { return s.socket }

// Password is what WithPassword set.
func (s *Server) Password() string { return s.options.password }

// Dir is the server's working folder.
func (s *Server) Dir() string { return s.dir }

// Log is what the server has logged so far.
func (s *Server) Log() string {
	text, _ := os.ReadFile(s.logPath()) // no file yet: nothing logged
	return string(text)
}

func (s *Server) logPath() string { return filepath.Join(s.dir, "redis.log") }
