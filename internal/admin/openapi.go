package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"reflect"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/sluiceproxy/sluice/pkg/api"
)

const (
	apiVersion  = "1.0.0"
	description = "Registers clusters, tenants and their users while traffic runs, and tells what the proxy thinks. " +
		"Every request needs a bearer token; see docs/admin-api.md."
)

// OpenAPI is the API's description, OpenAPI 3.1 as YAML.
func OpenAPI() []byte {
	s := &service{}
	s.register()
	return s.yaml
}

// register makes the routes and their description.
func (s *service) register() {
	s.routes, s.operations = http.NewServeMux(), make(map[string]operation)
	config := huma.DefaultConfig("Sluice admin API", apiVersion)
	config.Info.Description = description
	config.Info.License = &huma.License{Name: "Apache-2.0", Identifier: "Apache-2.0"}
	config.CreateHooks = nil // no links to schemas in answers
	config.OpenAPIPath, config.DocsPath, config.SchemasPath = "", "", ""
	config.RejectUnknownQueryParameters = true
	config.Transformers = []huma.Transformer{scrub}
	config.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		"token": {Type: "http", Scheme: "bearer", Description: "A token of the roles viewer, operator or admin."},
	}
	config.Security = []map[string][]string{{"token": {}}}
	config.Tags = []*huma.Tag{
		{Name: "registered", Description: "What operators register, with its history."},
		{Name: "running", Description: "What the proxy does now."},
		{Name: "actions", Description: "What operators can make it do."},
	}
	a := humago.NewWithPrefix(s.routes, prefix, config)
	describe(a.OpenAPI().Components.Schemas)
	s.registerEntities(a)
	s.registerReads(a)
	s.registerActions(a)
	s.registerEvents(a)
	var err error
	if s.json, err = json.Marshal(a.OpenAPI()); err == nil {
		s.yaml, err = a.OpenAPI().YAML()
	}
	if err != nil {
		panic("BUG: cannot describe the API: " + err.Error())
	}
}

// describe says of types what their tags cannot.
func describe(schemas huma.Registry) {
	schemas.RegisterTypeAlias(reflect.TypeFor[api.Duration](), reflect.TypeFor[durationText]())
}

// durationText describes api.Duration.
type durationText string

// Schema implements huma.SchemaProvider.
func (durationText) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{
		Type: huma.TypeString, Description: "Such as 250ms, 5s or 1h30m.", Examples: []any{"5s"},
		Pattern: `^([0-9]{1,7}(\.[0-9]{1,9})?(ns|us|ms|s|m|h)){1,4}$|^0$`,
	}
}

// document answers the requests for the API's description, which need no token.
func (s *service) document(w http.ResponseWriter, r *http.Request) bool {
	var body []byte
	switch r.URL.Path {
	case prefix + "/openapi.json":
		body = s.json
		w.Header().Set("Content-Type", "application/openapi+json")
	case prefix + "/openapi.yaml":
		body = s.yaml
		w.Header().Set("Content-Type", "application/openapi+yaml")
	default:
		return false
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", http.MethodGet)
		writeProblem(w, &api.Problem{Status: http.StatusMethodNotAllowed, Detail: "this path takes " + http.MethodGet})
		return true
	}
	_, _ = w.Write(body)
	return true
}

// route is one operation: what it needs and how it is described.
type route struct {
	method, path string
	id, summary  string
	tag          string
	role         api.Role
	// whole operations are not for tokens that are bound to tenants.
	whole bool
	// params are those of the path that the input does not have.
	params []string
	// errors are statuses beside those that every operation can have.
	errors    []int
	responses map[string]*huma.Response
	status    int
	limit     func(ctx huma.Context, next func(huma.Context))
}

// operation is a route for those who do not come by HTTP.
type operation struct {
	route
	handle func(ctx context.Context, r *request, in any) (any, error)
}

// operation describes the route.
func (s *service) operation(a huma.API, o *route) huma.Operation {
	op := huma.Operation{
		OperationID: o.id, Method: o.method, Path: o.path, Summary: o.summary, Tags: []string{o.tag},
		Description:   fmt.Sprintf("Needs the role %s.", o.role),
		DefaultStatus: o.status, Responses: maps.Clone(o.responses), Security: []map[string][]string{{"token": {}}},
		Errors: append([]int{
			http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusRequestTimeout,
			http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity,
			http.StatusTooManyRequests, http.StatusServiceUnavailable,
		}, o.errors...),
	}
	if o.whole {
		op.Description += " Not for tokens that are bound to tenants."
	}
	for _, name := range o.params {
		op.Parameters = append(op.Parameters, &huma.Param{
			Name: name, In: "path", Required: true, Schema: &huma.Schema{Type: huma.TypeString}, Description: "Name of the " + name + ".",
		})
	}
	op.Middlewares = append(op.Middlewares, func(ctx huma.Context, next func(huma.Context)) {
		if detail := refusal(requestOf(ctx.Context()), o); detail != "" {
			_ = huma.WriteErr(a, ctx, http.StatusForbidden, detail)
			return
		}
		next(ctx)
	})
	if o.limit != nil {
		op.Middlewares = append(op.Middlewares, o.limit)
	}
	return op
}

// refusal says why a token may not do something; empty: it may.
func refusal(r *request, o *route) string {
	switch {
	case rank(r.actor.Role) < rank(o.role):
		return fmt.Sprintf("this needs a token of role %s; token %s is %s", o.role, r.actor.Name, r.actor.Role)
	case o.whole && bound(&r.actor):
		return fmt.Sprintf("this needs a token that is not bound to tenants; token %s is", r.actor.Name)
	}
	return ""
}

// register adds a route with its handler.
func register[I, O any](s *service, a huma.API, o route, handle func(ctx context.Context, r *request, in *I) (*O, error)) {
	huma.Register(a, s.operation(a, &o), func(ctx context.Context, in *I) (*O, error) {
		return handle(ctx, requestOf(ctx), in)
	})
	s.operations[o.id] = operation{route: o, handle: func(ctx context.Context, r *request, in any) (any, error) {
		out, err := handle(ctx, r, in.(*I)) //nolint:forcetypeassert // the caller's own mistake
		if err != nil || out == nil {
			return nil, err
		}
		return out, nil
	}}
}

// oneOf is the schema of answers of several types.
func oneOf(a huma.API, types ...reflect.Type) *huma.Schema {
	var s huma.Schema
	for _, t := range types {
		s.OneOf = append(s.OneOf, a.OpenAPI().Components.Schemas.Schema(t, true, ""))
	}
	if len(s.OneOf) == 1 {
		return s.OneOf[0]
	}
	return &s
}

func answerOf(what string, schema *huma.Schema) *huma.Response {
	return &huma.Response{Description: what, Content: map[string]*huma.MediaType{typeJSON: {Schema: schema}}}
}
