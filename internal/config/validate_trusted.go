package config

import (
	"fmt"
	"slices"
)

// trusted checks that a trusted tenant is alone on one standalone backend: what it may do there concerns all of it.
func (v validator) trusted(key string, i int) {
	t := &v.config.Tenants[i]
	if !t.Trusted || !v.sound(key) {
		return
	}
	if t.Frontend == FrontCluster {
		v.wrong(key, "true", "cannot be: the tenant has frontend: cluster, whose CLUSTER commands are the proxy's", "remove one of them")
	}
	if c := v.clusterNamed(t.Cluster); c != nil && c.Kind == RedisCluster {
		v.wrong(key, "true", "cannot be: cluster "+c.Name+" is of kind cluster", "give the tenant a standalone backend, or remove trusted")
	}
	for j := range v.config.Tenants {
		if other := &v.config.Tenants[j]; j != i && v.sameBackend(t.Cluster, other.Cluster) {
			v.wrong(key, "true", fmt.Sprintf("cannot be: tenant %s has the same backend", other.Name),
				"give the trusted tenant a backend of its own, or remove trusted")
			return
		}
	}
}

// sameBackend reports whether two clusters are one, or have an address in common.
func (v validator) sameBackend(a, b string) bool {
	one, other := v.clusterNamed(a), v.clusterNamed(b)
	if one == nil || other == nil {
		return false
	}
	return one == other || slices.ContainsFunc(one.Addresses, func(address string) bool { return slices.Contains(other.Addresses, address) })
}
