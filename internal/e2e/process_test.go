package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/redistest"
)

// buildSluiced compiles the program as the Makefile does.
func buildSluiced(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "sluiced")
	build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", binary, "../../cmd/sluiced")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	output, err := build.CombinedOutput()
	require.NoError(t, err, string(output))
	return binary
}

// process is a running sluiced.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	exited chan error
	mu     struct {
		sync.Mutex
		out, err bytes.Buffer
	}
}

// lockedWriter lets a test read what a process has written so far.
type lockedWriter struct {
	mu *sync.Mutex
	to *bytes.Buffer
}

func (w lockedWriter) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.to.Write(b)
}

func startProcess(t *testing.T, binary string, env []string, args ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.Command(binary, args...), exited: make(chan error, 1)}
	p.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}, env...)
	p.cmd.Dir = t.TempDir()
	p.cmd.Stdout, p.cmd.Stderr = lockedWriter{&p.mu.Mutex, &p.mu.out}, lockedWriter{&p.mu.Mutex, &p.mu.err}
	require.NoError(t, p.cmd.Start())
	go func() { p.exited <- p.cmd.Wait() }()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		p.wait()
		if t.Failed() {
			t.Logf("stdout:\n%s\nstderr:\n%s", p.stdout(), p.stderr())
		}
	})
	return p
}

func (p *process) stdout() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.out.String()
}

func (p *process) stderr() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.err.String()
}

// wait returns the exit code.
func (p *process) wait() int {
	select {
	case err := <-p.exited:
		p.exited <- err
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(30 * time.Second):
		p.t.Error("the process does not end")
		return -1
	}
}

func (p *process) signal(sig os.Signal) {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Signal(sig))
}

// awaitOutput waits until standard output matches and returns the first group.
func (p *process) awaitOutput(pattern string) string {
	p.t.Helper()
	re := regexp.MustCompile(pattern)
	var found []string
	require.Eventually(p.t, func() bool {
		found = re.FindStringSubmatch(p.stdout())
		return found != nil
	}, eventually, tick, "%s\n%s", p.stdout(), p.stderr())
	return found[len(found)-1]
}

func (p *process) clientAddr() string { p.t.Helper(); return p.awaitOutput(`clients: +(\S+:\d+)\n`) }
func (p *process) adminURL() string   { p.t.Helper(); return p.awaitOutput(`admin: +(http://\S+:\d+) `) }

// runOnce runs the program to its end.
func runOnce(t *testing.T, binary string, env []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	p := startProcess(t, binary, env, args...)
	code = p.wait()
	return code, p.stdout(), p.stderr()
}

func TestProcess(t *testing.T) {
	t.Parallel()
	binary := buildSluiced(t)
	server := redistest.Standalone(t)
	run := func(name string, test func(t *testing.T)) {
		t.Run(name, func(t *testing.T) { t.Parallel(); test(t) })
	}
	run("ten thousand subscribers", func(t *testing.T) { tenThousandSubscribers(t, binary) })
	run("version", func(t *testing.T) {
		code, stdout, stderr := runOnce(t, binary, nil, "version")
		require.Zero(t, code)
		require.Regexp(t, `^sluiced \S+ go1\.\d+\S* \w+/\w+\n$`, stdout)
		require.Empty(t, stderr)
	})
	run("help and wrong usage", func(t *testing.T) {
		code, stdout, _ := runOnce(t, binary, nil, "serve", "--help")
		require.Zero(t, code)
		require.Contains(t, stdout, "--backend")
		code, _, stderr := runOnce(t, binary, nil, "serve", "--nosuch")
		require.Equal(t, 1, code)
		require.Contains(t, stderr, "unknown flag: --nosuch")
		code, _, _ = runOnce(t, binary, nil, "nosuch")
		require.Equal(t, 1, code)
	})
	run("check-config", func(t *testing.T) { testCheckConfig(t, binary, server) })
	run("a wrong configuration never half-starts", func(t *testing.T) { testNeverHalfStarts(t, binary, server) })
	run("without a configuration", func(t *testing.T) { testWithoutConfiguration(t, binary) })
	run("with flags", func(t *testing.T) { testWithFlags(t, binary, server) })
	run("SIGTERM drains", func(t *testing.T) { testSignalDrains(t, binary, server, syscall.SIGTERM) })
	run("SIGINT drains", func(t *testing.T) { testSignalDrains(t, binary, server, syscall.SIGINT) })
	run("SIGTERM with a client that is never done", func(t *testing.T) { testDrainTimeoutOfProcess(t, binary) })
	run("SIGHUP reloads", func(t *testing.T) { testHangup(t, binary, server) })
	run("the port is taken", func(t *testing.T) { testPortTaken(t, binary, server) })
	run("the data directory is taken", func(t *testing.T) { testDataDirTaken(t, binary) })
	run("no backend address and no secret in the output", func(t *testing.T) { testOutputKeepsSecrets(t, binary) })
}

