// Package ctl is the program proxyctl: its commands, what they print and the files they read. It talks to a proxy through
// pkg/api alone, and to its surroundings through an Environment, so that tests can be all of them.
package ctl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluiceproxy/sluice/pkg/api"
)

// Environment is what a run sees of the machine.
type Environment struct {
	In       io.Reader
	Out, Err io.Writer
	Getenv   func(string) string
	// InTerminal, OutTerminal and ErrTerminal tell where a person is: only there are questions asked, colours used and
	// progress shown.
	InTerminal, OutTerminal, ErrTerminal bool
	// ReadPassword reads a line from the terminal without showing it. It is used when InTerminal.
	ReadPassword func() ([]byte, error)
	Version      string
}

// The exit codes. Those of diff differ: 0 no difference, 1 some, 2 and above an error.
const (
	ExitOK       = 0
	ExitError    = 1
	ExitUsage    = 2
	ExitNotFound = 3
	ExitConflict = 4
	ExitRefused  = 5
	// ExitInterrupted is what shells give to a program that Ctrl-C ended.
	ExitInterrupted = 130
)

// usageError says that the command line is wrong.
type usageError struct {
	cmd *cobra.Command
	err error
}

func (e *usageError) Error() string { return e.err.Error() }

func usagef(cmd *cobra.Command, format string, args ...any) error {
	return &usageError{cmd, fmt.Errorf(format, args...)}
}

// exitError ends the run with a code; its text, if any, has the hint in it already.
type exitError struct {
	code int
	text string
}

func (e *exitError) Error() string { return e.text }

// hintedError carries what to try.
type hintedError struct {
	err  error
	hint string
}

func (e *hintedError) Error() string { return e.err.Error() }
func (e *hintedError) Unwrap() error { return e.err }

func hinted(hint, format string, args ...any) error {
	return &hintedError{fmt.Errorf(format, args...), hint}
}

// Run executes one command line, without the program's name, and returns the exit code.
func Run(ctx context.Context, env *Environment, args []string) int {
	c := newCLI(env)
	root := c.root() //nolint:contextcheck // commands get it from ExecuteContext
	root.SetArgs(args)
	c.interrupted = ctx.Done()
	err := root.ExecuteContext(ctx)
	c.close()
	switch {
	case err == nil:
		return ExitOK
	case ctx.Err() != nil:
		fmt.Fprintln(env.Err, "interrupted")
		return ExitInterrupted
	}
	if text := err.Error(); text != "" {
		style := c.style(env.Err, env.ErrTerminal)
		fmt.Fprintln(env.Err, style.red("error:"), printableLines(text))
		if hint := c.hint(err); hint != "" {
			fmt.Fprintln(env.Err, style.bold("try:  "), strings.ReplaceAll(hint, "\n", "\n       "))
		}
	}
	return exitCode(err)
}

func exitCode(err error) int {
	var exit *exitError
	if errors.As(err, &exit) {
		return exit.code
	}
	var usage *usageError
	if errors.As(err, &usage) {
		return ExitUsage
	}
	if differ := (*differError)(nil); errors.As(err, &differ) {
		return ExitUsage
	}
	var problem *api.Problem
	if !errors.As(err, &problem) {
		return ExitError
	}
	switch problem.Status {
	case http.StatusNotFound:
		return ExitNotFound
	case http.StatusConflict, http.StatusPreconditionFailed:
		return ExitConflict
	case http.StatusUnauthorized, http.StatusForbidden:
		return ExitRefused
	}
	return ExitError
}

// hint says what to try after an error.
func (c *cli) hint(err error) string {
	var with *hintedError
	if errors.As(err, &with) {
		return with.hint
	}
	var usage *usageError
	if errors.As(err, &usage) {
		return usage.cmd.CommandPath() + " --help"
	}
	var unreachable *api.UnreachableError
	if errors.As(err, &unreachable) {
		return unreachableHint(unreachable)
	}
	var problem *api.Problem
	if errors.As(err, &problem) {
		return c.problemHint(problem)
	}
	return ""
}

func unreachableHint(e *api.UnreachableError) string {
	text := e.Err.Error()
	switch {
	case errors.Is(e, context.Canceled):
		return ""
	case errors.Is(e, context.DeadlineExceeded):
		return "again, or with a longer --timeout"
	case strings.Contains(text, "HTTP response to HTTPS client"):
		return "the server does not speak TLS: name it with http:// in --server"
	case strings.Contains(text, "malformed HTTP"):
		return "that is not an admin port; the one for Redis clients is another, and sluiced tells both when it starts"
	case strings.Contains(text, "remote error: tls:"): // it refuses ours
		return "the server wants a certificate of an authority that it knows: --cert-file FILE --key-file FILE"
	case strings.Contains(text, "is valid for"), strings.Contains(text, "cannot validate certificate for"), strings.Contains(text, "doesn't contain any IP SANs"):
		return "name the host as the server's certificate does in --server, or tell that name with --server-name"
	case strings.Contains(text, "certificate"):
		return "name the certificate authority of the server with --ca-file FILE"
	}
	return "is sluiced running, and its admin port there? curl " + e.Server + "/healthz\n" +
		"another server is named by --server URL, SLUICE_SERVER or a context (proxyctl contexts list)"
}

func (c *cli) problemHint(p *api.Problem) string {
	switch p.Status {
	case http.StatusUnauthorized:
		if c.token == "" {
			return "give a token: proxyctl login, --token-file FILE or SLUICE_TOKEN\nthe token of a daemon's first start is in its data directory, in the file admin-token; without one it was printed at the start"
		}
		return "give a token that the server knows and that has not expired: proxyctl login, --token-file FILE or SLUICE_TOKEN"
	case http.StatusForbidden:
		return "a token with another role or without a bond to tenants; who may do what: proxyctl tokens list"
	case http.StatusNotFound:
		return "proxyctl clusters list, proxyctl tenants list, proxyctl users list"
	case http.StatusConflict:
		return conflictHint(p)
	case http.StatusPreconditionFailed:
		return "read it again and repeat the change on what it is now"
	case http.StatusTooManyRequests:
		return "wait a moment: too many requests with a wrong token"
	case http.StatusServiceUnavailable:
		return "proxyctl status tells how the store is; nothing can be changed while it is away"
	}
	return ""
}

func conflictHint(p *api.Problem) string {
	if strings.Contains(p.Detail, "exists already") {
		return "the same with update instead of create, or proxyctl apply, which does either"
	}
	return ""
}
