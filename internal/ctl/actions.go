package ctl

import (
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluiceproxy/sluice/pkg/api"
)

func (c *cli) drain() *cobra.Command {
	var yes bool
	cmd := c.plainCommand("drain", "Make the proxy not ready and let its clients go",
		"Make the proxy not ready, so that no new clients are sent to it, and let clients go as their commands end. undrain ends it.",
		"  proxyctl drain\n  proxyctl drain --yes && proxyctl status --watch", arguments(0, 0),
		func(ctx context.Context, client *api.Client, _ []string) error {
			if err := c.confirm(yes, "Drain "+client.Server()+"? Its clients will be disconnected."); err != nil {
				return err
			}
			if err := client.Drain(ctx); err != nil {
				return err
			}
			c.done("%s is draining", client.Server())
			return nil
		})
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return cmd
}

func (c *cli) undrain() *cobra.Command {
	return c.plainCommand("undrain", "Take clients again after a drain", "Take clients again after a drain.", "  proxyctl undrain", arguments(0, 0),
		func(ctx context.Context, client *api.Client, _ []string) error {
			err := client.Undrain(ctx)
			if err == nil {
				c.done("%s takes clients", client.Server())
			}
			return err
		})
}

func (c *cli) reload() *cobra.Command {
	return c.plainCommand("reload", "Make the proxy read its configuration file again",
		"Make the proxy read its configuration file again. A wrong file changes nothing and is told.", "  proxyctl reload", arguments(0, 0),
		func(ctx context.Context, client *api.Client, _ []string) error {
			err := client.Reload(ctx)
			if err == nil {
				c.done("%s has read its configuration", client.Server())
			}
			return err
		})
}

func (c *cli) pause() *cobra.Command {
	var mode string
	var length time.Duration
	cmd := c.plainCommand("pause TENANT", "Hold or refuse a tenant's commands",
		"Hold a tenant's commands, up to the proxy's bounds, or refuse them with an error, until resume or for a time.",
		"  proxyctl pause acme --for 30s\n  proxyctl pause acme --mode refuse", arguments(1, 1),
		func(ctx context.Context, client *api.Client, args []string) error {
			if err := client.Pause(ctx, args[0], api.PauseOptions{Mode: mode, For: api.Duration(length)}); err != nil {
				return c.tenantKind().explained(err, args[0])
			}
			until := "until proxyctl resume " + args[0]
			if length > 0 {
				until = "for " + length.String()
			}
			c.done("tenant %s is paused (%s) %s", args[0], mode, until)
			return nil
		})
	cmd.Flags().StringVar(&mode, "mode", "hold", "hold (commands wait) or refuse (commands get an error)")
	cmd.Flags().DurationVar(&length, "for", 0, "how long; 0: until resume")
	_ = cmd.RegisterFlagCompletionFunc("mode", cobra.FixedCompletions([]string{"hold", "refuse"}, cobra.ShellCompDirectiveNoFileComp)) // the flag is there
	cmd.ValidArgsFunction = c.completeTenants
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !slices.Contains([]string{"hold", "refuse"}, mode) {
			return usagef(cmd, "--mode %q: must be hold or refuse", mode)
		}
		return run(cmd, args)
	}
	return cmd
}

func (c *cli) resume() *cobra.Command {
	cmd := c.plainCommand("resume TENANT", "End a tenant's pause", "End a tenant's pause: commands that were held run now.", "  proxyctl resume acme", arguments(1, 1),
		func(ctx context.Context, client *api.Client, args []string) error {
			if err := client.Resume(ctx, args[0]); err != nil {
				return c.tenantKind().explained(err, args[0])
			}
			c.done("tenant %s is served again", args[0])
			return nil
		})
	cmd.ValidArgsFunction = c.completeTenants
	return cmd
}
