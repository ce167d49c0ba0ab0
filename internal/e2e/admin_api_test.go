package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/pkg/api"
)

// operator asks the admin API of a proxy over HTTP, with the token of the first start or another.
type operator struct {
	t   *testing.T
	url string
}

// answer is what the API says.
type answer struct {
	t *testing.T
	*http.Response
	body []byte
}

func into[T any](a *answer) (v T) {
	a.t.Helper()
	require.NoError(a.t, json.Unmarshal(a.body, &v), "%s", a.body)
	return v
}

// problem is an error as RFC 9457 has it.
func (a *answer) problem() api.Problem {
	a.t.Helper()
	require.Equal(a.t, "application/problem+json", a.Header.Get("Content-Type"))
	p := into[api.Problem](a)
	require.Equal(a.t, a.StatusCode, p.Status)
	require.Equal(a.t, http.StatusText(a.StatusCode), p.Title)
	require.NotEmpty(a.t, p.Detail)
	return p
}

func (o *operator) ask(ctx context.Context, token, method, path, body string, headers ...string) *http.Response {
	o.t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, o.url+"/api/v1"+path, strings.NewReader(body))
	require.NoError(o.t, err)
	r.Header.Set("Content-Type", map[bool]string{true: "application/merge-patch+json", false: "application/json"}[method == http.MethodPatch])
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		r.Header.Set(name, value)
	}
	response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
	require.NoError(o.t, err)
	return response
}

// must asks and demands a status.
func (o *operator) must(status int, token, method, path, body string, headers ...string) *answer {
	o.t.Helper()
	response := o.ask(o.t.Context(), token, method, path, body, headers...)
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	require.NoError(o.t, err)
	require.Equal(o.t, status, response.StatusCode, "%s %s: %s", method, path, content)
	return &answer{o.t, response, content}
}

// operated is a daemon whose file declares a cluster with a password and a tenant, and everything that is written below.
func operated(t *testing.T) (p *proxy, o *operator, token, audit string, one *redistest.Server) {
	t.Helper()
	one = redistest.Standalone(t)
	dir := t.TempDir()
	audit = filepath.Join(dir, "audit.log")
	p = startProxy(t, fmt.Sprintf(`
listeners: [{address: "127.0.0.1:0"}]
admin: {address: "127.0.0.1:0", audit: %q}
data_dir: %q
clusters: [{name: filed, kind: standalone, addresses: [%q], auth: {password: hunter2}}]
tenants: [{name: fixed, cluster: filed, users: [{name: fixed, sha256: %q}]}]
`, audit, filepath.Join(dir, "state"), redistest.Standalone(t, redistest.WithPassword("hunter2")).Addr(), sha256Hex("pw-fixed")))
	first, err := os.ReadFile(filepath.Join(dir, "state", "admin-token"))
	require.NoError(t, err)
	o, token = &operator{t, p.AdminURL}, strings.TrimSpace(string(first))
	o.must(201, token, "POST", "/clusters", fmt.Sprintf(`{"name": "c1", "addresses": [%q], "auth": {"password": ""}}`, one.Addr()))
	o.must(201, token, "POST", "/clusters", fmt.Sprintf(`{"name": "c2", "addresses": [%q]}`, one.Addr()))
	for _, tenant := range []string{"acme", "bolt"} {
		o.must(201, token, "POST", "/tenants", fmt.Sprintf(`{"name": %q, "cluster": "c1"}`, tenant))
		o.must(201, token, "POST", "/tenants/"+tenant+"/users", fmt.Sprintf(`{"name": %q, "sha256": %q}`, "app-"+tenant, sha256Hex("pw-app-"+tenant)))
	}
	return p, o, token, audit, one
}

