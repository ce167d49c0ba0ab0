package ctl

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/sluiceproxy/sluice/pkg/api"
)

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
