package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/sluiceproxy/sluice/internal/config"
	"github.com/sluiceproxy/sluice/internal/control"
	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/store"
	"github.com/sluiceproxy/sluice/pkg/api"
)

const (
	eventually = 10 * time.Second
	tick       = 5 * time.Millisecond
)

// fakeRuntime is a proxy with two sessions and one node per cluster.
type fakeRuntime struct {
	mu      sync.Mutex
	calls   []string
	paused  map[string]Pause
	control *control.Control
	broken  bool
}

func (f *fakeRuntime) called(what string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, what)
}

func (f *fakeRuntime) tenant(name string) bool {
	_, err := f.control.Tenants().Get(context.Background(), name)
	return err == nil
}

func (f *fakeRuntime) cluster(name string) bool {
	_, err := f.control.Clusters().Get(context.Background(), name)
	return err == nil
}

func (f *fakeRuntime) Status() api.Status {
	return api.Status{
		Version: "test", Ready: true, Clients: 2, Loops: 1, Paused: []string{"acme", "globex"},
		NotReady: []string{"cluster c2: connection refused"}, Store: api.StoreStatus{Kind: "memory", Available: true},
	}
}

func (f *fakeRuntime) Stats() api.Stats {
	return api.Stats{
		At: time.Now().UTC(), Nodes: f.Nodes(), Commands: []api.CommandStats{{Class: "string", Commands: 3}},
		Tenants: []api.TenantStats{{Name: "acme", Clients: 1}, {Name: "globex", Clients: 1}},
	}
}

func (f *fakeRuntime) Sessions(filter SessionFilter) []api.Session {
	all := []api.Session{
		{ID: 12, Tenant: "acme", User: "app", Address: "127.0.0.1:1001", Protocol: 2, LastCommand: "get"},
		{ID: 9, Tenant: "globex", User: "web", Address: "127.0.0.2:1002", Protocol: 3, LastCommand: "set"},
	}
	return slices.DeleteFunc(all, func(s api.Session) bool {
		return filter.Tenants != nil && !slices.Contains(filter.Tenants, s.Tenant) || filter.ID != 0 && filter.ID != s.ID ||
			filter.Tenant != "" && filter.Tenant != s.Tenant || filter.User != "" && filter.User != s.User ||
			!strings.HasPrefix(s.Address, filter.Address) || filter.Command != "" && filter.Command != s.LastCommand
	})
}

func (f *fakeRuntime) Kill(filter SessionFilter) int { return len(f.Sessions(filter)) }

func (f *fakeRuntime) Nodes() []api.Node {
	return []api.Node{
		{Cluster: "c1", Alias: "shard-0/primary", Address: "10.9.8.7:7001", Role: "primary", Healthy: true, Slots: 16384},
		{Cluster: "c2", Alias: "shard-0/primary", Address: "10.9.8.7:7101", Role: "primary"},
	}
}

func (f *fakeRuntime) Topology(cluster string) *api.Topology {
	if !f.cluster(cluster) {
		return nil
	}
	return &api.Topology{Cluster: cluster, Kind: "standalone", Ready: true, Covered: 16384, Nodes: f.Nodes()[:1]}
}

func (f *fakeRuntime) Explain(tenant string, args []string) (*api.Explanation, error) {
	if !f.tenant(tenant) {
		return nil, errors.New("no such tenant")
	}
	return &api.Explanation{Tenant: tenant, Command: args[0], Served: "forward", Keys: args[1:]}, nil
}

func (f *fakeRuntime) Config() map[string]any { return map[string]any{"loops": 1} }

func (f *fakeRuntime) Test(_ context.Context, c api.Cluster) api.TestResult {
	return api.TestResult{OK: true, Server: "redis 7.0 at " + strings.Join(c.Addresses, ","), Nodes: 1, Covered: 16384}
}

func (f *fakeRuntime) RefreshTopology(cluster string) bool { return f.cluster(cluster) }
func (f *fakeRuntime) Drain()                              { f.called("drain") }
func (f *fakeRuntime) Undrain()                            { f.called("undrain") }

func (f *fakeRuntime) Pause(tenant string, p Pause) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.paused[tenant] = p
	return f.tenant(tenant)
}

func (f *fakeRuntime) Resume(tenant string) bool { return f.tenant(tenant) }

func (f *fakeRuntime) Reload(context.Context) error {
	f.called("reload")
	if f.broken {
		return errors.New("line 3: not a key")
	}
	return nil
}

// stack is a port with its API, over a store in memory.
type stack struct {
	t       *testing.T
	url     string
	control *control.Control
	runtime *fakeRuntime
	server  *Server
	audit   string
	tokens  map[string]string // by name
}

// tokensOfFile are declared by the configuration: one of each role, and one of each that is bound to acme.
func tokensOfFile() (tokens []api.Token, secrets map[string]string) {
	secrets = make(map[string]string)
	for _, role := range []api.Role{api.RoleViewer, api.RoleOperator, api.RoleAdmin} {
		for name, tenants := range map[string][]string{string(role): nil, "acme-" + string(role): {"acme"}} {
			secrets[name] = "slt_" + name + "-of-the-configuration"
			tokens = append(tokens, api.Token{Name: name, Role: role, Tenants: tenants, Secret: control.HashToken(secrets[name])})
		}
	}
	return tokens, secrets
}

