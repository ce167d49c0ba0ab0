package ctl

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluiceproxy/sluice/pkg/api"
)

func (k *kind[T]) edit() *cobra.Command {
	var w writeFlags
	cmd := &cobra.Command{
		Use: "edit " + k.names, Short: "Change a " + k.one + " in an editor",
		Long: "Open a " + k.one + " as YAML in $VISUAL or $EDITOR (vi without either) and replace it by what is saved. When the server\n" +
			"refuses that, the editor opens again with the reason as a comment. Nothing is changed when nothing was edited.",
		Example: fmt.Sprintf("  proxyctl %s edit %s\n  EDITOR=nano proxyctl %s edit %s --reason 'more room'", k.many, k.sample(), k.many, k.sample()),
		Args:    k.arguments(), ValidArgsFunction: k.complete,
	}
	cmd.Flags().StringVar(&w.reason, "reason", "", "why, for the history")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		name, err := k.nameOf(cmd, args)
		if err != nil {
			return err
		}
		return k.editOne(cmd.Context(), name, w.reason)
	}
	return cmd
}

func (k *kind[T]) editOne(ctx context.Context, name, reason string) error {
	r, id, err := k.resource(name)
	if err != nil {
		return err
	}
	entity, err := r.Get(ctx, id)
	if err != nil {
		return k.explained(err, name)
	}
	m := k.meta(&entity)
	if m != nil && m.Source == api.SourceFile {
		return &exitError{ExitConflict, k.label(name) + " is declared in the configuration file of the proxy; change it there"}
	}
	original, err := k.text(entity, nil, func(api.Edit) any { return nil })
	if err != nil {
		return err
	}
	o := api.WriteOptions{Reason: reason}
	if m != nil {
		o.Version = m.Version
	}
	text, wrong := original, error(nil)
	for {
		edited, err := k.c.editor(ctx, k.editHeader(name, wrong)+text)
		if err != nil {
			return err
		}
		edited = withoutHeader(edited)
		if strings.TrimSpace(edited) == "" || edited == original || edited == text {
			return k.editEnded(name, edited, original, wrong)
		}
		text = edited
		written, err := k.saveEdited(ctx, r, id, name, edited, o)
		if err == nil {
			return k.written(name, "edited", written)
		}
		if isConflict(err) || !isCorrectable(err) {
			return k.keepText(edited, err)
		}
		wrong = err
	}
}

// editEnded is for a text that was not changed, or was emptied.
func (k *kind[T]) editEnded(name, edited, original string, wrong error) error {
	if wrong != nil && edited != original && strings.TrimSpace(edited) != "" {
		return k.keepText(edited, fmt.Errorf("%s was not changed: %w", k.label(name), wrong))
	}
	fmt.Fprintln(k.c.env.Err, k.label(name)+" was not changed: nothing was edited")
	return nil
}

func (k *kind[T]) saveEdited(ctx context.Context, r *api.Resource[T], id, name, text string, o api.WriteOptions) (written T, err error) {
	documents, err := k.c.parseDocuments("the text", []byte(text))
	switch {
	case err != nil:
		return written, &correctableError{err}
	case len(documents) != 1 || documents[0].kind.title() != k.kind || documents[0].name != name:
		return written, &correctableError{fmt.Errorf("it must stay one document of %s; create another one with proxyctl %s create", k.label(name), k.many)}
	}
	return r.Replace(ctx, id, documents[0].entity.(T), o)
}

// correctableError is a mistake in a text that is edited.
type correctableError struct{ error }

func (e *correctableError) Unwrap() error { return e.error }

// isCorrectable reports whether another text may help.
func isCorrectable(err error) bool {
	var correctable *correctableError
	var problem *api.Problem
	return errors.As(err, &correctable) || errors.As(err, &problem) && (problem.Status == 400 || problem.Status == 422)
}

// keepText saves an edited text that could not be used.
func (k *kind[T]) keepText(text string, err error) error {
	file, createErr := os.CreateTemp("", "proxyctl-*.yaml")
	if createErr != nil {
		return err
	}
	defer file.Close()
	if _, writeErr := file.WriteString(text); writeErr != nil {
		return err
	}
	return fmt.Errorf("%w\nthe text is kept in %s; proxyctl apply -f %s tries again", err, file.Name(), file.Name())
}

const headerMark = "# "

func (k *kind[T]) editHeader(name string, wrong error) string {
	lines := []string{"Change " + k.label(name) + ", save and leave the editor. An empty text changes nothing."}
	if k.kind == api.KindCluster {
		lines = append(lines, "A password that is not given (auth.password) stays.")
	}
	if wrong != nil {
		lines = append(lines, "", "It was refused:")
		lines = append(lines, strings.Split(wrong.Error(), "\n")...)
	}
	var b strings.Builder
	for _, line := range lines {
		b.WriteString(strings.TrimRight(headerMark+printable(line), " ") + "\n")
	}
	return b.String()
}

// withoutHeader takes the comments at the beginning away.
func withoutHeader(text string) string {
	for strings.HasPrefix(text, "#") {
		_, text, _ = strings.Cut(text, "\n")
	}
	return text
}

// editor lets a person change a text.
func (c *cli) editor(ctx context.Context, text string) (string, error) {
	folder, err := os.MkdirTemp("", "proxyctl-*") // mode 0700: the text may get a password
	if err != nil {
		return "", fmt.Errorf("cannot keep a text for the editor: %w", err)
	}
	defer os.RemoveAll(folder)
	path := folder + "/edit.yaml"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return "", fmt.Errorf("cannot keep a text for the editor: %w", err)
	}
	program := cmp.Or(c.env.Getenv("VISUAL"), c.env.Getenv("EDITOR"), "vi")
	// A shell reads the variable, which may have arguments, as git and kubectl let it.
	run := exec.CommandContext(ctx, "sh", "-c", program+` "$0"`, path)
	run.Stdin, run.Stdout, run.Stderr = c.env.In, c.env.Out, c.env.Err
	if err := run.Run(); err != nil {
		return "", hinted("set VISUAL or EDITOR to an editor that is installed", "the editor %q failed: %w", program, err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("cannot read what was edited: %w", err)
	}
	return string(bytes.ReplaceAll(b, []byte("\r\n"), []byte("\n"))), nil
}
