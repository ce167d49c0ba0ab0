package config

import (
	"reflect"
	"strings"
	"time"
)

// CheckCluster says what is wrong with one cluster by itself. Keys are those of the cluster, such as "addresses[0]".
func CheckCluster(c *Cluster) []Problem {
	f := newFindings("")
	v := validator{findings: f, config: &Config{Clusters: []Cluster{*c}}}
	v.values("clusters[0].", reflect.ValueOf(*c))
	v.clusters()
	*c = v.config.Clusters[0]
	return of(f.problems, "clusters[0]")
}

// CheckTenant says what is wrong with one tenant among the clusters and the other tenants. Keys are those of the tenant,
// such as "databases[1]".
func CheckTenant(t *Tenant, clusters []Cluster, others []Tenant) []Problem {
	f := newFindings("")
	v := validator{findings: f, config: &Config{Clusters: clusters, Tenants: append([]Tenant{*t}, others...)}}
	v.values("tenants[0].", reflect.ValueOf(*t))
	v.tenants()
	return of(f.problems, "tenants[0]")
}

// CheckTenants says what is wrong with any of the tenants among the clusters. Keys are as in a file, such as
// "tenants[0].databases[1]".
func CheckTenants(tenants []Tenant, clusters []Cluster) []Problem {
	f := newFindings("")
	if len(tenants) > 0 {
		validator{findings: f, config: &Config{Clusters: clusters, Tenants: tenants}}.tenants()
	}
	return f.problems
}

// values holds what was not read from a file to the bounds and choices that a file is held to. None at all is the default.
func (v validator) values(path string, section reflect.Value) {
	for _, f := range fieldsOf(section.Type()) {
		value := section.Field(f.index)
		if value.IsZero() {
			continue
		}
		text, err := value.String(), error(nil)
		if duration, ok := value.Interface().(time.Duration); ok {
			text = duration.String()
			_, err = bounded(f, text, asDuration)
		} else if value.Kind() == reflect.String {
			err = oneOf(text, strings.Fields(f.tag.Get("oneof")))
		}
		if err != nil {
			wrong, mend, _ := strings.Cut(err.Error(), "; ")
			v.wrong(path+f.key, shown(text), wrong, mend)
		}
	}
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