func writeConfig(t *testing.T, yaml string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "sluice.yaml")
	require.NoError(t, os.WriteFile(file, []byte(yaml), 0o600))
	return file
}

func testCheckConfig(t *testing.T, binary string, server *redistest.Server) {
	good := writeConfig(t, standaloneYAML(server.Addr()))
	code, stdout, stderr := runOnce(t, binary, nil, "check-config", good)
	require.Zero(t, code, stderr)
	require.Equal(t, good+" is valid: 1 listener(s), 1 cluster(s), 1 tenant(s)\n", stdout)

	wrong := writeConfig(t, "listener: []\nclients: {max: none}\n"+standaloneYAML(server.Addr(), "drain_timeout: -1s"))
	code, stdout, stderr = runOnce(t, binary, nil, "check-config", wrong)
	require.Equal(t, 1, code)
	require.Empty(t, stdout)
	for _, part := range []string{wrong, "listener", "clients.max", "none", "drain_timeout", "-1s"} {
		require.Contains(t, stderr, part)
	}
	code, _, stderr = runOnce(t, binary, nil, "check-config", "/no/such/file.yaml")
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "/no/such/file.yaml")
	code, _, _ = runOnce(t, binary, nil, "check-config")
	require.Equal(t, 1, code)
	certificate := writeConfig(t, listenYAML(server.Addr(), fmt.Sprintf(`{address: "127.0.0.1:0", tls: {cert: %q, key: %q}}`, good, good)))
	code, _, stderr = runOnce(t, binary, nil, "check-config", certificate)
	require.Equal(t, 1, code, stderr)
}

func testNeverHalfStarts(t *testing.T, binary string, server *redistest.Server) {
	path := socketPath(t)
	for _, wrong := range []string{
		"nosuchkey: 1\n",
		"clients: {max: -1}\n",
		"clusters: [{name: other, kind: nosuch, addresses: [x]}]\n",
	} {
		yaml := listenYAML(server.Addr(), fmt.Sprintf(`{address: "unix://%s"}`, path))
		if strings.HasPrefix(wrong, "clusters") {
			yaml = regexp.MustCompile(`(?m)^clusters:.*\n`).ReplaceAllString(yaml, wrong)
		} else {
			yaml += wrong
		}
		code, stdout, stderr := runOnce(t, binary, nil, "serve", "--config", writeConfig(t, yaml))
		require.Equal(t, 1, code, yaml)
		require.Empty(t, stdout)
		require.NotEmpty(t, stderr)
		require.NoFileExists(t, path)
	}
}

