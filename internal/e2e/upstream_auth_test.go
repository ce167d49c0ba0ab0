package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/redistest"
)

const upstreamPassword = "correct-horse-7"

func authKey(auth string) string { return "cluster: auth: {" + auth + "}" }

func TestUpstreamPassword(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t, redistest.WithPassword(upstreamPassword),
		redistest.WithUser("app", "app-password-5", "~* +@all"))
	file := filepath.Join(t.TempDir(), "password")
	require.NoError(t, os.WriteFile(file, []byte("app-password-5\n"), 0o600))
	for name, auth := range map[string]string{
		"password":      "password: " + upstreamPassword,
		"ACL user":      "username: app, password: app-password-5",
		"password file": `username: app, password_file: "` + file + `"`,
	} {
		t.Run(name, func(t *testing.T) {
			p := startProxy(t, tenantYAML("standalone", []string{server.Addr()}, "", authKey(auth)))
			p.awaitReady(t)
			for _, protocol := range []int{2, 3} {
				c := hello(t, p.Addr, protocol)
				require.Equal(t, "+OK\r\n", string(c.Do("SET", "k", name)))
				require.Equal(t, bulk(name), string(c.Do("GET", "k")))
				large := strings.Repeat("L", 1<<20)
				require.Equal(t, "+OK\r\n", string(c.Do("SET", "large", large)))
				require.Equal(t, bulk(large), string(c.Do("GET", "large")))
			}
			requireSecret(t, p, server, upstreamPassword, "app-password-5")
		})
	}
}

func TestUpstreamPasswordOfCluster(t *testing.T) {
	t.Parallel()
	servers := redistest.Cluster(t, 3, 0, redistest.WithPassword(upstreamPassword))
	p := clusterProxy(t, servers, "", authKey("password: "+upstreamPassword))
	c := hello(t, p.Addr, 3)
	require.Equal(t, "+OK\r\n", string(c.Do("MSET", "a", "1", "b", "2", "c", "3")))
	servers.MoveSlot(servers.Slot("a"), servers.NodeFor("a"), servers.NodeFor("b"))
	require.Equal(t, "*3\r\n$1\r\n1\r\n$1\r\n2\r\n$1\r\n3\r\n", string(c.Do("MGET", "a", "b", "c")))
}

// TestWrongUpstreamPassword: the operator is told what is wrong, the client only that it is not its fault.
func TestWrongUpstreamPassword(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t, redistest.WithPassword(upstreamPassword))
	for name, auth := range map[string]struct{ given, says string }{
		"wrong":        {"password: wrong-horse-9", "WRONGPASS"},
		"wrong user":   {"username: nobody, password: wrong-horse-9", "WRONGPASS"},
		"none":         {"", "NOAUTH"},
		"not a secret": {"password: " + strings.ToUpper(upstreamPassword), "WRONGPASS"},
	} {
		t.Run(name, func(t *testing.T) {
			var extra []string
			if auth.given != "" {
				extra = append(extra, authKey(auth.given))
			}
			p := startProxy(t, tenantYAML("standalone", []string{server.Addr()}, "", extra...))
			requireNotReady(t, p, auth.says)
			for _, protocol := range []int{2, 3} {
				c := hello(t, p.Addr, protocol)
				require.Equal(t, "+PONG\r\n", string(c.Do("PING")))
				require.Equal(t, "-ERR upstream unavailable: the node of this key cannot be reached; the command was not executed\r\n", string(c.Do("GET", "k")))
			}
			requireSecret(t, p, server, upstreamPassword, "wrong-horse-9", strings.ToUpper(upstreamPassword))
		})
	}
}

// requireNotReady waits until /readyz gives the reason.
func requireNotReady(t *testing.T, p *proxy, reason string) {
	t.Helper()
	var status int
	var body string
	says := regexp.MustCompile(reason)
	defer func() {
		if t.Failed() {
			t.Logf("/readyz: %d %s", status, body)
		}
	}()
	require.Eventually(t, func() bool {
		status, body, _ = p.get(t, "/readyz")
		return status == http.StatusServiceUnavailable && says.MatchString(body)
	}, eventually, tick, reason)
}

// requireSecret fails the test if the admin port or the log tells a password or where the server is.
func requireSecret(t *testing.T, p *proxy, server *redistest.Server, passwords ...string) {
	t.Helper()
	requireNoAddressInLogs(t, p, append(passwords, server.Addr())...)
	for _, path := range []string{"/readyz", "/metrics", "/healthz", "/"} {
		_, body, _ := p.get(t, path)
		for _, secret := range append(passwords, server.Addr()) {
			require.NotContains(t, body, secret, path)
		}
	}
}

