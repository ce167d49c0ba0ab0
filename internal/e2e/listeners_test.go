package e2e

import (
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/config"
	"github.com/sluiceproxy/sluice/internal/daemon"
	"github.com/sluiceproxy/sluice/internal/redistest"
)

// socketPath is a path short enough for a unix socket.
func socketPath(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "sluice")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return filepath.Join(dir, "sluice.sock")
}

func listenYAML(backend string, listeners string, extra ...string) string {
	return fmt.Sprintf(`
listeners: [%s]
admin: {address: "127.0.0.1:0"}
clusters: [{name: main, kind: standalone, addresses: [%q]}]
tenants: [{name: acme, cluster: main}]
%s`, listeners, backend, strings.Join(extra, "\n"))
}

// startFails runs a daemon that must not start and returns its error.
func startFails(t *testing.T, yaml string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "sluice.yaml")
	require.NoError(t, os.WriteFile(file, []byte(yaml), 0o600))
	err := daemon.Run(t.Context(), daemon.Options{
		Load:    func() (*config.Config, error) { return config.Load(file, nil) },
		Started: func(*daemon.Daemon) { t.Error("the daemon started") },
	})
	require.Error(t, err)
	return err.Error()
}

func TestUnixSocket(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	path := socketPath(t)
	p := startProxy(t, listenYAML(server.Addr(), fmt.Sprintf(`{address: "unix://%s", mode: "0600"}`, path)))
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	c := redistest.Dial(t, path)
	value := strings.Repeat("v", 300000)
	require.Equal(t, "+OK\r\n", string(c.Do("SET", "k", value)))
	require.Len(t, c.Do("GET", "k"), len(value)+len("$300000\r\n\r\n"))
	require.Contains(t, string(c.Do("CLIENT", "INFO")), "addr=unix")
	c.Send("PING\r\nGET nosuch\r\n")
	require.NoError(t, c.NetConn().(*net.UnixConn).CloseWrite())
	c.RequireReply("+PONG\r\n")
	c.RequireReply("$-1\r\n")
	c.RequireClosed()

	text := startFails(t, listenYAML(server.Addr(), fmt.Sprintf(`{address: "unix://%s"}`, path)))
	require.Contains(t, text, "another process does")
	require.Equal(t, "+PONG\r\n", string(redistest.Dial(t, path).Do("PING")), "the running one is not harmed")
	require.NoError(t, p.stop())
	require.NoFileExists(t, path)
}

func TestStaleUnixSocketIsReplaced(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	path := socketPath(t)
	ln, err := net.Listen("unix", path)
	require.NoError(t, err)
	ln.(*net.UnixListener).SetUnlinkOnClose(false)
	require.NoError(t, ln.Close())
	require.FileExists(t, path)
	startProxy(t, listenYAML(server.Addr(), fmt.Sprintf(`{address: "unix://%s"}`, path)))
	require.Equal(t, "+PONG\r\n", string(redistest.Dial(t, path).Do("PING")))
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o660), info.Mode().Perm())

	other := filepath.Join(filepath.Dir(path), "file")
	require.NoError(t, os.WriteFile(other, []byte("precious"), 0o600))
	require.Contains(t, startFails(t, listenYAML(server.Addr(), fmt.Sprintf(`{address: "unix://%s"}`, other))), "not a socket")
	content, err := os.ReadFile(other)
	require.NoError(t, err)
	require.Equal(t, "precious", string(content))
}