func testWithoutConfiguration(t *testing.T, binary string) {
	// The defaults' ports may be in use on this machine, so the environment moves them.
	p := startProcess(t, binary, []string{"SLUICE_LISTENERS_0_ADDRESS=127.0.0.1:0", "SLUICE_ADMIN_ADDRESS=127.0.0.1:0"}, "serve")
	addr := p.clientAddr()
	require.Contains(t, p.stdout(), "in memory only")
	host, port, err := net.SplitHostPort(addr)
	require.NoError(t, err)
	require.Contains(t, p.awaitOutput(`try it: +(.*)\n`), fmt.Sprintf("redis-cli -h %s -p %s SET greeting hello", host, port))
	c := redistest.Dial(t, addr)
	require.Eventually(t, func() bool { return string(c.Do("SET", "greeting", "hello")) == "+OK\r\n" }, eventually, tick)
	require.Equal(t, "$5\r\nhello\r\n", string(c.Do("GET", "greeting")))
	require.Equal(t, http.StatusOK, statusOf(t, p.adminURL()+"/readyz"))
	require.Equal(t, http.StatusOK, statusOf(t, p.adminURL()+"/metrics"))
	c.Close()
	p.signal(syscall.SIGTERM)
	require.Zero(t, p.wait())
}

func statusOf(t *testing.T, url string) int {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, response.Body)
	return response.StatusCode
}

func testWithFlags(t *testing.T, binary string, server *redistest.Server) {
	p := startProcess(t, binary, nil, "serve", "--listen", "127.0.0.1:0", "--backend", server.Addr(), "--admin", "off")
	c := redistest.Dial(t, p.clientAddr())
	require.Eventually(t, func() bool { return string(c.Do("SET", "by-flags", "yes")) == "+OK\r\n" }, eventually, tick)
	require.Equal(t, "$3\r\nyes\r\n", string(server.Do("GET", "by-flags")))
	require.NotContains(t, p.stdout(), "admin:")
}

func testSignalDrains(t *testing.T, binary string, server *redistest.Server, sig os.Signal) {
	p := startProcess(t, binary, nil, "serve", "--config", writeConfig(t, standaloneYAML(server.Addr())))
	addr := p.clientAddr()
	var clients []*counterClient
	var running sync.WaitGroup
	for i := range 8 {
		c := &counterClient{conn: redistest.Dial(t, addr), key: fmt.Sprintf("drain:%v:%d", sig, i), depth: 1 + 10*(i%2)}
		clients = append(clients, c)
		running.Go(func() { c.run(); c.conn.Close() })
	}
	awaitReplies(t, clients, 50)
	start := time.Now()
	p.signal(sig)
	require.Zero(t, p.wait())
	require.Less(t, time.Since(start), 10*time.Second)
	running.Wait()
	requireAllAnswered(t, server, clients)
}

func testDrainTimeoutOfProcess(t *testing.T, binary string) {
	server := redistest.Standalone(t)
	p := startProcess(t, binary, nil, "serve", "--config", writeConfig(t, standaloneYAML(server.Addr(), "drain_timeout: 300ms")))
	c := redistest.Dial(t, p.clientAddr())
	require.Eventually(t, func() bool { return string(c.Do("SET", "k", "v")) == "+OK\r\n" }, eventually, tick)
	server.Stop()
	defer server.Continue()
	c.SendCommand("GET", "k")
	require.Equal(t, "+PONG\r\n", string(redistest.Dial(t, p.clientAddr()).Do("PING")))
	start := time.Now()
	p.signal(syscall.SIGTERM)
	require.Equal(t, 1, p.wait())
	require.Less(t, time.Since(start), 5*time.Second)
	require.Contains(t, p.stderr(), "1 clients were not done within drain_timeout and were disconnected")
}

func testHangup(t *testing.T, binary string, server *redistest.Server) {
	file := writeConfig(t, standaloneYAML(server.Addr(), "log: {format: json}"))
	p := startProcess(t, binary, nil, "serve", "--config", file)
	c := redistest.Dial(t, p.clientAddr())
	require.Regexp(t, "^-NOPERM", string(c.Do("SELECT", "9")))
	p.signal(syscall.SIGHUP)
	require.Eventually(t, func() bool { return strings.Contains(p.stderr(), "configuration reloaded; nothing changed") }, eventually, tick)
	// The watcher may be quicker than the signal: either way the new file is in force.
	require.NoError(t, os.WriteFile(file, []byte(strings.Replace(standaloneYAML(server.Addr(), "log: {format: json}"), "[0, 1, 2]", "[0, 9]", 1)), 0o600))
	p.signal(syscall.SIGHUP)
	require.Eventually(t, func() bool { return string(c.Do("SELECT", "9")) == "+OK\r\n" }, eventually, tick)
	require.NoError(t, os.WriteFile(file, []byte("broken: ["), 0o600))
	p.signal(syscall.SIGHUP)
	require.Eventually(t, func() bool { return strings.Contains(p.stderr(), "the last good one keeps serving") }, eventually, tick)
	require.Equal(t, "+OK\r\n", string(c.Do("SET", "k", "v")))
	for lines := bufio.NewScanner(strings.NewReader(p.stderr())); lines.Scan(); {
		require.True(t, json.Valid(lines.Bytes()), lines.Text())
	}
}

