package ctl

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluiceproxy/sluice/pkg/api"
)

// cli is one run.
type cli struct {
	env   *Environment
	flags struct {
		server, tokenFile, context string
		caFile, certFile, keyFile  string
		serverName                 string
		timeout                    time.Duration
		output, color              string
		watch                      bool
		interval                   time.Duration
		count                      int
	}
	client *api.Client // once it has been asked for
	token  string      // of client
	// interrupted is closed by Ctrl-C: what waits for a person's answer ends then.
	interrupted <-chan struct{}
}

func newCLI(env *Environment) *cli { return &cli{env: env} }

func (c *cli) close() {
	if c.client != nil {
		c.client.Close()
	}
}

const rootHelp = `proxyctl registers clusters, tenants and users at a running Sluice, changes them while traffic runs, shows what the
proxy thinks, and undoes changes.

It talks to the admin port of one proxy. Which one, and with which token, is told, in this order, by
  --server URL, --token-file FILE
  the environment: SLUICE_SERVER, SLUICE_TOKEN (the token itself)
  a context in $XDG_CONFIG_HOME/sluice/proxyctl.yaml (proxyctl login, proxyctl contexts)
Without any of them the server is ` + api.DefaultServer + `. The token of a context goes to the server of the context only.

Exit codes: 0 done, 1 error, 2 wrong command line, 3 not found, 4 conflict (it exists, is in use or was changed meanwhile),
5 refused (no token, a wrong one or a role that may not), 130 interrupted by Ctrl-C. diff: 0 no difference, 1 some, 2 and
above an error.`

// root is the tree of commands.
func (c *cli) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "proxyctl",
		Short: "Operate Sluice: clusters, tenants, users, sessions",
		Long:  rootHelp,
		Example: `  proxyctl login --token-file /var/lib/sluice/admin-token
  proxyctl clusters create c1 --kind standalone --address 127.0.0.1:7001
  proxyctl tenants create acme --cluster c1
  proxyctl users create acme app --password-stdin <<< secret
  proxyctl status`,
		SilenceUsage:      true,
		SilenceErrors:     true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		Version:           cmp.Or(c.env.Version, "devel"),
		Args:              cobra.ArbitraryArgs,
		RunE:              unknownCommand,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return c.checkFlags(cmd) },
	}
	root.SetIn(c.env.In)
	root.SetOut(c.env.Out)
	root.SetErr(c.env.Err)
	root.SetFlagErrorFunc(flagError)
	root.SetHelpCommand(&cobra.Command{Hidden: true, GroupID: "self"}) // --help says the same
	c.addGlobalFlags(root.PersistentFlags())
	root.AddGroup(&cobra.Group{ID: "state", Title: "What the proxy should be like:"},
		&cobra.Group{ID: "proxy", Title: "The running proxy:"}, &cobra.Group{ID: "self", Title: "proxyctl itself:"})
	group := func(id string, commands ...*cobra.Command) {
		for _, cmd := range commands {
			cmd.GroupID = id
			root.AddCommand(cmd)
		}
	}
	group("state", c.clusters(), c.tenants(), c.users(), c.tokens(), c.apply(), c.diff(), c.export(), c.history())
	group("proxy", c.status(), c.top(), c.sessions(), c.nodes(), c.topology(), c.explain(), c.events(), c.config(),
		c.pause(), c.resume(), c.drain(), c.undrain(), c.reload())
	group("self", c.login(), c.contexts(), c.completion())
	return root
}

func (c *cli) addGlobalFlags(f *pflag.FlagSet) {
	f.StringVar(&c.flags.server, "server", "", "URL of the admin port (SLUICE_SERVER; default "+api.DefaultServer+")")
	f.StringVar(&c.flags.tokenFile, "token-file", "", "file with the token (or the token itself in SLUICE_TOKEN)")
	f.StringVar(&c.flags.context, "context", "", "context to use instead of the current one (SLUICE_CONTEXT)")
	f.StringVar(&c.flags.caFile, "ca-file", "", "certificate authorities of the server, in PEM form; default: the system's")
	f.StringVar(&c.flags.certFile, "cert-file", "", "certificate to show to the server, in PEM form")
	f.StringVar(&c.flags.keyFile, "key-file", "", "key of --cert-file")
	f.StringVar(&c.flags.serverName, "server-name", "", "name in the server's certificate, where it is not the host of the URL")
	f.DurationVar(&c.flags.timeout, "timeout", 30*time.Second, "how long an answer may take")
	f.StringVarP(&c.flags.output, "output", "o", "table", "table, wide, json, yaml or name")
	f.StringVar(&c.flags.color, "color", "auto", "auto (on a terminal, unless NO_COLOR is set), always or never")
}

func (c *cli) checkFlags(cmd *cobra.Command) error {
	if !slices.Contains(formats, c.flags.output) {
		return usagef(cmd, "--output %q: must be one of %s", c.flags.output, strings.Join(formats, ", "))
	}
	if !slices.Contains([]string{"auto", "always", "never"}, c.flags.color) {
		return usagef(cmd, "--color %q: must be auto, always or never", c.flags.color)
	}
	if (c.flags.certFile == "") != (c.flags.keyFile == "") {
		return usagef(cmd, "--cert-file and --key-file belong together")
	}
	return nil
}

