package ctl

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluiceproxy/sluice/pkg/api"
)

func (c *cli) explain() *cobra.Command {
	cmd := c.plainCommand("explain TENANT COMMAND [ARGUMENT...]", "Tell how a command of a tenant would be handled",
		"Tell how a command of a tenant would be handled: class, keys, slots, nodes, split or pinned, and what would refuse it. The\ncommand is not run. Flags of proxyctl come before the tenant.",
		"  proxyctl explain acme MGET a b\n  proxyctl -o json explain acme BLPOP queue 0", arguments(2, -1),
		func(ctx context.Context, client *api.Client, args []string) error {
			if strings.HasPrefix(args[1], "-") {
				return hinted("proxyctl -o json explain "+args[0]+" GET key", "%q is in the place of the command: flags of proxyctl come before the tenant", args[1])
			}
			e, err := client.Explain(ctx, args[0], args[1:])
			if err != nil {
				return c.tenantKind().explained(err, args[0])
			}
			return c.showExplanation(e)
		})
	cmd.Flags().SetInterspersed(false) // what follows is the command's own
	cmd.ValidArgsFunction = c.completeTenants
	return cmd
}

func (c *cli) showExplanation(e api.Explanation) error {
	if !isText(c.flags.output) {
		if c.flags.output == "name" {
			fmt.Fprintln(c.env.Out, printable(e.Served))
			return nil
		}
		return c.encode(e)
	}
	st := c.outStyle()
	answer := st.green("served")
	if e.Refused != "" {
		answer = st.red(printable(e.Refused))
	}
	c.showPairs([][2]string{
		{"tenant", printable(e.Tenant)}, {"command", printable(e.Command)}, {"class", cmp.Or(printable(e.Class), "-")}, {"served", printable(e.Served)},
		{"keys", cmp.Or(join(e.Keys), "-")}, {"slots", cmp.Or(join(e.Slots), "-")}, {"nodes", cmp.Or(join(e.Nodes), "-")},
		{"flags", cmp.Or(join(e.Flags), "-")}, {"answer", answer},
	})
	for _, note := range e.Notes {
		fmt.Fprintln(c.env.Out, "  "+printable(note))
	}
	return nil
}
