package redistest

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// process is one running redis-server.
type process struct {
	cmd    *exec.Cmd
	exited chan struct{} // closed by the waiter when the process is gone
}

// startProcess runs binary with its output going to the file logPath.
func startProcess(binary, logPath string, args ...string) (*process, error) {
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot open server log: %w", err)
	}
	cmd := exec.Command(binary, args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = dieWithParent()
	p := &process{cmd: cmd, exited: make(chan struct{})}
	started := make(chan error, 1)
	go p.runAndWait(started)
	err = <-started
	_ = log.Close() // the process has its own descriptor
	if err != nil {
		return nil, fmt.Errorf("cannot start %s: %w", binary, err)
	}
	return p, nil
}

// runAndWait keeps its thread for as long as the process lives: Linux counts
// the thread, not the process, as the parent whose end ends the child.
func (p *process) runAndWait(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(p.exited)
	err := p.cmd.Start()
	started <- err
	if err == nil {
		_ = p.cmd.Wait()
	}
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.exited
}

func (p *process) signal(sig syscall.Signal) error {
	return p.cmd.Process.Signal(sig)
}

func (p *process) hasExited() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}
