package ctl

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluiceproxy/sluice/pkg/api"
)

func (c *cli) sessions() *cobra.Command {
	return parent("sessions", "List and disconnect clients",
		"  proxyctl sessions list --tenant acme\n  proxyctl sessions kill --tenant acme --address 10.1.", c.listSessions(), c.killSessions())
}

func filterFlags(cmd *cobra.Command, c *cli, f *api.SessionFilter) {
	cmd.Flags().StringVar(&f.Tenant, "tenant", "", "only those of a tenant")
	cmd.Flags().StringVar(&f.User, "user", "", "only those of a user")
	cmd.Flags().StringVar(&f.Address, "address", "", "only those whose address begins so")
	cmd.Flags().StringVar(&f.Command, "command", "", "only those whose last command is this one")
	cmd.Flags().StringVar(&f.Cluster, "cluster", "", "only those whose tenant's data is on a cluster")
	_ = cmd.RegisterFlagCompletionFunc("tenant", func(cmd *cobra.Command, _ []string, s string) ([]string, cobra.ShellCompDirective) {
		return c.completeTenants(cmd, nil, s)
	}) // the flag is there
	_ = cmd.RegisterFlagCompletionFunc("cluster", c.completeClusterFlag) // and so is this one
}

func sessionID(s *api.Session) string { return strconv.FormatUint(s.ID, 10) }

func sessionColumns() []column[api.Session] {
	return []column[api.Session]{
		textColumn("ID", false, sessionID),
		textColumn("TENANT", false, func(s *api.Session) string { return s.Tenant }),
		textColumn("USER", false, func(s *api.Session) string { return s.User }),
		textColumn("ADDRESS", false, func(s *api.Session) string { return s.Address }),
		textColumn("NAME", true, func(s *api.Session) string { return s.Name }),
		textColumn("LIBRARY", true, func(s *api.Session) string { return s.Library }),
		textColumn("LISTENER", true, func(s *api.Session) string { return s.Listener }),
		textColumn("RESP", true, func(s *api.Session) string { return strconv.Itoa(s.Protocol) }),
		textColumn("DB", false, func(s *api.Session) string { return strconv.Itoa(s.Database) }),
		textColumn("LOOP", true, func(s *api.Session) string { return strconv.Itoa(s.Loop) }),
		textColumn("AGE", false, func(s *api.Session) string { return age(s.Connected) }),
		textColumn("IDLE", false, func(s *api.Session) string { return short(time.Duration(s.IdleSeconds * float64(time.Second))) }),
		textColumn("COMMAND", false, func(s *api.Session) string { return s.LastCommand }),
		textColumn("PINNED", false, func(s *api.Session) string { return s.Pinned }),
		textColumn("INFLIGHT", true, func(s *api.Session) string { return strconv.Itoa(s.Inflight) }),
		textColumn("UNREAD", true, func(s *api.Session) string { return strconv.Itoa(s.Unread) }),
	}
}

func (c *cli) listSessions() *cobra.Command {
	var filter api.SessionFilter
	cmd := c.plainCommand("list", "List connected clients", "List connected clients.",
		"  proxyctl sessions list\n  proxyctl sessions list --tenant acme -o wide\n  proxyctl sessions list --command blpop --watch", arguments(0, 0),
		func(ctx context.Context, client *api.Client, _ []string) error {
			w := c.working("reading sessions", 0)
			var all []api.Session
			for s, err := range client.Sessions(ctx, filter) {
				if err != nil {
					w.done()
					return err
				}
				all = append(all, s)
			}
			w.done()
			return show(c, all, sessionID, sessionColumns())
		})
	filterFlags(cmd, c, &filter)
	return c.watched(cmd)
}

func (c *cli) killSessions() *cobra.Command {
	var filter api.SessionFilter
	var yes bool
	cmd := &cobra.Command{
		Use: "kill [ID...]", Short: "Disconnect clients", Long: "Disconnect the clients of these numbers, or all that match the flags.",
		Example: "  proxyctl sessions kill 42\n  proxyctl sessions kill --tenant acme --address 10.1. --yes", Args: arguments(0, -1),
	}
	filterFlags(cmd, c, &filter)
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ids, err := sessionIDs(cmd, args)
		if err != nil {
			return err
		}
		chosen := filter != (api.SessionFilter{})
		if chosen == (len(ids) > 0) {
			return usagef(cmd, "name the sessions: either numbers, or flags such as --tenant")
		}
		client, err := c.connect()
		if err != nil {
			return err
		}
		if len(ids) > 0 {
			return c.killEach(cmd.Context(), client, ids)
		}
		return c.killMatching(cmd.Context(), client, filter, yes)
	}
	return cmd
}

func sessionIDs(cmd *cobra.Command, args []string) (ids []uint64, err error) {
	for _, arg := range args {
		id, err := strconv.ParseUint(arg, 10, 64)
		if err != nil {
			return nil, usagef(cmd, "%q is not the number of a session; proxyctl sessions list shows them", arg)
		}
		ids = append(ids, id)
	}
	return ids, nil
}

func (c *cli) killEach(ctx context.Context, client *api.Client, ids []uint64) error {
	for _, id := range ids {
		if _, err := client.KillSession(ctx, id); err != nil {
			if problem := (*api.Problem)(nil); errors.As(err, &problem) && problem.Status == http.StatusNotFound {
				return hinted("proxyctl sessions list", "%w", err)
			}
			return fmt.Errorf("session %d: %w", id, err)
		}
		c.done("session %d disconnected", id)
	}
	return nil
}

func (c *cli) killMatching(ctx context.Context, client *api.Client, filter api.SessionFilter, yes bool) error {
	if !yes {
		n := 0
		for _, err := range client.Sessions(ctx, filter) {
			if err != nil {
				return err
			}
			n++
		}
		if n == 0 {
			c.done("there is no such session")
			return nil
		}
		if err := c.confirm(yes, "Disconnect "+count(n, "session")+"?"); err != nil {
			return err
		}
	}
	killed, err := client.KillSessions(ctx, filter)
	if err != nil {
		return err
	}
	c.done("%s disconnected", count(killed.Killed, "session"))
	return nil
}
