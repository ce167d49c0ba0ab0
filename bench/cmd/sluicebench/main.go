// Sluicebench measures sluiced between a load and real Redis servers, and compares it with going direct, with a floor
// and with other proxies.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() { os.Exit(run()) }

func run() int {
	// An interrupt ends the run in order: every process that was started is ended, every control group removed.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root := runCommand()
	root.AddCommand(loadCommand())
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "sluicebench:", err)
		return 1
	}
	return 0
}
