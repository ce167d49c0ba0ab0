package ctl

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/sluiceproxy/sluice/internal/admin"
	"github.com/sluiceproxy/sluice/internal/config"
	"github.com/sluiceproxy/sluice/internal/control"
	"github.com/sluiceproxy/sluice/internal/store"
	"github.com/sluiceproxy/sluice/pkg/api"
)

// proxy is a running proxy as the admin port sees it: what it says is made up.
type proxy struct {
	control *control.Control
	mu      sync.Mutex
	did     []string
	looks   int
	fails   bool
	patient chan struct{} // a test of cluster "slow:1" waits for it
}

func (p *proxy) do(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.did = append(p.did, what)
}

func (p *proxy) done() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.did)
}

func (p *proxy) Status() api.Status {
	return api.Status{
		Version: "1.2.3", StartedAt: time.Now().Add(-3 * time.Hour), Ready: true, Clients: 2, Loops: 4, Tenants: 2, Clusters: 1,
		Paused: []string{"acme"}, Listeners: []string{"127.0.0.1:6380"}, Store: api.StoreStatus{Kind: "bbolt", Available: true, Revision: 7, Applied: 7},
	}
}

// Stats grow by a second's worth at every look.
func (p *proxy) Stats() api.Stats {
	p.mu.Lock()
	p.looks++
	n := uint64(p.looks)
	p.mu.Unlock()
	return api.Stats{
		At:       time.Date(2026, 1, 2, 3, 4, p.looks, 0, time.UTC),
		Tenants:  []api.TenantStats{{Name: "slow", Clients: 1, Commands: 10 * n, P50: 0.001, P99: 0.25}, {Name: "busy", Clients: 5, Commands: 20000 * n, Errors: 3 * n, P50: 0.0001, P99: 0.002}},
		Nodes:    []api.Node{{Cluster: "c1", Alias: "shard-0/primary", Role: "primary", Healthy: true, Inflight: 3, QueueDelay: 0.00002}},
		Commands: []api.CommandStats{{Class: "string", Commands: 20000 * n, Seconds: 2 * float64(n)}},
	}
}

func (p *proxy) Sessions(f admin.SessionFilter) []api.Session {
	all := []api.Session{
		{ID: 7, Tenant: "acme", User: "app", Address: "10.1.0.5:4000", Connected: time.Now().Add(-5 * time.Hour), LastCommand: "get", Name: "evil\x1b[2J"},
		{ID: 12, Tenant: "bolt", User: "web", Address: "10.2.0.5:4000", Connected: time.Now().Add(-time.Hour), IdleSeconds: 30, LastCommand: "blpop", Pinned: "blocked"},
	}
	return slices.DeleteFunc(all, func(s api.Session) bool {
		return f.ID != 0 && f.ID != s.ID || f.Tenant != "" && f.Tenant != s.Tenant || !strings.HasPrefix(s.Address, f.Address) || f.Command != "" && f.Command != s.LastCommand
	})
}

func (p *proxy) Kill(f admin.SessionFilter) int {
	n := len(p.Sessions(f))
	p.do("kill")
	return n
}

func (p *proxy) Nodes() []api.Node {
	return []api.Node{{Cluster: "c1", Alias: "shard-0/primary", Address: "10.0.0.1:7001", Role: "primary", Healthy: true, Slots: 16384, Pipes: 4}}
}

func (p *proxy) Topology(cluster string) *api.Topology {
	if cluster != "c1" {
		return nil
	}
	return &api.Topology{Cluster: "c1", Kind: "standalone", Ready: true, Covered: 16384, Nodes: p.Nodes(), Slots: []api.SlotRange{{Last: 16383, Shard: "shard-0"}}}
}

func (p *proxy) Explain(tenant string, args []string) (*api.Explanation, error) {
	if tenant != "acme" {
		return nil, errors.New("no such tenant")
	}
	return &api.Explanation{Tenant: tenant, Command: args[0], Class: "string", Served: "split", Keys: args[1:], Notes: []string{"two slots"}}, nil
}

func (p *proxy) Config() map[string]any { return map[string]any{"clients": map[string]any{"max": 10}} }

func (p *proxy) Test(_ context.Context, c api.Cluster) api.TestResult {
	if c.Addresses[0] == "slow:1" {
		<-p.patient
	}
	if c.Addresses[0] == "127.0.0.1:9" {
		return api.TestResult{Error: "connection refused"}
	}
	return api.TestResult{OK: true, Server: "redis 7.0.15", Nodes: 1, Covered: 16384, Seconds: 0.002}
}

