package ctl

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/stretchr/testify/require"
)

// person sits at a pseudo terminal in which proxyctl runs.
type person struct {
	t      *testing.T
	cmd    *exec.Cmd
	screen *os.File
	mu     sync.Mutex
	shown  strings.Builder
	ended  chan struct{}
}

// buildProxyctl compiles the program.
func buildProxyctl(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "proxyctl")
	output, err := exec.Command("go", "build", "-buildvcs=false", "-o", binary, "../../cmd/proxyctl").CombinedOutput()
	require.NoError(t, err, string(output))
	return binary
}

// sit starts proxyctl in a terminal of 100 columns and 30 lines.
func (f *fleet) sit(t *testing.T, binary string, env []string, args ...string) *person {
	t.Helper()
	p := &person{t: t, cmd: exec.Command(binary, args...), ended: make(chan struct{})}
	p.cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "TERM=xterm-256color", "HOME=" + t.TempDir(), "TMPDIR=" + t.TempDir(),
		"SLUICE_SERVER=" + f.url, "SLUICE_TOKEN=" + f.tokens["admin"],
	}, env...)
	var err error
	p.screen, err = pty.StartWithSize(p.cmd, &pty.Winsize{Rows: 30, Cols: 100})
	require.NoError(t, err)
	go p.read() // ends when the program has ended, waited for by leave
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.ended
		_ = p.screen.Close()
	})
	return p
}

func (p *person) read() {
	defer close(p.ended)
	buffer := make([]byte, 4096)
	for {
		n, err := p.screen.Read(buffer)
		p.mu.Lock()
		p.shown.Write(buffer[:n])
		p.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (p *person) sees() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.shown.String()
}

// await waits until a text has been shown so many times.
func (p *person) await(text string, times int) {
	p.t.Helper()
	require.Eventually(p.t, func() bool { return strings.Count(p.sees(), text) >= times }, 20*time.Second, 10*time.Millisecond, "%q is not shown: %q", text, p.sees())
}

func (p *person) types(keys string) {
	p.t.Helper()
	_, err := p.screen.WriteString(keys)
	require.NoError(p.t, err)
}

// leave waits for the end and returns the exit code with all that was shown.
func (p *person) leave() (code int, shown string) {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(20 * time.Second):
		require.Fail(p.t, "it does not end", "%q", p.sees())
	}
	_ = p.cmd.Wait()
	return p.cmd.ProcessState.ExitCode(), p.sees()
}

const (
	ctrlC    = "\x03"
	wiped    = "\x1b[H\x1b[2J"
	altOn    = "\x1b[?1049h"
	altOff   = "\x1b[?1049l"
	greenOn  = "\x1b[32m"
	password = "a secret of a person"
)

