package admin

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/pkg/api"
)

func TestLifeOfACluster(t *testing.T) {
	s := start(t)
	made := s.must(201, "admin", "POST", "/clusters?reason=first", map[string]any{
		"name": "c1", "addresses": []string{"127.0.0.1:7001"}, "auth": map[string]any{"username": "u", "password": "hunter2"},
	})
	require.Equal(t, `"1"`, made.Header.Get("ETag"))
	c := decode[api.Cluster](t, made)
	require.True(t, c.Auth.HasPassword)
	require.NotContains(t, string(made.body), "hunter2")

	got := s.must(200, "operator", "GET", "/clusters/c1", nil)
	require.Equal(t, c, decode[api.Cluster](t, got))
	require.Equal(t, `"1"`, got.Header.Get("ETag"))

	s.must(412, "admin", "PATCH", "/clusters/c1", `{"connect_timeout": "3s"}`, `If-Match: "7"`)
	plan := decode[api.Plan](t, s.must(200, "admin", "PATCH", "/clusters/c1?dryRun=true", `{"connect_timeout": "3s"}`, `If-Match: "1"`))
	require.Equal(t, "update", plan.Action)
	patched := s.must(200, "admin", "PATCH", "/clusters/c1", `{"connect_timeout": "3s"}`, `If-Match: "1"`, "Sluice-Reason: slow network")
	require.Equal(t, `"2"`, patched.Header.Get("ETag"))
	c = decode[api.Cluster](t, patched)
	c.ConnectTimeout = 0
	replaced := decode[api.Cluster](t, s.must(200, "admin", "PUT", "/clusters/c1", c, `If-Match: "2"`))
	require.Equal(t, 3, replaced.Meta.Version)
	require.True(t, replaced.Auth.HasPassword, "a password that is not given stays")

	history := decode[api.Page[api.Change]](t, s.must(200, "viewer", "GET", "/clusters/c1/history", nil))
	require.Equal(t, 3, history.Total)
	require.Equal(t, "slow network", history.Items[1].Reason)
	require.Equal(t, "admin", history.Items[2].By)
	back := decode[api.Cluster](t, s.must(200, "admin", "POST", "/clusters/c1/rollback", `{"version": 2, "reason": "it was better"}`))
	require.Equal(t, 4, back.Meta.Version)

	s.must(201, "admin", "POST", "/tenants", api.Tenant{Name: "acme", Cluster: "c1"})
	refused := s.must(409, "admin", "DELETE", "/clusters/c1", nil).problem(t)
	require.Contains(t, refused.Detail, "acme")
	require.Equal(t, "acme", refused.Errors[0].Value)
	s.must(204, "admin", "DELETE", "/tenants/acme", nil)
	require.Equal(t, "delete", decode[api.Plan](t, s.must(200, "admin", "DELETE", "/clusters/c1?dryRun=true", nil)).Action)
	s.must(204, "admin", "DELETE", "/clusters/c1", nil)
	s.must(404, "admin", "GET", "/clusters/c1", nil)
	require.Equal(t, 5, decode[api.Cluster](t, s.must(200, "admin", "POST", "/clusters/c1/rollback", nil)).Meta.Version-1)
}