func (p *proxy) RefreshTopology(cluster string) bool { p.do("refresh"); return cluster == "c1" }
func (p *proxy) Drain()                              { p.do("drain") }
func (p *proxy) Undrain()                            { p.do("undrain") }
func (p *proxy) Resume(tenant string) bool           { p.do("resume"); return tenant == "acme" }

func (p *proxy) Pause(tenant string, o admin.Pause) bool {
	p.do(map[bool]string{true: "refuse", false: "hold"}[o.Refuse])
	return tenant == "acme"
}

func (p *proxy) Reload(context.Context) error {
	if p.fails {
		return errors.New("line 3: not a key")
	}
	return nil
}

// fleet is the real admin port over a store in memory, and a terminal that knows where it is.
type fleet struct {
	*terminal
	proxy  *proxy
	url    string
	tokens map[string]string // by role
}

func startFleet(t *testing.T) *fleet {
	t.Helper()
	t.Cleanup(func() { goleak.VerifyNone(t, goleak.IgnoreCurrent()) })
	sealer, err := control.NewSealer(control.NewKey())
	require.NoError(t, err)
	f := &fleet{terminal: newTerminal(t), tokens: make(map[string]string)}
	var tokens []api.Token
	for _, role := range []api.Role{api.RoleViewer, api.RoleAdmin} {
		f.tokens[string(role)] = "slt_" + string(role) + "-of-the-test-configuration-file"
		tokens = append(tokens, api.Token{Name: string(role), Role: role, Secret: control.HashToken(f.tokens[string(role)])})
	}
	file := control.NewFile(&config.Config{Clusters: []config.Cluster{{Name: "filed", Kind: config.Standalone, Addresses: []string{"127.0.0.1:1"}}}}, tokens)
	c := control.New(store.NewMemory(), sealer, file, zap.NewNop())
	ctx, cancel := context.WithCancel(context.Background())
	followed := make(chan struct{})
	go func() { c.Follow(ctx); close(followed) }()
	t.Cleanup(func() { cancel(); <-followed })
	require.Eventually(t, c.Synced, 10*time.Second, time.Millisecond)
	f.proxy = &proxy{control: c}
	server, err := admin.Listen(t.Context(), admin.Options{
		Address: "127.0.0.1:0", Gatherer: prometheus.NewRegistry(), Ready: func() []admin.NotReady { return nil }, Log: zap.NewNop(),
		Control: c, Runtime: f.proxy, Audit: admin.AuditOff,
	})
	require.NoError(t, err)
	server.Serve()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		require.NoError(t, server.Close(ctx))
		http.DefaultClient.CloseIdleConnections()
	})
	f.url = "http://" + server.Address()
	f.env["SLUICE_SERVER"], f.env["SLUICE_TOKEN"] = f.url, f.tokens["admin"]
	return f
}

// must runs a command line that ends so, and returns what it printed.
func (f *fleet) must(code int, line string, more ...string) string {
	f.t.Helper()
	require.Equal(f.t, code, f.run(append(words(line), more...)...), "%s\n%s%s", line, f.out.String(), f.err.String())
	return f.out.String()
}

// fails runs a command line that ends with an error, and returns that.
func (f *fleet) fails(code int, line string) string {
	f.t.Helper()
	f.must(code, line)
	return f.err.String()
}

// furnish registers what the issue of every test needs: two clusters, two tenants, a user.
func (f *fleet) furnish() {
	f.t.Helper()
	f.must(ExitOK, "clusters create c1 --kind standalone --address 127.0.0.1:7001")
	f.must(ExitOK, "clusters create c2 --kind cluster --address 127.0.0.1:7101,127.0.0.1:7102")
	f.must(ExitOK, "tenants create acme --cluster c1")
	f.in = strings.NewReader("secret\n")
	f.must(ExitOK, "users create acme app --password-stdin")
}

// file writes a file and returns its path.
func (f *fleet) file(name, text string) string {
	f.t.Helper()
	path := filepath.Join(f.t.TempDir(), name)
	require.NoError(f.t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

var moments = regexp.MustCompile(`(\d{4}-\d\d-\d\d[T ])?\d\d:\d\d:\d\d(\.\d+)?Z?`)

// clients are the addresses that the system gives to a client.
var clients = regexp.MustCompile(`127\.0\.0\.1:\d{5}`)

// golden compares a text with a file of testdata; times and clients' addresses are masked.
func golden(t *testing.T, name, text string) {
	t.Helper()
	text = clients.ReplaceAllString(moments.ReplaceAllString(text, "TIME"), "CLIENT")
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o750))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), text, "go test ./internal/ctl -update writes %s", path)
}