// TestAPIChangesWhatIsServed writes over HTTP to a daemon that serves clients.
func TestAPIChangesWhatIsServed(t *testing.T) {
	t.Parallel()
	p, o, token, audit, one := operated(t)
	c := p.login(t, "app-acme")
	require.Equal(t, "+OK\r\n", string(c.Do("SET", "k", "v")))
	require.Equal(t, "$1\r\nv\r\n", string(one.Do("GET", "k")))

	// What a change would touch is told, and nothing is changed by that.
	plan := into[api.Plan](o.must(200, token, "PATCH", "/tenants/acme?dryRun=true", `{"databases": [1]}`))
	require.Equal(t, 1, plan.Sessions)
	require.NotEmpty(t, plan.Diff)
	require.Equal(t, `"1"`, o.must(200, token, "GET", "/tenants/acme", "").Header.Get("ETag"))
	require.Equal(t, "$1\r\nv\r\n", string(c.Do("GET", "k")))

	// Whoever comes second with an old version is told so.
	o.must(200, token, "PATCH", "/tenants/acme", `{"command_timeout": "2s"}`, `If-Match: "1"`, "Sluice-Reason: ticket 4711")
	stale := o.must(412, token, "PATCH", "/tenants/acme", `{"command_timeout": "9s"}`, `If-Match: "1"`).problem()
	require.Contains(t, stale.Detail, "2")
	o.must(412, token, "DELETE", "/tenants/acme", "", `If-Match: "1"`)
	o.must(200, token, "PATCH", "/tenants/acme", `{"command_timeout": "3s"}`, `If-Match: "2"`)
	history := into[api.Page[api.Change]](o.must(200, token, "GET", "/tenants/acme/history", ""))
	require.Equal(t, "ticket 4711", history.Items[1].Reason)
	require.Equal(t, api.Duration(2*time.Second), into[api.Tenant](o.must(200, token, "POST", "/tenants/acme/rollback", `{"version": 2}`)).CommandTimeout)

	used := o.must(409, token, "DELETE", "/clusters/c1", "").problem()
	require.Contains(t, used.Detail, "acme, bolt")
	require.Len(t, used.Errors, 2)
	invalid := o.must(422, token, "POST", "/clusters", `{"name": "c3", "addresses": ["localhost"]}`).problem()
	require.Equal(t, "body.addresses[0]", invalid.Errors[0].Location)
	require.Contains(t, invalid.Errors[0].Message, "host:port")
	for _, change := range [][2]string{{"PATCH", "/clusters/filed"}, {"DELETE", "/tenants/fixed"}, {"PATCH", "/tenants/fixed"}, {"DELETE", "/tenants/fixed/users/fixed"}} {
		require.Contains(t, o.must(409, token, change[0], change[1], map[bool]string{true: "{}"}[change[0] == "PATCH"]).problem().Detail, "configuration file", change)
	}
	page := into[api.Page[api.Cluster]](o.must(200, token, "GET", "/clusters?filter=meta.source=store&limit=1", ""))
	require.Equal(t, 2, page.Total)
	page = into[api.Page[api.Cluster]](o.must(200, token, "GET", "/clusters?filter=meta.source=store&limit=1&page="+page.Next, ""))
	require.Equal(t, "c2", page.Items[0].Name)
	require.Empty(t, page.Next)

	// Each write and each refused one has its line.
	content, err := os.ReadFile(audit)
	require.NoError(t, err)
	require.NotContains(t, string(content), token)
	statuses := map[string]bool{}
	for line := range strings.Lines(string(content)) {
		var l struct {
			Token, Method, Path, Reason string
			Status                      int
		}
		require.NoError(t, json.Unmarshal([]byte(line), &l), line)
		statuses[fmt.Sprintf("%s %s %s %d %s", l.Token, l.Method, l.Path, l.Status, l.Reason)] = true
	}
	for _, want := range []string{
		"admin POST /api/v1/clusters 201 ", "admin PATCH /api/v1/tenants/acme 200 ticket 4711", "admin PATCH /api/v1/tenants/acme 412 ",
		"admin DELETE /api/v1/clusters/c1 409 ", "admin POST /api/v1/clusters 422 ", "admin DELETE /api/v1/tenants/fixed 409 ",
	} {
		require.True(t, statuses[want], "%s is not among %v", want, statuses)
	}
}

