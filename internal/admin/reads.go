package admin

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/sluiceproxy/sluice/internal/control"
	"github.com/sluiceproxy/sluice/pkg/api"
)

type (
	// SessionInput chooses sessions.
	SessionInput struct {
		Tenant  string `query:"tenant" maxLength:"64" doc:"Of this tenant."`
		User    string `query:"user" maxLength:"256" doc:"Of this user."`
		Address string `query:"address" maxLength:"200" doc:"Whose address begins so."`
		Command string `query:"command" maxLength:"100" doc:"Whose last command is this one."`
		Cluster string `query:"cluster" maxLength:"64" doc:"Whose tenant's data is on this cluster."`
	}
	sessionsInput struct {
		SessionInput
		PageInput
	}
	clusterInput struct {
		Cluster string `path:"cluster" maxLength:"64" doc:"Name of the cluster."`
	}
	explainInput struct {
		Body explainBody
	}
	explainBody struct {
		Tenant string   `json:"tenant" minLength:"1" maxLength:"64" doc:"Name of the tenant."`
		Args   []string `json:"args" minItems:"1" maxItems:"1000" nullable:"false" doc:"The command and its arguments. It is not run."`
	}
	historyInput struct {
		Kind string `query:"kind" enum:"Cluster,Tenant,User,Token" doc:"Changes of this kind alone."`
		Name string `query:"name" maxLength:"400" doc:"Changes of the entity of this name alone; users are TENANT/USER."`
		PageInput
	}
	bodyOutput[T any] struct{ Body T }
	// configBody is the configuration as a file would have it.
	configBody map[string]any
)

func (f *SessionInput) filter(actor *control.Actor) SessionFilter {
	return SessionFilter{
		Tenants: actor.Tenants, Tenant: f.Tenant, User: f.User, Address: f.Address, Command: strings.ToLower(f.Command), Cluster: f.Cluster,
	}
}

func reading(path, id, summary string) route {
	return route{method: http.MethodGet, path: path, id: id, summary: summary, tag: "running", role: api.RoleViewer}
}

func (s *service) registerReads(a huma.API) {
	register(s, a, reading("/whoami", "whoami", "Whose token this is and what it may do"), s.whoami)
	register(s, a, reading("/status", "get-status", "The proxy at a glance"), s.status)
	register(s, a, reading("/stats", "get-stats", "Counters of tenants, nodes and commands"), s.stats)
	register(s, a, reading("/sessions", "list-sessions", "Connected clients"), s.sessions)
	register(s, a, reading("/nodes", "list-nodes", "Backend nodes as the proxy sees them"), s.nodes)
	register(s, a, reading("/topology/{cluster}", "get-topology", "A cluster's map of slots as the proxy sees it"), s.topology)
	register(s, a, reading("/history", "list-history", "Changes of all entities, the newest first"), s.changes)
	config := reading("/config", "get-config", "The effective configuration, without secrets")
	config.role, config.whole = api.RoleOperator, true
	register(s, a, config, s.configuration)
	explain := reading("/explain", "explain", "How a command of a tenant would be handled; it is not run")
	explain.method = http.MethodPost
	register(s, a, explain, s.explain)
}

func (s *service) whoami(_ context.Context, r *request, _ *struct{}) (*bodyOutput[api.Token], error) {
	token, ok := s.control.Authenticate(r.secret)
	if !ok { // a moment ago it was
		return nil, newProblem(http.StatusUnauthorized, "a valid token is needed: Authorization: Bearer TOKEN")
	}
	return &bodyOutput[api.Token]{token}, nil
}

func (s *service) status(_ context.Context, r *request, _ *struct{}) (*bodyOutput[api.Status], error) {
	status := s.runtime.Status()
	if bound(&r.actor) {
		status.Paused = slices.DeleteFunc(slices.Clone(status.Paused), func(tenant string) bool { return !r.actor.Sees(tenant) })
		if len(status.NotReady) > 0 { // the reasons name others' clusters
			status.NotReady = []string{"not everything can be served"}
		}
		status.Clients, status.Tenants, status.Clusters = 0, 0, 0
	}
	status.Paused, status.NotReady, status.Listeners = filled(status.Paused), filled(status.NotReady), filled(status.Listeners)
	return &bodyOutput[api.Status]{status}, nil
}

