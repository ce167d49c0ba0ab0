package admin

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/control"
	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/store"
	"github.com/sluiceproxy/sluice/pkg/api"
)

func TestReadSide(t *testing.T) {
	s := start(t)
	s.furnish()
	me := decode[api.Token](t, s.must(200, "acme-viewer", "GET", "/whoami", nil))
	require.Equal(t, []string{"acme"}, me.Tenants)
	require.Equal(t, api.RoleViewer, me.Role)
	require.Empty(t, me.Secret)

	status := decode[api.Status](t, s.must(200, "viewer", "GET", "/status", nil))
	require.Equal(t, []string{"acme", "globex"}, status.Paused)
	status = decode[api.Status](t, s.must(200, "acme-viewer", "GET", "/status", nil))
	require.Equal(t, []string{"acme"}, status.Paused)
	require.NotContains(t, strings.Join(status.NotReady, ""), "c2")

	sessions := decode[api.Page[api.Session]](t, s.must(200, "viewer", "GET", "/sessions?limit=1", nil))
	require.Equal(t, 2, sessions.Total)
	require.Equal(t, uint64(9), sessions.Items[0].ID)
	sessions = decode[api.Page[api.Session]](t, s.must(200, "viewer", "GET", "/sessions?limit=1&page="+sessions.Next, nil))
	require.Equal(t, uint64(12), sessions.Items[0].ID)
	require.Empty(t, sessions.Next)
	require.Equal(t, 1, decode[api.Page[api.Session]](t, s.must(200, "viewer", "GET", "/sessions?command=GET&address=127.", nil)).Total)
	require.Equal(t, 1, decode[api.Page[api.Session]](t, s.must(200, "acme-viewer", "GET", "/sessions", nil)).Total)

	require.Equal(t, "10.9.8.7:7001", decode[api.Page[api.Node]](t, s.must(200, "operator", "GET", "/nodes", nil)).Items[0].Address)
	require.Empty(t, decode[api.Page[api.Node]](t, s.must(200, "viewer", "GET", "/nodes", nil)).Items[0].Address)
	require.Equal(t, 16384, decode[api.Topology](t, s.must(200, "viewer", "GET", "/topology/c1", nil)).Covered)
	s.must(404, "viewer", "GET", "/topology/nowhere", nil)
	require.Equal(t, map[string]any{"loops": 1.0}, decode[map[string]any](t, s.must(200, "operator", "GET", "/config", nil)))
	s.must(403, "acme-admin", "GET", "/config", nil)

	explained := decode[api.Explanation](t, s.must(200, "viewer", "POST", "/explain", `{"tenant": "acme", "args": ["get", "k"]}`))
	require.Equal(t, []string{"k"}, explained.Keys)
	s.must(404, "acme-viewer", "POST", "/explain", `{"tenant": "globex", "args": ["get", "k"]}`)
	s.must(422, "viewer", "POST", "/explain", `{"tenant": "acme", "args": []}`)

	changes := decode[api.Page[api.Changed]](t, s.must(200, "admin", "GET", "/history?kind=User", nil))
	require.Equal(t, 2, changes.Total)
	require.NotContains(t, string(s.must(200, "admin", "GET", "/history", nil).body), "a1a1")
	changes = decode[api.Page[api.Changed]](t, s.must(200, "acme-viewer", "GET", "/history", nil))
	require.Equal(t, 3, changes.Total, "its cluster, itself and its user")
	require.Equal(t, "acme/app", changes.Items[0].Name, "the newest first")
}

func TestActions(t *testing.T) {
	s := start(t)
	s.furnish()
	require.Equal(t, 1, decode[killed](t, s.must(200, "operator", "DELETE", "/sessions/12", nil)).Killed)
	s.must(404, "acme-operator", "DELETE", "/sessions/9", nil)
	require.Equal(t, 1, decode[killed](t, s.must(200, "operator", "DELETE", "/sessions?user=app", nil)).Killed)
	require.Zero(t, decode[killed](t, s.must(200, "acme-operator", "DELETE", "/sessions?tenant=globex", nil)).Killed)
	s.must(422, "operator", "DELETE", "/sessions", nil)
	require.True(t, decode[api.TestResult](t, s.must(200, "operator", "POST", "/clusters/actions/test", `{"name": "x", "addresses": ["127.0.0.1:1"]}`)).OK)
	s.must(204, "operator", "POST", "/topology/c1/actions/refresh", nil)
	s.must(404, "acme-operator", "POST", "/topology/c2/actions/refresh", nil)
	s.must(204, "acme-operator", "POST", "/tenants/acme/actions/pause", `{"mode": "refuse", "for": "1m"}`)
	require.True(t, s.runtime.paused["acme"].Refuse)
	require.WithinDuration(t, time.Now().Add(time.Minute), s.runtime.paused["acme"].Until, 50*time.Second)
	s.must(204, "operator", "POST", "/tenants/acme/actions/pause", `{}`)
	require.Equal(t, Pause{}, s.runtime.paused["acme"], "holds until it is resumed")
	s.must(422, "operator", "POST", "/tenants/acme/actions/pause", `{"for": "-1s"}`)
	s.must(404, "acme-operator", "POST", "/tenants/globex/actions/pause", `{}`)
	s.must(204, "operator", "POST", "/tenants/acme/actions/resume", nil)
	for _, action := range []string{"drain", "undrain", "reload"} {
		s.must(204, "operator", "POST", "/proxy/actions/"+action, nil)
		s.must(403, "acme-admin", "POST", "/proxy/actions/"+action, nil)
	}
	require.Equal(t, []string{"drain", "undrain", "reload"}, s.runtime.calls)
	s.runtime.broken = true
	require.Contains(t, s.must(409, "operator", "POST", "/proxy/actions/reload", nil).problem(t).Detail, "line 3")
}

