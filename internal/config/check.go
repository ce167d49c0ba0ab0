package config

import "strings"

// CheckCluster says what is wrong with one cluster by itself. Keys are those of the cluster, such as "addresses[0]".
func CheckCluster(c *Cluster) []Problem {
	f := newFindings("")
	v := validator{findings: f, config: &Config{Clusters: []Cluster{*c}}}
	v.clusters()
	*c = v.config.Clusters[0]
	return of(f.problems, "clusters[0]")
}

// CheckTenant says what is wrong with one tenant among the clusters and the other tenants. Keys are those of the tenant,
// such as "databases[1]".
func CheckTenant(t *Tenant, clusters []Cluster, others []Tenant) []Problem {
	f := newFindings("")
	v := validator{findings: f, config: &Config{Clusters: clusters, Tenants: append([]Tenant{*t}, others...)}}
	v.tenants()
	return of(f.problems, "tenants[0]")
}

// of are the problems with what is within outer, their keys without it.
func of(problems []Problem, outer string) (found []Problem) {
	for _, p := range problems {
		if within(p.Key, outer) {
			p.Key = strings.TrimPrefix(strings.TrimPrefix(p.Key, outer), ".")
			found = append(found, p)
		}
	}
	return found
}
