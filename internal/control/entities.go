package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"

	"github.com/sluiceproxy/sluice/internal/store"
	"github.com/sluiceproxy/sluice/pkg/api"
)

// kind is what differs between clusters, tenants, users and tokens.
type kind[T any] struct {
	kind   api.Kind
	prefix string          // of keys in the store
	secret map[string]bool // fields that are never shown
	name   func(*T) string
	rename func(*T, string)
	meta   func(*T) **api.Meta
	// seal makes what is written what is kept: defaults are filled in, secrets are hashed or sealed, and those that are not
	// given are taken from old, nil for a new entity. shown is what only the answer to the write may tell.
	seal func(key string, entity, old *T) (shown func(*T), fields []api.ProblemField, err error)
	// hide takes out of what is kept what is never shown.
	hide func(*T)
	// check says what is wrong with an entity as things are.
	check func(*T) []api.ProblemField
	// ofFile lists the file's entities.
	ofFile func(*File) []T
	// users are what stands in the way of a deletion.
	usedBy func(name string) []string
	// sees and changes say what a token that is bound to tenants may do.
	sees    func(*Actor, *T) bool
	changes func(*Actor, *T) bool
}

// entities implements Entities.
type entities[T any] struct {
	*kind[T]
	c *Control
}

// stored is an entity of the store with its record.
type stored[T any] struct {
	record   *record
	revision int64
	entity   *T // as it is kept; nil: deleted
}

func (e *entities[T]) parse(v *version) (*T, error) {
	var entity T
	if err := json.Unmarshal(v.Entity, &entity); err != nil {
		return nil, fmt.Errorf("cannot read a %s: %w", e.kind.kind, err)
	}
	return &entity, nil
}

// of is the present entity of a record, parsed once: every change is judged beside all the others. It is not to be changed.
func (e *entities[T]) of(r *record) (*T, error) {
	r.parsing.Do(func() { r.entity, r.err = e.parse(r.last()) })
	entity, _ := r.entity.(*T)
	return entity, r.err
}

// show is an entity as the API tells it.
func (e *entities[T]) show(kept *T, m api.Meta) T {
	shown := *kept
	e.hide(&shown)
	*e.meta(&shown) = &m
	return shown
}

func (v *version) meta() api.Meta {
	return api.Meta{Source: api.SourceStore, Version: v.Version, CreatedAt: v.Created, UpdatedAt: v.At, UpdatedBy: v.By}
}

func (e *entities[T]) fromFile(name string) *T {
	file := e.c.file.Load()
	for _, entity := range e.ofFile(file) {
		if e.name(&entity) == name {
			return &entity
		}
	}
	return nil
}

// List implements Entities.
func (e *entities[T]) List(_ context.Context, match func(*T) bool) ([]T, error) {
	all := []T{}
	for _, entity := range e.all() {
		if match == nil || match(&entity) {
			all = append(all, entity)
		}
	}
	return all, nil
}

// all is every entity as the API tells it, in the order of their names.
func (e *entities[T]) all() (all []T) {
	names := make(map[string]bool)
	for _, entity := range e.ofFile(e.c.file.Load()) {
		names[e.name(&entity)] = true
		all = append(all, e.show(&entity, api.Meta{Source: api.SourceFile}))
	}
	for _, r := range e.c.records(e.prefix) {
		if r.record.deleted() {
			continue
		}
		entity, err := e.of(r.record)
		if err == nil && !names[e.name(entity)] {
			all = append(all, e.show(entity, r.record.last().meta()))
		}
	}
	sortBy(all, e.name)
	return all
}

// Get implements Entities.
func (e *entities[T]) Get(_ context.Context, name string) (entity T, err error) {
	if f := e.fromFile(name); f != nil {
		return e.show(f, api.Meta{Source: api.SourceFile}), nil
	}
	r, found := e.c.cached(e.prefix + name)
	if !found || r.record.deleted() {
		return entity, fmt.Errorf("%s %q: %w", e.kind.kind, name, ErrNotFound)
	}
	kept, err := e.of(r.record)
	if err != nil {
		return entity, err
	}
	return e.show(kept, r.record.last().meta()), nil
}

// load reads an entity from the store, newest version.
func (e *entities[T]) load(ctx context.Context, name string) (s stored[T], err error) {
	if e.fromFile(name) != nil {
		return s, &RefusedError{Text: fmt.Sprintf("%s %q is declared in the configuration file; change it there", e.kind.kind, name)}
	}
	entry, err := e.c.store.Get(ctx, e.prefix+name)
	if errors.Is(err, store.ErrNotFound) {
		return s, nil
	}
	if err != nil {
		return s, err
	}
	s.revision = entry.Revision
	if s.record, err = parseRecord(entry.Value); err != nil {
		return s, fmt.Errorf("%s %q: %w", e.kind.kind, name, err)
	}
	if !s.record.deleted() {
		s.entity, err = e.parse(s.record.last())
	}
	return s, err
}