func TestTokensAreShownOnce(t *testing.T) {
	s := start(t)
	s.furnish()
	made := decode[api.Token](t, s.must(201, "admin", "POST", "/tokens", `{"name": "robot", "role": "operator", "tenants": ["acme"]}`))
	require.NotEmpty(t, made.Secret)
	s.tokens["robot"] = made.Secret
	s.must(200, "robot", "GET", "/tenants/acme", nil)
	for _, path := range []string{"/tokens", "/tokens/robot", "/tokens/robot/history", "/history"} {
		body := string(s.must(200, "admin", "GET", path, nil).body)
		require.NotContains(t, body, made.Secret)
		require.NotContains(t, body, control.HashToken(made.Secret))
	}
	s.must(204, "admin", "DELETE", "/tokens/robot", nil)
	s.must(401, "robot", "GET", "/tenants/acme", nil)
}

// events opens a stream and sends its events' names and data.
func (s *stack) events(ctx context.Context, token string) *bufio.Scanner {
	r, err := http.NewRequestWithContext(ctx, "GET", s.url+prefix+"/events", nil)
	require.NoError(s.t, err)
	r.Header.Set("Authorization", "Bearer "+s.tokens[token])
	answer, err := http.DefaultClient.Do(r)
	require.NoError(s.t, err)
	s.t.Cleanup(func() { _ = answer.Body.Close() })
	require.Equal(s.t, 200, answer.StatusCode)
	require.Equal(s.t, "text/event-stream", answer.Header.Get("Content-Type"))
	return bufio.NewScanner(answer.Body)
}

func TestEvents(t *testing.T) {
	s := start(t)
	s.furnish()
	all, own := s.events(t.Context(), "admin"), s.events(t.Context(), "acme-viewer")
	for _, stream := range []*bufio.Scanner{all, own} { // the first statistics: the stream listens
		require.True(t, stream.Scan())
		require.Equal(t, "event: stats", stream.Text())
	}
	s.must(200, "admin", "PATCH", "/tenants/globex", `{"command_timeout": "9s"}`)
	s.must(200, "admin", "PATCH", "/clusters/c1", `{"addresses": ["10.9.8.7:7002"]}`)
	next := func(stream *bufio.Scanner) (e api.Changed) {
		for stream.Scan() {
			if stream.Text() == "event: change" {
				require.True(t, stream.Scan())
				require.NoError(t, json.Unmarshal([]byte(strings.TrimPrefix(stream.Text(), "data: ")), &e))
				return e
			}
		}
		return e
	}
	require.Equal(t, "globex", next(all).Name)
	change := next(own)
	require.Equal(t, "c1", change.Name, "others' changes are not told")
	require.Equal(t, "(not shown)", change.Change.Diff[0].New)

	// The port closes: the streams end, and nothing waits for them.
	ctx, cancel := context.WithTimeout(t.Context(), eventually)
	defer cancel()
	require.NoError(t, s.server.Close(ctx))
	for own.Scan() {
		continue
	}
	require.NoError(t, ctx.Err())
}

func TestStreamsAreBounded(t *testing.T) {
	s := start(t)
	s.server.api.streams.Store(streamsMax)
	require.Equal(t, "1", s.must(503, "viewer", "GET", "/events", nil).Header.Get("Retry-After"))
	s.server.api.streams.Store(0)
}

