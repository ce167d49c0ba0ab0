package e2e

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/redistest"
)

// consoleToken is the text of a token that consoleYAML declares.
func consoleToken(name string) string { return "slt_console-token-of-" + name }

// consoleYAML has an operator, a viewer and a token for acme alone; tenants acme and other.
func consoleYAML(backend, listener string) string {
	return fmt.Sprintf(`
listeners: [{address: "127.0.0.1:0"}, %s]
admin:
  address: "127.0.0.1:0"
  audit: "off"
  tokens:
    - {name: ops, role: operator, sha256: %q}
    - {name: view, role: viewer, sha256: %q}
    - {name: bound, role: operator, tenants: [acme], sha256: %q}
clusters: [{name: main, kind: standalone, addresses: [%q]}]
tenants:
  - {name: acme, cluster: main, users: [{name: app, sha256: %q}]}
  - {name: other, cluster: main, databases: [1], users: [{name: web, sha256: %q}]}
`, listener, sha256Hex(consoleToken("ops")), sha256Hex(consoleToken("view")), sha256Hex(consoleToken("bound")), backend,
		sha256Hex("pw-app"), sha256Hex("pw-web"))
}

func startConsole(t *testing.T) (p *proxy, addr string) {
	t.Helper()
	server := redistest.Standalone(t)
	p = startProxy(t, consoleYAML(server.Addr(), `{address: "127.0.0.1:0", admin: true}`))
	p.awaitReady(t)
	return p, p.Consoles()[0].String()
}

// TestConsoleWithRedisCLI gives every command as an operator would.
func TestConsoleWithRedisCLI(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("redis-cli"); err != nil {
		t.Skip("redis-cli is not installed")
	}
	p, addr := startConsole(t)
	app, web := p.login(t, "app"), p.login(t, "web")
	require.Equal(t, "+OK\r\n", string(app.Do("SET", "k", "v")))
	require.Equal(t, "$-1\r\n", string(web.Do("GET", "k")))
	as := func(token, line string, flags ...string) string {
		t.Helper()
		return redisCLI(t, addr, line+"\n", append([]string{"--no-auth-warning", "-a", consoleToken(token)}, flags...)...)
	}
	for line, want := range map[string][]string{
		"PROXY HELP":                             {"PROXY <subcommand>", "EXPLAIN [<tenant>] <command>", "    Print this help."},
		"PROXY STATUS":                           {"version\ntest\n", "ready\n1\n", "clients\n2\n", "store\nkind\nmemory\n"},
		"PROXY TENANTS":                          {"name\nacme\ncluster\nmain\n", "name\nother\n", "total\n2\n"},
		"PROXY CLUSTERS":                         {"name\nmain\nkind\nstandalone\n"},
		"PROXY SESSIONS TENANT acme":             {"user\napp\n", "last_command\nset\n", "total\n1\n"},
		"PROXY SESSIONS TENANT acme COMMAND get": {"total\n0\n"},
		"PROXY NODES":                            {"alias\nshard-0/primary\n", "healthy\n1\n"},
		"PROXY POOLS":                            {"pools\ncluster\nmain\n", "pinned_total\n0\n"},
		"PROXY TOPOLOGY main":                    {"covered\n16384\n", "first\n0\nlast\n16383\n"},
		"PROXY EXPLAIN acme GET k":               {"served\nforward\n", "keys\nk\n", "slots\n7629\n"},
		"INFO":                                   {"sluice_version:test", "ready:1", "tenants:2"},
		"PROXY TOPOLOGY nosuch":                  {`ERR Cluster "nosuch": there is no such entity; PROXY CLUSTERS lists them`},
		"GET k":                                  {"ERR unknown command 'GET'"},
		"PING\nECHO hi\nSELECT 0\nCLIENT SETNAME x": {"PONG\nhi\nOK\nOK\n"},
	} {
		output := as("ops", line)
		for _, part := range want {
			require.Contains(t, output, part, line)
		}
	}
	require.Contains(t, as("ops", "PROXY STATUS", "-3", "--json"), `"ready":true,`)
	require.NotContains(t, as("view", "PROXY NODES"), "127.0.0.1")

	require.Contains(t, as("view", "PROXY PAUSE acme REFUSE"), "NOPERM this needs a token of role operator; token view is viewer")
	require.Contains(t, as("nobody", "PROXY STATUS"), "NOAUTH")
	require.Contains(t, redisCLI(t, addr, "PROXY DRAIN\nAUTH "+consoleToken("nobody")+"\n"), "WRONGPASS this is not a valid token of the admin API")
	require.Equal(t, "$1\r\nv\r\n", string(app.Do("GET", "k")))

	bound := as("bound", "PROXY STATUS\nPROXY TENANTS\nPROXY SESSIONS\nPROXY NODES\nPROXY POOLS\nPROXY EXPLAIN GET k")
	require.Contains(t, bound, "acme")
	require.NotContains(t, bound, "other")
	require.NotContains(t, bound, "user\nweb")
	require.Contains(t, as("bound", "PROXY PAUSE other"), `ERR Tenant "other": there is no such entity`)
	require.Contains(t, as("bound", "PROXY DRAIN"), "NOPERM")

	require.Equal(t, "OK\n", strings.TrimLeft(as("bound", "PROXY PAUSE acme REFUSE 1h"), "\n"))
	require.Equal(t, halted, string(app.Do("GET", "k")))
	require.Equal(t, "$-1\r\n", string(web.Do("GET", "k")))
	require.Contains(t, as("ops", "PROXY STATUS"), "paused\nacme\n")
	require.Contains(t, as("ops", "PROXY RESUME acme"), "OK")
	require.Equal(t, "$1\r\nv\r\n", string(app.Do("GET", "k")))
	require.Contains(t, as("ops", "PROXY PAUSE acme"), "OK")
	app.SendCommand("GET", "k")
	require.Contains(t, as("ops", "PROXY SESSIONS USER app"), "total\n1\n")
	require.Contains(t, as("ops", "PROXY RESUME acme"), "OK")
	app.RequireReply("$1\r\nv\r\n")

	require.Contains(t, as("ops", "PROXY DRAIN"), "OK")
	app.RequireClosed()
	status, body, _ := p.get(t, "/readyz")
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Contains(t, body, "draining")
	require.Contains(t, as("ops", "PROXY STATUS"), "draining\n1\n")
	require.Contains(t, as("ops", "PROXY UNDRAIN"), "OK")
	require.Equal(t, "$1\r\nv\r\n", string(p.login(t, "app").Do("GET", "k")))
}

