package ctl

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluiceproxy/sluice/pkg/api"
)

func valueText(v any) string {
	if s, isText := v.(string); isText {
		return printable(s)
	}
	b, err := json.Marshal(v)
	if err != nil {
		return printable(fmt.Sprint(v))
	}
	return printable(string(b))
}

// metaColumns end every table of entities.
func metaColumns[T any](meta func(*T) *api.Meta) []column[T] {
	of := func(x *T) api.Meta {
		if m := meta(x); m != nil {
			return *m
		}
		return api.Meta{}
	}
	return []column[T]{
		{title: "SOURCE", cell: func(x *T, _ style) string { return string(of(x).Source) }},
		{title: "VERSION", cell: func(x *T, _ style) string { return fmt.Sprint(of(x).Version) }},
		{title: "UPDATED", wide: true, cell: func(x *T, _ style) string { return whenText(of(x).UpdatedAt) }},
		{title: "BY", wide: true, cell: func(x *T, _ style) string { return printable(of(x).UpdatedBy) }},
	}
}

func whenText(at time.Time) string {
	if at.IsZero() {
		return "-"
	}
	return at.Local().Format("2006-01-02 15:04:05")
}

// textColumn is a column of plain text.
func textColumn[T any](title string, wide bool, text func(*T) string) column[T] {
	return column[T]{title: title, wide: wide, cell: func(x *T, _ style) string { return printable(text(x)) }}
}

func oneScope[T any](of func(*api.Client) *api.Resource[T]) func(context.Context, *api.Client, string) iter.Seq2[T, error] {
	return func(ctx context.Context, client *api.Client, _ string) iter.Seq2[T, error] {
		return of(client).All(ctx, api.ListOptions{})
	}
}

func (c *cli) clusterKind() *kind[api.Cluster] {
	meta := func(x *api.Cluster) *api.Meta { return x.Meta }
	return &kind[api.Cluster]{
		c: c, kind: api.KindCluster, one: "cluster", many: "clusters", names: "NAME",
		name: func(x *api.Cluster) string { return x.Name }, meta: meta,
		at: func(client *api.Client, name string) (*api.Resource[api.Cluster], string) {
			return client.Clusters(), name
		},
		all:      oneScope((*api.Client).Clusters),
		identify: func(x *api.Cluster, name string) { x.Name = name },
		secret: func(x *api.Cluster) string {
			if x.Auth != nil && x.Auth.HasPassword {
				return "has a password (auth.password), which is not shown"
			}
			return ""
		},
		columns: append([]column[api.Cluster]{
			textColumn("NAME", false, func(x *api.Cluster) string { return x.Name }),
			textColumn("KIND", false, func(x *api.Cluster) string { return x.ClusterKind }),
			{title: "ADDRESSES", cell: func(x *api.Cluster, _ style) string { return join(x.Addresses) }},
			textColumn("USERNAME", true, func(x *api.Cluster) string {
				if x.Auth == nil {
					return ""
				}
				return x.Auth.Username
			}),
			textColumn("PASSWORD", true, func(x *api.Cluster) string { return yesNo(x.Auth != nil && x.Auth.HasPassword) }),
			textColumn("TLS", false, func(x *api.Cluster) string { return yesNo(x.TLS != nil) }),
		}, metaColumns(meta)...),
		fields: []field{
			{flag: "kind", path: "kind", help: "standalone (one node with every key) or cluster (Redis Cluster)", values: []string{"standalone", "cluster"}},
			{flag: "address", path: "addresses", kind: texts, help: "host:port of the node, or of some nodes of a Redis Cluster, with commas"},
			{flag: "username", path: "auth.username", help: "ACL user that the nodes are told"},
			{flag: "tls", path: "tls", kind: presence, help: "TLS to the nodes; --tls=false ends it"},
			{flag: "tls-ca", path: "tls.ca", help: "file of certificate authorities, on the proxy's machine"},
			{flag: "tls-cert", path: "tls.cert", help: "file of the client certificate, on the proxy's machine"},
			{flag: "tls-key", path: "tls.key", help: "file of its key, on the proxy's machine"},
			{flag: "tls-server-name", path: "tls.server_name", help: "name in the nodes' certificates"},
			{flag: "tls-insecure-skip-verify", path: "tls.insecure_skip_verify", kind: boolean, help: "take any certificate"},
			{flag: "connect-timeout", path: "connect_timeout", kind: duration, help: "bounds dialling, TLS and handshake together"},
			{flag: "refresh-interval", path: "refresh_interval", kind: duration, help: "time between two looks at the topology"},
		},
	}
}

