package ctl

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
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

func (c *cli) status() *cobra.Command {
	return c.watched(c.plainCommand("status", "Tell how the proxy is", "Tell how the proxy is: ready or not and why, clients, tenants, and the store.",
		"  proxyctl status\n  proxyctl status -o json\n  proxyctl status --watch", arguments(0, 0),
		func(ctx context.Context, client *api.Client, _ []string) error {
			status, err := client.Status(ctx)
			if err != nil {
				return err
			}
			return c.showStatus(status)
		}))
}

func (c *cli) showStatus(s api.Status) error {
	switch c.flags.output {
	case "json", "yaml":
		return c.encode(s)
	case "name":
		fmt.Fprintln(c.env.Out, printable(s.Version))
		return nil
	}
	st := c.outStyle()
	state := st.green("ready")
	switch {
	case s.Draining:
		state = st.yellow("draining")
	case !s.Ready:
		state = st.red("not ready")
	}
	store := st.green("available")
	if !s.Store.Available {
		store = st.red("away: " + printable(s.Store.Reason))
		if !s.Store.Since.IsZero() {
			store += " (for " + age(s.Store.Since) + ")"
		}
	}
	rows := [][2]string{
		{"version", printable(s.Version)}, {"state", state}, {"up", age(s.StartedAt)},
		{"clients", fmt.Sprintf("%d on %s", s.Clients, count(s.Loops, "loop"))},
		{"tenants", fmt.Sprintf("%d on %s", s.Tenants, count(s.Clusters, "cluster"))},
		{"paused", cmp.Or(join(s.Paused), "none")}, {"listeners", join(s.Listeners)},
		{"store", printable(s.Store.Kind) + ", " + store},
		{"revision", fmt.Sprintf("%d, in force %d", s.Store.Revision, s.Store.Applied)},
	}
	for _, reason := range s.NotReady {
		rows = append(rows, [2]string{"not ready", printable(reason)})
	}
	c.showPairs(rows)
	return nil
}

func (c *cli) showPairs(pairs [][2]string) {
	st := c.outStyle()
	rows := make([]table.Row, len(pairs))
	for i, pair := range pairs {
		rows[i] = table.Row{st.bold(pair[0]), pair[1]}
	}
	fmt.Fprint(c.env.Out, renderTable(rows))
}

func nodeName(n *api.Node) string { return n.Cluster + "/" + n.Alias }

func nodeColumns() []column[api.Node] {
	return []column[api.Node]{
		textColumn("CLUSTER", false, func(n *api.Node) string { return n.Cluster }),
		textColumn("NODE", false, func(n *api.Node) string { return n.Alias }),
		textColumn("ADDRESS", false, func(n *api.Node) string { return n.Address }),
		textColumn("ROLE", false, func(n *api.Node) string { return n.Role }),
		{title: "HEALTH", cell: func(n *api.Node, st style) string {
			if n.Healthy {
				return st.green("up")
			}
			return st.red("down")
		}},
		textColumn("SLOTS", false, func(n *api.Node) string { return strconv.Itoa(n.Slots) }),
		textColumn("PIPES", false, func(n *api.Node) string { return strconv.Itoa(n.Pipes) }),
		textColumn("LENT", false, func(n *api.Node) string { return strconv.Itoa(n.Dedicated) }),
		textColumn("IDLE", true, func(n *api.Node) string { return strconv.Itoa(n.Idle) }),
		textColumn("WAITING", true, func(n *api.Node) string { return strconv.Itoa(n.Waiting) }),
		textColumn("INFLIGHT", false, func(n *api.Node) string { return strconv.Itoa(n.Inflight) }),
		textColumn("QUEUE", false, func(n *api.Node) string { return seconds(n.QueueDelay) }),
		textColumn("ERRORS", true, func(n *api.Node) string { return strconv.FormatUint(n.Errors, 10) }),
	}
}

