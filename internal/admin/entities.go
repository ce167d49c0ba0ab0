package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/sluiceproxy/sluice/internal/control"
	"github.com/sluiceproxy/sluice/pkg/api"
)

// resource is the routes of one kind of entity.
type resource[T any] struct {
	s        *service
	kind     api.Kind
	path     string   // of the list
	params   []string // of path
	one      string   // what one is called in identifiers
	entities func() control.Entities[T]
	name     func(*T) string // as in the path
	meta     func(*T) *api.Meta
	sees     func(context.Context, *control.Actor) func(*T) bool
	// show takes out what the actor may not see.
	show func(*control.Actor, *T)
	// unbound entities are not changed by tokens that are bound to tenants.
	unbound bool
	// within prepares an entity for its place in the path.
	within func(r *http.Request, entity *T) error
}

func (s *service) registerEntities(a huma.API) {
	registerResource(a, &resource[api.Cluster]{
		s: s, kind: api.KindCluster, path: "/clusters", one: "cluster", unbound: true,
		entities: func() control.Entities[api.Cluster] { return s.control.Clusters() },
		name:     func(x *api.Cluster) string { return x.Name },
		meta:     func(x *api.Cluster) *api.Meta { return x.Meta },
		sees: func(ctx context.Context, actor *control.Actor) func(*api.Cluster) bool {
			sees := s.clustersOf(ctx, actor)
			return func(x *api.Cluster) bool { return sees(x.Name) }
		},
		show: func(actor *control.Actor, x *api.Cluster) {
			if !seesAddresses(actor) {
				x.Addresses, x.TLS = nil, nil
			}
		},
	})
	registerResource(a, &resource[api.Tenant]{
		s: s, kind: api.KindTenant, path: "/tenants", one: "tenant", unbound: true,
		entities: func() control.Entities[api.Tenant] { return s.control.Tenants() },
		name:     func(x *api.Tenant) string { return x.Name },
		meta:     func(x *api.Tenant) *api.Meta { return x.Meta },
		sees: func(_ context.Context, actor *control.Actor) func(*api.Tenant) bool {
			return func(x *api.Tenant) bool { return actor.Sees(x.Name) }
		},
	})
	registerResource(a, &resource[api.User]{
		s: s, kind: api.KindUser, path: "/tenants/{tenant}/users", params: []string{"tenant"}, one: "user",
		entities: func() control.Entities[api.User] { return s.control.Users() },
		name:     func(x *api.User) string { return x.Tenant + "/" + x.Name },
		meta:     func(x *api.User) *api.Meta { return x.Meta },
		sees: func(_ context.Context, actor *control.Actor) func(*api.User) bool {
			return func(x *api.User) bool { return actor.Sees(x.Tenant) }
		},
		within: func(r *http.Request, x *api.User) error {
			tenant := r.PathValue("tenant")
			if x.Tenant != "" && x.Tenant != tenant {
				return invalidField("body.tenant", fmt.Sprintf("is not %q, the tenant of the path", tenant), x.Tenant)
			}
			x.Tenant = tenant
			return nil
		},
	})
	registerResource(a, &resource[api.Token]{
		s: s, kind: api.KindToken, path: "/tokens", one: "token", unbound: true,
		entities: func() control.Entities[api.Token] { return s.control.Tokens() },
		name:     func(x *api.Token) string { return x.Name },
		meta:     func(x *api.Token) *api.Meta { return x.Meta },
		sees: func(_ context.Context, actor *control.Actor) func(*api.Token) bool {
			return func(*api.Token) bool { return !bound(actor) }
		},
	})
}

// clustersOf tells which clusters an actor may see: those of its tenants.
func (s *service) clustersOf(ctx context.Context, actor *control.Actor) func(cluster string) bool {
	if !bound(actor) {
		return func(string) bool { return true }
	}
	seen := make(map[string]bool)
	for _, name := range actor.Tenants {
		if t, err := s.control.Tenants().Get(ctx, name); err == nil {
			seen[t.Cluster] = true
		}
	}
	return func(cluster string) bool { return seen[cluster] }
}