// TestAPITellsWhatRuns reads from a daemon that serves clients, as tokens of every kind.
func TestAPITellsWhatRuns(t *testing.T) {
	t.Parallel()
	p, o, token, _, one := operated(t)
	acme, bolt := p.login(t, "app-acme"), p.login(t, "app-bolt")
	require.Equal(t, "$-1\r\n", string(acme.Do("GET", "nothing")))
	require.Equal(t, ":0\r\n", string(bolt.Do("EXISTS", "nothing")))
	bound := into[api.Token](o.must(201, token, "POST", "/tokens", `{"name": "robot", "role": "operator", "tenants": ["acme"]}`)).Secret

	sessions := func(token, query string) []api.Session {
		return into[api.Page[api.Session]](o.must(200, token, "GET", "/sessions"+query, "")).Items
	}
	require.Len(t, sessions(token, ""), 2)
	require.Len(t, sessions(token, "?tenant=acme"), 1)
	require.Equal(t, "exists", sessions(token, "?command=exists")[0].LastCommand)
	require.Len(t, sessions(token, "?address=127.0.0."), 2)
	require.Empty(t, sessions(token, "?address=10."))
	require.Len(t, sessions(bound, ""), 1, "another tenant's are not seen")
	o.must(404, bound, "GET", "/tenants/bolt", "")
	o.must(403, bound, "PATCH", "/tenants/acme", `{"open": true}`)

	e := into[api.Explanation](o.must(200, token, "POST", "/explain", `{"tenant": "acme", "args": ["MGET", "a", "b"]}`))
	require.Equal(t, []string{"a", "b"}, e.Keys)
	topology := into[api.Topology](o.must(200, token, "GET", "/topology/c1", ""))
	require.Equal(t, 16384, topology.Covered)
	nodes := into[api.Page[api.Node]](o.must(200, token, "GET", "/nodes", ""))
	require.Equal(t, 3, nodes.Total)
	require.Contains(t, string(o.must(200, token, "GET", "/nodes", "").body), one.Addr())
	require.NotContains(t, string(o.must(200, bound, "GET", "/nodes", "").body), one.Addr())
	config := o.must(200, token, "GET", "/config", "")
	require.Contains(t, string(config.body), "filed")
	for _, path := range []string{"/config", "/clusters", "/clusters/filed", "/tokens", "/history", "/tenants/fixed/users"} {
		body := string(o.must(200, token, "GET", path, "").body)
		for _, secret := range []string{"hunter2", token, bound, sha256Hex("pw-fixed"), sha256Hex("pw-app-acme"), sha256Hex(bound)} {
			require.NotContains(t, body, secret, path)
		}
	}
	require.JSONEq(t, `{"killed": 1}`, string(o.must(200, bound, "DELETE", "/sessions?address=127.", "").body), "its tenant's alone")
	acme.RequireClosed()
	require.JSONEq(t, `{"killed": 1}`, string(o.must(200, token, "DELETE", "/sessions?command=exists", "").body))
	bolt.RequireClosed()
}

// TestAPIStreamsEvents of a running daemon.
func TestAPIStreamsEvents(t *testing.T) {
	t.Parallel()
	_, o, token, _, _ := operated(t)
	ctx, cancel := context.WithTimeout(t.Context(), eventually)
	defer cancel()
	stream := o.ask(ctx, token, "GET", "/events", "")
	defer stream.Body.Close()
	require.Equal(t, "text/event-stream", stream.Header.Get("Content-Type"))
	lines := bufio.NewScanner(stream.Body)
	next := func(event string) string {
		for lines.Scan() {
			if lines.Text() == "event: "+event {
				require.True(t, lines.Scan())
				return strings.TrimPrefix(lines.Text(), "data: ")
			}
		}
		require.Fail(t, "the events ended", "%v", lines.Err())
		return ""
	}
	require.Contains(t, next("stats"), `"cluster":"c2"`)
	o.must(200, token, "PATCH", "/clusters/c2", `{"connect_timeout": "4s"}`)
	var changed api.Changed
	require.NoError(t, json.Unmarshal([]byte(next("change")), &changed))
	require.Equal(t, "c2", changed.Name)
	require.Equal(t, "connect_timeout", changed.Change.Diff[0].Field)
}

// TestAPILimitsGuesses of tokens, and answers who has one.
func TestAPILimitsGuesses(t *testing.T) {
	t.Parallel()
	_, o, token, _, _ := operated(t)
	refused := o.must(401, "", "GET", "/clusters", "")
	refused.problem()
	require.NotEmpty(t, refused.Header.Get("WWW-Authenticate"))
	limited := false
	for range 30 {
		r := o.ask(t.Context(), "slt_guess", "GET", "/clusters", "")
		limited = limited || r.StatusCode == http.StatusTooManyRequests && r.Header.Get("Retry-After") != ""
		require.NoError(t, r.Body.Close())
	}
	require.True(t, limited)
	o.must(200, token, "GET", "/clusters", "")
}
