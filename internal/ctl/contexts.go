package ctl

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/sluiceproxy/sluice/pkg/api"
)

// contextsFile is what the file of contexts holds.
type contextsFile struct {
	Current  string         `yaml:"current,omitempty"`
	Contexts []savedContext `yaml:"contexts"`
}

// savedContext is a server with what is needed to talk to it.
type savedContext struct {
	Name     string `yaml:"name"`
	Server   string `yaml:"server"`
	Token    string `yaml:"token,omitempty"`
	CAFile   string `yaml:"ca_file,omitempty"`
	CertFile string `yaml:"cert_file,omitempty"`
	KeyFile  string `yaml:"key_file,omitempty"`
	// ServerName is the name in the server's certificate, where it is not the host of the URL.
	ServerName string `yaml:"server_name,omitempty"`
}

func (f *contextsFile) find(name string) *savedContext {
	for i := range f.Contexts {
		if f.Contexts[i].Name == name {
			return &f.Contexts[i]
		}
	}
	return nil
}

func (c *cli) contextsPath() string {
	folder := c.env.Getenv("XDG_CONFIG_HOME")
	if folder == "" {
		folder = filepath.Join(c.env.Getenv("HOME"), ".config")
	}
	return filepath.Join(folder, "sluice", "proxyctl.yaml")
}

func (c *cli) loadContexts() (*contextsFile, error) {
	path := c.contextsPath()
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return new(contextsFile), nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the contexts: %w", err)
	}
	if info, err := os.Stat(path); err == nil && info.Mode().Perm()&0o077 != 0 {
		fmt.Fprintf(c.env.Err, "warning: others can read the tokens in %s; chmod 600 it\n", path)
	}
	f := new(contextsFile)
	if err := yaml.Unmarshal(b, f); err != nil {
		return nil, hinted("mend the file, or remove it and log in again", "cannot understand %s: %w", path, err)
	}
	return f, nil
}

// saveContexts replaces the file in one step: a reader sees the old one or the new one, and nobody else sees either.
func (c *cli) saveContexts(f *contextsFile) error {
	path := c.contextsPath()
	b, err := yaml.Marshal(f)
	if err != nil {
		return fmt.Errorf("cannot write the contexts: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("cannot write the contexts: %w", err)
	}
	temporary, err := os.CreateTemp(filepath.Dir(path), ".proxyctl-*") // mode 0600
	if err != nil {
		return fmt.Errorf("cannot write the contexts: %w", err)
	}
	_, err = temporary.Write(b)
	err = errors.Join(err, temporary.Sync(), temporary.Close())
	if err == nil {
		err = os.Rename(temporary.Name(), path)
	}
	if err != nil {
		_ = os.Remove(temporary.Name())
		return fmt.Errorf("cannot write the contexts: %w", err)
	}
	return nil
}

func (c *cli) login() *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use:   "login",
		Short: "Check a token and keep it, with its server, as a context",
		Long: "Check a token by asking the server whose it is, and keep both as a context, which becomes the current one.\n\n" +
			"The token comes from --token-file, from SLUICE_TOKEN, from a pipe, or is asked for. The file of contexts,\n" +
			"$XDG_CONFIG_HOME/sluice/proxyctl.yaml, can be read by its owner only.",
		Example: `  proxyctl login --token-file /var/lib/sluice/admin-token
  proxyctl login --server https://sluice.example.com:8380 --ca-file ca.pem --name prod
  pass show sluice/prod | proxyctl login --server https://sluice.example.com:8380`,
		Args: arguments(0, 0),
	}
	cmd.Flags().StringVar(&name, "name", "", "name of the context; default: the server's host and port")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		file, err := c.loadContexts()
		if err != nil {
			return err
		}
		t, err := c.loginTarget(file, name)
		if err != nil {
			return err
		}
		if c.client, err = c.dial(t); err != nil {
			return err
		}
		c.token = t.token
		who, err := c.client.WhoAmI(cmd.Context())
		if err != nil {
			return err
		}
		saved, err := newContext(cmp.Or(name, hostOf(t.server)), t)
		if err != nil {
			return err
		}
		if old := file.find(saved.Name); old != nil {
			*old = saved
		} else {
			file.Contexts = append(file.Contexts, saved)
		}
		file.Current = saved.Name
		if err := c.saveContexts(file); err != nil {
			return err
		}
		fmt.Fprintf(c.env.Out, "logged in to %s as %s (%s); the context is %s\n", saved.Server, printable(who.Name), who.Role, saved.Name)
		return nil
	}
	return cmd
}