// The inputs and outputs of the operations. Those that are embedded are exported because the API library sees no others.
type (
	listInput struct {
		Filter string `query:"filter" maxLength:"500" doc:"Terms separated by commas, all of which must hold: TEXT is a part of the name; FIELD=VALUE, FIELD!=VALUE and FIELD~TEXT (a part) name a field, such as meta.source."`
		PageInput
	}
	// PageInput chooses a part of a list.
	PageInput struct {
		Limit int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"Most items on the page."`
		Page  string `query:"page" maxLength:"2000" doc:"Next of the page before; absent: the first."`
	}
	listOutput[T any] struct{ Body api.Page[T] }
	oneOutput[T any]  struct {
		ETag string `header:"ETag" doc:"The quoted version, for If-Match."`
		Body T
	}
	// WriteInput goes with every change.
	WriteInput struct {
		DryRun bool   `query:"dryRun" doc:"Change nothing; the answer is a Plan of what would change."`
		Reason string `query:"reason" maxLength:"1000" doc:"Why, for the history."`
		Header string `header:"Sluice-Reason" maxLength:"1000" doc:"As the parameter reason."`
	}
	// MatchInput goes with changes of what exists.
	MatchInput struct {
		WriteInput
		IfMatch string `header:"If-Match" pattern:"^(\\*|\"[0-9]{1,9}\")$" doc:"The ETag that the entity must have; another one is answered with 412."`
	}
	createInput[T any] struct {
		WriteInput
		Body T
	}
	replaceInput[T any] struct {
		MatchInput
		Body T
	}
	patchInput struct {
		MatchInput
		Body map[string]any `contentType:"application/merge-patch+json" doc:"The fields to change; null removes one (RFC 7396)."`
	}
	rollbackInput struct {
		MatchInput
		Body *rollbackTo
	}
	rollbackTo struct {
		Version int    `json:"version,omitempty" minimum:"0" maximum:"1000000000" doc:"The version to go back to; absent or 0: the one before the present."`
		Reason  string `json:"reason,omitempty" maxLength:"1000" doc:"As the parameter reason."`
	}
	writeOutput struct {
		Status int
		ETag   string `header:"ETag" doc:"The quoted version, for If-Match."`
		Body   any
	}
)

func etag(m *api.Meta) string {
	if m == nil || m.Version == 0 {
		return ""
	}
	return strconv.Quote(strconv.Itoa(m.Version))
}

// version is the one that If-Match asks for.
func (m *MatchInput) version() int {
	if m.IfMatch == "" || m.IfMatch == "*" {
		return control.AnyVersion
	}
	n, _ := strconv.Atoi(m.IfMatch[1 : len(m.IfMatch)-1]) // the pattern was checked
	return n
}

func (x *resource[T]) write(r *request, in *WriteInput, version int) control.Write {
	w := control.Write{Actor: r.actor, Version: version, DryRun: in.DryRun}
	w.Actor.Reason = in.Reason
	if in.Header != "" {
		w.Actor.Reason = in.Header
	}
	r.line.Reason, r.line.DryRun = w.Actor.Reason, in.DryRun
	return w
}

// at is the name in the request's path; of users with their tenant.
func (x *resource[T]) at(r *request) string {
	name := r.http.PathValue("name")
	if tenant := r.http.PathValue("tenant"); tenant != "" {
		name = tenant + "/" + name
	}
	r.line.Entity = string(x.kind) + " " + name
	return name
}

func (x *resource[T]) missing(name string) error {
	return notFound(fmt.Sprintf("%s %q: %s", x.kind, name, control.ErrNotFound))
}

// visible is the entity of that name if the actor may see it.
func (x *resource[T]) visible(ctx context.Context, actor *control.Actor, name string) (entity T, err error) {
	entity, err = x.entities().Get(ctx, name)
	if err != nil {
		return entity, x.s.problem(err, false)
	}
	if !x.sees(ctx, actor)(&entity) {
		return entity, x.missing(name)
	}
	return entity, nil
}

func registerResource[T any](a huma.API, x *resource[T]) {
	t, plan := reflect.TypeFor[T](), reflect.TypeFor[api.Plan]()
	one, params := x.path+"/{name}", append(slices.Clone(x.params), "name")
	changed := map[string]*huma.Response{"200": answerOf("As it is now, or the plan of a dry run", oneOf(a, t, plan))}
	writes := []int{http.StatusConflict, http.StatusPreconditionFailed}
	at := func(method, path, verb string, role api.Role) route {
		r := route{method: method, path: path, id: verb + "-" + x.one, summary: summary(verb, x.one), tag: "registered", role: role, params: params}
		if path == x.path {
			r.params = x.params
		}
		if role == api.RoleAdmin {
			r.whole, r.errors = x.unbound, writes
		}
		return r
	}
	list := at(http.MethodGet, x.path, "list", api.RoleViewer)
	list.id += "s"
	register(x.s, a, list, x.list)
	register(x.s, a, at(http.MethodGet, one, "get", api.RoleViewer), x.get)
	create := at(http.MethodPost, x.path, "create", api.RoleAdmin)
	create.status = http.StatusCreated
	create.responses = map[string]*huma.Response{"201": answerOf("Made", oneOf(a, t)), "200": answerOf("The plan of a dry run", oneOf(a, plan))}
	register(x.s, a, create, x.create)
	for _, o := range []struct {
		route
		add func(route)
	}{
		{at(http.MethodPut, one, "replace", api.RoleAdmin), func(o route) { register(x.s, a, o, x.replace) }},
		{at(http.MethodPatch, one, "patch", api.RoleAdmin), func(o route) { register(x.s, a, o, x.patch) }},
		{at(http.MethodPost, one+"/rollback", "rollback", api.RoleAdmin), func(o route) { register(x.s, a, o, x.rollback) }},
	} {
		o.responses = changed
		o.add(o.route)
	}
	remove := at(http.MethodDelete, one, "delete", api.RoleAdmin)
	remove.responses = map[string]*huma.Response{"200": answerOf("The plan of a dry run", oneOf(a, plan)), "204": {Description: "Deleted"}}
	register(x.s, a, remove, x.remove)
	history := at(http.MethodGet, one+"/history", "history", api.RoleViewer)
	history.id = x.one + "-history"
	register(x.s, a, history, x.history)
}

func summary(verb, one string) string {
	article := "a "
	switch verb {
	case "list":
		return "List the " + one + "s"
	case "history":
		return "Versions of a " + one + " that are kept, the newest first"
	case "rollback":
		return "Make an earlier version of a " + one + " the newest one; one that was deleted comes back"
	}
	return string(verb[0]-'a'+'A') + verb[1:] + " " + article + one
}

func (x *resource[T]) list(ctx context.Context, r *request, in *listInput) (*listOutput[T], error) {
	match, err := parseFilter[T](in.Filter)
	if err != nil {
		return nil, err
	}
	tenant, sees := r.http.PathValue("tenant"), x.sees(ctx, &r.actor)
	if tenant != "" {
		if err := x.s.seesTenant(ctx, &r.actor, tenant); err != nil {
			return nil, err
		}
	}
	all, err := x.entities().List(ctx, sees)
	if err != nil {
		return nil, x.s.problem(err, false)
	}
	all = slices.DeleteFunc(all, func(entity T) bool {
		if x.show != nil {
			x.show(&r.actor, &entity)
		}
		within := tenant == "" || any(&entity).(*api.User).Tenant == tenant //nolint:forcetypeassert // only users are in tenants
		return !within || !match(&entity)
	})
	if x.show != nil {
		for i := range all {
			x.show(&r.actor, &all[i])
		}
	}
	page, err := paginate(all, x.name, string(x.kind)+"\x00"+tenant+"\x00"+in.Filter, &in.PageInput)
	return &listOutput[T]{page}, err
}

// seesTenant says that there is no such tenant, or none that the actor may see.
func (s *service) seesTenant(ctx context.Context, actor *control.Actor, name string) error {
	if _, err := s.control.Tenants().Get(ctx, name); err != nil || !actor.Sees(name) {
		return notFound(fmt.Sprintf("Tenant %q: %s", name, control.ErrNotFound))
	}
	return nil
}

func (x *resource[T]) get(ctx context.Context, r *request, _ *struct{}) (*oneOutput[T], error) {
	entity, err := x.visible(ctx, &r.actor, x.at(r))
	if err != nil {
		return nil, err
	}
	if x.show != nil {
		x.show(&r.actor, &entity)
	}
	return &oneOutput[T]{ETag: etag(x.meta(&entity)), Body: entity}, nil
}

// answer is what a change is answered with.
func (x *resource[T]) answer(r *request, in *WriteInput, version int, result control.Result[T], err error) (*writeOutput, error) {
	if err != nil {
		return nil, x.s.problem(err, version != control.AnyVersion)
	}
	if in.DryRun {
		return &writeOutput{Status: http.StatusOK, Body: result.Plan}, nil
	}
	m := x.meta(&result.Entity)
	r.line.Version = m.Version
	return &writeOutput{Status: http.StatusOK, ETag: etag(m), Body: result.Entity}, nil
}

func (x *resource[T]) create(ctx context.Context, r *request, in *createInput[T]) (*writeOutput, error) {
	w := x.write(r, &in.WriteInput, control.AnyVersion)
	if err := x.place(ctx, r, &in.Body); err != nil {
		return nil, err
	}
	r.line.Entity = string(x.kind) + " " + x.name(&in.Body)
	result, err := x.entities().Create(ctx, w, in.Body)
	out, err := x.answer(r, &in.WriteInput, w.Version, result, err)
	if err == nil && !in.DryRun {
		out.Status = http.StatusCreated
	}
	return out, err
}

// place prepares an entity for its place in the path.
func (x *resource[T]) place(ctx context.Context, r *request, entity *T) error {
	if x.within == nil {
		return nil
	}
	if err := x.s.seesTenant(ctx, &r.actor, r.http.PathValue("tenant")); err != nil {
		return err
	}
	return x.within(r.http, entity)
}

// mayChange hides what a bound token does not see also from its changes.
func (x *resource[T]) mayChange(r *request, name string) error {
	if tenant := r.http.PathValue("tenant"); tenant != "" && !r.actor.Sees(tenant) {
		return x.missing(name)
	}
	return nil
}

func (x *resource[T]) replace(ctx context.Context, r *request, in *replaceInput[T]) (*writeOutput, error) {
	name, version := x.at(r), in.version()
	w := x.write(r, &in.WriteInput, version)
	if err := x.place(ctx, r, &in.Body); err != nil {
		return nil, err
	}
	result, err := x.entities().Replace(ctx, w, name, in.Body)
	return x.answer(r, &in.WriteInput, version, result, err)
}

func (x *resource[T]) patch(ctx context.Context, r *request, in *patchInput) (*writeOutput, error) {
	name, version := x.at(r), in.version()
	w := x.write(r, &in.WriteInput, version)
	if err := x.mayChange(r, name); err != nil {
		return nil, err
	}
	patch, err := json.Marshal(in.Body)
	if err != nil {
		return nil, x.s.problem(err, false)
	}
	result, err := x.entities().Patch(ctx, w, name, patch)
	return x.answer(r, &in.WriteInput, version, result, err)
}

func (x *resource[T]) remove(ctx context.Context, r *request, in *MatchInput) (*writeOutput, error) {
	name, version := x.at(r), in.version()
	w := x.write(r, &in.WriteInput, version)
	if err := x.mayChange(r, name); err != nil {
		return nil, err
	}
	result, err := x.entities().Delete(ctx, w, name)
	out, err := x.answer(r, &in.WriteInput, version, result, err)
	if err == nil && !in.DryRun {
		out = &writeOutput{Status: http.StatusNoContent}
	}
	return out, err
}

func (x *resource[T]) rollback(ctx context.Context, r *request, in *rollbackInput) (*writeOutput, error) {
	name, version := x.at(r), in.version()
	to := rollbackTo{}
	if in.Body != nil {
		to = *in.Body
	}
	if to.Reason != "" {
		in.Reason = to.Reason
	}
	w := x.write(r, &in.WriteInput, version)
	if err := x.mayChange(r, name); err != nil {
		return nil, err
	}
	result, err := x.entities().Rollback(ctx, w, name, to.Version)
	return x.answer(r, &in.WriteInput, version, result, err)
}

func (x *resource[T]) history(ctx context.Context, r *request, in *PageInput) (*listOutput[api.Change], error) {
	name := x.at(r)
	if bound(&r.actor) { // a deleted entity has no owner to ask
		if err := x.mayChange(r, name); err != nil {
			return nil, err
		}
		if x.unbound {
			if _, err := x.visible(ctx, &r.actor, name); err != nil {
				return nil, err
			}
		}
	}
	changes, err := x.entities().History(ctx, name)
	if err != nil {
		return nil, x.s.problem(err, false)
	}
	for i := range changes {
		changes[i] = hideAddresses(&r.actor, x.kind, changes[i])
	}
	page, err := paginate(changes, func(c *api.Change) string { return fmt.Sprintf("%012d", 1_000_000_000_000-c.Version) }, "history\x00"+name, in)
	return &listOutput[api.Change]{page}, err
}

// hideAddresses leaves of a change of a cluster only what the actor may see.
func hideAddresses(actor *control.Actor, kind api.Kind, c api.Change) api.Change {
	if kind != api.KindCluster || seesAddresses(actor) {
		return c
	}
	c.Diff = slices.Clone(c.Diff)
	for i, e := range c.Diff {
		if e.Field == "addresses" || len(e.Field) > 4 && e.Field[:4] == "tls." {
			c.Diff[i].Old, c.Diff[i].New = hidden(e.Old), hidden(e.New)
		}
	}
	return c
}

func hidden(v any) any {
	if v == nil {
		return nil
	}
	return "(not shown)"
}
