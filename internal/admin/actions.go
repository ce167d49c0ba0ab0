package admin

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/sluiceproxy/sluice/internal/control"
	"github.com/sluiceproxy/sluice/pkg/api"
)

// testTimeout bounds a test of a cluster.
const testTimeout = 30 * time.Second

type (
	idInput struct {
		ID uint64 `path:"id" minimum:"1" maximum:"9007199254740991" doc:"Of the session."`
	}
	killed struct {
		Killed int `json:"killed" doc:"Sessions that were disconnected."`
	}
	testInput struct {
		Body api.Cluster
	}
	// TenantInput names a tenant.
	TenantInput struct {
		Name string `path:"name" maxLength:"64" doc:"Name of the tenant."`
	}
	pauseInput struct {
		TenantInput
		Body pauseBody
	}
	pauseBody struct {
		Mode string       `json:"mode,omitempty" enum:"hold,refuse" default:"hold" doc:"hold: commands wait, within the bounds of clients. refuse: they get an error."`
		For  api.Duration `json:"for,omitempty" doc:"How long; absent: until it is resumed."`
	}
)

func acting(method, path, id, summary string) route {
	return route{method: method, path: path, id: id, summary: summary, tag: "actions", role: api.RoleOperator}
}

func (s *service) registerActions(a huma.API) {
	register(s, a, acting(http.MethodDelete, "/sessions/{id}", "kill-session", "Disconnect a client"), s.kill)
	register(s, a, acting(http.MethodDelete, "/sessions", "kill-sessions", "Disconnect all clients that match; at least one condition is needed"), s.killAll)
	test := acting(http.MethodPost, "/clusters/actions/test", "test-cluster", "Try to reach a cluster that need not be registered")
	test.whole = true
	register(s, a, test, s.test)
	register(s, a, acting(http.MethodPost, "/topology/{cluster}/actions/refresh", "refresh-topology", "Look at a cluster's topology now"), s.refresh)
	register(s, a, acting(http.MethodPost, "/tenants/{name}/actions/pause", "pause-tenant", "Hold or refuse a tenant's commands on this proxy"), s.pause)
	register(s, a, acting(http.MethodPost, "/tenants/{name}/actions/resume", "resume-tenant", "End a tenant's pause"), s.resume)
	for name, what := range map[string]struct {
		summary string
		do      func(context.Context, *request, *struct{}) (*struct{}, error)
	}{
		"drain":   {"Be not ready, and let clients go as their commands end", s.drain},
		"undrain": {"Take clients again", s.undrain},
		"reload":  {"Read the configuration file again", s.reload},
	} {
		o := acting(http.MethodPost, "/proxy/actions/"+name, name, what.summary)
		o.whole, o.errors = true, []int{http.StatusConflict}
		register(s, a, o, what.do)
	}
}

func (s *service) kill(_ context.Context, r *request, in *idInput) (*bodyOutput[killed], error) {
	n := s.runtime.Kill(SessionFilter{Tenants: r.actor.Tenants, ID: in.ID})
	if n == 0 {
		return nil, notFound(fmt.Sprintf("there is no session %d", in.ID))
	}
	return &bodyOutput[killed]{killed{n}}, nil
}

func (s *service) killAll(_ context.Context, r *request, in *SessionInput) (*bodyOutput[killed], error) {
	if *in == (SessionInput{}) {
		return nil, invalidField("query", "needs tenant, user, address, command or cluster: without any it would disconnect every client", nil)
	}
	return &bodyOutput[killed]{killed{s.runtime.Kill(in.filter(&r.actor))}}, nil
}

func (s *service) test(ctx context.Context, _ *request, in *testInput) (*bodyOutput[api.TestResult], error) {
	ctx, cancel := context.WithTimeout(ctx, testTimeout)
	defer cancel()
	result := s.runtime.Test(ctx, in.Body)
	result.Notes = filled(result.Notes)
	return &bodyOutput[api.TestResult]{result}, nil
}

func (s *service) refresh(ctx context.Context, r *request, in *clusterInput) (*struct{}, error) {
	if !s.clustersOf(ctx, &r.actor)(in.Cluster) || !s.runtime.RefreshTopology(in.Cluster) {
		return nil, noCluster(in.Cluster)
	}
	return nil, nil
}

func noTenant(name string) error {
	return notFound(fmt.Sprintf("%s %q: %s", api.KindTenant, name, control.ErrNotFound))
}

func (s *service) pause(_ context.Context, r *request, in *pauseInput) (*struct{}, error) {
	p := Pause{Refuse: in.Body.Mode == "refuse"}
	if in.Body.For > 0 {
		p.Until = time.Now().Add(time.Duration(in.Body.For))
	}
	if !r.actor.Sees(in.Name) || !s.runtime.Pause(in.Name, p) {
		return nil, noTenant(in.Name)
	}
	return nil, nil
}

func (s *service) resume(_ context.Context, r *request, in *TenantInput) (*struct{}, error) {
	if !r.actor.Sees(in.Name) || !s.runtime.Resume(in.Name) {
		return nil, noTenant(in.Name)
	}
	return nil, nil
}

func (s *service) drain(context.Context, *request, *struct{}) (*struct{}, error) {
	s.runtime.Drain()
	return nil, nil
}

func (s *service) undrain(context.Context, *request, *struct{}) (*struct{}, error) {
	s.runtime.Undrain()
	return nil, nil
}

func (s *service) reload(ctx context.Context, _ *request, _ *struct{}) (*struct{}, error) {
	if err := s.runtime.Reload(ctx); err != nil {
		return nil, newProblem(http.StatusConflict, "the configuration file cannot be used; the last good one stays in force: "+err.Error())
	}
	return nil, nil
}
