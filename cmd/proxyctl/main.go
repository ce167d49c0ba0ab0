// Command proxyctl operates Sluice: it registers clusters, tenants and users, and shows what the proxy thinks.
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"golang.org/x/term"

	"github.com/sluiceproxy/sluice/internal/ctl"
)

// version is set by the build: -ldflags "-X main.version=…".
var version = "" //nolint:gochecknoglobals // set by the linker

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the program at once
	terminal, _ := term.GetState(int(os.Stdin.Fd()))
	code := ctl.Run(ctx, &ctl.Environment{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Getenv: os.Getenv,
		InTerminal: isTerminal(os.Stdin), OutTerminal: isTerminal(os.Stdout), ErrTerminal: isTerminal(os.Stderr),
		ReadPassword: func() ([]byte, error) { return term.ReadPassword(int(os.Stdin.Fd())) },
		Version:      versionText(),
	}, os.Args[1:])
	if ctx.Err() != nil && terminal != nil {
		_ = term.Restore(int(os.Stdin.Fd()), terminal) // a password was being typed: what is typed next is shown again
	}
	stop()
	os.Exit(code)
}

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

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
