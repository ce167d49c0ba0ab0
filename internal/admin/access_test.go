package admin

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/pkg/api"
)

func TestWithoutAToken(t *testing.T) {
	s := start(t)
	want := s.must(401, "", "GET", "/status", nil)
	require.Equal(t, `Bearer realm="sluice"`, want.Header.Get("WWW-Authenticate"))
	for _, token := range []string{"slt_unknown", "x", string(make([]byte, 0))} {
		require.Equal(t, string(want.body), string(s.must(401, token, "GET", "/status", nil).body), "no hint what is wrong")
	}
	require.Equal(t, string(want.body), string(s.must(401, "", "GET", "/status", nil, "Authorization: Basic YTpi").body))
	s.must(401, "", "GET", "/nowhere", nil)
	for _, path := range []string{"/openapi.json", "/openapi.yaml"} {
		require.Equal(t, http.StatusOK, s.ask("", "GET", path, nil).StatusCode)
	}
}

func TestBoundTokensSeeTheirTenants(t *testing.T) {
	s := start(t)
	s.furnish()
	for _, token := range []string{"acme-viewer", "acme-operator", "acme-admin"} {
		tenants := decode[api.Page[api.Tenant]](t, s.must(200, token, "GET", "/tenants", nil))
		require.Len(t, tenants.Items, 1)
		clusters := decode[api.Page[api.Cluster]](t, s.must(200, token, "GET", "/clusters", nil))
		require.Len(t, clusters.Items, 1)
		require.Equal(t, "c1", clusters.Items[0].Name)
		require.NotContains(t, string(s.must(200, token, "GET", "/stats", nil).body), "globex")
		for _, path := range []string{"/nodes", "/stats", "/clusters", "/clusters/c1", "/clusters/c1/history", "/topology/c1", "/history"} {
			require.NotContains(t, string(s.must(200, token, "GET", path, nil).body), "10.9.8.7", path)
		}
		for _, path := range []string{
			"/tenants/globex", "/tenants/globex/users", "/tenants/globex/users/web", "/tenants/globex/users/web/history",
			"/tenants/globex/history", "/clusters/c2", "/clusters/c2/history", "/topology/c2", "/tokens/admin",
		} {
			s.must(404, token, "GET", path, nil)
		}
	}
	s.must(404, "acme-admin", "POST", "/tenants/globex/users", map[string]any{"name": "x", "password": "longer than that"})
	s.must(404, "acme-admin", "PATCH", "/tenants/globex/users/web", `{"password": "x"}`)
	s.must(404, "acme-admin", "DELETE", "/tenants/globex/users/web", nil)
	s.must(404, "acme-admin", "PUT", "/tenants/globex/users/web", map[string]any{"name": "web"})
	s.must(404, "acme-admin", "POST", "/tenants/globex/users/web/rollback", nil)
	s.must(403, "acme-admin", "PATCH", "/tenants/acme", `{"open": true}`)
	s.must(403, "acme-admin", "POST", "/clusters", api.Cluster{Name: "c1", Addresses: []string{"127.0.0.1:1"}})
	s.must(201, "acme-admin", "POST", "/tenants/acme/users", map[string]any{"name": "more", "password": "longer than that"})
	s.must(204, "acme-admin", "DELETE", "/tenants/acme/users/more", nil)
}
