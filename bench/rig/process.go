// Package rig starts the processes that a benchmark measures, on free loopback ports, and ends them again.
package rig

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// How long a process may take to answer, and to end after it was asked to.
const (
	startTimeout = 15 * time.Second
	stopTimeout  = 10 * time.Second
	startTries   = 3 // another process may take a port between its choice and its use
)

// Rig owns the processes that it started and a folder for their files.
type Rig struct {
	dir string

	mu        sync.Mutex
	processes []*Process
	started   int
}

// New makes a rig with an empty folder.
func New() (*Rig, error) {
	dir, err := os.MkdirTemp("", "sluicebench-")
	if err != nil {
		return nil, fmt.Errorf("cannot make a folder for the processes: %w", err)
	}
	return &Rig{dir: dir}, nil
}

// Close ends every process and removes the folder.
func (r *Rig) Close() error {
	r.mu.Lock()
	processes := r.processes
	r.processes = nil
	r.mu.Unlock()
	for i := len(processes) - 1; i >= 0; i-- {
		processes[i].Stop()
	}
	return os.RemoveAll(r.dir)
}

// Process is a running program that listens on Addr.
type Process struct {
	Name  string
	Addr  string
	Admin string        // address of the admin port, empty if it has none
	Start time.Duration // from its launch until it was ready

	command *exec.Cmd
	log     string // path of what it printed
	ended   chan struct{}
	stop    sync.Once
}

// PID is the process id.
func (p *Process) PID() int { return p.command.Process.Pid }

// Stop asks the process to end, waits for it, and kills it when it does not.
func (p *Process) Stop() {
	p.stop.Do(func() {
		_ = p.command.Process.Signal(syscall.SIGTERM)
		select {
		case <-p.ended:
		case <-time.After(stopTimeout):
			_ = p.command.Process.Kill()
			<-p.ended
		}
	})
}

// Running tells whether the process is still there.
func (p *Process) Running() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// LogTail is the end of what the process printed.
func (p *Process) LogTail() string {
	data, err := os.ReadFile(p.log)
	if err != nil {
		return ""
	}
	const tail = 2000
	return strings.TrimSpace(string(data[max(0, len(data)-tail):]))
}

// program says how to start one.
type program struct {
	name  string
	path  string
	ports int // how many it listens on; the first is for clients
	// args makes its arguments. dir is a folder of its own, ports are free.
	args  func(dir string, ports []int) ([]string, error)
	env   []string
	admin int // index of the admin port among ports; 0: none
	ready func(ctx context.Context, p *Process) error
}

// start starts a program and returns when it answers.
func (r *Rig) start(ctx context.Context, program program) (*Process, error) {
	var failures []error
	for range startTries {
		p, err := r.tryStart(ctx, program)
		if err == nil {
			return p, nil
		}
		failures = append(failures, err)
		if ctx.Err() != nil || errors.Is(err, os.ErrNotExist) || errors.Is(err, exec.ErrNotFound) {
			break
		}
	}
	return nil, fmt.Errorf("cannot start %s: %w", program.name, failures[len(failures)-1])
}

func (r *Rig) tryStart(ctx context.Context, program program) (*Process, error) {
	dir, err := r.folder(program.name)
	if err != nil {
		return nil, err
	}
	ports, err := freePorts(program.ports)
	if err != nil {
		return nil, err
	}
	args, err := program.args(dir, ports)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	p, err := launch(program, dir, args)
	if err != nil {
		return nil, err
	}
	p.Addr = loopback(ports[0])
	if program.admin > 0 {
		p.Admin = loopback(ports[program.admin])
	}
	if err := p.awaitReady(ctx, program.ready); err != nil {
		p.Stop()
		return nil, fmt.Errorf("%w\n%s %s printed:\n%s", err, program.path, strings.Join(args, " "), p.LogTail())
	}
	p.Start = time.Since(began)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.processes = append(r.processes, p)
	return p, nil
}

func (r *Rig) folder(name string) (string, error) {
	r.mu.Lock()
	r.started++
	number := r.started
	r.mu.Unlock()
	dir := filepath.Join(r.dir, fmt.Sprintf("%02d-%s", number, name))
	return dir, os.Mkdir(dir, 0o755)
}

// launch starts the program. It is not bound to a context: Stop ends it, also after an interrupt, so that it can be
// asked before it is killed.
func launch(program program, dir string, args []string) (*Process, error) {
	log, err := os.Create(filepath.Join(dir, "output.log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p := &Process{Name: program.name, log: log.Name(), ended: make(chan struct{})}
	p.command = exec.Command(program.path, args...)
	p.command.Dir = dir
	p.command.Env = append(os.Environ(), program.env...)
	p.command.Stdout, p.command.Stderr = log, log
	// A process group of its own: an interrupt at the terminal reaches only the benchmark, which then ends the others.
	p.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.command.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = p.command.Wait() // how it ended shows in its log
		close(p.ended)
	}()
	return p, nil
}

func (p *Process) awaitReady(ctx context.Context, ready func(context.Context, *Process) error) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		attempt, cancelAttempt := context.WithTimeout(ctx, time.Second)
		err := ready(attempt, p)
		cancelAttempt()
		if err == nil {
			return nil
		}
		select {
		case <-p.ended:
			return errors.New("it ended at once")
		case <-ctx.Done():
			return fmt.Errorf("it does not answer: %w", err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// answersPing is ready when a PING on the client port is answered by anything but an error.
func answersPing(ctx context.Context, p *Process) error {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", p.Addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return err
		}
	}
	if _, err := conn.Write([]byte("*1\r\n$4\r\nPING\r\n")); err != nil {
		return err
	}
	answer := make([]byte, 128)
	n, err := conn.Read(answer)
	if err != nil {
		return err
	}
	if answer[0] == '-' {
		return fmt.Errorf("it answers %q", bytes.TrimSpace(answer[:n]))
	}
	return nil
}

// freePorts returns ports of the loopback interface on which nobody listens.
func freePorts(n int) ([]int, error) {
	var listeners []net.Listener
	defer func() { closeAll(listeners) }() // only after all were chosen, so that they differ
	ports := make([]int, n)
	for i := range ports {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("cannot find a free port: %w", err)
		}
		listeners = append(listeners, listener)
		ports[i] = listener.Addr().(*net.TCPAddr).Port
	}
	return ports, nil
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
