package ctl

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluiceproxy/sluice/pkg/api"
)

// writeFlags go with every change.
type writeFlags struct {
	reason  string
	dryRun  bool
	version int
	yes     bool
}

func (w *writeFlags) add(cmd *cobra.Command, asks bool) {
	f := cmd.Flags()
	f.StringVar(&w.reason, "reason", "", "why, for the history")
	f.BoolVar(&w.dryRun, "dry-run", false, "only show what would change, and which sessions it would touch")
	if cmd.Name() != "create" {
		f.IntVar(&w.version, "if-version", 0, "only if it still has this version")
	}
	if asks {
		f.BoolVarP(&w.yes, "yes", "y", false, "do not ask")
	}
}

func (w *writeFlags) options() api.WriteOptions {
	return api.WriteOptions{Version: w.version, Reason: w.reason}
}

// change is a write of one entity, as itself and as a plan.
type change[T any] struct {
	done string // such as created
	do   func(context.Context, api.WriteOptions) (T, error)
	plan func(context.Context, api.WriteOptions) (api.Plan, error)
}

// run makes a change, or with --dry-run shows it.
func (k *kind[T]) run(cmd *cobra.Command, w *writeFlags, name string, ch change[T]) error {
	if w.dryRun {
		plan, err := ch.plan(cmd.Context(), w.options())
		if err != nil {
			return k.explained(err, name)
		}
		return k.c.showPlan(k.label(name), plan)
	}
	progress := k.c.working("waiting for the proxy", 0)
	entity, err := ch.do(cmd.Context(), w.options())
	progress.done()
	if err != nil {
		return k.explained(err, name)
	}
	return k.written(name, ch.done, entity)
}

// written tells that an entity is another now.
func (k *kind[T]) written(name, done string, entity T) error {
	switch k.c.flags.output {
	case "json", "yaml":
		return k.c.encode(entity)
	case "name":
		fmt.Fprintln(k.c.env.Out, printable(name))
		return nil
	}
	text := k.label(name) + " " + done
	if m := k.meta(&entity); m != nil {
		text += fmt.Sprintf(" (version %d)", m.Version)
	}
	fmt.Fprintln(k.c.env.Out, text)
	if token, isToken := any(entity).(api.Token); isToken && token.Secret != "" {
		fmt.Fprintf(k.c.env.Out, "\n  %s\n\nThis is shown once: keep it now.\n", printable(token.Secret))
	}
	return nil
}

// showPlan prints what a change would do.
func (c *cli) showPlan(label string, plan api.Plan) error {
	if c.flags.output == "json" || c.flags.output == "yaml" {
		return c.encode(plan)
	}
	st := c.outStyle()
	if plan.Action == "none" {
		fmt.Fprintf(c.env.Out, "%s would stay as it is\n", label)
		return nil
	}
	fmt.Fprintf(c.env.Out, "%s of %s would change:\n", plan.Action, label)
	for _, e := range plan.Diff {
		if e.Old != nil {
			fmt.Fprintln(c.env.Out, st.red(fmt.Sprintf("  - %s: %s", printable(e.Field), valueText(e.Old))))
		}
		if e.New != nil {
			fmt.Fprintln(c.env.Out, st.green(fmt.Sprintf("  + %s: %s", printable(e.Field), valueText(e.New))))
		}
	}
	fmt.Fprintf(c.env.Out, "sessions that it would touch: %d\n", plan.Sessions)
	for _, effect := range plan.Effects {
		fmt.Fprintln(c.env.Out, "  "+printable(effect))
	}
	return nil
}

func (k *kind[T]) update() *cobra.Command {
	var w writeFlags
	var password passwordFlags
	cmd := &cobra.Command{
		Use: "update " + k.names, Short: "Change fields of a " + k.one,
		Long:    "Change the fields that flags name; the others stay.",
		Example: fmt.Sprintf("  proxyctl %s update %s %s\n  proxyctl %s update %s --dry-run %s", k.many, k.sample(), k.sampleFlag(), k.many, k.sample(), k.sampleFlag()),
		Args:    k.arguments(), ValidArgsFunction: k.complete,
	}
	addFields(cmd, k.fields)
	if k.hasPassword() {
		password.add(cmd)
	}
	w.add(cmd, false)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		name, err := k.nameOf(cmd, args)
		if err != nil {
			return err
		}
		patch, err := changes(cmd, k.fields)
		if err != nil {
			return err
		}
		if password.given() || k.kind == api.KindUser {
			if err := k.putPassword(cmd, &password, patch); err != nil {
				return err
			}
		}
		if len(patch) == 0 {
			return usagef(cmd, "nothing is to be changed: give a flag such as %s, or edit it: proxyctl %s edit %s", k.sampleFlag(), k.many, strings.Join(args, " "))
		}
		r, id, err := k.resource(name)
		if err != nil {
			return err
		}
		return k.run(cmd, &w, name, change[T]{
			done: "updated",
			do:   func(ctx context.Context, o api.WriteOptions) (T, error) { return r.Patch(ctx, id, patch, o) },
			plan: func(ctx context.Context, o api.WriteOptions) (api.Plan, error) {
				return r.Plan().Patch(ctx, id, patch, o)
			},
		})
	}
	return cmd
}

func (k *kind[T]) hasPassword() bool { return k.kind == api.KindUser || k.kind == api.KindCluster }

func (k *kind[T]) putPassword(cmd *cobra.Command, p *passwordFlags, patch map[string]any) error {
	secret, err := p.read(k.c, cmd)
	if err != nil {
		return err
	}
	path := "password"
	if k.kind == api.KindCluster {
		path = "auth.password"
	}
	put(patch, path, secret)
	return nil
}

