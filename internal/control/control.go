// Package control is the desired state: the clusters, tenants, users and tokens that operators register, with their
// versions and who made them. It validates changes, keeps them in the store and tells what the proxy should be like. It
// knows neither HTTP nor the data plane; package daemon makes what it says come true.
package control

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluiceproxy/sluice/internal/config"
	"github.com/sluiceproxy/sluice/pkg/api"
)

// Actor is who asks for a change, as history and audit tell it.
type Actor struct {
	Name    string // of the token
	Address string // of the client
	Reason  string
	Role    api.Role
	Tenants []string // the only ones that the actor may see and change; nil: all
}

// AnyVersion as Write.Version means that whatever version is there may be changed.
const AnyVersion = -1

// Write says how a change is to be made.
type Write struct {
	Actor Actor
	// Version is the one that the entity must have; AnyVersion: any.
	Version int
	// DryRun changes nothing; the Plan tells what would happen.
	DryRun bool
}

// Result is what a change did, or would do.
type Result[T any] struct {
	// Entity is as it is after the change, without secrets; the last one after a deletion.
	Entity T
	Plan   api.Plan
}

// Entities are all of one kind. Names of users are given as "tenant/user".
type Entities[T any] interface {
	// List returns those that match, in the order of their names; nil matches all.
	List(ctx context.Context, match func(*T) bool) ([]T, error)
	Get(ctx context.Context, name string) (T, error)
	Create(ctx context.Context, w Write, entity T) (Result[T], error)
	// Replace puts entity in the place of the one of its name. Secrets that it does not give stay.
	Replace(ctx context.Context, w Write, name string, entity T) (Result[T], error)
	// Patch applies a JSON merge patch (RFC 7396).
	Patch(ctx context.Context, w Write, name string, patch []byte) (Result[T], error)
	Delete(ctx context.Context, w Write, name string) (Result[T], error)
	// History lists the versions that are kept, the newest first.
	History(ctx context.Context, name string) ([]api.Change, error)
	// Rollback makes an earlier version the newest one; 0 means the one before the present. A deleted entity comes back.
	Rollback(ctx context.Context, w Write, name string, version int) (Result[T], error)
}

// State is what the proxy should be like: the file's entities and the store's together.
type State struct {
	Revision int64 // of the store
	Clusters []config.Cluster
	Tenants  []config.Tenant
}

// The errors that a change can end with, beside store.ErrUnavailable and *InvalidError.
var (
	// ErrNotFound says that there is no such entity.
	ErrNotFound = errors.New("there is no such entity")
	// ErrForbidden says that the actor may not do that.
	ErrForbidden = errors.New("this token may not do that")
)

// VersionError says that an entity has another version than the one expected; Actual is 0 when there is none.
type VersionError struct {
	Kind             api.Kind
	Name             string
	Expected, Actual int
}

// Error implements error.
func (e *VersionError) Error() string {
	return fmt.Sprintf("%s %q has version %d, not %d: it was changed meanwhile; read it again", e.Kind, e.Name, e.Actual, e.Expected)
}

// RefusedError says that a change cannot be made as things are: the entity exists already, is the file's, or is in use.
type RefusedError struct {
	Text string
	// By are the names of what stands in the way.
	By []string
}

// Error implements error.
func (e *RefusedError) Error() string { return e.Text }

// InvalidError says what is wrong with an entity, field by field.
type InvalidError struct{ Fields []api.ProblemField }

// Error implements error.
func (e *InvalidError) Error() string {
	if len(e.Fields) == 0 {
		return "invalid"
	}
	return e.Fields[0].Location + ": " + e.Fields[0].Message
}
