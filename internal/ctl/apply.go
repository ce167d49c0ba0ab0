package ctl

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/sluiceproxy/sluice/pkg/api"
)

const documentsHelp = `A document has the field kind (Cluster, Tenant, User or Token) and, beside it, the fields of the API. The kind of a
cluster itself is in cluster_kind, and a user names its tenant:

  kind: Cluster
  name: c1
  cluster_kind: standalone
  addresses: [127.0.0.1:7001]
  ---
  kind: Tenant
  name: acme
  cluster: c1
  ---
  kind: User
  tenant: acme
  name: app
  sha256: 2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b

A file is YAML or JSON, with one or many documents; of a folder all .yaml, .yml and .json files are read; - is standard
input. A document is the whole entity: a field that it lacks gets its default, a secret that it lacks stays.`

func (c *cli) apply() *cobra.Command {
	var files []string
	var w writeFlags
	var prune bool
	cmd := &cobra.Command{
		Use:   "apply -f FILE|FOLDER|-",
		Short: "Make clusters, tenants and users what documents say",
		Long: "Make clusters, tenants, users and tokens what documents say. The server checks every document before anything is\n" +
			"changed; the differences are shown, and after a yes they are made: clusters, tenants, users, tokens, then deletions in\n" +
			"the reverse order. What is as it should be is left alone, so that applying again changes nothing.\n\n" +
			"--prune also deletes what is registered and in no document, of the kinds that the documents have; never what the\n" +
			"configuration file declares, and never the token that is used.\n\n" + documentsHelp,
		Example: `  proxyctl apply -f sluice.yaml
  proxyctl apply -f tenants/ --prune --reason 'customer left'
  proxyctl export > before.yaml; proxyctl apply -f before.yaml --yes`,
		Args: arguments(0, 0),
	}
	cmd.Flags().StringArrayVarP(&files, "file", "f", nil, "file or folder of documents, - for standard input; may be repeated")
	cmd.Flags().BoolVar(&prune, "prune", false, "delete what is in no document, of the kinds that the documents have")
	cmd.Flags().BoolVarP(&w.yes, "yes", "y", false, "do not ask")
	cmd.Flags().BoolVar(&w.dryRun, "dry-run", false, "only show the differences")
	cmd.Flags().StringVar(&w.reason, "reason", "", "why, for the history")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if slices.Contains(files, "-") && !w.yes && !w.dryRun {
			return usagef(cmd, "--file -: the documents come from standard input, so nobody can answer there; add --yes")
		}
		steps, err := c.plannedSteps(cmd, files, prune)
		if err != nil {
			return err
		}
		open := slices.DeleteFunc(slices.Clone(steps), func(s step) bool { return s.action == "none" })
		c.showSteps(open)
		switch {
		case len(open) == 0:
			fmt.Fprintf(c.env.Out, "nothing to do: %s, all as they should be\n", count(len(steps), "document"))
			return nil
		case w.dryRun:
			return nil
		}
		if err := c.confirm(w.yes, "Apply "+summary(open)+"?"); err != nil {
			return err
		}
		return c.applySteps(cmd.Context(), steps, w.reason)
	}
	return cmd
}

func (c *cli) plannedSteps(cmd *cobra.Command, files []string, prune bool) ([]step, error) {
	if len(files) == 0 {
		return nil, usagef(cmd, "--file is needed: a file or folder of documents, or - for standard input")
	}
	documents, err := c.readDocuments(files)
	if err != nil {
		return nil, err
	}
	client, err := c.connect()
	if err != nil {
		return nil, err
	}
	return c.planAll(cmd.Context(), client, documents, prune)
}

func (c *cli) showSteps(steps []step) {
	st := c.outStyle()
	for i := range steps {
		s := &steps[i]
		fmt.Fprint(c.env.Out, s.diffText(st))
		if s.sessions > 0 {
			fmt.Fprintln(c.env.Out, st.yellow("# touches "+count(s.sessions, "session")))
		}
		for _, effect := range s.effects {
			fmt.Fprintln(c.env.Out, st.yellow("# "+printable(effect)))
		}
		if s.later != "" {
			fmt.Fprintln(c.env.Out, st.dim("# "+printable(s.later)))
		}
	}
}

// summary counts steps: 2 to create, 1 to delete.
func summary(steps []step) string {
	number := make(map[string]int)
	sessions := 0
	for i := range steps {
		number[steps[i].action]++
		sessions += steps[i].sessions
	}
	var parts []string
	for _, action := range []string{"create", "update", "delete"} {
		if number[action] > 0 {
			parts = append(parts, fmt.Sprintf("%d to %s", number[action], action))
		}
	}
	text := count(len(steps), "change") + " (" + strings.Join(parts, ", ") + ")"
	if sessions > 0 {
		text += ", touching " + count(sessions, "session")
	}
	return text
}

func (c *cli) applySteps(ctx context.Context, steps []step, reason string) error {
	client, err := c.connect()
	if err != nil {
		return err
	}
	w := c.working("applying", len(steps))
	var lines []string
	for i := range steps {
		line, err := applyStep(ctx, client, &steps[i], reason)
		if err != nil {
			w.done()
			c.print(lines)
			return fmt.Errorf("%s: %w\n%d of %d were applied before it; what is done stays, and apply again goes on from there", steps[i].label(), err, i, len(steps))
		}
		lines = append(lines, line)
		w.step()
	}
	w.done()
	c.print(lines)
	return nil
}