func TestAudit(t *testing.T) {
	s := start(t)
	s.must(201, "admin", "POST", "/clusters?reason=why+not", map[string]any{
		"name": "c1", "addresses": []string{"127.0.0.1:7001"}, "auth": map[string]any{"password": "hunter2"},
	})
	s.must(200, "admin", "PATCH", "/clusters/c1?dryRun=true", `{"connect_timeout": "3s"}`)
	s.must(403, "viewer", "DELETE", "/clusters/c1", nil)
	s.must(401, "slt_hunter2", "DELETE", "/clusters/c1", nil)
	s.must(200, "viewer", "GET", "/clusters/c1", nil)
	content, err := os.ReadFile(s.audit)
	require.NoError(t, err)
	require.NotContains(t, string(content), "hunter2")
	info, err := os.Stat(s.audit)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	var lines []auditLine
	for _, text := range strings.Split(strings.TrimSpace(string(content)), "\n") {
		var line auditLine
		require.NoError(t, json.Unmarshal([]byte(text), &line))
		require.NotEmpty(t, line.Address)
		require.WithinDuration(t, time.Now(), line.Time, time.Minute)
		line.Address, line.Time = "", time.Time{}
		lines = append(lines, line)
	}
	require.Equal(t, []auditLine{
		{Token: "admin", Role: "admin", Method: "POST", Path: "/api/v1/clusters", Status: 201, Entity: "Cluster c1", Version: 1, Reason: "why not"},
		{Token: "admin", Role: "admin", Method: "PATCH", Path: "/api/v1/clusters/c1", Status: 200, Entity: "Cluster c1", DryRun: true},
		{Token: "viewer", Role: "viewer", Method: "DELETE", Path: "/api/v1/clusters/c1", Status: 403},
		{Method: "DELETE", Path: "/api/v1/clusters/c1", Status: 401},
	}, lines)
}

// TestAuditIsRotated: lines go to the file of the name again after it was moved away; when it cannot be opened, none is lost.
func TestAuditIsRotated(t *testing.T) {
	s := start(t)
	refused := func() { s.must(403, "viewer", "DELETE", "/clusters/c1", nil) }
	lines := func(path string) int {
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		return strings.Count(string(content), "\n")
	}
	refused()
	require.NoError(t, os.Rename(s.audit, s.audit+".1"))
	refused()
	require.Equal(t, 2, lines(s.audit+".1"))
	require.NoError(t, s.server.ReopenAudit())
	refused()
	require.Equal(t, 2, lines(s.audit+".1"))
	require.Equal(t, 1, lines(s.audit))
	require.NoError(t, os.Rename(s.audit, s.audit+".2"))
	require.NoError(t, os.Mkdir(s.audit, 0o700))
	require.ErrorContains(t, s.server.ReopenAudit(), "cannot open the audit log")
	refused()
	require.Equal(t, 2, lines(s.audit+".2"))
}

func TestFailuresAreLimited(t *testing.T) {
	s := start(t)
	s.must(200, "viewer", "GET", "/status", nil)
	limited := false
	for range failuresBurst + 5 {
		r := s.ask("slt_guess", "GET", "/status", nil)
		limited = limited || r.StatusCode == 429 && r.Header.Get("Retry-After") != ""
	}
	require.True(t, limited)
	s.must(200, "viewer", "GET", "/status", nil) // who was here before is not locked out
	require.Equal(t, 200, s.ask("", "GET", "/openapi.json", nil).StatusCode)
}

func TestFailuresAreForgotten(t *testing.T) {
	f := newFailures()
	for i := range failuresMax + 100 {
		f.of(fmt.Sprintf("[2001:db8:1:%x::1]:5", i)).failure()
	}
	require.LessOrEqual(t, f.mu.order.Len(), failuresMax)
	require.Len(t, f.mu.entries, f.mu.order.Len())
	require.Same(t, f.of("[2001:db8::1]:5"), f.of("[2001:db8::2]:6"), "a network of 64 bits is one client")
	require.NotSame(t, f.of("10.0.0.1:1"), f.of("10.0.0.2:1"))
	require.Same(t, f.of("10.0.0.1:1"), f.of("[::ffff:10.0.0.1]:9"))
}

func TestTLSWithClientCertificates(t *testing.T) {
	files := redistest.NewTLSFiles(t)
	secure := files.ClientConfig(t)
	server, err := tls.LoadX509KeyPair(files.ServerCert, files.ServerKey)
	require.NoError(t, err)
	s := start(t, func(o *Options) {
		o.TLS = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{server}, ClientCAs: secure.RootCAs, ClientAuth: tls.RequireAndVerifyClientCert}
	})
	get := func(c *tls.Config) error {
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: c, DisableKeepAlives: true}}
		r, err := http.NewRequestWithContext(t.Context(), "GET", "https://"+s.server.Address()+prefix+"/openapi.json", nil)
		require.NoError(t, err)
		answer, err := client.Do(r)
		if err == nil {
			_ = answer.Body.Close()
		}
		return err
	}
	require.NoError(t, get(secure))
	require.ErrorContains(t, get(&tls.Config{RootCAs: secure.RootCAs, MinVersion: tls.VersionTLS12}), "certificate required")
}

func TestAStoreThatIsAway(t *testing.T) {
	s := start(t)
	err := s.server.api.problem(fmt.Errorf("cannot write: %w", store.ErrUnavailable), false)
	var status huma.StatusError
	require.ErrorAs(t, err, &status)
	require.Equal(t, 503, status.GetStatus())
	var headers huma.HeadersError
	require.ErrorAs(t, err, &headers)
	require.Equal(t, "1", headers.GetHeaders().Get("Retry-After"))
	require.ErrorAs(t, s.server.api.problem(&control.VersionError{}, false), &status)
	require.Equal(t, 409, status.GetStatus())
}