// TestAtATerminal is what a person sees of proxyctl.
func TestAtATerminal(t *testing.T) {
	binary := buildProxyctl(t)
	f := startFleet(t)
	f.proxy.patient = make(chan struct{})
	f.furnish()
	sit := func(args ...string) *person { t.Helper(); return f.sit(t, binary, nil, args...) }

	t.Run("colours", func(t *testing.T) {
		code, shown := sit("status").leave()
		require.Zero(t, code)
		require.Contains(t, shown, greenOn+"ready")
		_, shown = f.sit(t, binary, []string{"NO_COLOR=1"}, "status").leave()
		require.NotContains(t, shown, "\x1b")
		_, shown = f.sit(t, binary, []string{"NO_COLOR=1"}, "status", "--color", "always").leave()
		require.Contains(t, shown, greenOn)
		code, shown = sit("clusters", "get", "c9").leave()
		require.Equal(t, ExitNotFound, code)
		require.Contains(t, shown, "\x1b[31merror:")
		piped, err := exec.Command("sh", "-c", "SLUICE_SERVER="+f.url+" SLUICE_TOKEN="+f.tokens["admin"]+" "+binary+" status | cat").Output()
		require.NoError(t, err)
		require.NotContains(t, string(piped), "\x1b")
	})
	t.Run("watch", func(t *testing.T) {
		p := sit("status", "--watch", "--interval", "100ms")
		p.await(wiped, 3)
		p.types(ctrlC)
		code, shown := p.leave()
		require.Zero(t, code)
		require.NotContains(t, shown, "error")
	})
	t.Run("top", func(t *testing.T) {
		p := sit("top", "--interval", "100ms")
		p.await("TENANT", 1)
		p.await("order: rate", 1)
		p.types("s")
		p.await("errors", 1)
		require.NoError(t, pty.Setsize(p.screen, &pty.Winsize{Rows: 12, Cols: 40}))
		p.await("COMMANDS", 2) // it is drawn anew in the other size
		p.types("q")
		code, shown := p.leave()
		require.Zero(t, code)
		require.Contains(t, shown, altOn)
		require.Greater(t, strings.LastIndex(shown, altOff), strings.LastIndex(shown, "TENANT"), "the screen is given back")
	})
	t.Run("top ends at Ctrl-C", func(t *testing.T) {
		p := sit("top", "--interval", "100ms")
		p.await("TENANT", 1)
		p.types(ctrlC)
		code, shown := p.leave()
		require.Zero(t, code)
		require.Contains(t, shown, altOff)
	})
	t.Run("no", func(t *testing.T) {
		for _, answer := range []string{"n\r", "\r", "\x04"} { // the last is the end of input
			p := sit("drain")
			p.await("[y/N]", 1)
			p.types(answer)
			code, shown := p.leave()
			require.Equal(t, ExitError, code)
			require.Contains(t, shown, "nothing was changed")
		}
		require.NotContains(t, f.proxy.done(), "drain")
	})
	t.Run("Ctrl-C at a question", func(t *testing.T) {
		p := sit("drain")
		p.await("[y/N]", 1)
		p.types(ctrlC)
		code, shown := p.leave()
		require.Equal(t, ExitInterrupted, code)
		require.Contains(t, shown, "interrupted")
		require.NotContains(t, f.proxy.done(), "drain")
	})
	t.Run("yes", func(t *testing.T) {
		p := sit("apply", "-f", f.file("more.yaml", "kind: Cluster\nname: c3\naddresses: [127.0.0.1:7003]\n"))
		p.await("[y/N]", 1)
		require.Contains(t, p.sees(), greenOn+"+name: c3")
		p.types("y\r")
		code, shown := p.leave()
		require.Zero(t, code)
		require.Contains(t, shown, "cluster c3 created")
	})
	t.Run("passwords", func(t *testing.T) {
		p := sit("users", "create", "acme", "typed")
		p.await("password: ", 1)
		p.types(password + "\r")
		p.await("again: ", 1)
		p.types(password + "\r")
		code, shown := p.leave()
		require.Zero(t, code, shown)
		require.NotContains(t, shown, password)
	})
	t.Run("Ctrl-C at a password", func(t *testing.T) {
		p := sit("users", "create", "acme", "never")
		p.await("password: ", 1)
		p.types(ctrlC)
		code, shown := p.leave()
		require.Equal(t, ExitInterrupted, code)
		require.Contains(t, shown, "interrupted")
	})
	t.Run("editor", func(t *testing.T) {
		editor := f.file("editor.sh", `test -t 0 && test -t 1 && printf 'timeout? ' && read answer && sed -i "s/^command_timeout: .*/command_timeout: $answer/" "$1"`)
		p := f.sit(t, binary, []string{"EDITOR=sh " + editor}, "tenants", "edit", "acme")
		p.await("timeout? ", 1)
		p.types("7s\r")
		code, shown := p.leave()
		require.Zero(t, code, shown)
		require.Contains(t, f.must(ExitOK, "tenants get acme -o yaml"), "command_timeout: 7s")
	})
	t.Run("what takes long is shown", func(t *testing.T) {
		p := sit("clusters", "test", "--address", "slow:1")
		p.await("trying to reach the cluster", 1)
		close(f.proxy.patient)
		code, shown := p.leave()
		require.Zero(t, code, shown)
		require.Contains(t, shown, "can be reached")
	})
	t.Run("SIGTERM", func(t *testing.T) {
		p := sit("events")
		require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
		p.leave()
	})
}
