// Package route decides where a command goes: from the tenant to its cluster, from the keys to a slot, and, when the
// keys lie in several slots, into which parts it is split and how their replies become one.
package route

import (
	"fmt"
	"slices"

	"github.com/sluiceproxy/sluice/internal/facade"
	"github.com/sluiceproxy/sluice/internal/tenant"
	"github.com/sluiceproxy/sluice/internal/upstream"
)

// Table is who is served from where, at one moment. It is immutable and swapped whole; a session uses one table for a
// batch.
type Table struct {
	Registry *tenant.Registry
	clusters map[string]*upstream.Cluster
	fleets   []facade.Fleet // by number of the listener
}

// NewTable joins tenants and clusters. Every tenant's cluster must be among them. fleets are what the listeners tell
// clients in cluster mode of.
func NewTable(registry *tenant.Registry, clusters map[string]*upstream.Cluster, fleets ...facade.Fleet) (*Table, error) {
	for _, t := range registry.All() {
		if clusters[t.Cluster] == nil {
			return nil, fmt.Errorf("cannot route tenant %q: there is no cluster %q", t.Name, t.Cluster)
		}
	}
	return &Table{Registry: registry, clusters: clusters, fleets: fleets}, nil
}

// Cluster is the cluster that a tenant's data is on.
func (t *Table) Cluster(of *tenant.Tenant) *upstream.Cluster { return t.clusters[of.Cluster] }

// Clusters are all clusters by name. The map must not be changed.
func (t *Table) Clusters() map[string]*upstream.Cluster { return t.clusters }

// Shared reports whether another tenant's databases are on the same servers: on the tenant's own cluster, or on one that
// has an address in common with it.
func (t *Table) Shared(with *tenant.Tenant) bool {
	mine := t.clusters[with.Cluster]
	if mine == nil {
		return true // it is not known any more what is where
	}
	same := make(map[string]bool)
	for name, c := range t.clusters {
		same[name] = c == mine || c.Overlaps(mine)
	}
	return slices.ContainsFunc(t.Registry.All(), func(other *tenant.Tenant) bool { return other.Name != with.Name && same[other.Cluster] })
}

// Fleet is what the listener of this number tells clients in cluster mode of.
func (t *Table) Fleet(listener int) facade.Fleet {
	if listener >= len(t.fleets) {
		return facade.Fleet{}
	}
	return t.fleets[listener]
}
