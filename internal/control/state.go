package control

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/sluiceproxy/sluice/internal/config"
	"github.com/sluiceproxy/sluice/pkg/api"
)

// NewFile takes the entities of a configuration over. Tokens carry the SHA-256 of their secret as Secret.
func NewFile(cfg *config.Config, tokens []api.Token) *File {
	f := &File{Config: cfg, tokens: tokens}
	for i := range cfg.Clusters {
		f.clusters = append(f.clusters, apiCluster(&cfg.Clusters[i]))
	}
	for i := range cfg.Tenants {
		t := &cfg.Tenants[i]
		f.tenants = append(f.tenants, apiTenant(t))
		for j := range t.Users {
			f.users = append(f.users, api.User{Tenant: t.Name, Name: t.Users[j].Name})
		}
	}
	return f
}

// FileTokens are the bearer tokens that a configuration declares.
func FileTokens(cfg *config.Config) []api.Token {
	var tokens []api.Token
	for _, t := range cfg.Admin.Tokens {
		token := api.Token{Name: t.Name, Role: api.Role(t.Role), Secret: t.SHA256.Reveal()}
		token.Tenants = append(token.Tenants, t.Tenants...) // nil for an empty list: all tenants
		tokens = append(tokens, token)
	}
	return tokens
}

func apiCluster(c *config.Cluster) api.Cluster {
	cluster := api.Cluster{
		Name: c.Name, ClusterKind: string(c.Kind), Addresses: c.Addresses,
		ConnectTimeout: api.Duration(c.ConnectTimeout), RefreshInterval: api.Duration(c.RefreshInterval),
	}
	if c.Auth.Username != "" || !c.Auth.Password.Empty() {
		cluster.Auth = &api.ClusterAuth{Username: c.Auth.Username}
		if !c.Auth.Password.Empty() {
			cluster.Auth.Password = notShown
		}
	}
	if c.TLS != nil && c.TLS.Enabled {
		cluster.TLS = &api.ClusterTLS{
			CA: c.TLS.CA, Cert: c.TLS.Cert, Key: c.TLS.Key, ServerName: c.TLS.ServerName, InsecureSkipVerify: c.TLS.InsecureSkipVerify,
		}
	}
	return cluster
}

// clusterOf is a cluster as the configuration has it, without its password.
func clusterOf(c *api.Cluster) config.Cluster {
	cluster := config.Cluster{
		Name: c.Name, Kind: config.ClusterKind(c.ClusterKind), Addresses: c.Addresses,
		ConnectTimeout: time.Duration(c.ConnectTimeout), RefreshInterval: time.Duration(c.RefreshInterval),
	}
	if c.Auth != nil {
		cluster.Auth.Username = c.Auth.Username
	}
	if c.TLS != nil {
		cluster.TLS = &config.ClusterTLS{
			Enabled: true, CA: c.TLS.CA, Cert: c.TLS.Cert, Key: c.TLS.Key, ServerName: c.TLS.ServerName, InsecureSkipVerify: c.TLS.InsecureSkipVerify,
		}
	}
	return cluster
}

func apiTenant(t *config.Tenant) api.Tenant {
	return api.Tenant{
		Name: t.Name, Cluster: t.Cluster, Databases: t.Databases, CrossSlot: t.CrossSlot, Frontend: t.Frontend, Trusted: t.Trusted, AdminModules: t.AdminModules, NoScripts: t.NoScripts,
		ConnectTimeout: api.Duration(t.ConnectTimeout), CommandTimeout: api.Duration(t.CommandTimeout), Open: t.Open(),
	}
}

func tenantOf(t *api.Tenant) config.Tenant {
	return config.Tenant{
		Name: t.Name, Cluster: t.Cluster, Databases: t.Databases, CrossSlot: t.CrossSlot, Frontend: t.Frontend, Trusted: t.Trusted, AdminModules: t.AdminModules, NoScripts: t.NoScripts,
		ConnectTimeout: time.Duration(t.ConnectTimeout), CommandTimeout: time.Duration(t.CommandTimeout), Closed: !t.Open,
	}
}

func userOf(u *api.User) config.User {
	return config.User{Name: u.Name, SHA256: config.NewSecret(u.SHA256), Argon2id: config.NewSecret(u.Argon2id)}
}

// State is what the proxy should be like now. What contradicts, as two proxies may write at the same moment, is left out
// and told in problems.
func (c *Control) State() (state State, problems []string) {
	file := c.file.Load()
	state.Clusters = slices.Clone(file.Config.Clusters)
	state.Tenants = slices.Clone(file.Config.Tenants)
	note := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	c.mu.Lock()
	state.Revision = c.mu.revision
	c.mu.Unlock()

	clusters := make(map[string]bool)
	for i := range state.Clusters {
		clusters[state.Clusters[i].Name] = true
	}
	for _, kept := range present(c.clusters, note) {
		if clusters[kept.Name] {
			note("cluster %s of the store is left out: the configuration file declares one of that name", kept.Name)
			continue
		}
		cluster := clusterOf(kept)
		if kept.Auth != nil && kept.Auth.Password != "" {
			password, err := c.sealer.Open(c.clusters.prefix+kept.Name, kept.Auth.Password)
			if err != nil {
				note("cluster %s is left out: its password: %s", kept.Name, err)
				continue
			}
			cluster.Auth.Password = config.NewSecret(password)
		}
		clusters[kept.Name] = true
		state.Clusters = append(state.Clusters, cluster)
	}
	c.addTenants(&state, clusters, note)
	return state, problems
}

func (c *Control) addTenants(state *State, clusters map[string]bool, note func(string, ...any)) {
	names, owners := make(map[string]int), make(map[string]string)
	for i := range state.Tenants {
		names[state.Tenants[i].Name] = -1
		for j := range state.Tenants[i].Users {
			owners[state.Tenants[i].Users[j].Name] = state.Tenants[i].Name
		}
	}
	for _, kept := range present(c.tenants, note) {
		switch _, taken := names[kept.Name]; {
		case taken:
			note("tenant %s of the store is left out: the configuration file declares one of that name", kept.Name)
		case !clusters[kept.Cluster]:
			note("tenant %s is left out: there is no cluster %s", kept.Name, kept.Cluster)
		default:
			names[kept.Name] = len(state.Tenants)
			state.Tenants = append(state.Tenants, tenantOf(kept))
		}
	}
	for _, kept := range present(c.users, note) {
		i, known := names[kept.Tenant]
		switch owner, taken := owners[kept.Name]; {
		case !known || i < 0: // of a tenant that is left out, or of the file
			continue
		case taken:
			note("user %s of tenant %s is left out: it is a user of tenant %s", kept.Name, kept.Tenant, owner)
		default:
			owners[kept.Name] = kept.Tenant
			state.Tenants[i].Users = append(state.Tenants[i].Users, userOf(kept))
		}
	}
}

// present are the entities of the store as they are kept, in the order of their names.
func present[T any](e *entities[T], note func(string, ...any)) (all []*T) {
	for _, r := range e.c.records(e.prefix) {
		if r.record.deleted() {
			continue
		}
		entity, err := e.of(r.record)
		if err != nil {
			note("a %s of the store is left out: %s", e.kind.kind, err)
			continue
		}
		all = append(all, entity)
	}
	slices.SortFunc(all, func(a, b *T) int { return cmp.Compare(e.name(a), e.name(b)) })
	return all
}