func (k *kind[T]) sampleFlag() string {
	return map[api.Kind]string{
		api.KindCluster: "--address 127.0.0.1:7001", api.KindTenant: "--cluster c2",
		api.KindUser: "--password-file secret.txt", api.KindToken: "--role viewer",
	}[k.kind]
}

func (k *kind[T]) delete() *cobra.Command {
	var w writeFlags
	cmd := &cobra.Command{
		Use: "delete " + k.names, Short: "Delete a " + k.one, Aliases: []string{"rm"},
		Long:    "Delete a " + k.one + ". Its history stays, so that rollback can bring it back. What is in use is not deleted.",
		Example: fmt.Sprintf("  proxyctl %s delete %s\n  proxyctl %s delete %s --yes --reason 'moved away'", k.many, k.sample(), k.many, k.sample()),
		Args:    k.arguments(), ValidArgsFunction: k.complete,
	}
	w.add(cmd, true)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		name, err := k.nameOf(cmd, args)
		if err != nil {
			return err
		}
		r, id, err := k.resource(name)
		if err != nil {
			return err
		}
		plan, err := r.Plan().Delete(cmd.Context(), id, w.options())
		switch {
		case err != nil:
			return k.explained(err, name)
		case w.dryRun:
			return k.c.showPlan(k.label(name), plan)
		}
		if err := k.c.confirm(w.yes, fmt.Sprintf("Delete %s, which touches %s?", k.label(name), count(plan.Sessions, "session"))); err != nil {
			return err
		}
		if err := r.Delete(cmd.Context(), id, w.options()); err != nil {
			return k.explained(err, name)
		}
		if k.c.flags.output == "name" {
			fmt.Fprintln(k.c.env.Out, printable(name))
		} else if isText(k.c.flags.output) {
			fmt.Fprintln(k.c.env.Out, k.label(name)+" deleted")
		}
		return nil
	}
	return cmd
}

func (k *kind[T]) rollback() *cobra.Command {
	var w writeFlags
	var to int
	cmd := &cobra.Command{
		Use: "rollback " + k.names, Short: "Make an earlier version of a " + k.one + " the newest",
		Long:    "Make an earlier version the newest one; without --to the one before the present. A deleted " + k.one + " comes back.",
		Example: fmt.Sprintf("  proxyctl %s rollback %s\n  proxyctl %s history %s\n  proxyctl %s rollback %s --to 3 --dry-run", k.many, k.sample(), k.many, k.sample(), k.many, k.sample()),
		Args:    k.arguments(), ValidArgsFunction: k.complete,
	}
	cmd.Flags().IntVar(&to, "to", 0, "version to go back to; 0: the one before the present")
	w.add(cmd, false)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		name, err := k.nameOf(cmd, args)
		if err != nil {
			return err
		}
		r, id, err := k.resource(name)
		if err != nil {
			return err
		}
		return k.run(cmd, &w, name, change[T]{
			done: "rolled back",
			do:   func(ctx context.Context, o api.WriteOptions) (T, error) { return r.Rollback(ctx, id, to, o) },
			plan: func(ctx context.Context, o api.WriteOptions) (api.Plan, error) {
				return r.Plan().Rollback(ctx, id, to, o)
			},
		})
	}
	return cmd
}

func (k *kind[T]) history() *cobra.Command {
	cmd := &cobra.Command{
		Use: "history " + k.names, Short: "List the versions of a " + k.one,
		Long:    "List the versions that are kept, the newest first: when, who, from where, what and why.",
		Example: fmt.Sprintf("  proxyctl %s history %s\n  proxyctl %s history %s -o json", k.many, k.sample(), k.many, k.sample()),
		Args:    k.arguments(), ValidArgsFunction: k.complete,
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		name, err := k.nameOf(cmd, args)
		if err != nil {
			return err
		}
		r, id, err := k.resource(name)
		if err != nil {
			return err
		}
		versions, err := r.History(cmd.Context(), id)
		if err != nil {
			return k.explained(err, name)
		}
		return show(k.c, versions, func(ch *api.Change) string { return fmt.Sprint(ch.Version) }, historyColumns())
	}
	return cmd
}

func historyColumns() []column[api.Change] {
	return []column[api.Change]{
		{title: "VERSION", cell: func(ch *api.Change, _ style) string { return fmt.Sprint(ch.Version) }},
		{title: "AT", cell: func(ch *api.Change, _ style) string { return ch.At.Local().Format("2006-01-02 15:04:05") }},
		{title: "BY", cell: func(ch *api.Change, _ style) string { return printable(ch.By) }},
		{title: "FROM", wide: true, cell: func(ch *api.Change, _ style) string { return printable(ch.From) }},
		{title: "ACTION", cell: func(ch *api.Change, _ style) string { return printable(ch.Action) }},
		{title: "CHANGES", cell: func(ch *api.Change, _ style) string { return editsText(ch.Diff) }},
		{title: "REASON", cell: func(ch *api.Change, _ style) string { return printable(ch.Reason) }},
	}
}

// editsText is the differences of a version, as long as a line may be.
func editsText(edits []api.Edit) string {
	const most = 60
	var all []string
	for _, e := range edits {
		switch {
		case e.Old == nil:
			all = append(all, fmt.Sprintf("%s=%s", e.Field, valueText(e.New)))
		case e.New == nil:
			all = append(all, "-"+e.Field)
		default:
			all = append(all, fmt.Sprintf("%s: %s→%s", e.Field, valueText(e.Old), valueText(e.New)))
		}
	}
	text := []rune(printable(strings.Join(all, " ")))
	if len(text) > most {
		return string(text[:most-1]) + "…"
	}
	return string(text)
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
