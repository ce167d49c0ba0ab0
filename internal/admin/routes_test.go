package admin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/pkg/api"
)

// roleOf is what each operation needs; an operation that is missing here fails the test.
var roleOf = map[string]api.Role{ //nolint:gochecknoglobals // a table
	"whoami": "viewer", "get-status": "viewer", "get-stats": "viewer", "list-sessions": "viewer", "list-nodes": "viewer",
	"get-topology": "viewer", "list-history": "viewer", "explain": "viewer", "stream-events": "viewer", "get-config": "operator",
	"kill-session": "operator", "kill-sessions": "operator", "test-cluster": "operator", "refresh-topology": "operator",
	"pause-tenant": "operator", "resume-tenant": "operator", "drain": "operator", "undrain": "operator", "reload": "operator",
}

func init() { //nolint:gochecknoinits // the rest of the table is regular
	for _, one := range []string{"cluster", "tenant", "user", "token"} {
		for verb, role := range map[string]api.Role{"get": "viewer", "create": "admin", "replace": "admin", "patch": "admin", "delete": "admin", "rollback": "admin"} {
			roleOf[verb+"-"+one] = role
		}
		roleOf["list-"+one+"s"], roleOf[one+"-history"] = "viewer", "viewer"
	}
}

// documented is an operation as the description has it.
type documented struct {
	ID        string                     `json:"operationId"`
	Responses map[string]json.RawMessage `json:"responses"`
	path      string
	method    string
}

func operations(t *testing.T, s *stack) (all []documented) {
	t.Helper()
	var description struct {
		OpenAPI string                           `json:"openapi"`
		Paths   map[string]map[string]documented `json:"paths"`
	}
	require.NoError(t, json.Unmarshal(s.ask("", "GET", "/openapi.json", nil).body, &description))
	require.Equal(t, "3.1.0", description.OpenAPI)
	for path, methods := range description.Paths {
		for method, o := range methods {
			o.path, o.method = path, strings.ToUpper(method)
			all = append(all, o)
		}
	}
	require.Greater(t, len(all), 45)
	return all
}

func TestEveryOperationNeedsItsRole(t *testing.T) {
	s := start(t)
	s.furnish()
	for i, o := range operations(t, s) {
		needed, known := roleOf[o.ID]
		require.True(t, known, o.ID)
		path := strings.NewReplacer("{tenant}", "acme", "{cluster}", "c1", "{id}", "1", "{name}", "acme").Replace(o.path)
		stranger := httptest.NewRequest(o.method, prefix+path, nil)
		stranger.RemoteAddr = fmt.Sprintf("10.0.0.%d:1", i) // each from another address: the test is not to be locked out
		answer := httptest.NewRecorder()
		s.server.http.Handler.ServeHTTP(answer, stranger)
		require.Equal(t, 401, answer.Code, o.ID)
		for _, role := range []api.Role{api.RoleViewer, api.RoleOperator} {
			if rank(role) >= rank(needed) {
				continue
			}
			refused := s.must(403, string(role), o.method, path, minimalBody(o.method)).problem(t)
			require.Contains(t, refused.Detail, fmt.Sprintf("of role %s", needed), "%s says which role it needs", o.ID)
		}
	}
}

func minimalBody(method string) any {
	if method == http.MethodGet || method == http.MethodDelete {
		return nil
	}
	return "{}"
}

// TestHostileRequests sends what nobody should to every operation; the answer's status must be a documented one.
func TestHostileRequests(t *testing.T) {
	s := start(t)
	s.furnish()
	bodies := []any{
		nil, "", "{", "[]", "null", `"text"`, `{"name": 5}`, `{"nme": "x"}`, `{"name": null}`, "\x00\xff", `{"a": ` + strings.Repeat("[", 20000),
		`{"name": "` + strings.Repeat("n", maxBody) + `"}`, `{"password": {"hunter2": 1}}`, `{"password": "hunter2"`,
		`{"name": "hunter2", "password": ["hunter2"]}`, `{"version": -1}`, `{"args": [], "tenant": ""}`, `{"for": "soon"}`,
	}
	for _, o := range operations(t, s) {
		if o.ID == "stream-events" {
			continue
		}
		for _, element := range []string{"acme", "c1", "no such", "%2F..%2F", "%00", "%FF", strings.Repeat("n", 3000), "1", "-1", "18446744073709551616"} {
			path := o.path
			for _, param := range []string{"{tenant}", "{cluster}", "{id}", "{name}"} {
				path = strings.ReplaceAll(path, param, element)
			}
			for i, body := range bodies {
				if o.method == http.MethodGet && i > 2 || element != "acme" && i > 1 && i%5 != 0 {
					continue
				}
				r := s.ask("admin", o.method, path+"?dryRun=true", body, "X-Test: 1")
				if o.method == http.MethodGet {
					r = s.ask("admin", o.method, path, body)
				}
				require.Contains(t, o.Responses, fmt.Sprint(r.StatusCode), "%s %s %.100v: %s", o.method, path, body, r.body)
				require.Less(t, r.StatusCode, 500, "%s %s: %s", o.method, path, r.body)
				require.NotContains(t, string(r.body), "hunter2", "%s %s %.100v", o.method, path, body)
			}
		}
	}
	audit, err := os.ReadFile(s.audit)
	require.NoError(t, err)
	require.NotContains(t, string(audit), "hunter2")
}