func (c *cli) nodes() *cobra.Command {
	return c.watched(c.plainCommand("nodes", "List the backend nodes as the proxy sees them",
		"List the backend nodes as the proxy sees them: health, connections, connections lent to sessions, commands in flight and\nhow long commands wait in the proxy's queue.",
		"  proxyctl nodes\n  proxyctl nodes -o wide --watch", arguments(0, 0),
		func(ctx context.Context, client *api.Client, _ []string) error {
			nodes, err := client.Nodes(ctx)
			if err != nil {
				return err
			}
			return show(c, nodes, nodeName, nodeColumns())
		}))
}

func (c *cli) topology() *cobra.Command {
	var refresh bool
	cmd := c.plainCommand("topology CLUSTER", "Show a cluster's nodes and slots as the proxy sees them",
		"Show a cluster's nodes and which shard has which slots, as the proxy sees them. --refresh makes it look again first; what\nit finds is shown by the next look.",
		"  proxyctl topology c2\n  proxyctl topology c2 --refresh\n  proxyctl topology c2 --watch", arguments(1, 1),
		func(ctx context.Context, client *api.Client, args []string) error {
			if refresh {
				if err := client.RefreshTopology(ctx, args[0]); err != nil {
					return c.clusterKind().explained(err, args[0])
				}
			}
			topology, err := client.Topology(ctx, args[0])
			if err != nil {
				return c.clusterKind().explained(err, args[0])
			}
			return c.showTopology(topology)
		})
	cmd.Flags().BoolVar(&refresh, "refresh", false, "make the proxy look at the topology again")
	cmd.ValidArgsFunction = c.completeClusters
	return c.watched(cmd)
}

func (c *cli) showTopology(t api.Topology) error {
	switch c.flags.output {
	case "json", "yaml":
		return c.encode(t)
	case "name":
		return show(c, t.Nodes, nodeName, nodeColumns())
	}
	st := c.outStyle()
	ready := st.green("ready")
	if !t.Ready {
		ready = st.red("not ready: " + printable(t.Reason))
	}
	c.showPairs([][2]string{
		{"cluster", printable(t.Cluster)}, {"kind", printable(t.Kind)}, {"state", ready},
		{"slots", fmt.Sprintf("%d of 16384 served", t.Covered)}, {"epoch", strconv.FormatUint(t.Epoch, 10)},
	})
	fmt.Fprintln(c.env.Out)
	showTable(c, t.Nodes, nodeColumns())
	if len(t.Slots) > 0 {
		fmt.Fprintln(c.env.Out)
		showTable(c, t.Slots, []column[api.SlotRange]{
			textColumn("SLOTS", false, func(r *api.SlotRange) string { return fmt.Sprintf("%d-%d", r.First, r.Last) }),
			textColumn("SHARD", false, func(r *api.SlotRange) string { return r.Shard }),
		})
	}
	return nil
}

func (c *cli) explain() *cobra.Command {
	cmd := c.plainCommand("explain TENANT COMMAND [ARGUMENT...]", "Tell how a command of a tenant would be handled",
		"Tell how a command of a tenant would be handled: class, keys, slots, nodes, split or pinned, and what would refuse it. The\ncommand is not run. Flags of proxyctl come before the tenant.",
		"  proxyctl explain acme MGET a b\n  proxyctl -o json explain acme BLPOP queue 0", arguments(2, -1),
		func(ctx context.Context, client *api.Client, args []string) error {
			e, err := client.Explain(ctx, args[0], args[1:])
			if err != nil {
				return c.tenantKind().explained(err, args[0])
			}
			return c.showExplanation(e)
		})
	cmd.Flags().SetInterspersed(false) // what follows is the command's own
	cmd.ValidArgsFunction = c.completeTenants
	return cmd
}