func (c *cli) tenantKind() *kind[api.Tenant] {
	meta := func(x *api.Tenant) *api.Meta { return x.Meta }
	return &kind[api.Tenant]{
		c: c, kind: api.KindTenant, one: "tenant", many: "tenants", names: "NAME",
		name: func(x *api.Tenant) string { return x.Name }, meta: meta,
		at: func(client *api.Client, name string) (*api.Resource[api.Tenant], string) {
			return client.Tenants(), name
		},
		all:      oneScope((*api.Client).Tenants),
		identify: func(x *api.Tenant, name string) { x.Name = name },
		secret:   func(*api.Tenant) string { return "" },
		columns: append([]column[api.Tenant]{
			textColumn("NAME", false, func(x *api.Tenant) string { return x.Name }),
			textColumn("CLUSTER", false, func(x *api.Tenant) string { return x.Cluster }),
			{title: "DATABASES", cell: func(x *api.Tenant, _ style) string { return join(x.Databases) }},
			textColumn("FRONTEND", false, func(x *api.Tenant) string { return x.Frontend }),
			textColumn("OPEN", false, func(x *api.Tenant) string { return yesNo(x.Open) }),
			textColumn("TRUSTED", true, func(x *api.Tenant) string { return yesNo(x.Trusted) }),
			textColumn("CROSS-SLOT", true, func(x *api.Tenant) string { return x.CrossSlot }),
			textColumn("TIMEOUT", true, func(x *api.Tenant) string { return time.Duration(x.CommandTimeout).String() }),
		}, metaColumns(meta)...),
		fields: []field{
			{flag: "cluster", path: "cluster", help: "cluster that holds its data", complete: c.completeClusterFlag},
			{flag: "database", path: "databases", kind: numbers, help: "databases that it may use, with commas; the first is where sessions start"},
			{flag: "open", path: "open", kind: boolean, help: "clients need no password"},
			{flag: "cross-slot", path: "cross_slot", help: "what becomes of a command whose keys are in several slots: split or error", values: []string{"split", "error"}},
			{flag: "frontend", path: "frontend", help: "what its clients see: standalone or cluster", values: []string{"standalone", "cluster"}},
			{flag: "trusted", path: "trusted", kind: boolean, help: "administrative commands reach the backend"},
			{flag: "admin-modules", path: "admin_modules", kind: boolean, help: "administrative commands of modules are passed through"},
			{flag: "no-scripts", path: "no_scripts", kind: boolean, help: "scripts and functions are refused"},
			{flag: "connect-timeout", path: "connect_timeout", kind: duration, help: "how long a command waits for a connection"},
			{flag: "command-timeout", path: "command_timeout", kind: duration, help: "how long a command may take"},
		},
	}
}

func (c *cli) completeClusterFlag(cmd *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
	return c.completeClusters(cmd, nil, prefix)
}

func (c *cli) userKind() *kind[api.User] {
	meta := func(x *api.User) *api.Meta { return x.Meta }
	return &kind[api.User]{
		c: c, kind: api.KindUser, one: "user", many: "users", names: "TENANT NAME",
		name: func(x *api.User) string { return x.Tenant + "/" + x.Name }, meta: meta,
		at: func(client *api.Client, name string) (*api.Resource[api.User], string) {
			tenant, user, _ := strings.Cut(name, "/")
			return client.Users(tenant), user
		},
		all:      allUsers,
		identify: func(x *api.User, name string) { x.Tenant, x.Name, _ = strings.Cut(name, "/") },
		secret: func(*api.User) string {
			return "has a password, which is not shown; a new one needs password, sha256 or argon2id"
		},
		columns: append([]column[api.User]{
			textColumn("TENANT", false, func(x *api.User) string { return x.Tenant }),
			textColumn("NAME", false, func(x *api.User) string { return x.Name }),
		}, metaColumns(meta)...),
	}
}