func TestWrongPathsMethodsAndTypes(t *testing.T) {
	s := start(t)
	s.furnish()
	s.must(404, "admin", "GET", "/nowhere", nil)
	s.must(404, "admin", "GET", "/clusters/", nil)
	s.must(404, "admin", "GET", "/clusters/../clusters", nil)
	s.must(404, "admin", "GET", "", nil)
	wrong := s.must(405, "admin", "DELETE", "/clusters", nil)
	require.Equal(t, "GET, POST", wrong.Header.Get("Allow"))
	s.must(405, "admin", "POST", "/status", nil)
	require.Equal(t, 405, s.ask("", "POST", "/openapi.json", nil).StatusCode)
	s.must(415, "admin", "POST", "/clusters", "a: b", "Content-Type: application/yaml")
	s.must(415, "admin", "PUT", "/clusters/c1", "{}", "Content-Type: "+typePatch)
	s.must(413, "admin", "POST", "/clusters", strings.Repeat(" ", maxBody+1))
	s.must(422, "admin", "GET", "/clusters?fitler=x", nil)
	s.must(422, "admin", "PATCH", "/clusters/c1", "{}", "If-Match: 1")
	unknown := s.must(422, "admin", "POST", "/clusters", `{"name": "c9", "addresses": ["127.0.0.1:1"], "adresses": []}`).problem(t)
	require.Equal(t, "body.adresses", unknown.Errors[0].Location)
	unknown = s.must(422, "admin", "PATCH", "/clusters/c1", `{"adresses": []}`).problem(t)
	require.Contains(t, unknown.Errors[0].Message, "adresses")
	invalid := s.must(422, "admin", "POST", "/tenants", `{"name": "t", "cluster": "c7"}`).problem(t)
	require.Equal(t, "body.cluster", invalid.Errors[0].Location)
	require.Contains(t, fmt.Sprint(invalid.Errors[0].Value), "c7")
	require.Contains(t, invalid.Errors[0].Message, "not a configured cluster")

	// A patch is held to the same choices and bounds as a whole entity.
	chosen := s.must(422, "admin", "PATCH", "/tenants/acme", `{"cross_slot": "maybe", "command_timeout": "50h"}`).problem(t)
	require.Len(t, chosen.Errors, 2)

	got := s.must(200, "admin", "GET", "/clusters", nil)
	require.Equal(t, "nosniff", got.Header.Get("X-Content-Type-Options"))
	require.Equal(t, "no-store", got.Header.Get("Cache-Control"))
	require.Empty(t, got.Header.Get("Access-Control-Allow-Origin"))
	// What the configuration file declares is read here and changed there.
	require.Equal(t, api.SourceFile, decode[api.Tenant](t, s.must(200, "admin", "GET", "/tenants/fixed", nil)).Meta.Source)
	s.must(409, "admin", "DELETE", "/tenants/fixed", nil)
	s.must(409, "admin", "POST", "/clusters", api.Cluster{Name: "c1", Addresses: []string{"127.0.0.1:1"}})
}

func TestFiltersAndPages(t *testing.T) {
	s := start(t)
	for i := range 25 {
		s.must(201, "admin", "POST", "/clusters", api.Cluster{Name: fmt.Sprintf("c%02d", i), Addresses: []string{fmt.Sprintf("127.0.0.1:%d", 7000+i)}})
	}
	var names []string
	path := "/clusters?filter=name~c&limit=10"
	for next := path; next != ""; {
		page := decode[api.Page[api.Cluster]](t, s.must(200, "viewer", "GET", next, nil))
		require.Equal(t, 25, page.Total)
		for _, c := range page.Items {
			names = append(names, c.Name)
		}
		next = ""
		if page.Next != "" {
			next = path + "&page=" + page.Next
			s.must(422, "viewer", "GET", "/clusters?page="+page.Next, nil) // of another filter
			s.must(422, "viewer", "GET", path+"&page="+page.Next[1:], nil)
		}
	}
	require.Len(t, names, 25)
	require.IsIncreasing(t, names)
	count := func(token, filter string) int {
		return decode[api.Page[api.Cluster]](t, s.must(200, token, "GET", "/clusters?filter="+filter, nil)).Total
	}
	require.Equal(t, 1, count("viewer", "c07"))
	require.Equal(t, 1, count("viewer", "meta.source=file"))
	require.Equal(t, 24, count("viewer", "meta.source!=file,name!=c03"))
	require.Equal(t, 1, count("operator", "addresses=127.0.0.1:7003"))
	require.Zero(t, count("viewer", "addresses=127.0.0.1:7003"), "what is not shown cannot be asked for")
	s.must(422, "viewer", "GET", "/clusters?filter=colour=red", nil)
	s.must(422, "viewer", "GET", "/clusters?filter=auth.password=x", nil)
	s.must(422, "viewer", "GET", "/clusters?limit=0", nil)
}