func (c *cli) showExplanation(e api.Explanation) error {
	if !isText(c.flags.output) {
		if c.flags.output == "name" {
			fmt.Fprintln(c.env.Out, printable(e.Served))
			return nil
		}
		return c.encode(e)
	}
	st := c.outStyle()
	answer := st.green("served")
	if e.Refused != "" {
		answer = st.red(printable(e.Refused))
	}
	c.showPairs([][2]string{
		{"tenant", printable(e.Tenant)}, {"command", printable(e.Command)}, {"class", printable(e.Class)}, {"served", printable(e.Served)},
		{"keys", cmp.Or(join(e.Keys), "-")}, {"slots", cmp.Or(join(e.Slots), "-")}, {"nodes", cmp.Or(join(e.Nodes), "-")},
		{"flags", cmp.Or(join(e.Flags), "-")}, {"answer", answer},
	})
	for _, note := range e.Notes {
		fmt.Fprintln(c.env.Out, "  "+printable(note))
	}
	return nil
}

func (c *cli) config() *cobra.Command {
	return c.plainCommand("config", "Show the effective configuration of the proxy", "Show the effective configuration of the proxy, without secrets, as YAML or with -o json as JSON.",
		"  proxyctl config\n  proxyctl config -o json | jq .clients", arguments(0, 0),
		func(ctx context.Context, client *api.Client, _ []string) error {
			config, err := client.Config(ctx)
			if err != nil {
				return err
			}
			if c.flags.output != "json" {
				c.flags.output = "yaml"
			}
			return c.encode(config)
		})
}

func (c *cli) events() *cobra.Command {
	var most int
	cmd := c.plainCommand("events", "Follow changes of clusters, tenants, users and tokens",
		"Follow changes of clusters, tenants, users and tokens, made on this proxy or another of the fleet, until Ctrl-C. With -o json\none object a line.",
		"  proxyctl events\n  proxyctl events -o json --count 10", arguments(0, 0),
		func(ctx context.Context, client *api.Client, _ []string) error {
			return c.followEvents(ctx, client, most)
		})
	cmd.Flags().IntVar(&most, "count", 0, "end after so many; 0: at Ctrl-C")
	return cmd
}

func (c *cli) followEvents(ctx context.Context, client *api.Client, most int) error {
	seen := 0
	for event, err := range client.Events(ctx) {
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		case event.Changed == nil:
			continue
		}
		if err := c.showChange(event.Changed); err != nil {
			return err
		}
		if seen++; seen == most {
			return nil
		}
	}
	if ctx.Err() == nil {
		return hinted("again; the server may have been restarted", "the server ended the events")
	}
	return nil
}

func (c *cli) showChange(ch *api.Changed) error {
	if !isText(c.flags.output) {
		return c.encodeLine(ch)
	}
	reason := ""
	if ch.Change.Reason != "" {
		reason = " (" + printable(ch.Change.Reason) + ")"
	}
	_, err := fmt.Fprintf(c.env.Out, "%s  %s %s %s by %s, version %d: %s%s\n", ch.Change.At.Local().Format(time.TimeOnly),
		printable(ch.Change.Action), strings.ToLower(string(ch.Kind)), printable(ch.Name), printable(ch.Change.By), ch.Change.Version, editsText(ch.Change.Diff), reason)
	return err
}

func (c *cli) history() *cobra.Command {
	var kind, name string
	var most int
	cmd := c.plainCommand("history", "List the changes of everything that is registered",
		"List the changes of clusters, tenants, users and tokens that are kept, the newest first.",
		"  proxyctl history --count 20\n  proxyctl history --kind Tenant --name acme -o wide", arguments(0, 0),
		func(ctx context.Context, client *api.Client, _ []string) error {
			var all []api.Changed
			for change, err := range client.Changes(ctx, api.Kind(kind), name) {
				if err != nil {
					return err
				}
				if all = append(all, change); len(all) == most {
					break
				}
			}
			label := func(x *api.Changed) string { return strings.ToLower(string(x.Kind)) + "/" + x.Name }
			columns := []column[api.Changed]{textColumn("ENTITY", false, label)}
			for _, col := range historyColumns() {
				columns = append(columns, column[api.Changed]{col.title, col.wide, func(x *api.Changed, st style) string { return col.cell(&x.Change, st) }})
			}
			return show(c, all, label, columns)
		})
	cmd.Flags().StringVar(&kind, "kind", "", "only those of Cluster, Tenant, User or Token")
	cmd.Flags().StringVar(&name, "name", "", "only those of this name; of users TENANT/NAME")
	cmd.Flags().IntVar(&most, "count", 100, "at most so many; 0: all that are kept")
	_ = cmd.RegisterFlagCompletionFunc("kind", cobra.FixedCompletions([]string{"Cluster", "Tenant", "User", "Token"}, cobra.ShellCompDirectiveNoFileComp)) // the flag is there
	return cmd
}

