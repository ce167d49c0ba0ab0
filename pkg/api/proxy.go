package api

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// testTimeout bounds a test of a cluster, which dials its nodes.
const testTimeout = 60 * time.Second

func (c *Client) get(ctx context.Context, into any, query url.Values, path ...string) error {
	return c.do(ctx, call{method: http.MethodGet, path: path, query: query}, into)
}

func (c *Client) act(ctx context.Context, body any, path ...string) error {
	return c.do(ctx, call{method: http.MethodPost, path: path, body: body}, nil)
}

// WhoAmI tells whose token the client has, and what it may do.
func (c *Client) WhoAmI(ctx context.Context) (token Token, err error) {
	err = c.get(ctx, &token, nil, "whoami")
	return token, err
}

// Status is the proxy at a glance.
func (c *Client) Status(ctx context.Context) (status Status, err error) {
	err = c.get(ctx, &status, nil, "status")
	return status, err
}

// Stats are the proxy's counters now.
func (c *Client) Stats(ctx context.Context) (stats Stats, err error) {
	err = c.get(ctx, &stats, nil, "stats")
	return stats, err
}

// SessionFilter chooses sessions; empty fields choose all.
type SessionFilter struct {
	Tenant  string
	User    string
	Address string // prefix of the client's
	Command string // the last one
	Cluster string // that the tenant's data is on
}

func (f SessionFilter) query() url.Values {
	q := url.Values{}
	for name, value := range map[string]string{"tenant": f.Tenant, "user": f.User, "address": f.Address, "command": f.Command, "cluster": f.Cluster} {
		if value != "" {
			q.Set(name, value)
		}
	}
	return q
}

// Sessions goes through the connected clients.
func (c *Client) Sessions(ctx context.Context, f SessionFilter) iter.Seq2[Session, error] {
	return func(yield func(Session, error) bool) {
		pages(ctx, c, f.query(), yield, "sessions")
	}
}

// pages goes through all pages of a list.
func pages[T any](ctx context.Context, c *Client, q url.Values, yield func(T, error) bool, path ...string) {
	if !q.Has("limit") {
		q.Set("limit", strconv.Itoa(mostOnPage))
	}
	for {
		var page Page[T]
		if err := c.get(ctx, &page, q, path...); err != nil {
			var none T
			yield(none, err)
			return
		}
		for i := range page.Items {
			if !yield(page.Items[i], nil) {
				return
			}
		}
		if page.Next == "" || page.Next == q.Get("page") {
			return
		}
		q.Set("page", page.Next)
	}
}

// Changes goes through the changes of all entities, the newest first; kind and name choose some, empty ones all.
func (c *Client) Changes(ctx context.Context, kind Kind, name string) iter.Seq2[Changed, error] {
	return func(yield func(Changed, error) bool) {
		q := url.Values{}
		if kind != "" {
			q.Set("kind", string(kind))
		}
		if name != "" {
			q.Set("name", name)
		}
		pages(ctx, c, q, yield, "history")
	}
}

// Killed is how many sessions were disconnected.
type Killed struct {
	Killed int `json:"killed"`
}

// KillSession disconnects one client.
func (c *Client) KillSession(ctx context.Context, id uint64) (killed Killed, err error) {
	killed.Killed = 1
	err = c.do(ctx, call{method: http.MethodDelete, path: []string{"sessions", strconv.FormatUint(id, 10)}}, &killed)
	return killed, err
}

// KillSessions disconnects all clients that match.
func (c *Client) KillSessions(ctx context.Context, f SessionFilter) (killed Killed, err error) {
	err = c.do(ctx, call{method: http.MethodDelete, path: []string{"sessions"}, query: f.query()}, &killed)
	return killed, err
}

// Nodes are all backend nodes, as the proxy sees them.
func (c *Client) Nodes(ctx context.Context) ([]Node, error) {
	var nodes Page[Node]
	err := c.get(ctx, &nodes, nil, "nodes")
	return nodes.Items, err
}

// Topology is a cluster's map, as the proxy sees it.
func (c *Client) Topology(ctx context.Context, cluster string) (topology Topology, err error) {
	err = c.get(ctx, &topology, nil, "topology", cluster)
	return topology, err
}

// RefreshTopology asks the proxy to look at a cluster's topology.
func (c *Client) RefreshTopology(ctx context.Context, cluster string) error {
	return c.act(ctx, nil, "topology", cluster, "actions", "refresh")
}

// Explain tells how a command of a tenant would be handled. It is not run.
func (c *Client) Explain(ctx context.Context, tenant string, args []string) (explanation Explanation, err error) {
	body := map[string]any{"tenant": tenant, "args": args}
	err = c.do(ctx, call{method: http.MethodPost, path: []string{"explain"}, body: body}, &explanation)
	return explanation, err
}

// Config is the effective configuration, without secrets.
func (c *Client) Config(ctx context.Context) (config map[string]any, err error) {
	err = c.get(ctx, &config, nil, "config")
	return config, err
}

// Test tries to reach a cluster that need not be registered.
func (c *Client) Test(ctx context.Context, cluster Cluster) (result TestResult, err error) {
	err = c.do(ctx, call{method: http.MethodPost, path: []string{"clusters", "actions", "test"}, body: cluster, timeout: testTimeout}, &result)
	return result, err
}

// Drain makes the proxy not ready and lets clients go as their commands end.
func (c *Client) Drain(ctx context.Context) error {
	return c.act(ctx, nil, "proxy", "actions", "drain")
}

// Undrain takes clients again.
func (c *Client) Undrain(ctx context.Context) error {
	return c.act(ctx, nil, "proxy", "actions", "undrain")
}

// Reload reads the configuration file again.
func (c *Client) Reload(ctx context.Context) error {
	return c.act(ctx, nil, "proxy", "actions", "reload")
}

// PauseOptions say what becomes of a tenant's commands while it is paused.
type PauseOptions struct {
	// Mode is "hold", so that commands wait, or "refuse".
	Mode string `json:"mode"`
	// For ends the pause; 0: when it is resumed.
	For Duration `json:"for,omitempty"`
}

// Pause holds or refuses a tenant's commands.
func (c *Client) Pause(ctx context.Context, tenant string, o PauseOptions) error {
	return c.act(ctx, o, "tenants", tenant, "actions", "pause")
}

// Resume ends a tenant's pause.
func (c *Client) Resume(ctx context.Context, tenant string) error {
	return c.act(ctx, nil, "tenants", tenant, "actions", "resume")
}
