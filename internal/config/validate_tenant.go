package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Compiled once: a configuration may hold many thousands of tenants.
var (
	userName  = regexp.MustCompile(`^[^\s[:cntrl:]]{1,128}$`)
	sha256Hex = regexp.MustCompile(`^[0-9a-fA-F]{64}$`)
)

// mostDatabases bounds the index of a database: each costs pipes of its own.
const mostDatabases = 1024

func (v validator) tenants() {
	if len(v.config.Tenants) == 0 && v.sound("tenants") && !v.config.HasStore() {
		v.wrong("tenants", notSet, "is needed: nobody could use the clusters", "add one, such as {name: default, cluster: main}")
	}
	var names []string
	owners := map[string]string{}
	for i := range v.config.Tenants {
		t, key := &v.config.Tenants[i], fmt.Sprintf("tenants[%d].", i)
		v.name(key+"name", t.Name, names, "tenants")
		names = append(names, t.Name)
		v.tenantCluster(key+"cluster", t)
		v.databases(key+"databases", t)
		v.frontend(key, t)
		v.trusted(key+"trusted", i)
		for j := range t.Users {
			v.user(fmt.Sprintf("%susers[%d].", key, j), &t.Users[j], t.Name, owners)
		}
	}
}

func (v validator) tenantCluster(key string, t *Tenant) {
	if !v.sound(key) {
		return
	}
	if t.Cluster == "" {
		v.wrong(key, notSet, "is needed", "name one of clusters")
		return
	}
	if v.clusterNamed(t.Cluster) == nil && v.soundClusterNames() {
		var names []string
		for _, c := range v.config.Clusters {
			names = append(names, c.Name)
		}
		v.wrong(key, shown(t.Cluster), "is not a configured cluster", suggestName(t.Cluster, names, "clusters"))
	}
}

func (v validator) soundClusterNames() bool {
	for i := range v.config.Clusters {
		if !v.sound(fmt.Sprintf("clusters[%d].name", i)) {
			return false
		}
	}
	return len(v.config.Clusters) > 0 || v.config.HasStore()
}

func (v validator) clusterNamed(name string) *Cluster {
	i := slices.IndexFunc(v.config.Clusters, func(c Cluster) bool { return c.Name == name })
	if i < 0 {
		return nil
	}
	return &v.config.Clusters[i]
}

func (v validator) suggestTenant(name string) string {
	var names []string
	for _, t := range v.config.Tenants {
		names = append(names, t.Name)
	}
	return suggestName(name, names, "tenants")
}

func suggestName(name string, names []string, list string) string {
	if like := nearest(name, names); like != "" {
		return "did you mean " + like + "?"
	}
	return "add it to " + list + ", or use one of " + strings.Join(names, ", ")
}

func (v validator) databases(key string, t *Tenant) {
	if !v.sound(key) {
		return
	}
	if len(t.Databases) == 0 {
		v.wrong(key, "[]", "is empty", "write a list such as [0]; the first is where clients start")
	}
	cluster := v.clusterNamed(t.Cluster)
	for i, database := range t.Databases {
		where := fmt.Sprintf("%s[%d]", key, i)
		switch {
		case database < 0 || database >= mostDatabases:
			v.wrong(where, shown(database), "is not a database", fmt.Sprintf("use 0 to %d", mostDatabases-1))
		case slices.Contains(t.Databases[:i], database):
			v.wrong(where, shown(database), "is there twice", "remove one of them")
		case database != 0 && cluster != nil && cluster.Kind == RedisCluster:
			v.wrong(where, shown(database), "cannot be: cluster "+cluster.Name+" is of kind cluster, which has database 0 alone", "write [0]")
		}
	}
}

func (v validator) user(key string, u *User, tenant string, owners map[string]string) {
	v.userName(key+"name", u.Name, tenant, owners)
	sources := []secretSource{
		{"sha256", u.SHA256.String()}, {"argon2id", u.Argon2id.String()},
		{"password_file", u.PasswordFile}, {"password_env", u.PasswordEnv},
	}
	switch v.onlySource(key, sources) {
	case "sha256":
		if !sha256Hex.MatchString(u.SHA256.Reveal()) {
			v.wrong(key+"sha256", redacted, "is not a SHA-256 hash", "write its 64 hexadecimal digits")
		}
	case "argon2id":
		if wrong := CheckArgon2id(u.Argon2id.Reveal()); wrong != nil {
			v.wrong(key+"argon2id", redacted, wrong.Error(), "write a text such as $argon2id$v=19$m=19456,t=2,p=1$SALT$HASH")
		}
	case "password_file":
		u.Password = v.secretFromFile(key+"password_file", &u.PasswordFile)
	case "password_env":
		u.Password = v.secretFromVariable(key+"password_env", u.PasswordEnv)
	case "":
		if v.sound(strings.TrimSuffix(key, ".")) {
			v.wrong(strings.TrimSuffix(key, "."), "{…}", "has no password", "give one of sha256, argon2id, password_file, password_env")
		}
	}
}

func (v validator) userName(key, name, tenant string, owners map[string]string) {
	if !v.sound(key) {
		return
	}
	owner, taken := owners[name]
	switch {
	case name == "":
		v.wrong(key, notSet, "is needed", `give it a name; "default" is the user of AUTH with a password alone`)
	case !userName.MatchString(name):
		v.wrong(key, shown(name), "is not a valid user name", "use 1 to 128 characters without spaces")
	case taken && owner == tenant:
		v.wrong(key, shown(name), "is there twice in tenant "+tenant, "remove one of them")
	case taken:
		v.wrong(key, shown(name), fmt.Sprintf("is a user of tenant %s and of tenant %s", owner, tenant), "a user belongs to one tenant: rename one of them")
	default:
		owners[name] = tenant
	}
}

// reachability finds tenants that no client can ever become.
func (v validator) reachability() {
	if !v.sound("listeners") || !v.sound("tenants") {
		return
	}
	named := func(name string) bool {
		return slices.ContainsFunc(v.config.Listeners, func(l Listener) bool { return !l.Admin && l.Tenant == name })
	}
	for i, t := range v.config.Tenants {
		key := fmt.Sprintf("tenants[%d]", i)
		switch {
		case named(t.Name):
		case t.Open() && len(v.config.Tenants) > 1:
			v.wrong(key+".users", notSet, "is needed: there are other tenants and no listener names tenant "+t.Name,
				"give it users, or a listener with tenant: "+t.Name)
		case !named(""):
			v.wrong(key+".name", shown(t.Name), "can have no clients: every listener is another tenant's", "add a listener without tenant, or with tenant: "+t.Name)
		}
	}
}