// TestConsoleWithGoRedis: a client library connects as to any server, in both protocols.
func TestConsoleWithGoRedis(t *testing.T) {
	t.Parallel()
	_, addr := startConsole(t)
	for _, protocol := range []int{2, 3} {
		client := redis.NewClient(&redis.Options{Addr: addr, Password: consoleToken("ops"), Protocol: protocol, ClientName: "ops"})
		t.Cleanup(func() { _ = client.Close() })
		require.NoError(t, client.Ping(t.Context()).Err())
		status, err := client.Do(t.Context(), "PROXY", "STATUS").Result()
		require.NoError(t, err)
		if protocol == 3 {
			require.Equal(t, true, status.(map[any]any)["ready"])
			require.Equal(t, "memory", status.(map[any]any)["store"].(map[any]any)["kind"])
		} else {
			require.Contains(t, status.([]any), "ready")
		}
		require.ErrorContains(t, client.Do(t.Context(), "PROXY", "PAUSE", "nosuch").Err(), "there is no such entity")
	}
	wrong := redis.NewClient(&redis.Options{Addr: addr, Password: "wrong"})
	defer wrong.Close()
	require.ErrorContains(t, wrong.Ping(t.Context()).Err(), "WRONGPASS")
}

// TestConsoleSurvivesHostileBytes sends what makes parsers of the protocol panic or spin.
func TestConsoleSurvivesHostileBytes(t *testing.T) {
	t.Parallel()
	p, addr := startConsole(t)
	for _, hostile := range []string{"*1\r\n$9223372036854775807\r\n", "*9000000000000000000\r\n"} {
		c := redistest.Dial(t, addr)
		c.Send(hostile)
		require.Contains(t, string(c.ReadReply()), "-ERR Protocol error: invalid")
		c.RequireClosed()
	}
	for range 200 { // more than there may be, all left open
		redistest.Dial(t, addr)
	}
	c := redistest.Dial(t, addr)
	require.Equal(t, "+OK\r\n", string(c.Do("AUTH", consoleToken("ops"))))
	require.Equal(t, "+OK\r\n", string(p.login(t, "app").Do("SET", "k", "v")), "clients notice nothing")
	started := time.Now()
	require.NoError(t, p.stop())
	require.Less(t, time.Since(started), 10*time.Second, "connections of operators hold up no stop")
	c.RequireClosed()
}

