package ctl

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write golden files and docs/proxyctl.md")

// walk visits every command.
func walk(cmd *cobra.Command, visit func(*cobra.Command)) {
	if cmd.Hidden {
		return
	}
	visit(cmd)
	for _, child := range cmd.Commands() {
		walk(child, visit)
	}
}

func TestEveryCommandHasHelpWithExamples(t *testing.T) {
	visited := 0
	walk(newCLI(newTerminal(t).environment()).root(), func(cmd *cobra.Command) {
		visited++
		require.NotEmpty(t, cmd.Short, cmd.CommandPath())
		require.NotEmpty(t, cmd.Long, cmd.CommandPath())
		require.Contains(t, cmd.Example, "proxyctl ", cmd.CommandPath())
		require.NotNil(t, cmd.RunE, cmd.CommandPath())
		if cmd.HasParent() && cmd.Parent().HasParent() {
			require.Contains(t, cmd.Example, cmd.Name(), "the examples of %s are of it", cmd.CommandPath())
		}
		for line := range strings.SplitSeq(cmd.Long, "\n") {
			require.LessOrEqual(t, len(line), 125, cmd.CommandPath())
		}
	})
	require.Greater(t, visited, 50)
}

// TestExamplesAreCommandLines reads every example as a command line, so that none names a flag that does not exist.
func TestExamplesAreCommandLines(t *testing.T) {
	walk(newCLI(newTerminal(t).environment()).root(), func(cmd *cobra.Command) {
		for line := range strings.SplitSeq(cmd.Example, "\n") {
			for part := range strings.FieldsFuncSeq(line, func(r rune) bool { return strings.ContainsRune("|;&()<>", r) }) {
				_, rest, found := strings.Cut(strings.TrimSpace(part), "proxyctl ")
				if !found {
					continue
				}
				root := newCLI(newTerminal(t).environment()).root()
				target, args, err := root.Find(words(rest))
				require.NoError(t, err, line)
				require.NoError(t, target.ParseFlags(args), line)
				if err := target.ValidateArgs(target.Flags().Args()); err != nil {
					require.NoError(t, err, line)
				}
			}
		}
	})
}

// words splits as a shell does, with single quotes.
func words(line string) (all []string) {
	for i, part := range strings.Split(line, "'") {
		if i%2 == 1 {
			all = append(all, part)
			continue
		}
		all = append(all, strings.Fields(part)...)
	}
	return all
}

func TestManualIsFresh(t *testing.T) {
	const path = "../../docs/proxyctl.md"
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(Manual()), 0o600))
	}
	written, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(written), Manual(), "go test ./internal/ctl -run Manual -update writes it")
}

func TestHelpShowsExamples(t *testing.T) {
	term := newTerminal(t)
	require.Equal(t, ExitOK, term.run("clusters", "create", "--help"))
	require.Contains(t, term.out.String(), "proxyctl clusters create c2 --kind cluster --address 127.0.0.1:7101,127.0.0.1:7102")
	require.Empty(t, term.err.String())
}

func TestCompletionScripts(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		term := newTerminal(t)
		require.Equal(t, ExitOK, term.run("completion", shell))
		require.Contains(t, term.out.String(), "proxyctl")
	}
	term := newTerminal(t)
	require.Equal(t, ExitUsage, term.run("completion", "tcsh"))
	require.Contains(t, term.err.String(), "bash, zsh, fish or powershell")
}
