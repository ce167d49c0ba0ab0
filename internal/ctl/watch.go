package ctl

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
)

// watchFlags lets a command that shows something show it again and again.
func (c *cli) watchFlags(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&c.flags.watch, "watch", "w", false, "show it again and again, until Ctrl-C")
	cmd.Flags().DurationVar(&c.flags.interval, "interval", 2*time.Second, "time between two looks, with --watch")
	cmd.Flags().IntVar(&c.flags.count, "count", 0, "how many looks, with --watch; 0: until Ctrl-C")
}

// repeat does once what look does, or with --watch until it is told to end. An error ends it only at the first look:
// later ones are shown, as a proxy that is watched may be restarted.
func (c *cli) repeat(ctx context.Context, cmd *cobra.Command, look func(context.Context) error) error {
	if !c.flags.watch {
		return look(ctx)
	}
	if c.flags.interval < 100*time.Millisecond {
		return usagef(cmd, "--interval %s: must be at least 100ms", c.flags.interval)
	}
	for n := 1; ; n++ {
		if c.env.OutTerminal {
			fmt.Fprint(c.env.Out, "\x1b[H\x1b[2J") // the top of an empty screen
		} else if n > 1 && isText(c.flags.output) {
			fmt.Fprintln(c.env.Out)
		}
		err := look(ctx)
		switch {
		case stopped(ctx, err):
			return nil
		case err != nil && n == 1:
			return err
		case err != nil:
			fmt.Fprintln(c.env.Err, "error:", printableLines(err.Error()))
		}
		if c.flags.count > 0 && n >= c.flags.count {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(c.flags.interval):
		}
	}
}

func isText(format string) bool { return format == "table" || format == "wide" }