// allUsers goes through the users of one tenant or of all.
func allUsers(ctx context.Context, client *api.Client, scope string) iter.Seq2[api.User, error] {
	if scope != "" {
		return client.Users(scope).All(ctx, api.ListOptions{})
	}
	return func(yield func(api.User, error) bool) {
		for tenant, err := range client.Tenants().All(ctx, api.ListOptions{}) {
			if err != nil {
				yield(api.User{}, err)
				return
			}
			for user, err := range client.Users(tenant.Name).All(ctx, api.ListOptions{}) {
				if !yield(user, err) {
					return
				}
			}
		}
	}
}

func (c *cli) tokenKind() *kind[api.Token] {
	meta := func(x *api.Token) *api.Meta { return x.Meta }
	return &kind[api.Token]{
		c: c, kind: api.KindToken, one: "token", many: "tokens", names: "NAME",
		name: func(x *api.Token) string { return x.Name }, meta: meta,
		at:       func(client *api.Client, name string) (*api.Resource[api.Token], string) { return client.Tokens(), name },
		all:      oneScope((*api.Client).Tokens),
		identify: func(x *api.Token, name string) { x.Name = name },
		secret: func(*api.Token) string {
			return "has a secret, which is not shown; a new one is made when it is created"
		},
		columns: append([]column[api.Token]{
			textColumn("NAME", false, func(x *api.Token) string { return x.Name }),
			textColumn("ROLE", false, func(x *api.Token) string { return string(x.Role) }),
			{title: "TENANTS", cell: func(x *api.Token, _ style) string {
				if len(x.Tenants) == 0 {
					return "all"
				}
				return join(x.Tenants)
			}},
			{title: "EXPIRES", cell: func(x *api.Token, st style) string {
				switch {
				case x.Expires.IsZero():
					return "never"
				case x.Expires.Before(time.Now()):
					return st.red(whenText(x.Expires))
				}
				return whenText(x.Expires)
			}},
		}, metaColumns(meta)...),
		fields: []field{
			{flag: "role", path: "role", help: "viewer (reads), operator (also acts) or admin (also changes)", values: []string{"viewer", "operator", "admin"}},
			{flag: "tenant", path: "tenants", kind: texts, help: "the only tenants that it may see and change, with commas"},
			{flag: "expires", path: "expires", kind: moment, help: "when it ends: a time, a date, or a duration such as 90d"},
		},
	}
}

func (c *cli) clusters() *cobra.Command {
	k := c.clusterKind()
	return parent("clusters", "Register and change the clusters that hold the data",
		"  proxyctl clusters create c1 --kind standalone --address 127.0.0.1:7001\n  proxyctl clusters list\n  proxyctl clusters test c1",
		k.list(), k.get(), k.create("Register a cluster. It is dialled before tenants can use it; --test refuses one that cannot be reached.",
			"  proxyctl clusters create c1 --kind standalone --address 127.0.0.1:7001\n"+
				"  proxyctl clusters create c2 --kind cluster --address 127.0.0.1:7101,127.0.0.1:7102\n"+
				"  proxyctl clusters create c3 --address redis.example.com:6380 --tls --username sluice --password-stdin --test < secret.txt"),
		k.update(), k.edit(), k.delete(), k.history(), k.rollback(), c.testCluster())
}

func (c *cli) tenants() *cobra.Command {
	k := c.tenantKind()
	return parent("tenants", "Register and change tenants",
		"  proxyctl tenants create acme --cluster c1\n  proxyctl tenants update acme --cluster c2\n  proxyctl tenants rollback acme",
		k.list(), k.get(), k.create("Register a tenant. Nobody can be it before it has a user, unless it is open.",
			"  proxyctl tenants create acme --cluster c1\n  proxyctl tenants create lab --cluster c2 --frontend cluster --open"),
		k.update(), k.edit(), k.delete(), k.history(), k.rollback())
}

