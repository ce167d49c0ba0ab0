// Package tenant knows who is asking: tenants, their users, and how a password
// proves which of them a client is.
package tenant

import (
	"maps"
	"slices"
	"time"
)

// DefaultUser is the user that AUTH means when it names none.
const DefaultUser = "default"

// CrossSlot says what becomes of a command whose keys are in several slots.
type CrossSlot uint8

const (
	// Split runs what can be split on every shard concerned and merges the replies.
	Split CrossSlot = iota
	// Error answers -CROSSSLOT, as Redis Cluster does.
	Error
)

// ParseCrossSlot reads "split" or "error".
func ParseCrossSlot(text string) (mode CrossSlot, ok bool) {
	switch text {
	case "split":
		return Split, true
	case "error":
		return Error, true
	}
	return Split, false
}

// String is the mode as ParseCrossSlot reads it.
func (c CrossSlot) String() string {
	if c == Error {
		return "error"
	}
	return "split"
}

// Frontend says what a tenant's clients take the proxy for.
type Frontend uint8

const (
	// FrontStandalone is a single server.
	FrontStandalone Frontend = iota
	// FrontCluster is a Redis Cluster, for clients in cluster mode.
	FrontCluster
)

// ParseFrontend reads "standalone" or "cluster".
func ParseFrontend(text string) (f Frontend, ok bool) {
	switch text {
	case "standalone":
		return FrontStandalone, true
	case "cluster":
		return FrontCluster, true
	}
	return FrontStandalone, false
}

// String is what ParseFrontend reads, and what HELLO and INFO say.
func (f Frontend) String() string {
	if f == FrontCluster {
		return "cluster"
	}
	return "standalone"
}

// Tenant is one isolated customer. It is not changed once a Registry has it;
// a reload makes another, unless nothing about it changed.
type Tenant struct {
	Name      string
	Cluster   string           // name of the cluster that holds its data
	Databases []int            // databases it may use; the first is where sessions start
	Users     map[string]*User // by name; empty when the tenant needs no password
	CrossSlot CrossSlot
	Frontend  Frontend

	// Trusted says that the tenant owns its backend, which nobody else uses: it may operate it.
	Trusted bool
	// AdminModules lets it run commands outside the proxy's table that the backend flags as administrative.
	AdminModules bool
	// NoScripts refuses scripts and functions, within which a server applies none of what the proxy keeps a tenant from.
	NoScripts bool
	Closed    bool // nobody can be the tenant before it has a user

	ConnectTimeout time.Duration // 0: the cluster's own
	CommandTimeout time.Duration
}

// Open says that the tenant's clients need no password.
func (t *Tenant) Open() bool { return len(t.Users) == 0 && !t.Closed }

// Allows says that the tenant may use the database.
func (t *Tenant) Allows(database int) bool { return slices.Contains(t.Databases, database) }

// equal says that a client could not tell the tenants apart.
func (t *Tenant) equal(other *Tenant) bool {
	return t.Name == other.Name &&
		t.Cluster == other.Cluster &&
		slices.Equal(t.Databases, other.Databases) &&
		maps.EqualFunc(t.Users, other.Users, func(a, b *User) bool { return *a == *b }) &&
		t.CrossSlot == other.CrossSlot &&
		t.Frontend == other.Frontend &&
		t.Trusted == other.Trusted &&
		t.AdminModules == other.AdminModules &&
		t.NoScripts == other.NoScripts &&
		t.Closed == other.Closed &&
		t.ConnectTimeout == other.ConnectTimeout &&
		t.CommandTimeout == other.CommandTimeout
}