// loginTarget is where login goes: a context that is named and exists says what flags do not.
func (c *cli) loginTarget(file *contextsFile, name string) (t target, err error) {
	t = target{server: cmp.Or(c.flags.server, c.env.Getenv("SLUICE_SERVER")), ca: c.flags.caFile, cert: c.flags.certFile, key: c.flags.keyFile, name: c.flags.serverName}
	if old := file.find(name); old != nil && (t.server == "" || t.server == old.Server) {
		t.server = old.Server
		t.ca, t.cert, t.key = cmp.Or(t.ca, old.CAFile), cmp.Or(t.cert, old.CertFile), cmp.Or(t.key, old.KeyFile)
		t.name = cmp.Or(t.name, old.ServerName)
	}
	t.server = cmp.Or(t.server, api.DefaultServer)
	t.token, err = c.givenToken()
	if err == nil && t.token == "" {
		t.token, err = c.readSecret("token: ")
		t.token = strings.TrimSpace(t.token)
	}
	if err == nil && t.token == "" {
		err = hinted("--token-file FILE, SLUICE_TOKEN or a pipe", "no token was given")
	}
	return t, err
}

func newContext(name string, t target) (savedContext, error) {
	saved := savedContext{Name: name, Server: t.server, Token: t.token, ServerName: t.name}
	for from, to := range map[string]*string{t.ca: &saved.CAFile, t.cert: &saved.CertFile, t.key: &saved.KeyFile} {
		if from == "" {
			continue
		}
		absolute, err := filepath.Abs(from) // the context is used in other folders too
		if err != nil {
			return saved, fmt.Errorf("cannot tell where %s is: %w", from, err)
		}
		*to = absolute
	}
	return saved, nil
}

func hostOf(server string) string {
	if u, err := url.Parse(server); err == nil {
		return u.Host
	}
	return server
}

func (c *cli) contexts() *cobra.Command {
	list := &cobra.Command{
		Use: "list", Short: "List the contexts", Long: "List the contexts, without their tokens.", Example: "  proxyctl contexts list", Args: arguments(0, 0),
		RunE: func(*cobra.Command, []string) error {
			file, err := c.loadContexts()
			if err != nil {
				return err
			}
			return c.listContexts(file)
		},
	}
	use := &cobra.Command{
		Use: "use NAME", Short: "Make a context the current one", Long: "Make a context the current one: commands without --context and --server use it.", Example: "  proxyctl contexts use prod", Args: arguments(1, 1),
		ValidArgsFunction: c.completeContexts,
		RunE: func(_ *cobra.Command, args []string) error {
			return c.changeContexts(args[0], func(file *contextsFile) string {
				file.Current = args[0]
				return "the context is " + args[0] + " now"
			})
		},
	}
	remove := &cobra.Command{
		Use: "delete NAME", Short: "Forget a context and its token", Long: "Forget a context and its token. The token itself stays valid: proxyctl tokens delete ends it.", Example: "  proxyctl contexts delete old", Args: arguments(1, 1),
		ValidArgsFunction: c.completeContexts,
		RunE: func(_ *cobra.Command, args []string) error {
			return c.changeContexts(args[0], func(file *contextsFile) string {
				file.Contexts = slices.DeleteFunc(file.Contexts, func(s savedContext) bool { return s.Name == args[0] })
				if file.Current == args[0] {
					file.Current = ""
				}
				return "context " + args[0] + " deleted"
			})
		},
	}
	return parent("contexts", "The servers that proxyctl knows", "  proxyctl contexts list\n  proxyctl contexts use prod", list, use, remove)
}

func (c *cli) changeContexts(name string, change func(*contextsFile) string) error {
	file, err := c.loadContexts()
	if err != nil {
		return err
	}
	if file.find(name) == nil {
		return &exitError{ExitNotFound, fmt.Sprintf("there is no context %q in %s", name, c.contextsPath())}
	}
	done := change(file)
	if err := c.saveContexts(file); err != nil {
		return err
	}
	fmt.Fprintln(c.env.Out, done)
	return nil
}

// shownContext is a context without its token.
type shownContext struct {
	Name    string `json:"name"`
	Current bool   `json:"current"`
	Server  string `json:"server"`
	Token   bool   `json:"has_token"`
	CAFile  string `json:"ca_file,omitempty"`
}

func (c *cli) listContexts(file *contextsFile) error {
	var all []shownContext
	for _, s := range file.Contexts {
		all = append(all, shownContext{s.Name, s.Name == file.Current, s.Server, s.Token != "", s.CAFile})
	}
	return show(c, all, func(s *shownContext) string { return s.Name }, []column[shownContext]{
		{title: "CURRENT", cell: func(s *shownContext, st style) string { return map[bool]string{true: st.green("*")}[s.Current] }},
		{title: "NAME", cell: func(s *shownContext, _ style) string { return s.Name }},
		{title: "SERVER", cell: func(s *shownContext, _ style) string { return s.Server }},
		{title: "TOKEN", wide: true, cell: func(s *shownContext, _ style) string { return yesNo(s.Token) }},
		{title: "CA", wide: true, cell: func(s *shownContext, _ style) string { return s.CAFile }},
	})
}

func (c *cli) completeContexts(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	file, err := c.loadContexts()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var names []string
	for _, s := range file.Contexts {
		names = append(names, s.Name)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
