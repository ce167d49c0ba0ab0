package control

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluiceproxy/sluice/internal/config"
	"github.com/sluiceproxy/sluice/internal/tenant"
	"github.com/sluiceproxy/sluice/pkg/api"
)

// unbound lets only actors change things that are not bound to tenants.
func unbound[T any](a *Actor, _ *T) bool { return a.Tenants == nil }

// Sees reports whether the actor may see a tenant and what is of it.
func (a *Actor) Sees(tenant string) bool {
	return a.Tenants == nil || slices.Contains(a.Tenants, tenant)
}

func nothing(string) []string { return nil }

func clusterKind(c *Control) *kind[api.Cluster] {
	return &kind[api.Cluster]{
		kind: api.KindCluster, prefix: "clusters/", secret: map[string]bool{"auth.password": true},
		name:   func(x *api.Cluster) string { return x.Name },
		rename: func(x *api.Cluster, name string) { x.Name = name },
		meta:   func(x *api.Cluster) **api.Meta { return &x.Meta },
		seal:   c.sealCluster,
		hide: func(x *api.Cluster) {
			if x.Auth != nil {
				x.Auth = &api.ClusterAuth{Username: x.Auth.Username, HasPassword: x.Auth.Password != ""}
			}
		},
		check: func(x *api.Cluster) []api.ProblemField {
			cluster := clusterOf(x)
			if x.Auth != nil {
				cluster.Auth.Password = config.NewSecret("…") // it is sealed
			}
			if found := config.CheckCluster(&cluster); len(found) > 0 {
				return problems(found)
			}
			return c.checkTenantsOf(cluster)
		},
		ofFile: func(f *File) []api.Cluster { return f.clusters },
		usedBy: func(name string) (by []string) {
			for _, t := range c.tenants.all() {
				if t.Cluster == name {
					by = append(by, t.Name)
				}
			}
			return by
		},
		sees: func(a *Actor, x *api.Cluster) bool {
			return a.Tenants == nil || slices.ContainsFunc(c.tenants.all(), func(t api.Tenant) bool { return t.Cluster == x.Name && a.Sees(t.Name) })
		},
		changes: unbound[api.Cluster],
	}
}

// checkTenantsOf says which tenants a cluster would not suit any more.
func (c *Control) checkTenantsOf(changed config.Cluster) (fields []api.ProblemField) {
	var now, then []config.Cluster
	for _, cluster := range c.clusters.all() {
		now = append(now, clusterOf(&cluster))
		if cluster.Name != changed.Name {
			then = append(then, clusterOf(&cluster))
		}
	}
	var tenants []config.Tenant
	for _, t := range c.tenants.all() {
		t := tenantOf(&t)
		t.Users = nil // which do not depend on clusters
		tenants = append(tenants, t)
	}
	before := config.CheckTenants(tenants, now)
	for _, p := range config.CheckTenants(tenants, append(then, changed)) {
		var i int
		if slices.Contains(before, p) {
			continue
		}
		if _, err := fmt.Sscanf(p.Key, "tenants[%d]", &i); err == nil {
			_, key, _ := strings.Cut(p.Key, ".")
			fields = append(fields, api.ProblemField{
				Location: "body", Message: fmt.Sprintf("does not suit tenant %s: %s %s %s", tenants[i].Name, key, p.Value, p.Wrong),
			})
		}
	}
	return fields
}

func (c *Control) sealCluster(key string, x, old *api.Cluster) (func(*api.Cluster), []api.ProblemField, error) {
	x.ClusterKind = cmp.Or(x.ClusterKind, string(config.Standalone))
	x.ConnectTimeout = cmp.Or(x.ConnectTimeout, api.Duration(2*time.Second))
	x.RefreshInterval = cmp.Or(x.RefreshInterval, api.Duration(30*time.Second))
	if x.Auth == nil {
		return nil, nil, nil
	}
	x.Auth.HasPassword = false
	switch {
	case x.Auth.Password == "" && old != nil && old.Auth != nil:
		x.Auth.Password = old.Auth.Password
	case isSealed(x.Auth.Password):
		return nil, []api.ProblemField{{Location: "body.auth.password", Message: "is a sealed secret: write the password itself"}}, nil
	case x.Auth.Password != "":
		sealed, err := c.sealer.Seal(key, x.Auth.Password)
		if err != nil {
			return nil, []api.ProblemField{{Location: "body.auth.password", Message: "cannot be kept: " + err.Error()}}, nil
		}
		if old != nil && old.Auth != nil && old.Auth.Password != "" {
			if before, err := c.sealer.Open(key, old.Auth.Password); err == nil && before == x.Auth.Password {
				sealed = old.Auth.Password // the same: no change
			}
		}
		x.Auth.Password = sealed
	}
	if *x.Auth == (api.ClusterAuth{}) {
		x.Auth = nil
	}
	return nil, nil, nil
}

