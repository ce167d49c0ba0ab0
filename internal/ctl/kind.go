package ctl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluiceproxy/sluice/pkg/api"
)

// kind is what differs between clusters, tenants, users and tokens.
type kind[T any] struct {
	c         *cli
	kind      api.Kind
	one, many string
	// names is how the arguments that name one are written in the usage line.
	names   string
	columns []column[T]
	name    func(*T) string // of users "tenant/user"
	meta    func(*T) *api.Meta
	// at is where one of that name is, and what it is called there.
	at func(client *api.Client, name string) (*api.Resource[T], string)
	// all goes through all of them, of the tenant that scope names or of all.
	all func(ctx context.Context, client *api.Client, scope string) iter.Seq2[T, error]
	// identify writes a name into an entity.
	identify func(entity *T, name string)
	// secret tells what an entity has that is never shown; empty: nothing.
	secret func(*T) string
	fields []field
}

// nameOf is the name that the arguments tell.
func (k *kind[T]) nameOf(cmd *cobra.Command, args []string) (string, error) {
	if k.kind != api.KindUser {
		return args[0], nil
	}
	if len(args) == 2 {
		return args[0] + "/" + args[1], nil
	}
	if tenant, user, found := strings.Cut(args[0], "/"); found && tenant != "" && user != "" {
		return args[0], nil
	}
	return "", usagef(cmd, "the name of the user is missing: %s", cmd.UseLine())
}

// least and most arguments that name one.
func (k *kind[T]) arguments() cobra.PositionalArgs {
	if k.kind == api.KindUser {
		return arguments(1, 2) // TENANT NAME or TENANT/NAME
	}
	return arguments(1, 1)
}

func (k *kind[T]) resource(name string) (*api.Resource[T], string, error) {
	client, err := k.c.connect()
	if err != nil {
		return nil, "", err
	}
	r, name := k.at(client, name)
	return r, name, nil
}

// label names an entity in messages, such as tenant acme.
func (k *kind[T]) label(name string) string { return k.one + " " + printable(name) }

// explained is an error of the server with what it was about.
func (k *kind[T]) explained(err error, name string) error {
	var problem *api.Problem
	if !errors.As(err, &problem) || problem.Status != http.StatusNotFound {
		return err
	}
	if tenant, _, isUser := strings.Cut(name, "/"); isUser && strings.HasPrefix(problem.Detail, "Tenant ") {
		return k.c.tenantKind().explained(err, tenant)
	}
	hint := "proxyctl " + k.many + " list"
	if k.kind == api.KindUser {
		tenant, _, _ := strings.Cut(name, "/")
		hint += " " + printable(tenant)
	}
	return hinted(hint, "there is no %s: %w", k.label(name), err)
}

func (k *kind[T]) list() *cobra.Command {
	var filter string
	cmd := &cobra.Command{
		Use: "list", Short: "List " + k.many, Long: "List " + k.many + ", in the order of their names.", Aliases: []string{"ls"},
		Example: fmt.Sprintf("  proxyctl %s list\n  proxyctl %s list -o wide\n  proxyctl %s list --watch", k.many, k.many, k.many),
		Args:    arguments(0, 0),
	}
	if k.kind == api.KindUser {
		cmd.Use, cmd.Args = "list [TENANT]", arguments(0, 1)
		cmd.Example += "\n  proxyctl users list acme -o name"
		cmd.ValidArgsFunction = k.c.completeTenants
	}
	cmd.Flags().StringVar(&filter, "filter", "", "only those whose name contains this text")
	k.c.watchFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return k.c.repeat(cmd.Context(), cmd, func(ctx context.Context) error {
			client, err := k.c.connect()
			if err != nil {
				return err
			}
			items, err := k.collect(ctx, client, append(args, "")[0], filter)
			if err != nil {
				return err
			}
			return show(k.c, items, k.name, k.columns)
		})
	}
	return cmd
}

func (k *kind[T]) collect(ctx context.Context, client *api.Client, scope, filter string) (items []T, err error) {
	w := k.c.working("reading "+k.many, 0)
	defer w.done()
	for item, err := range k.all(ctx, client, scope) {
		if err != nil {
			return nil, err
		}
		if strings.Contains(k.name(&item), filter) {
			items = append(items, item)
		}
	}
	return items, nil
}

func (k *kind[T]) get() *cobra.Command {
	cmd := &cobra.Command{
		Use: "get " + k.names, Short: "Show one " + k.one, Long: "Show one " + k.one + ".",
		Example: fmt.Sprintf("  proxyctl %s get %s\n  proxyctl %s get %s -o yaml", k.many, k.sample(), k.many, k.sample()),
		Args:    k.arguments(), ValidArgsFunction: k.complete,
	}
	k.c.watchFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		name, err := k.nameOf(cmd, args)
		if err != nil {
			return err
		}
		return k.c.repeat(cmd.Context(), cmd, func(ctx context.Context) error {
			r, id, err := k.resource(name)
			if err != nil {
				return err
			}
			entity, err := r.Get(ctx, id)
			if err != nil {
				return k.explained(err, name)
			}
			return showOne(k.c, entity, k.name, k.columns)
		})
	}
	return cmd
}

// sample is a name for examples.
func (k *kind[T]) sample() string {
	return map[api.Kind]string{api.KindCluster: "c1", api.KindTenant: "acme", api.KindUser: "acme app", api.KindToken: "ci"}[k.kind]
}

// decode makes an entity of fields, all of which must be known.
func (k *kind[T]) decode(fields map[string]any) (entity T, err error) {
	b, err := json.Marshal(fields)
	if err != nil {
		return entity, fmt.Errorf("cannot write a %s: %w", k.one, err)
	}
	err = decodeStrictly(b, &entity)
	return entity, err
}

func (k *kind[T]) complete(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if k.kind == api.KindUser && len(args) == 0 {
		return k.c.completeTenants(cmd, args, "")
	}
	if len(args) > 0 && k.kind != api.KindUser || len(args) > 1 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return completeNames(cmd, k, append(args, "")[0])
}