// unknownCommand is what a command with sub-commands does by itself.
func unknownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	text := fmt.Sprintf("there is no command %q", cmd.CommandPath()+" "+args[0])
	cmd.SuggestionsMinimumDistance = 2
	if similar := cmd.SuggestionsFor(args[0]); len(similar) > 0 {
		text += "; is it " + strings.Join(similar, " or ") + "?"
	}
	return usagef(cmd, "%s", text)
}

// parent makes a command that has only sub-commands.
func parent(use, short, example string, children ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Long: short + ".", Example: example, Args: cobra.ArbitraryArgs, RunE: unknownCommand}
	cmd.AddCommand(children...)
	return cmd
}

// arguments demands between least and most arguments, which are named in the command's usage line.
func arguments(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < least:
			return usagef(cmd, "something is missing: %s", cmd.UseLine())
		case most >= 0 && len(args) > most:
			return usagef(cmd, "%q is too much: %s", args[most], cmd.UseLine())
		}
		return nil
	}
}

// target is where requests go.
type target struct {
	server, token     string
	ca, cert, key     string
	name              string // in the server's certificate; empty: the host
	serverFromContext bool
}

// connect makes the client, once.
func (c *cli) connect() (*api.Client, error) {
	if c.client != nil {
		return c.client, nil
	}
	t, err := c.target()
	if err != nil {
		return nil, err
	}
	client, err := c.dial(t)
	if err == nil {
		c.client, c.token = client, t.token
	}
	return client, err
}

func (c *cli) target() (target, error) {
	t := target{server: cmp.Or(c.flags.server, c.env.Getenv("SLUICE_SERVER")), ca: c.flags.caFile, cert: c.flags.certFile, key: c.flags.keyFile, name: c.flags.serverName}
	file, err := c.loadContexts()
	if err != nil {
		return t, err
	}
	name := cmp.Or(c.flags.context, c.env.Getenv("SLUICE_CONTEXT"), file.Current)
	used := file.find(name)
	if used == nil && name != "" {
		return t, hinted("proxyctl contexts list", "there is no context %q in %s", name, c.contextsPath())
	}
	if used != nil && (t.server == "" || t.server == used.Server) {
		t.server, t.serverFromContext = used.Server, true
		t.ca, t.cert, t.key = cmp.Or(t.ca, used.CAFile), cmp.Or(t.cert, used.CertFile), cmp.Or(t.key, used.KeyFile)
		t.name = cmp.Or(t.name, used.ServerName)
		t.token = used.Token
	}
	t.server = cmp.Or(t.server, api.DefaultServer)
	given, err := c.givenToken()
	t.token = cmp.Or(given, t.token)
	return t, err
}

// givenToken is the token of flags and environment.
func (c *cli) givenToken() (string, error) {
	if c.flags.tokenFile == "" {
		return strings.TrimSpace(c.env.Getenv("SLUICE_TOKEN")), nil
	}
	b, err := os.ReadFile(c.flags.tokenFile)
	if err != nil {
		return "", fmt.Errorf("cannot read --token-file: %w", err)
	}
	token := strings.TrimSpace(string(b))
	if token == "" || strings.ContainsAny(token, " \t\r\n") {
		return "", fmt.Errorf("--token-file %s does not contain one token", c.flags.tokenFile)
	}
	return token, nil
}

func (c *cli) dial(t target) (*api.Client, error) {
	settings, err := tlsSettings(t)
	if err != nil {
		return nil, err
	}
	if t.token != "" && isPlainAndFar(t.server) {
		fmt.Fprintf(c.env.Err, "warning: the token goes to %s without TLS\n", t.server)
	}
	return api.New(api.Options{Server: t.server, Token: t.token, TLS: settings, Timeout: c.flags.timeout, UserAgent: "proxyctl/" + cmp.Or(c.env.Version, "devel")})
}

func isPlainAndFar(server string) bool {
	u, err := url.Parse(server)
	if err != nil || u.Scheme != "http" || u.Hostname() == "localhost" {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return ip == nil || !ip.IsLoopback()
}

func tlsSettings(t target) (*tls.Config, error) {
	settings := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.name}
	if t.ca != "" {
		pem, err := os.ReadFile(t.ca)
		if err != nil {
			return nil, fmt.Errorf("cannot read --ca-file: %w", err)
		}
		settings.RootCAs = x509.NewCertPool()
		if !settings.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("--ca-file %s has no certificate in PEM form", t.ca)
		}
	}
	if t.cert != "" {
		pair, err := tls.LoadX509KeyPair(t.cert, t.key)
		if err != nil {
			return nil, fmt.Errorf("cannot read --cert-file and --key-file: %w", err)
		}
		settings.Certificates = []tls.Certificate{pair}
	}
	return settings, nil
}

// stopped reports whether a run ended because someone pressed Ctrl-C.
func stopped(ctx context.Context, err error) bool {
	return ctx.Err() != nil && (err == nil || errors.Is(err, context.Canceled))
}