func tenantKind(c *Control) *kind[api.Tenant] {
	return &kind[api.Tenant]{
		kind: api.KindTenant, prefix: "tenants/",
		name:   func(x *api.Tenant) string { return x.Name },
		rename: func(x *api.Tenant, name string) { x.Name = name },
		meta:   func(x *api.Tenant) **api.Meta { return &x.Meta },
		seal: func(_ string, x, _ *api.Tenant) (func(*api.Tenant), []api.ProblemField, error) {
			x.CrossSlot = cmp.Or(x.CrossSlot, "split")
			x.Frontend = cmp.Or(x.Frontend, "standalone")
			x.CommandTimeout = cmp.Or(x.CommandTimeout, api.Duration(5*time.Second))
			if len(x.Databases) == 0 {
				x.Databases = []int{0}
			}
			return nil, nil, nil
		},
		hide:   func(*api.Tenant) {},
		check:  c.checkTenant,
		ofFile: func(f *File) []api.Tenant { return f.tenants },
		usedBy: func(name string) (by []string) {
			for _, u := range c.users.all() {
				if u.Tenant == name {
					by = append(by, "user "+u.Name)
				}
			}
			return by
		},
		sees:    func(a *Actor, x *api.Tenant) bool { return a.Sees(x.Name) },
		changes: unbound[api.Tenant],
	}
}

func (c *Control) checkTenant(x *api.Tenant) []api.ProblemField {
	var clusters []config.Cluster
	for _, cluster := range c.clusters.all() {
		clusters = append(clusters, clusterOf(&cluster))
	}
	var others []config.Tenant
	for _, other := range c.tenants.all() {
		if other.Name != x.Name {
			others = append(others, tenantOf(&other))
		}
	}
	t := tenantOf(x)
	return problems(config.CheckTenant(&t, clusters, others))
}

func userKind(c *Control) *kind[api.User] {
	return &kind[api.User]{
		kind: api.KindUser, prefix: "users/", secret: map[string]bool{"password": true, "sha256": true, "argon2id": true},
		name: func(x *api.User) string { return x.Tenant + "/" + x.Name },
		rename: func(x *api.User, name string) {
			x.Tenant, x.Name, _ = strings.Cut(name, "/")
		},
		meta: func(x *api.User) **api.Meta { return &x.Meta },
		seal: sealUser,
		hide: func(x *api.User) { x.Password, x.SHA256, x.Argon2id = "", "", "" },
		check: func(x *api.User) []api.ProblemField {
			return c.checkUser(x)
		},
		ofFile:  func(f *File) []api.User { return f.users },
		usedBy:  nothing,
		sees:    func(a *Actor, x *api.User) bool { return a.Sees(x.Tenant) },
		changes: func(a *Actor, x *api.User) bool { return a.Sees(x.Tenant) },
	}
}

// sealUser hashes a password. It takes a tenth of a second and some megabytes, on purpose.
func sealUser(_ string, x, old *api.User) (func(*api.User), []api.ProblemField, error) {
	given := 0
	for _, secret := range []string{x.Password, x.SHA256, x.Argon2id} {
		if secret != "" {
			given++
		}
	}
	switch {
	case given > 1:
		return nil, []api.ProblemField{{Location: "body", Message: "has more than one of password, sha256 and argon2id; give one"}}, nil
	case given == 0 && old == nil:
		return nil, []api.ProblemField{{Location: "body.password", Message: "is needed, or one of sha256 and argon2id"}}, nil
	case given == 0:
		x.SHA256, x.Argon2id = old.SHA256, old.Argon2id
	case len(x.Password) > tenant.MaxPassword:
		return nil, []api.ProblemField{{Location: "body.password", Message: fmt.Sprintf("is longer than %d bytes", tenant.MaxPassword)}}, nil
	case x.Password != "" && old != nil && verifies(old, x.Password):
		x.Password, x.SHA256, x.Argon2id = "", old.SHA256, old.Argon2id // the same: no change
	case x.Password != "":
		x.Password, x.Argon2id = "", tenant.HashArgon2id([]byte(x.Password))
	}
	x.SHA256 = strings.ToLower(x.SHA256)
	return nil, nil, nil
}