func (c *cli) print(lines []string) {
	for _, line := range lines {
		fmt.Fprintln(c.env.Out, line)
	}
}

// applyStep makes one change, if the entity still is what was shown.
func applyStep(ctx context.Context, client *api.Client, s *step, reason string) (string, error) {
	o := api.WriteOptions{Version: s.version, Reason: reason}
	switch s.action {
	case "none":
		return s.label() + " unchanged", nil
	case "delete":
		return s.label() + " deleted", s.kind.remove(ctx, client, s.name, o)
	}
	written, version, err := s.kind.write(ctx, client, s.name, s.entity, o)
	if err != nil {
		return "", err
	}
	line := fmt.Sprintf("%s %sd (version %d)", s.label(), s.action, version)
	if token, isToken := written.(api.Token); isToken && token.Secret != "" {
		line += "; its secret, shown once: " + printable(token.Secret)
	}
	return line, nil
}

func (c *cli) diff() *cobra.Command {
	var files []string
	var prune bool
	cmd := &cobra.Command{
		Use:   "diff -f FILE|FOLDER|-",
		Short: "Show what apply would change",
		Long: "Show what apply would change, as a unified diff, checked by the server. Nothing is changed.\n" +
			"Exit code: 0 no difference, 1 some, 2 and above an error.\n\n" + documentsHelp,
		Example: "  proxyctl diff -f sluice.yaml\n  proxyctl diff -f tenants/ --prune || echo 'somebody changed something'",
		Args:    arguments(0, 0),
	}
	cmd.Flags().StringArrayVarP(&files, "file", "f", nil, "file or folder of documents, - for standard input; may be repeated")
	cmd.Flags().BoolVar(&prune, "prune", false, "show also what --prune of apply would delete")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		steps, err := c.plannedSteps(cmd, files, prune)
		if err != nil {
			return aboveOne(err)
		}
		open := slices.DeleteFunc(steps, func(s step) bool { return s.action == "none" })
		c.showSteps(open)
		if len(open) > 0 {
			return &exitError{code: 1} // as diff does
		}
		return nil
	}
	return cmd
}

// differError is an error of diff: its exit code is never 1, which means a difference.
type differError struct{ error }

func (e *differError) Unwrap() error { return e.error }

func aboveOne(err error) error {
	if exitCode(err) == ExitError {
		return &differError{err}
	}
	return err
}

func (c *cli) export() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "export [clusters] [tenants] [users] [tokens]",
		Short: "Write what is registered as documents that apply reads",
		Long: "Write what is registered as documents that apply reads; without arguments clusters, tenants and users. Secrets are not\n" +
			"in it, and a comment tells what has one: applied where the entity exists, the secret stays. What the configuration\n" +
			"file declares is left out. YAML, or a JSON list with -o json.",
		Example:   "  proxyctl export > sluice.yaml\n  proxyctl export tenants users -o json",
		Args:      arguments(0, 4),
		ValidArgs: []string{"clusters", "tenants", "users", "tokens"},
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		for _, arg := range args {
			if !slices.Contains(cmd.ValidArgs, cobra.Completion(arg)) {
				return usagef(cmd, "%q: must be clusters, tenants, users or tokens", arg)
			}
		}
		if len(args) == 0 {
			args = []string{"clusters", "tenants", "users"}
		}
		client, err := c.connect()
		if err != nil {
			return err
		}
		return c.exportAll(cmd.Context(), client, args)
	}
	return cmd
}

func (c *cli) exportAll(ctx context.Context, client *api.Client, kinds []string) error {
	w := c.working("reading", 0)
	var all []*yaml.Node
	for _, m := range c.managers() {
		if !slices.Contains(kinds, m.word()+"s") {
			continue
		}
		documents, err := exported(ctx, client, m)
		if err != nil {
			w.done()
			return err
		}
		all = append(all, documents...)
	}
	w.done()
	if c.flags.output == "json" {
		list := make([]any, len(all))
		for i, node := range all {
			if err := node.Decode(&list[i]); err != nil {
				return fmt.Errorf("cannot print: %w", err)
			}
		}
		return c.encode(list)
	}
	for i, node := range all {
		if i > 0 {
			fmt.Fprintln(c.env.Out, "---")
		}
		if err := writeYAML(c.env.Out, node); err != nil {
			return err
		}
	}
	return nil
}

// exported are the documents of a kind, in the order of their names.
func exported(ctx context.Context, client *api.Client, m manager) (all []*yaml.Node, err error) {
	now, err := m.existing(ctx, client)
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(now))
	for name, r := range now {
		if r.meta.Source != api.SourceFile {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		node, err := m.document(now[name].entity)
		if err != nil {
			return nil, err
		}
		if secret := m.secretOf(now[name].entity); secret != "" {
			node.HeadComment = printable(name) + " " + secret
		}
		all = append(all, node)
	}
	return all, nil
}

// isConflict reports whether an entity was changed meanwhile.
func isConflict(err error) bool {
	var problem *api.Problem
	return errors.As(err, &problem) && problem.Status == http.StatusPreconditionFailed
}