// filled is a list that is written as [], never as null.
func filled[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

func (s *service) stats(ctx context.Context, r *request, _ *struct{}) (*bodyOutput[api.Stats], error) {
	return &bodyOutput[api.Stats]{s.statsFor(ctx, &r.actor)}, nil
}

// statsFor are the numbers that the actor may see.
func (s *service) statsFor(ctx context.Context, actor *control.Actor) api.Stats {
	stats := s.runtime.Stats()
	stats.Nodes = s.nodesFor(ctx, actor, stats.Nodes)
	if bound(actor) {
		stats.Commands = nil // of all tenants
		stats.Tenants = slices.DeleteFunc(slices.Clone(stats.Tenants), func(t api.TenantStats) bool { return !actor.Sees(t.Name) })
	}
	stats.Tenants, stats.Commands = filled(stats.Tenants), filled(stats.Commands)
	return stats
}

// nodesFor are the nodes that the actor may see, as it may see them.
func (s *service) nodesFor(ctx context.Context, actor *control.Actor, nodes []api.Node) []api.Node {
	seen, sees := make([]api.Node, 0, len(nodes)), s.clustersOf(ctx, actor)
	for _, n := range nodes {
		if !seesAddresses(actor) {
			n.Address = ""
		}
		if sees(n.Cluster) {
			seen = append(seen, n)
		}
	}
	return seen
}

func (s *service) sessions(_ context.Context, r *request, in *sessionsInput) (*listOutput[api.Session], error) {
	all := s.runtime.Sessions(in.filter(&r.actor))
	slices.SortFunc(all, func(a, b api.Session) int { return strings.Compare(sessionKey(&a), sessionKey(&b)) })
	page, err := paginate(all, sessionKey, fmt.Sprintf("sessions\x00%q", in.SessionInput), &in.PageInput)
	return &listOutput[api.Session]{page}, err
}

func sessionKey(x *api.Session) string { return fmt.Sprintf("%020s", strconv.FormatUint(x.ID, 10)) }

func (s *service) nodes(ctx context.Context, r *request, _ *struct{}) (*listOutput[api.Node], error) {
	nodes := s.nodesFor(ctx, &r.actor, s.runtime.Nodes())
	return &listOutput[api.Node]{api.Page[api.Node]{Items: nodes, Total: len(nodes)}}, nil
}

func noCluster(name string) error {
	return notFound(fmt.Sprintf("%s %q: %s", api.KindCluster, name, control.ErrNotFound))
}

func (s *service) topology(ctx context.Context, r *request, in *clusterInput) (*bodyOutput[api.Topology], error) {
	if !s.clustersOf(ctx, &r.actor)(in.Cluster) {
		return nil, noCluster(in.Cluster)
	}
	t := s.runtime.Topology(in.Cluster)
	if t == nil {
		return nil, noCluster(in.Cluster)
	}
	seen := *t
	seen.Nodes, seen.Slots = s.nodesFor(ctx, &r.actor, t.Nodes), filled(t.Slots)
	return &bodyOutput[api.Topology]{seen}, nil
}

func (s *service) changes(ctx context.Context, r *request, in *historyInput) (*listOutput[api.Changed], error) {
	sees := s.seesChange(ctx, &r.actor)
	all := s.control.Changes(func(kind api.Kind, name string) bool {
		return (in.Kind == "" || api.Kind(in.Kind) == kind) && (in.Name == "" || in.Name == name) && sees(kind, name)
	})
	for i := range all {
		all[i].Change = hideAddresses(&r.actor, all[i].Kind, all[i].Change)
	}
	page, err := paginate(all, control.ChangeKey, fmt.Sprintf("changes\x00%q", []string{in.Kind, in.Name}), &in.PageInput)
	return &listOutput[api.Changed]{page}, err
}

// seesChange tells of which entities the actor may see changes.
func (s *service) seesChange(ctx context.Context, actor *control.Actor) func(kind api.Kind, name string) bool {
	clusters := s.clustersOf(ctx, actor)
	return func(kind api.Kind, name string) bool {
		switch kind {
		case api.KindCluster:
			return clusters(name)
		case api.KindTenant:
			return actor.Sees(name)
		case api.KindUser:
			tenant, _, _ := strings.Cut(name, "/")
			return actor.Sees(tenant)
		}
		return !bound(actor)
	}
}

func (s *service) configuration(context.Context, *request, *struct{}) (*bodyOutput[configBody], error) {
	return &bodyOutput[configBody]{s.runtime.Config()}, nil
}

func (s *service) explain(_ context.Context, r *request, in *explainInput) (*bodyOutput[api.Explanation], error) {
	missing := notFound(fmt.Sprintf("%s %q: %s", api.KindTenant, in.Body.Tenant, control.ErrNotFound))
	if !r.actor.Sees(in.Body.Tenant) {
		return nil, missing
	}
	e, err := s.runtime.Explain(in.Body.Tenant, in.Body.Args)
	if err != nil || e == nil {
		return nil, missing
	}
	shown := *e
	shown.Keys, shown.Slots, shown.Nodes = filled(e.Keys), filled(e.Slots), filled(e.Nodes)
	shown.Flags, shown.Notes = filled(e.Flags), filled(e.Notes)
	return &bodyOutput[api.Explanation]{shown}, nil
}
