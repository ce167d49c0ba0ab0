package ctl

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluiceproxy/sluice/pkg/api"
)

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