func (c *cli) users() *cobra.Command {
	k := c.userKind()
	return parent("users", "Register and change the users of tenants",
		"  proxyctl users create acme app --password-stdin <<< secret\n  proxyctl users list acme",
		k.list(), k.get(), k.create("Register a user of a tenant. Its password comes from a pipe, a file or is asked for; it is hashed before it is kept.",
			"  proxyctl users create acme app --password-stdin <<< secret\n  proxyctl users create acme batch --password-file secret.txt"),
		k.update(), k.delete(), k.history(), k.rollback())
}

func (c *cli) tokens() *cobra.Command {
	k := c.tokenKind()
	return parent("tokens", "Make and end the tokens of the admin API",
		"  proxyctl tokens create ci --role admin --expires 90d\n  proxyctl tokens list",
		k.list(), k.get(), k.create("Make a token. Its secret is shown once.",
			"  proxyctl tokens create ci --role admin --expires 90d\n  proxyctl tokens create acme-ops --role operator --tenant acme\n"+
				"  proxyctl tokens create metrics --role viewer -o json | jq -r .secret > token"),
		k.update(), k.delete(), k.history(), k.rollback())
}

func (k *kind[T]) create(long, example string) *cobra.Command {
	var w writeFlags
	var password passwordFlags
	var test bool
	cmd := &cobra.Command{Use: "create " + k.names, Short: "Register a " + k.one, Long: long, Example: example, Args: k.arguments()}
	if k.kind == api.KindUser {
		cmd.ValidArgsFunction = k.c.completeTenants
	}
	addFields(cmd, k.fields)
	if k.hasPassword() {
		password.add(cmd)
	}
	if k.kind == api.KindCluster {
		cmd.Flags().BoolVar(&test, "test", false, "first try to reach it, and register it only then")
	}
	w.add(cmd, false)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		name, err := k.nameOf(cmd, args)
		if err != nil {
			return err
		}
		entity, err := k.fromFlags(cmd, name, &password)
		if err != nil {
			return err
		}
		r, _, err := k.resource(name)
		if err != nil {
			return err
		}
		if cluster, isCluster := any(entity).(api.Cluster); isCluster && test {
			if err := k.c.mustReach(cmd.Context(), cluster); err != nil {
				return err
			}
		}
		return k.run(cmd, &w, name, change[T]{
			done: "created",
			do:   func(ctx context.Context, o api.WriteOptions) (T, error) { return r.Create(ctx, entity, o) },
			plan: func(ctx context.Context, o api.WriteOptions) (api.Plan, error) {
				return r.Plan().Create(ctx, entity, o)
			},
		})
	}
	return cmd
}

// fromFlags is a new entity.
func (k *kind[T]) fromFlags(cmd *cobra.Command, name string, password *passwordFlags) (entity T, err error) {
	patch, err := changes(cmd, k.fields)
	if err != nil {
		return entity, err
	}
	if password.given() || k.kind == api.KindUser {
		if err := k.putPassword(cmd, password, patch); err != nil {
			return entity, err
		}
	}
	for _, needed := range map[api.Kind][]string{api.KindCluster: {"address"}, api.KindTenant: {"cluster"}, api.KindToken: {"role"}}[k.kind] {
		if !cmd.Flags().Changed(needed) {
			return entity, usagef(cmd, "--%s is needed: %s", needed, cmd.Flags().Lookup(needed).Usage)
		}
	}
	if entity, err = k.decode(withoutNulls(patch)); err != nil {
		return entity, err
	}
	k.identify(&entity, name)
	if cluster, isCluster := any(&entity).(*api.Cluster); isCluster && cluster.ClusterKind == "" {
		cluster.ClusterKind = "standalone"
	}
	return entity, nil
}
