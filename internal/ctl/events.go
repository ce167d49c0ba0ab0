package ctl

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluiceproxy/sluice/pkg/api"
)

func (c *cli) events() *cobra.Command {
	var most int
	cmd := c.plainCommand("events", "Follow changes of clusters, tenants, users and tokens",
		"Follow changes of clusters, tenants, users and tokens, made on this proxy or another of the fleet, until Ctrl-C. With -o json\none object a line.",
		"  proxyctl events\n  proxyctl events -o json --count 10", arguments(0, 0),
		func(ctx context.Context, client *api.Client, _ []string) error {
			return c.followEvents(ctx, client, most)
		})
	cmd.Flags().IntVar(&most, "count", 0, "end after so many; 0: at Ctrl-C")
	return cmd
}

func (c *cli) followEvents(ctx context.Context, client *api.Client, most int) error {
	seen := 0
	for event, err := range client.Events(ctx) {
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		case event.Changed == nil:
			continue
		}
		if err := c.showChange(event.Changed); err != nil {
			return err
		}
		if seen++; seen == most {
			return nil
		}
	}
	if ctx.Err() == nil {
		return hinted("again; the server may have been restarted", "the server ended the events")
	}
	return nil
}

func (c *cli) showChange(ch *api.Changed) error {
	if !isText(c.flags.output) {
		return c.encodeLine(ch)
	}
	reason := ""
	if ch.Change.Reason != "" {
		reason = " (" + printable(ch.Change.Reason) + ")"
	}
	_, err := fmt.Fprintf(c.env.Out, "%s  %s %s %s by %s, version %d: %s%s\n", ch.Change.At.Local().Format(time.TimeOnly),
		printable(ch.Change.Action), strings.ToLower(string(ch.Kind)), printable(ch.Name), printable(ch.Change.By), ch.Change.Version, editsText(ch.Change.Diff), reason)
	return err
}

func (c *cli) history() *cobra.Command {
	var kind, name string
	var most int
	cmd := c.plainCommand("history", "List the changes of everything that is registered",
		"List the changes of clusters, tenants, users and tokens that are kept, the newest first.",
		"  proxyctl history --count 20\n  proxyctl history --kind Tenant --name acme -o wide", arguments(0, 0),
		func(ctx context.Context, client *api.Client, _ []string) error {
			var all []api.Changed
			for change, err := range client.Changes(ctx, api.Kind(kind), name) {
				if err != nil {
					return err
				}
				if all = append(all, change); len(all) == most {
					break
				}
			}
			label := func(x *api.Changed) string { return strings.ToLower(string(x.Kind)) + "/" + x.Name }
			columns := []column[api.Changed]{textColumn("ENTITY", false, label)}
			for _, col := range historyColumns() {
				columns = append(columns, column[api.Changed]{col.title, col.wide, func(x *api.Changed, st style) string { return col.cell(&x.Change, st) }})
			}
			return show(c, all, label, columns)
		})
	cmd.Flags().StringVar(&kind, "kind", "", "only those of Cluster, Tenant, User or Token")
	cmd.Flags().StringVar(&name, "name", "", "only those of this name; of users TENANT/NAME")
	cmd.Flags().IntVar(&most, "count", 100, "at most so many; 0: all that are kept")
	_ = cmd.RegisterFlagCompletionFunc("kind", cobra.FixedCompletions([]string{"Cluster", "Tenant", "User", "Token"}, cobra.ShellCompDirectiveNoFileComp)) // the flag is there
	return cmd
}
