package ctl

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sluiceproxy/sluice/pkg/api"
)

// plainCommand is a command that needs the client and its arguments.
func (c *cli) plainCommand(use, short, long, example string, args cobra.PositionalArgs, run func(context.Context, *api.Client, []string) error) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Long: long, Example: example, Args: args,
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := c.connect()
			if err != nil {
				return err
			}
			return run(cmd.Context(), client, args)
		},
	}
}

// watched is a plain command that can be repeated.
func (c *cli) watched(cmd *cobra.Command) *cobra.Command {
	c.watchFlags(cmd)
	once := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		defer cmd.SetContext(ctx)
		return c.repeat(ctx, cmd, func(ctx context.Context) error {
			cmd.SetContext(ctx)
			return once(cmd, args)
		})
	}
	return cmd
}

// done prints what an action did.
func (c *cli) done(format string, args ...any) {
	if isText(c.flags.output) {
		fmt.Fprintf(c.env.Out, format+"\n", args...)
	}
}
