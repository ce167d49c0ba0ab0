package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/store"
)

// healthAnswer is the body of /healthz.
type healthAnswer struct {
	Status string
	Store  struct {
		Kind, Status, Reason string
		Since                time.Time
	}
}

func (p *proxy) health(t *testing.T) (h healthAnswer, body string) {
	t.Helper()
	status, body, header := p.get(t, "/healthz")
	require.Equal(t, http.StatusOK, status, body)
	require.Equal(t, "application/json", header.Get("Content-Type"))
	require.NoError(t, json.Unmarshal([]byte(body), &h), body)
	return h, body
}

// TestHealthTellsThatTheStoreIsAway: a proxy whose etcd is gone works, serves what it knows and says since when it is so;
// nothing else starts it again or takes its clients away.
func TestHealthTellsThatTheStoreIsAway(t *testing.T) {
	t.Parallel()
	etcd, server := redistest.Etcd(t, nil), redistest.Standalone(t)
	p := startProxy(t, fmt.Sprintf(`
listeners: [{address: "127.0.0.1:0"}]
admin: {address: "127.0.0.1:0"}
store: {kind: etcd, etcd: {endpoints: [%q]}}
`, etcd.Endpoint()))
	r := p.registrar(t)
	r.cluster("one", "standalone", server.Addr())
	r.tenant("acme", "one")
	r.user("acme", "app")
	c := p.login(t, "app")
	h, body := p.health(t)
	require.Equal(t, "ok", h.Status, body)
	require.Equal(t, "etcd", h.Store.Kind)
	require.Equal(t, "ok", h.Store.Status)
	reached := h.Store.Since
	require.False(t, reached.IsZero(), body)

	etcd.Kill()
	require.Eventually(t, func() bool { h, body = p.health(t); return h.Store.Status == "unavailable" }, 3*eventually, tick)
	require.Equal(t, "degraded", h.Status, body)
	require.NotEmpty(t, h.Store.Reason)
	require.True(t, h.Store.Since.After(reached), body)
	require.NotContains(t, body, etcd.Addr())
	left := h.Store.Since
	require.Equal(t, left, p.Status().Store.Since)
	require.InDelta(t, 0, p.metric(t, "sluice_store_available", `kind="etcd"`), 0)
	status, _, _ := p.get(t, "/readyz")
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, "+OK\r\n", string(c.Do("SET", "k", "v")))
	_, err := r.Tenants().Patch(t.Context(), anyWrite(), "acme", []byte(`{"databases": [0, 1]}`))
	require.ErrorIs(t, err, store.ErrUnavailable)
	h, body = p.health(t)
	require.Equal(t, left, h.Store.Since, "it tells since when, not when it was last tried: %s", body)

	etcd.Start()
	require.Eventually(t, func() bool { h, body = p.health(t); return h.Status == "ok" }, 3*eventually, tick)
	require.Equal(t, "ok", h.Store.Status)
	require.Empty(t, h.Store.Reason)
	require.True(t, h.Store.Since.After(left), body)
	require.InDelta(t, 1, p.metric(t, "sluice_store_available", `kind="etcd"`), 0)
}