func start(t *testing.T, options ...func(*Options)) *stack {
	t.Helper()
	redistest.LeakCheck(t)
	sealer, err := control.NewSealer(control.NewKey())
	require.NoError(t, err)
	s := &stack{t: t, audit: t.TempDir() + "/audit.log"}
	tokens, secrets := tokensOfFile()
	s.tokens = secrets
	file := control.NewFile(&config.Config{
		Clusters: []config.Cluster{{Name: "filed", Kind: config.Standalone, Addresses: []string{"127.0.0.1:1"}}},
		Tenants:  []config.Tenant{{Name: "fixed", Cluster: "filed", Databases: []int{0}, CrossSlot: "split", Frontend: "standalone"}},
	}, tokens)
	s.control = control.New(store.NewMemory(), sealer, file, zap.NewNop())
	ctx, cancel := context.WithCancel(context.Background())
	followed := make(chan struct{})
	go func() { s.control.Follow(ctx); close(followed) }()
	t.Cleanup(func() { cancel(); <-followed })
	require.Eventually(t, s.control.Synced, eventually, tick)
	s.runtime = &fakeRuntime{control: s.control, paused: make(map[string]Pause)}
	o := Options{
		Address: "127.0.0.1:0", Gatherer: prometheus.NewRegistry(), Ready: func() []NotReady { return nil }, Log: zap.NewNop(),
		Control: s.control, Runtime: s.runtime, Audit: s.audit,
	}
	for _, set := range options {
		set(&o)
	}
	s.server, err = Listen(t.Context(), o)
	require.NoError(t, err)
	s.server.Serve()
	s.url = "http://" + s.server.Address()
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), eventually)
		defer cancel()
		require.NoError(t, s.server.Close(ctx))
	})
	return s
}

// reply is an answer, read whole.
type reply struct {
	*http.Response
	body []byte
}

func (r *reply) problem(t *testing.T) (p api.Problem) {
	t.Helper()
	require.Equal(t, typeProblem, r.Header.Get("Content-Type"), "%s", r.body)
	require.NoError(t, json.Unmarshal(r.body, &p), "%s", r.body)
	require.Equal(t, r.StatusCode, p.Status)
	return p
}

func decode[T any](t *testing.T, r *reply) (value T) {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(r.body))
	decoder.DisallowUnknownFields()
	require.NoError(t, decoder.Decode(&value), "%d %s", r.StatusCode, r.body)
	return value
}

// ask sends a request as the token of that name, and reads the answer. Headers are given as "Name: value".
func (s *stack) ask(token, method, path string, body any, headers ...string) *reply {
	s.t.Helper()
	var reader io.Reader
	contentType := typeJSON
	switch b := body.(type) {
	case nil:
	case string:
		reader = strings.NewReader(b)
	default:
		encoded, err := json.Marshal(b)
		require.NoError(s.t, err)
		reader = bytes.NewReader(encoded)
	}
	if method == http.MethodPatch {
		contentType = typePatch
	}
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.url+prefix+path, reader)
	require.NoError(s.t, err)
	if reader != nil {
		r.Header.Set("Content-Type", contentType)
	}
	if token != "" {
		secret, ok := s.tokens[token]
		if !ok {
			secret = token
		}
		r.Header.Set("Authorization", "Bearer "+secret)
	}
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		r.Header.Set(name, value)
	}
	answer, err := http.DefaultClient.Do(r)
	require.NoError(s.t, err)
	defer answer.Body.Close()
	content, err := io.ReadAll(answer.Body)
	require.NoError(s.t, err)
	return &reply{answer, content}
}

// must is ask, with the status that is expected.
func (s *stack) must(status int, token, method, path string, body any, headers ...string) *reply {
	s.t.Helper()
	r := s.ask(token, method, path, body, headers...)
	require.Equal(s.t, status, r.StatusCode, "%s %s: %s", method, path, r.body)
	if status >= 400 {
		r.problem(s.t)
	}
	return r
}

// furnish registers two clusters, two tenants and their users.
func (s *stack) furnish() {
	s.t.Helper()
	for _, name := range []string{"c1", "c2"} {
		s.must(201, "admin", "POST", "/clusters", api.Cluster{Name: name, ClusterKind: "standalone", Addresses: []string{"10.9.8.7:7001"}})
	}
	s.must(201, "admin", "POST", "/tenants", api.Tenant{Name: "acme", Cluster: "c1"})
	s.must(201, "admin", "POST", "/tenants", api.Tenant{Name: "globex", Cluster: "c2"})
	for tenant, user := range map[string]string{"acme": "app", "globex": "web"} {
		s.must(201, "admin", "POST", "/tenants/"+tenant+"/users", map[string]any{"name": user, "sha256": strings.Repeat("a1", 32)})
	}
}