func TestTLSListener(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	files := redistest.NewTLSFiles(t)
	p := startProxy(t, listenYAML(server.Addr(), fmt.Sprintf(
		`{address: "127.0.0.1:0", tls: {cert: %q, key: %q}}, {address: "127.0.0.1:0", tls: {cert: %q, key: %q, client_ca: %q}}, {address: "127.0.0.1:0"}`,
		files.ServerCert, files.ServerKey, files.ServerCert, files.ServerKey, files.CA)))
	p.awaitReady(t)
	open, mutual, plain := p.Addresses()[0].String(), p.Addresses()[1].String(), p.Addresses()[2].String()
	trusting := files.ClientConfig(t)
	anonymous := trusting.Clone()
	anonymous.Certificates = nil

	for name, dial := range map[string]func() *redistest.Conn{
		"server certificate":       func() *redistest.Conn { return redistest.DialTLS(t, open, anonymous) },
		"client certificate":       func() *redistest.Conn { return redistest.DialTLS(t, mutual, trusting) },
		"certificate not asked of": func() *redistest.Conn { return redistest.DialTLS(t, open, trusting) },
	} {
		t.Run(name, func(t *testing.T) {
			c := dial()
			c.Send(mixedBatch)
			server.Do("DEL", "counter")
			for i, want := range mixedReplies() {
				if i < 5 { // the counter is shared
					c.RequireReply(want)
				} else {
					c.ReadReply()
				}
			}
			value := strings.Repeat("0123456789", 300000)
			require.Equal(t, "+OK\r\n", string(c.Do("SET", "big", value)))
			require.Equal(t, "$3000000\r\n"+value+"\r\n", string(c.Do("GET", "big")))
			c.Send("GET nosuch\r\nSELECT 0\r\nPING\r\n")
			require.NoError(t, c.NetConn().(*tls.Conn).CloseWrite())
			c.RequireReply("$-1\r\n")
			c.RequireReply("+OK\r\n")
			c.RequireReply("+PONG\r\n")
			c.RequireClosed()
		})
	}
	t.Run("without the client certificate", func(t *testing.T) {
		c, err := tls.Dial("tcp", mutual, anonymous)
		if err == nil { // with TLS 1.3 the client learns of it at its first read
			require.NoError(t, c.SetDeadline(time.Now().Add(redistest.ConnTimeout)))
			_, _ = c.Write([]byte("PING\r\n"))
			_, err = c.Read(make([]byte, 10))
			_ = c.Close()
		}
		require.Error(t, err)
		require.NotErrorIs(t, err, os.ErrDeadlineExceeded)
	})
	t.Run("plain bytes to the TLS port", func(t *testing.T) {
		c := redistest.Dial(t, open)
		c.Send("PING\r\n")
		_, err := c.TryRead()
		require.Error(t, err)
		require.NotErrorIs(t, err, os.ErrDeadlineExceeded)
	})
	t.Run("many at once beside plain ones", func(t *testing.T) {
		var conns []*redistest.Conn
		for i := range 20 {
			if i%2 == 0 {
				conns = append(conns, redistest.DialTLS(t, open, anonymous))
			} else {
				conns = append(conns, redistest.Dial(t, plain))
			}
		}
		for i, c := range conns {
			c.Send(strings.Repeat(redistest.Command("ECHO", fmt.Sprint(i))+redistest.Command("SET", "k", fmt.Sprint(i)), 100))
		}
		for i, c := range conns {
			for range 100 {
				c.RequireReply(fmt.Sprintf("$%d\r\n%d\r\n", len(fmt.Sprint(i)), i))
				c.RequireReply("+OK\r\n")
			}
		}
	})
	require.GreaterOrEqual(t, p.metric(t, "sluice_clients_rejected_total", `reason="tls_handshake"`), 2.0)
}

// TestStopDoesNotWaitForHandshakes: a client that connects and says nothing holds up nobody.
func TestStopDoesNotWaitForHandshakes(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	files := redistest.NewTLSFiles(t)
	p := startProxy(t, listenYAML(server.Addr(), fmt.Sprintf(`{address: "127.0.0.1:0", tls: {cert: %q, key: %q}}`, files.ServerCert, files.ServerKey)))
	redistest.Dial(t, p.Addr)
	second := redistest.DialTLS(t, p.Addr, files.ClientConfig(t))
	require.Equal(t, "+PONG\r\n", string(second.Do("PING")))
	start := time.Now()
	go func() { _, _ = second.TryRead(); second.Close() }()
	require.NoError(t, p.stop())
	require.Less(t, time.Since(start), 5*time.Second)
}

func TestBothProtocolsOnOnePort(t *testing.T) {
	t.Parallel()
	p := startPair(t)
	two, _ := p.dial(t, 2)
	three, _ := p.dial(t, 3)
	require.Equal(t, ":1\r\n", string(two.Do("HSET", "h", "f", "v")))
	for range 20 {
		two.Send("HGETALL h\r\nGET nosuch\r\nZSCORE nosuch m\r\n")
		three.Send("HGETALL h\r\nGET nosuch\r\nZSCORE nosuch m\r\n")
		three.RequireReply("%1\r\n$1\r\nf\r\n$1\r\nv\r\n")
		two.RequireReply("*2\r\n$1\r\nf\r\n$1\r\nv\r\n")
		two.RequireReply("$-1\r\n")
		three.RequireReply("_\r\n")
		two.RequireReply("$-1\r\n")
		three.RequireReply("_\r\n")
	}
	// A connection that changes its version gets each reply in the version in force when the command was sent.
	two.Send("HGETALL h\r\nHELLO 3\r\nHGETALL h\r\nHELLO 2\r\nHGETALL h\r\n")
	for _, first := range []byte("*%%**") {
		require.Equal(t, first, two.ReadReply()[0])
	}
}

func TestListenersOpenAllOrNone(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	path := socketPath(t)
	text := startFails(t, listenYAML(server.Addr(), fmt.Sprintf(`{address: "unix://%s"}, {address: %q}`, path, taken.Addr())))
	require.Contains(t, text, "cannot listen on "+taken.Addr().String())
	require.NoFileExists(t, path, "what was opened before is closed again")
}