// TestConsoleListeners: TLS, client certificates and a unix socket, as other listeners have them.
func TestConsoleListeners(t *testing.T) {
	t.Parallel()
	server, files, path := redistest.Standalone(t), redistest.NewTLSFiles(t), socketPath(t)
	p := startProxy(t, consoleYAML(server.Addr(), fmt.Sprintf(
		`{address: "127.0.0.1:0", admin: true, tls: {cert: %q, key: %q}}, {address: "127.0.0.1:0", admin: true, tls: {cert: %q, key: %q, client_ca: %q}}, {address: "unix://%s", admin: true, mode: "0600"}`,
		files.ServerCert, files.ServerKey, files.ServerCert, files.ServerKey, files.CA, path)))
	require.Len(t, p.Addresses(), 1, "no client connects to them")
	trusting := files.ClientConfig(t)
	anonymous := trusting.Clone()
	anonymous.Certificates = nil
	open, mutual := p.Consoles()[0].String(), p.Consoles()[1].String()
	for _, c := range []*redistest.Conn{redistest.DialTLS(t, open, anonymous), redistest.DialTLS(t, mutual, trusting), redistest.Dial(t, path)} {
		require.Equal(t, "+OK\r\n", string(c.Do("AUTH", consoleToken("view"))))
		require.Contains(t, string(c.Do("PROXY", "WHOAMI")), "view")
	}
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())

	stranger, err := tls.Dial("tcp", mutual, anonymous)
	if err == nil { // with TLS 1.3 the client learns of it at its first read
		require.NoError(t, stranger.SetDeadline(time.Now().Add(redistest.ConnTimeout)))
		_, _ = stranger.Write([]byte("PING\r\n"))
		_, err = stranger.Read(make([]byte, 10))
		_ = stranger.Close()
	}
	require.Error(t, err)
	require.NotErrorIs(t, err, os.ErrDeadlineExceeded)
	plain := redistest.Dial(t, open)
	plain.Send("PING\r\n")
	_, err = plain.TryRead()
	require.Error(t, err, "nothing is said without TLS")

	// A reload takes a renewed certificate over; here one of other authorities.
	renewed := redistest.NewTLSFiles(t)
	for from, to := range map[string]string{renewed.ServerCert: files.ServerCert, renewed.ServerKey: files.ServerKey} {
		content, err := os.ReadFile(from)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(to, content, 0o600))
	}
	p.reload <- struct{}{}
	fresh := renewed.ClientConfig(t)
	fresh.Certificates = nil
	require.Eventually(t, func() bool {
		c, err := tls.Dial("tcp", open, fresh)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	}, eventually, tick)
	require.NoError(t, p.stop())
	require.NoFileExists(t, path)
}

// TestConsoleWithoutTheAdminPort: who has redis-cli alone gets a first token too.
func TestConsoleWithoutTheAdminPort(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := startProxy(t, fmt.Sprintf("listeners: [{address: '127.0.0.1:0'}, {address: '127.0.0.1:0', admin: true}]\nadmin: {address: 'off'}\ndata_dir: %q\n", dir))
	require.Empty(t, p.AdminAddress())
	token, err := os.ReadFile(filepath.Join(dir, "admin-token"))
	require.NoError(t, err)
	c := redistest.Dial(t, p.Consoles()[0].String())
	require.Equal(t, "+OK\r\n", string(c.Do("AUTH", strings.TrimSpace(string(token)))))
	require.Contains(t, string(c.Do("PROXY", "STATUS")), "bbolt")
}
