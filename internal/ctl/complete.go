package ctl

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// completeWithin bounds how long someone who pressed Tab waits.
const completeWithin = 2 * time.Second

func completeNames[T any](cmd *cobra.Command, k *kind[T], scope string) ([]string, cobra.ShellCompDirective) {
	client, err := k.c.connect()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completeWithin)
	defer cancel()
	var names []string
	for entity, err := range k.all(ctx, client, scope) {
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		_, name, user := strings.Cut(k.name(&entity), "/")
		if !user {
			name = k.name(&entity)
		}
		names = append(names, printable(name))
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

func (c *cli) completeTenants(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return completeNames(cmd, c.tenantKind(), "")
}

func (c *cli) completeClusters(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return completeNames(cmd, c.clusterKind(), "")
}

func (c *cli) completion() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "completion bash|zsh|fish|powershell",
		Short: "Print what makes a shell complete proxyctl's commands and names",
		Long: "Print a script for a shell. Commands, flags and the names of clusters, tenants and users are completed then; the\n" +
			"names are asked of the server.",
		Example: `  source <(proxyctl completion bash)
  proxyctl completion bash > /etc/bash_completion.d/proxyctl
  proxyctl completion zsh > "${fpath[1]}/_proxyctl"
  proxyctl completion fish > ~/.config/fish/completions/proxyctl.fish`,
		Args:      arguments(1, 1),
		ValidArgs: []string{"bash", "zsh", "fish", "powershell"},
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch root := cmd.Root(); args[0] {
		case "bash":
			return root.GenBashCompletionV2(c.env.Out, true)
		case "zsh":
			return root.GenZshCompletion(c.env.Out)
		case "fish":
			return root.GenFishCompletion(c.env.Out, true)
		case "powershell":
			return root.GenPowerShellCompletionWithDesc(c.env.Out)
		}
		return usagef(cmd, "%q is not a shell that is known: bash, zsh, fish or powershell", args[0])
	}
	return cmd
}
