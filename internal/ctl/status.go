package ctl

import (
	"cmp"
	"context"
	"fmt"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/sluiceproxy/sluice/pkg/api"
)

func (c *cli) status() *cobra.Command {
	return c.watched(c.plainCommand("status", "Tell how the proxy is", "Tell how the proxy is: ready or not and why, clients, tenants, and the store.",
		"  proxyctl status\n  proxyctl status -o json\n  proxyctl status --watch", arguments(0, 0),
		func(ctx context.Context, client *api.Client, _ []string) error {
			status, err := client.Status(ctx)
			if err != nil {
				return err
			}
			return c.showStatus(status)
		}))
}

func (c *cli) showStatus(s api.Status) error {
	switch c.flags.output {
	case "json", "yaml":
		return c.encode(s)
	case "name":
		fmt.Fprintln(c.env.Out, printable(s.Version))
		return nil
	}
	st := c.outStyle()
	state := st.green("ready")
	switch {
	case s.Draining:
		state = st.yellow("draining")
	case !s.Ready:
		state = st.red("not ready")
	}
	store := st.green("available")
	if !s.Store.Available {
		store = st.red("away: " + printable(s.Store.Reason))
		if !s.Store.Since.IsZero() {
			store += " (for " + age(s.Store.Since) + ")"
		}
	}
	rows := [][2]string{
		{"version", printable(s.Version)}, {"state", state}, {"up", age(s.StartedAt)},
		{"clients", fmt.Sprintf("%d on %s", s.Clients, count(s.Loops, "loop"))},
		{"tenants", fmt.Sprintf("%d on %s", s.Tenants, count(s.Clusters, "cluster"))},
		{"paused", cmp.Or(join(s.Paused), "none")}, {"listeners", join(s.Listeners)},
		{"store", printable(s.Store.Kind) + ", " + store},
		{"revision", fmt.Sprintf("%d, in force %d", s.Store.Revision, s.Store.Applied)},
	}
	for _, reason := range s.NotReady {
		rows = append(rows, [2]string{"not ready", printable(reason)})
	}
	c.showPairs(rows)
	return nil
}

func (c *cli) showPairs(pairs [][2]string) {
	st := c.outStyle()
	rows := make([]table.Row, len(pairs))
	for i, pair := range pairs {
		rows[i] = table.Row{st.bold(pair[0]), pair[1]}
	}
	fmt.Fprint(c.env.Out, renderTable(rows))
}

func (c *cli) config() *cobra.Command {
	return c.plainCommand("config", "Show the effective configuration of the proxy", "Show the effective configuration of the proxy, without secrets, as YAML or with -o json as JSON.",
		"  proxyctl config\n  proxyctl config -o json | jq .clients", arguments(0, 0),
		func(ctx context.Context, client *api.Client, _ []string) error {
			config, err := client.Config(ctx)
			if err != nil {
				return err
			}
			if c.flags.output != "json" {
				c.flags.output = "yaml"
			}
			return c.encode(config)
		})
}