// Create implements Entities.
func (e *entities[T]) Create(ctx context.Context, w Write, entity T) (Result[T], error) {
	defer e.c.lock()()
	name := e.name(&entity)
	s, err := e.load(ctx, name)
	if err != nil {
		return Result[T]{}, err
	}
	if s.entity != nil {
		return Result[T]{}, &RefusedError{Text: fmt.Sprintf("%s %q exists already; replace or patch it", e.kind.kind, name)}
	}
	return e.write(ctx, w, "create", name, s, &entity)
}

// Replace implements Entities.
func (e *entities[T]) Replace(ctx context.Context, w Write, name string, entity T) (Result[T], error) {
	defer e.c.lock()()
	s, err := e.present(ctx, w, name)
	if err != nil {
		return Result[T]{}, err
	}
	if given := e.name(&entity); given != "" && given != name {
		return Result[T]{}, &InvalidError{Fields: []api.ProblemField{{
			Location: "body.name", Value: given, Message: fmt.Sprintf("is not %q: an entity cannot be renamed; create another", name),
		}}}
	}
	e.rename(&entity, name)
	return e.write(ctx, w, "update", name, s, &entity)
}

// Patch implements Entities.
func (e *entities[T]) Patch(ctx context.Context, w Write, name string, patch []byte) (Result[T], error) {
	defer e.c.lock()()
	s, err := e.present(ctx, w, name)
	if err != nil {
		return Result[T]{}, err
	}
	before := *s.entity
	e.hide(&before) // a secret that is not in the patch stays because it is not given
	document, err := json.Marshal(&before)
	if err != nil {
		return Result[T]{}, fmt.Errorf("cannot patch: %w", err)
	}
	merged, err := jsonpatch.MergePatch(document, patch)
	if err != nil {
		return Result[T]{}, &InvalidError{Fields: []api.ProblemField{{Location: "body", Message: "is not a JSON merge patch (RFC 7396): an object with the fields to change"}}}
	}
	var entity T
	if problem := decodeStrictly(merged, &entity); problem != nil {
		return Result[T]{}, problem
	}
	if given := e.name(&entity); given != name {
		return Result[T]{}, &InvalidError{Fields: []api.ProblemField{{
			Location: "body.name", Value: given, Message: "cannot be changed: create another entity",
		}}}
	}
	return e.write(ctx, w, "update", name, s, &entity)
}

// present is an entity that a change is for.
func (e *entities[T]) present(ctx context.Context, w Write, name string) (stored[T], error) {
	s, err := e.load(ctx, name)
	if err == nil && s.entity == nil {
		err = fmt.Errorf("%s %q: %w", e.kind.kind, name, ErrNotFound)
	}
	if err == nil && w.Version != AnyVersion && w.Version != s.record.version() {
		err = &VersionError{Kind: e.kind.kind, Name: name, Expected: w.Version, Actual: s.record.version()}
	}
	return s, err
}

// write validates an entity and makes it the newest version.
func (e *entities[T]) write(ctx context.Context, w Write, action, name string, s stored[T], entity *T) (result Result[T], err error) {
	if !e.changes(&w.Actor, entity) {
		return result, ErrForbidden
	}
	*e.meta(entity) = nil
	shown, fields, err := e.seal(e.prefix+name, entity, s.entity)
	if err != nil {
		return result, err
	}
	if len(fields) == 0 {
		fields = e.check(entity)
	}
	if len(fields) > 0 {
		return result, &InvalidError{Fields: fields}
	}
	after, err := json.Marshal(entity)
	if err != nil {
		return result, fmt.Errorf("cannot write a %s: %w", e.kind.kind, err)
	}
	return e.commit(ctx, w, action, name, s, after, shown)
}