func verifies(u *api.User, password string) bool {
	verifier, err := tenant.ParseArgon2id(u.Argon2id)
	if u.SHA256 != "" {
		verifier, err = tenant.ParseSHA256(u.SHA256)
	}
	return err == nil && tenant.NewUser(u.Name, verifier).Verify([]byte(password))
}

func (c *Control) checkUser(x *api.User) (fields []api.ProblemField) {
	owner, err := c.tenants.Get(nil, x.Tenant) //nolint:staticcheck // answered from memory
	switch {
	case err != nil:
		return []api.ProblemField{{Location: "path.tenant", Value: x.Tenant, Message: "is not a tenant; create it first"}}
	case owner.Meta.Source == api.SourceFile:
		return []api.ProblemField{{Location: "path.tenant", Value: x.Tenant, Message: "is declared in the configuration file; add its users there"}}
	}
	for _, other := range c.users.all() {
		if other.Name == x.Name && other.Tenant != x.Tenant {
			return []api.ProblemField{{Location: "body.name", Value: x.Name, Message: "is a user of another tenant; names are unique over all tenants"}}
		}
	}
	t := tenantOf(&owner)
	t.Users = []config.User{userOf(x)}
	for _, p := range problems(config.CheckTenant(&t, []config.Cluster{{Name: t.Cluster}}, nil)) {
		if rest, ok := strings.CutPrefix(p.Location, "body.users[0]"); ok {
			p.Location = "body" + rest
			fields = append(fields, p)
		}
	}
	return fields
}

func tokenKind(*Control) *kind[api.Token] {
	return &kind[api.Token]{
		kind: api.KindToken, prefix: "tokens/", secret: map[string]bool{"secret": true},
		name:   func(x *api.Token) string { return x.Name },
		rename: func(x *api.Token, name string) { x.Name = name },
		meta:   func(x *api.Token) **api.Meta { return &x.Meta },
		seal: func(_ string, x, old *api.Token) (shown func(*api.Token), fields []api.ProblemField, err error) {
			if !slices.Contains([]api.Role{api.RoleViewer, api.RoleOperator, api.RoleAdmin}, x.Role) {
				fields = append(fields, api.ProblemField{Location: "body.role", Value: x.Role, Message: "must be viewer, operator or admin"})
			}
			if !x.Expires.IsZero() && x.Expires.Before(time.Now()) {
				fields = append(fields, api.ProblemField{Location: "body.expires", Value: x.Expires, Message: "is in the past"})
			}
			if old != nil {
				x.Secret = old.Secret
				return nil, fields, nil
			}
			secret := newToken()
			x.Secret = HashToken(secret)
			return func(t *api.Token) { t.Secret = secret }, fields, nil
		},
		hide:    func(x *api.Token) { x.Secret = "" },
		check:   func(*api.Token) []api.ProblemField { return nil },
		ofFile:  func(f *File) []api.Token { return f.tokens },
		usedBy:  nothing,
		sees:    unbound[api.Token],
		changes: unbound[api.Token],
	}
}

// problems are those of a configuration as the API tells them.
func problems(found []config.Problem) (fields []api.ProblemField) {
	for _, p := range found {
		message := p.Wrong
		if p.Mend != "" {
			message += "; " + p.Mend
		}
		f := api.ProblemField{Location: "body." + p.Key, Message: message}
		if p.Value != "" {
			f.Value = given(p.Value)
		}
		fields = append(fields, f)
	}
	return fields
}

// given is a value as it was before a problem's text quoted it: JSON quotes it again.
func given(shown string) any {
	if text, err := strconv.Unquote(shown); err == nil {
		return text
	}
	if json.Valid([]byte(shown)) { // a number or a bool
		return json.RawMessage(shown)
	}
	return shown
}