func (c *cli) testCluster() *cobra.Command {
	k := c.clusterKind()
	var password passwordFlags
	cmd := &cobra.Command{
		Use: "test [NAME]", Short: "Try to reach a cluster, registered or not",
		Long: "Try to reach a cluster from the proxy, and tell what is found: the registered one of that name, or without a name the one\n" +
			"that flags describe. The password of a registered one cannot be read back: give it again if it needs one.",
		Example: "  proxyctl clusters test c1\n  proxyctl clusters test --kind cluster --address 127.0.0.1:7101", Args: arguments(0, 1),
		ValidArgsFunction: c.completeClusters,
	}
	addFields(cmd, k.fields)
	password.add(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		cluster, err := k.toTest(cmd, args, &password)
		if err != nil {
			return err
		}
		result, err := c.reach(cmd.Context(), cluster)
		if err != nil {
			return err
		}
		if !isText(c.flags.output) && c.flags.output != "name" {
			if err := c.encode(result); err != nil || result.OK {
				return err
			}
			return &exitError{code: ExitError}
		}
		if !result.OK {
			return unreached(result)
		}
		fmt.Fprintln(c.env.Out, testText(result))
		return nil
	}
	return cmd
}

// toTest is the cluster that a test is of.
func (k *kind[T]) toTest(cmd *cobra.Command, args []string, password *passwordFlags) (cluster api.Cluster, err error) {
	if len(args) == 0 {
		entity, err := k.fromFlags(cmd, "test", password)
		if err != nil {
			return cluster, err
		}
		return any(entity).(api.Cluster), nil
	}
	client, err := k.c.connect()
	if err != nil {
		return cluster, err
	}
	if cluster, err = client.Clusters().Get(cmd.Context(), args[0]); err != nil {
		return cluster, k.explained(err, args[0])
	}
	cluster.Meta = nil
	if password.given() {
		secret, err := password.read(k.c, cmd)
		if err != nil {
			return cluster, err
		}
		cluster.Auth = &api.ClusterAuth{Password: secret, Username: usernameOf(&cluster)}
	}
	return cluster, nil
}

func usernameOf(cluster *api.Cluster) string {
	if cluster.Auth == nil {
		return ""
	}
	return cluster.Auth.Username
}

func (c *cli) reach(ctx context.Context, cluster api.Cluster) (api.TestResult, error) {
	client, err := c.connect()
	if err != nil {
		return api.TestResult{}, err
	}
	w := c.working("trying to reach the cluster", 0)
	defer w.done()
	return client.Test(ctx, cluster)
}

// mustReach fails when a cluster cannot be reached.
func (c *cli) mustReach(ctx context.Context, cluster api.Cluster) error {
	result, err := c.reach(ctx, cluster)
	if err != nil {
		return err
	}
	if !result.OK {
		return unreached(result)
	}
	fmt.Fprintln(c.env.Err, testText(result))
	return nil
}

func unreached(result api.TestResult) error {
	return hinted("address, TLS and password are seen from the proxy's machine", "the cluster cannot be reached: %s", strings.Join(append([]string{result.Error}, result.Notes...), "\n"))
}

func testText(result api.TestResult) string {
	text := fmt.Sprintf("the cluster can be reached: %s, %s, %d of 16384 slots, %s",
		cmp.Or(printable(result.Server), "unknown server"), count(result.Nodes, "node"), result.Covered, seconds(result.Seconds))
	for _, note := range result.Notes {
		text += "\n  " + printable(note)
	}
	return text
}

// done prints what an action did.
func (c *cli) done(format string, args ...any) {
	if isText(c.flags.output) {
		fmt.Fprintf(c.env.Out, format+"\n", args...)
	}
}

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