// commit makes after, null for none, the newest version, unless it is as before.
func (e *entities[T]) commit(ctx context.Context, w Write, action, name string, s stored[T], after json.RawMessage, shown func(*T)) (result Result[T], err error) {
	var before json.RawMessage
	v := version{Change: api.Change{
		Version: 1, At: time.Now().UTC(), By: w.Actor.Name, From: w.Actor.Address, Action: action, Reason: w.Actor.Reason,
	}, Entity: after}
	v.Created = v.At
	if s.record != nil {
		v.Version = s.record.last().Version + 1
	}
	if s.entity != nil {
		before = s.record.last().Entity
		v.Created = s.record.last().Created
	}
	v.Diff = diff(before, after, e.secret)
	result.Plan = api.Plan{Action: action, Diff: v.Diff, Effects: []string{}}
	e.c.judgeImpact(e.kind.kind, name, before, after, &result.Plan)
	unchanged := s.entity != nil && after != nil && len(v.Diff) == 0 && jsonEqual(before, after)
	if unchanged {
		result.Plan.Action = "none"
		v = *s.record.last()
	}
	if !unchanged && !w.DryRun {
		if err := e.put(ctx, name, s, v); err != nil {
			return result, err
		}
	}
	kept := after
	if after == nil {
		kept = before
	}
	entity, err := e.parse(&version{Entity: kept})
	if err != nil {
		return result, err
	}
	result.Entity = e.show(entity, v.meta())
	if shown != nil && !w.DryRun {
		shown(&result.Entity)
	}
	return result, nil
}

func (e *entities[T]) put(ctx context.Context, name string, s stored[T], v version) error {
	b, next, err := s.record.with(v)
	if err != nil {
		return err
	}
	revision, err := e.c.store.Put(ctx, e.prefix+name, b, s.revision)
	if conflict := (*store.ConflictError)(nil); errors.As(err, &conflict) {
		return &VersionError{Kind: e.kind.kind, Name: name, Expected: s.record.version(), Actual: s.record.version() + 1}
	}
	if err != nil {
		return err
	}
	e.c.wrote = true
	e.c.apply(e.prefix+name, next, revision)
	return nil
}

func jsonEqual(a, b json.RawMessage) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}

// Delete implements Entities.
func (e *entities[T]) Delete(ctx context.Context, w Write, name string) (Result[T], error) {
	defer e.c.lock()()
	s, err := e.present(ctx, w, name)
	if err != nil {
		return Result[T]{}, err
	}
	if !e.changes(&w.Actor, s.entity) {
		return Result[T]{}, ErrForbidden
	}
	if by := e.usedBy(name); len(by) > 0 {
		return Result[T]{}, &RefusedError{
			Text: fmt.Sprintf("%s %q is in use; delete or change what uses it first", e.kind.kind, name), By: by,
		}
	}
	result, err := e.commit(ctx, w, "delete", name, s, nil, nil)
	if err == nil && !w.DryRun {
		e.c.dropTombstones(ctx, e.prefix)
	}
	return result, err
}

// History implements Entities.
func (e *entities[T]) History(_ context.Context, name string) ([]api.Change, error) {
	r, found := e.c.cached(e.prefix + name)
	if !found {
		if e.fromFile(name) != nil {
			return []api.Change{}, nil
		}
		return nil, fmt.Errorf("%s %q: %w", e.kind.kind, name, ErrNotFound)
	}
	changes := make([]api.Change, 0, len(r.record.Versions))
	for i := len(r.record.Versions) - 1; i >= 0; i-- {
		changes = append(changes, r.record.Versions[i].Change)
	}
	return changes, nil
}

// Rollback implements Entities.
func (e *entities[T]) Rollback(ctx context.Context, w Write, name string, number int) (Result[T], error) {
	defer e.c.lock()()
	s, err := e.load(ctx, name)
	switch {
	case err != nil:
		return Result[T]{}, err
	case s.record == nil:
		return Result[T]{}, fmt.Errorf("%s %q: %w", e.kind.kind, name, ErrNotFound)
	case w.Version != AnyVersion && w.Version != s.record.version():
		return Result[T]{}, &VersionError{Kind: e.kind.kind, Name: name, Expected: w.Version, Actual: s.record.version()}
	}
	old := s.record.find(number)
	if old == nil {
		return Result[T]{}, &InvalidError{Fields: []api.ProblemField{{
			Location: "body.version", Value: number, Message: "is not a version that is kept and has the entity; see its history",
		}}}
	}
	entity, err := e.parse(old)
	if err != nil {
		return Result[T]{}, err
	}
	if !e.changes(&w.Actor, entity) || s.entity != nil && !e.changes(&w.Actor, s.entity) {
		return Result[T]{}, ErrForbidden
	}
	if fields := e.check(entity); len(fields) > 0 {
		return Result[T]{}, &InvalidError{Fields: fields}
	}
	return e.commit(ctx, w, "rollback", name, s, old.Entity, nil)
}

// find is the version of that number; 0 is the one before the present that has the entity.
func (r *record) find(number int) *version {
	for i := len(r.Versions) - 1; i >= 0; i-- {
		v := &r.Versions[i]
		there := v.Entity != nil && string(v.Entity) != "null"
		if there && (v.Version == number || number == 0 && v != r.last()) {
			return v
		}
	}
	return nil
}
