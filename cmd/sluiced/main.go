// Command sluiced is the Sluice daemon: a multi-tenant RESP proxy in front of Redis, Valkey and Dragonfly.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/sluiceproxy/sluice/internal/config"
	"github.com/sluiceproxy/sluice/internal/daemon"
)

// version is set by the build: -ldflags "-X main.version=…".
var version = "" //nolint:gochecknoglobals // set by the linker

func main() {
	if err := root().Execute(); err != nil {
		fmt.Fprintln(os.Stderr, "sluiced: "+err.Error())
		os.Exit(1)
	}
}

func root() *cobra.Command {
	cmd := &cobra.Command{
		Use:           "sluiced",
		Short:         "Sluice, a multi-tenant RESP proxy for Redis, Valkey and Dragonfly",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	cmd.AddCommand(serveCommand(), checkCommand(), versionCommand())
	return cmd
}

func serveCommand() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the proxy",
		Long: "Run the proxy until SIGTERM or SIGINT, which drain it.\n\n" +
			"Without a configuration it serves an embedded backend (in memory only) on 127.0.0.1:6380.\n" +
			"SIGHUP, or a change of the file, reloads clusters and tenants. SIGHUP also opens the audit log again, for rotation.\n" +
			"Every key of the file can also be given as an environment variable: clients.max is SLUICE_CLIENTS_MAX.",
		Example: "  sluiced serve\n" +
			"  sluiced serve --config /etc/sluice/sluice.yaml\n" +
			"  sluiced serve --listen 127.0.0.1:6380 --backend 127.0.0.1:6379\n" +
			"  sluiced serve --backend 10.0.0.1:6379,10.0.0.2:6379 --backend-kind cluster --admin off",
		Args: cobra.NoArgs,
	}
	cmd.Flags().StringVar(&file, "config", "", "configuration file (YAML, TOML or JSON)")
	config.AddFlags(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
		defer stop()
		path := file
		if path == "" {
			path = os.Getenv("SLUICE_CONFIG")
		}
		return daemon.Run(ctx, daemon.Options{
			Load:      func() (*config.Config, error) { return config.Load(file, cmd.Flags()) },
			WatchFile: path,
			Version:   versionText(),
			Reload:    hangups(ctx),
			Out:       cmd.OutOrStdout(),
		})
	}
	return cmd
}

// hangups turns SIGHUP into reloads until ctx ends.
func hangups(ctx context.Context) <-chan struct{} {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGHUP)
	reloads := make(chan struct{})
	go func() { // ends with ctx
		defer signal.Stop(signals)
		for {
			select {
			case <-ctx.Done():
				return
			case <-signals:
				select {
				case reloads <- struct{}{}:
				case <-ctx.Done():
					return
				}
			}
		}
	}()
	return reloads
}

func checkCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "check-config FILE",
		Short:   "Check a configuration file and say everything that is wrong with it",
		Example: "  sluiced check-config /etc/sluice/sluice.yaml",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := config.Load(args[0], nil)
			if err != nil {
				return err
			}
			if err := daemon.Check(cfg); err != nil {
				return err
			}
			for _, warning := range cfg.Warnings {
				fmt.Fprintln(cmd.ErrOrStderr(), "warning: "+warning)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s is valid: %d listener(s), %d cluster(s), %d tenant(s)\n",
				args[0], len(cfg.Listeners), len(cfg.Clusters), len(cfg.Tenants))
			return nil
		},
	}
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		Run: func(cmd *cobra.Command, _ []string) {
			fmt.Fprintf(cmd.OutOrStdout(), "sluiced %s %s %s/%s\n", versionText(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
		},
	}
}

func versionText() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" {
			return "devel-" + setting.Value[:min(12, len(setting.Value))]
		}
	}
	return "devel"
}