// TestNodeWithoutRESP3 serves RESP2 clients and tells RESP3 clients that they cannot be; nothing is converted.
func TestNodeWithoutRESP3(t *testing.T) {
	t.Parallel()
	node := redistest.NewScripted(t)
	node.RefuseHello()
	node.Handle(func([][]byte) []byte { return []byte("*2\r\n$1\r\nf\r\n$1\r\nv\r\n") })
	p := startProxy(t, tenantYAML("standalone", []string{node.Addr()}, ""))
	p.awaitReady(t)
	two, three := hello(t, p.Addr, 2), hello(t, p.Addr, 3)
	for range 3 {
		require.Equal(t, "*2\r\n$1\r\nf\r\n$1\r\nv\r\n", string(two.Do("HGETALL", "h")))
		require.Regexp(t, "^-ERR upstream unavailable", string(three.Do("HGETALL", "h")))
	}
	require.Equal(t, byte('*'), three.Do("HELLO", "2")[0])
	require.Equal(t, "*2\r\n$1\r\nf\r\n$1\r\nv\r\n", string(three.Do("HGETALL", "h")))
}

func TestUpstreamTLS(t *testing.T) {
	t.Parallel()
	files, strangers := redistest.NewTLSFiles(t), redistest.NewTLSFiles(t)
	server := redistest.Standalone(t, redistest.WithTLS(files), redistest.WithConfig("tls-auth-clients yes"), redistest.WithPassword(upstreamPassword))
	certificate := fmt.Sprintf(`, cert: %q, key: %q`, files.ClientCert, files.ClientKey)
	start := func(t *testing.T, keys string) *proxy {
		return startProxy(t, tenantYAML("standalone", []string{server.Addr()}, "", "cluster: tls: {"+keys+"}", authKey("password: "+upstreamPassword)))
	}
	for name, keys := range map[string]string{
		"name from the address": `ca: "` + files.CA + `"` + certificate,
		"server_name":           `ca: "` + files.CA + `", server_name: redis.test` + certificate,
		"unverified":            `insecure_skip_verify: true` + certificate,
	} {
		t.Run(name, func(t *testing.T) {
			p := start(t, keys)
			p.awaitReady(t)
			for _, protocol := range []int{2, 3} {
				c := hello(t, p.Addr, protocol)
				large := strings.Repeat("abcdefgh", 300_000)
				require.Equal(t, "+OK\r\n", string(c.Do("SET", "large", large)))
				require.Equal(t, bulk(large), string(c.Do("GET", "large")))
				var packet strings.Builder
				for i := range 2000 {
					packet.WriteString(redistest.Command("SET", fmt.Sprint("k", i), fmt.Sprint("v", i)) + redistest.Command("GET", fmt.Sprint("k", i)))
				}
				c.Send(packet.String())
				for i := range 2000 {
					c.RequireReply("+OK\r\n")
					c.RequireReply(bulk(fmt.Sprint("v", i)))
				}
			}
			requireSecret(t, p, server, upstreamPassword)
		})
	}
	for name, bad := range map[string]struct{ keys, says string }{
		"another name":          {`ca: "` + files.CA + `", server_name: other.test` + certificate, "certificate is for another name"},
		"another authority":     {`ca: "` + strangers.CA + `"` + certificate, "unknown authority"},
		"no client certificate": {`ca: "` + files.CA + `"`, "certificate required|connection reset|broken pipe"}, // TLS 1.3 tells it late, if at all
	} {
		t.Run(name, func(t *testing.T) {
			p := start(t, bad.keys)
			requireNotReady(t, p, bad.says)
			require.Regexp(t, "^-ERR upstream unavailable", string(hello(t, p.Addr, 3).Do("GET", "k")))
			requireSecret(t, p, server, upstreamPassword)
		})
	}
}

func TestUpstreamTLSOfCluster(t *testing.T) {
	t.Parallel()
	files := redistest.NewTLSFiles(t)
	servers := redistest.Cluster(t, 3, 0, redistest.WithTLS(files))
	p := clusterProxy(t, servers, "", `cluster: tls: {ca: "`+files.CA+`"}`)
	for _, protocol := range []int{2, 3} {
		c := hello(t, p.Addr, protocol)
		require.Equal(t, "+OK\r\n", string(c.Do("MSET", "a", "1", "b", "2", "c", "3")))
		require.Equal(t, "*3\r\n$1\r\n1\r\n$1\r\n2\r\n$1\r\n3\r\n", string(c.Do("MGET", "a", "b", "c")))
	}
}