func testPortTaken(t *testing.T, binary string, server *redistest.Server) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	code, stdout, stderr := runOnce(t, binary, nil, "serve", "--listen", taken.Addr().String(), "--backend", server.Addr(), "--admin", "off")
	require.Equal(t, 1, code)
	require.Empty(t, stdout)
	require.Contains(t, stderr, "cannot listen on "+taken.Addr().String()+": another program does; is sluiced running already?")
	require.NotContains(t, stderr, "not ready", "what did not happen because of it is not told")
	code, _, stderr = runOnce(t, binary, nil, "serve", "--listen", "127.0.0.1:0", "--backend", server.Addr(), "--admin", taken.Addr().String())
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "--admin")
}

// testDataDirTaken starts a second daemon on the data directory of a first one.
func testDataDirTaken(t *testing.T, binary string) {
	dir := t.TempDir()
	first := startProcess(t, binary, nil, "serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--data-dir", dir)
	first.clientAddr()
	code, stdout, stderr := runOnce(t, binary, nil, "serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--data-dir", dir)
	require.Equal(t, 1, code, stderr)
	require.Empty(t, stdout)
	require.Contains(t, stderr, "another process has it open; stop that one, or use another data directory")
	require.NotContains(t, stderr, "panic")
}

func testOutputKeepsSecrets(t *testing.T, binary string) {
	server := redistest.Standalone(t, redistest.WithPassword("backend-password"))
	file := writeConfig(t, fmt.Sprintf(`
listeners: [{address: "127.0.0.1:0"}]
admin: {address: "off"}
log: {level: debug}
clusters: [{name: main, kind: standalone, addresses: [%q], auth: {password_env: BACKEND_PASSWORD}}]
tenants: [{name: acme, cluster: main, users: [{name: default, password_env: CLIENT_PASSWORD}]}]
`, server.Addr()))
	env := []string{"BACKEND_PASSWORD=backend-password", "CLIENT_PASSWORD=client-password"}
	p := startProcess(t, binary, env, "serve", "--config", file)
	c := redistest.Dial(t, p.clientAddr())
	require.Equal(t, "+OK\r\n", string(c.Do("AUTH", "client-password")))
	require.Eventually(t, func() bool { return string(c.Do("SET", "k", "v")) == "+OK\r\n" }, eventually, tick)
	server.Kill()
	require.Eventually(t, func() bool { return strings.Contains(p.stderr(), "not ready") }, eventually, tick)
	server.Restart()
	require.Eventually(t, func() bool { return string(c.Do("SET", "k", "v")) == "+OK\r\n" }, eventually, tick)
	c.Close()
	p.signal(syscall.SIGTERM)
	require.Zero(t, p.wait())
	for _, secret := range []string{"backend-password", "client-password", server.Addr()} {
		require.NotContains(t, p.stdout()+p.stderr(), secret)
	}

	// A wrong password of the backend's is told without being shown.
	p = startProcess(t, binary, []string{"BACKEND_PASSWORD=wrong-password", "CLIENT_PASSWORD=client-password"}, "serve", "--config", file)
	p.clientAddr()
	require.Eventually(t, func() bool { return strings.Contains(p.stderr(), "WRONGPASS") }, eventually, tick)
	require.NotContains(t, p.stderr(), "wrong-password")
}
