package ctl

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Manual is docs/proxyctl.md: every command, from the commands themselves.
func Manual() string {
	root := newCLI(&Environment{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard, Getenv: func(string) string { return "" }}).root()
	var b strings.Builder
	b.WriteString("# proxyctl\n\nWritten by `go test ./internal/ctl -run Manual -update` from the commands; `proxyctl COMMAND --help` tells the same.\n\n")
	fmt.Fprintf(&b, "```\n%s\n```\n\nExamples:\n\n```\n%s\n```\n\n## Flags of every command\n\n```\n%s```\n", root.Long, unindented(root.Example), flagsText(root.PersistentFlags()))
	for _, group := range root.Groups() {
		fmt.Fprintf(&b, "\n## %s\n", strings.TrimSuffix(group.Title, ":"))
		for _, cmd := range root.Commands() {
			if cmd.GroupID == group.ID && !cmd.Hidden {
				manual(&b, cmd)
			}
		}
	}
	return b.String()
}

func manual(b *strings.Builder, cmd *cobra.Command) {
	fmt.Fprintf(b, "\n### %s\n\n", cmd.CommandPath())
	fmt.Fprintf(b, "```\n%s\n\n%s\n```\n\nExamples:\n\n```\n%s\n```\n", cmd.UseLine(), cmd.Long, unindented(cmd.Example))
	if flags := flagsText(cmd.LocalNonPersistentFlags()); flags != "" {
		fmt.Fprintf(b, "\nFlags:\n\n```\n%s```\n", flags)
	}
	children := slices.DeleteFunc(slices.Clone(cmd.Commands()), func(child *cobra.Command) bool { return child.Hidden })
	for _, child := range children {
		manual(b, child)
	}
}

func flagsText(f *pflag.FlagSet) string {
	return unindented(strings.TrimSuffix(f.FlagUsages(), "\n")) + map[bool]string{true: "\n"}[f.HasAvailableFlags()]
}

func unindented(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight(strings.TrimPrefix(line, "  "), " ")
	}
	return strings.Join(lines, "\n")
}
