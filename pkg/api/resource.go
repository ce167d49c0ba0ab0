package api

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strconv"
)

// mostOnPage is the largest page that the server gives.
const mostOnPage = 1000

// WriteOptions go with a change. The zero value changes whatever version is there.
type WriteOptions struct {
	// Version is the one that the entity must have; 0: any. Another one is answered with status 412.
	Version int
	// Reason is kept in the history.
	Reason string
}

// ListOptions choose a part of a list.
type ListOptions struct {
	// Filter chooses by text, as the server documents it.
	Filter string
	// Limit bounds a page; 0: the server's default.
	Limit int
	// Page is Next of the page before; empty: the first.
	Page string
}

func (o ListOptions) query() url.Values {
	q := url.Values{}
	if o.Filter != "" {
		q.Set("filter", o.Filter)
	}
	if o.Limit > 0 {
		q.Set("limit", strconv.Itoa(o.Limit))
	}
	if o.Page != "" {
		q.Set("page", o.Page)
	}
	return q
}

// Resource is all entities of one kind.
type Resource[T any] struct {
	c    *Client
	path []string
}

// Clusters are the registered clusters.
func (c *Client) Clusters() *Resource[Cluster] { return &Resource[Cluster]{c, []string{"clusters"}} }

// Tenants are the registered tenants.
func (c *Client) Tenants() *Resource[Tenant] { return &Resource[Tenant]{c, []string{"tenants"}} }

// Users are the users of a tenant.
func (c *Client) Users(tenant string) *Resource[User] {
	return &Resource[User]{c, []string{"tenants", tenant, "users"}}
}

// Tokens are the tokens of the admin API.
func (c *Client) Tokens() *Resource[Token] { return &Resource[Token]{c, []string{"tokens"}} }

func (r *Resource[T]) at(elements ...string) []string { return slices.Concat(r.path, elements) }

// List returns one page.
func (r *Resource[T]) List(ctx context.Context, o ListOptions) (page Page[T], err error) {
	err = r.c.do(ctx, call{method: http.MethodGet, path: r.path, query: o.query()}, &page)
	return page, err
}

// All goes through all pages, from o.Page on. After an error there is nothing more.
func (r *Resource[T]) All(ctx context.Context, o ListOptions) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		pages(ctx, r.c, o.query(), yield, r.path...)
	}
}

// Get returns one entity.
func (r *Resource[T]) Get(ctx context.Context, name string) (entity T, err error) {
	err = r.c.do(ctx, call{method: http.MethodGet, path: r.at(name)}, &entity)
	return entity, err
}

// History lists the versions of an entity that are kept, the newest first. A deleted entity has one too.
func (r *Resource[T]) History(ctx context.Context, name string) ([]Change, error) {
	var changes Page[Change]
	err := r.c.do(ctx, call{method: http.MethodGet, path: r.at(name, "history")}, &changes)
	return changes.Items, err
}

// Create makes a new entity; status 409 when there is one of its name.
func (r *Resource[T]) Create(ctx context.Context, entity T, o WriteOptions) (T, error) {
	return write[T](ctx, r, http.MethodPost, r.path, entity, o, false)
}

// Replace puts entity in the place of the one of that name. Secrets that it does not give stay.
func (r *Resource[T]) Replace(ctx context.Context, name string, entity T, o WriteOptions) (T, error) {
	return write[T](ctx, r, http.MethodPut, r.at(name), entity, o, false)
}

// Patch applies a JSON merge patch (RFC 7396): the fields to change, null for those to remove.
func (r *Resource[T]) Patch(ctx context.Context, name string, patch any, o WriteOptions) (T, error) {
	return write[T](ctx, r, http.MethodPatch, r.at(name), patch, o, false)
}

// Delete removes an entity; status 409 when it is in use.
func (r *Resource[T]) Delete(ctx context.Context, name string, o WriteOptions) error {
	_, err := write[struct{}](ctx, r, http.MethodDelete, r.at(name), nil, o, false)
	return err
}

// Rollback makes an earlier version the newest one; 0 means the one before the present. A deleted entity comes back.
func (r *Resource[T]) Rollback(ctx context.Context, name string, version int, o WriteOptions) (T, error) {
	return write[T](ctx, r, http.MethodPost, r.at(name, "rollback"), rollback(version, o), o, false)
}

// Planner asks what changes would do. Nothing is changed.
type Planner[T any] struct{ r *Resource[T] }

// Plan has the same writes as the resource, each with the answer to what it would do.
func (r *Resource[T]) Plan() Planner[T] { return Planner[T]{r} }

// Create tells what Resource.Create would do.
func (p Planner[T]) Create(ctx context.Context, entity T, o WriteOptions) (Plan, error) {
	return write[Plan](ctx, p.r, http.MethodPost, p.r.path, entity, o, true)
}

// Replace tells what Resource.Replace would do.
func (p Planner[T]) Replace(ctx context.Context, name string, entity T, o WriteOptions) (Plan, error) {
	return write[Plan](ctx, p.r, http.MethodPut, p.r.at(name), entity, o, true)
}

// Patch tells what Resource.Patch would do.
func (p Planner[T]) Patch(ctx context.Context, name string, patch any, o WriteOptions) (Plan, error) {
	return write[Plan](ctx, p.r, http.MethodPatch, p.r.at(name), patch, o, true)
}

// Delete tells what Resource.Delete would do.
func (p Planner[T]) Delete(ctx context.Context, name string, o WriteOptions) (Plan, error) {
	return write[Plan](ctx, p.r, http.MethodDelete, p.r.at(name), nil, o, true)
}

// Rollback tells what Resource.Rollback would do.
func (p Planner[T]) Rollback(ctx context.Context, name string, version int, o WriteOptions) (Plan, error) {
	return write[Plan](ctx, p.r, http.MethodPost, p.r.at(name, "rollback"), rollback(version, o), o, true)
}

func rollback(version int, o WriteOptions) map[string]any {
	body := map[string]any{"version": version}
	if o.Reason != "" {
		body["reason"] = o.Reason
	}
	return body
}

func write[A, T any](ctx context.Context, r *Resource[T], method string, path []string, body any, o WriteOptions, dryRun bool) (answer A, err error) {
	k := call{method: method, path: path, body: body, patch: method == http.MethodPatch, version: o.Version, reason: o.Reason}
	if dryRun {
		k.query = url.Values{"dryRun": {"true"}}
	}
	err = r.c.do(ctx, k, &answer)
	return answer, err
}
