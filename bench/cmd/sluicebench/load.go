package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluiceproxy/sluice/bench/load"
)

// loadCommand is the load generator by itself.
func loadCommand() *cobra.Command {
	w := load.Workload{}
	var addr, operation string
	var goroutines bool
	command := &cobra.Command{
		Use:   "load",
		Short: "Load one server for a bounded time and tell what it answered",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			w.Operation = load.Operation(strings.ToUpper(operation))
			generator := load.Generator{Goroutines: goroutines}
			result, err := generator.Run(command.Context(), addr, w, load.Hooks{})
			if err != nil {
				return err
			}
			out := command.OutOrStdout()
			fmt.Fprintf(out, "%d commands in %s: %.0f ops/s\n", result.Commands, result.Elapsed, result.OpsPerSecond)
			fmt.Fprintf(out, "latency mean %s, p50 %s, p99 %s, p99.9 %s, max %s\n", short(result.Mean), short(result.P50),
				short(result.P99), short(result.P999), short(result.Max))
			fmt.Fprintf(out, "keys missing %d, errors %d\n", result.Misses, result.Errors)
			if result.Errors > 0 {
				return errors.New(result.FirstError)
			}
			return nil
		},
	}
	flags := command.Flags()
	flags.StringVar(&addr, "addr", "127.0.0.1:6380", "IP address and port of the server")
	flags.StringVar(&operation, "op", "get", "get or set")
	flags.IntVar(&w.ValueSize, "value-size", 32, "bytes of a value")
	flags.IntVar(&w.KeySpace, "keys", 10_000, "distinct keys")
	flags.IntVar(&w.Threads, "threads", 4, "threads")
	flags.IntVar(&w.Clients, "clients", 50, "connections per thread")
	flags.IntVar(&w.Pipeline, "pipeline", 1, "commands in flight per connection")
	flags.DurationVar(&w.Warmup, "warmup", 200*time.Millisecond, "time before the measured window")
	flags.DurationVar(&w.Duration, "duration", 5*time.Second, "length of the measured window")
	flags.Float64Var(&w.Rate, "rate", 0, "commands per second of an open loop; 0: closed loop")
	flags.BoolVar(&goroutines, "goroutines", false, "a goroutine per connection also where event loops are possible")
	return command
}

func short(d time.Duration) time.Duration { return d.Round(time.Microsecond) }
