package daemon

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/sluiceproxy/sluice/internal/session"
	"github.com/sluiceproxy/sluice/pkg/api"
)

// impact judges what a change would do to connected clients: how many it touches, and how in words.
func (d *Daemon) impact(kind api.Kind, name string, before, after json.RawMessage) (sessions int, effects []string) {
	switch kind {
	case api.KindCluster:
		return d.impactOfCluster(name, before, after)
	case api.KindTenant:
		var old, now api.Tenant
		return d.impactOfTenant(name, decoded(before, &old), decoded(after, &now))
	case api.KindUser:
		tenant, user, _ := strings.Cut(name, "/")
		sessions = d.count(func(c *session.Client) bool { return c.Tenant == tenant && c.User == user })
		if after == nil && before != nil {
			return sessions, []string{"clients that are logged in as the user are disconnected when their commands have ended"}
		}
		if before != nil {
			return sessions, []string{"clients that are logged in stay; the new password is asked of those that log in from now on"}
		}
		return 0, []string{"clients can log in as the user at once"}
	}
	return 0, nil
}

// decoded is the entity, nil when there is none.
func decoded[T any](b json.RawMessage, into *T) *T {
	if len(b) == 0 || json.Unmarshal(b, into) != nil || string(b) == "null" {
		return nil
	}
	return into
}

func (d *Daemon) count(fits func(*session.Client) bool) (n int) {
	d.each(func(w *session.Worker) {
		w.Each(func(s *session.Session) {
			if c := s.Describe(); fits(&c) {
				n++
			}
		})
	})
	return n
}

func (d *Daemon) impactOfCluster(name string, before, after json.RawMessage) (sessions int, effects []string) {
	switch {
	case before == nil:
		return 0, []string{"the cluster is connected to before tenants can use it"}
	case after == nil:
		return 0, []string{"its connections are closed; no tenant uses it"}
	}
	table := d.table()
	sessions = d.count(func(c *session.Client) bool { return onCluster(table, c.Tenant, name) })
	return sessions, []string{
		"new connections are made, then its tenants' commands go over them; what is in flight ends on the old ones",
		"clients with transactions, blocking commands or client-side caching stay on the old connections until these end, or are disconnected after " + d.shared.Settings.MoveTimeout.String(),
	}
}

func (d *Daemon) impactOfTenant(name string, old, now *api.Tenant) (sessions int, effects []string) {
	if old == nil {
		return 0, d.impactOfNewTenant(now)
	}
	sessions = d.count(func(c *session.Client) bool { return c.Tenant == name })
	if now == nil {
		return sessions, []string{"its clients are disconnected when their commands have ended"}
	}
	if old.Cluster != now.Cluster {
		effects = append(effects, fmt.Sprintf("its clients go from cluster %s to %s between two commands; no data is copied", old.Cluster, now.Cluster),
			"clients with transactions, blocking commands or client-side caching stay until these end, or are disconnected after "+d.shared.Settings.MoveTimeout.String())
	}
	var gone []string
	for _, database := range old.Databases {
		if !slices.Contains(now.Databases, database) {
			gone = append(gone, fmt.Sprint(database))
		}
	}
	if len(gone) > 0 {
		effects = append(effects, "clients in database "+strings.Join(gone, ", ")+" are disconnected")
	}
	if old.Open && !now.Open {
		effects = append(effects, "clients that have not logged in are disconnected")
	}
	if len(effects) == 0 {
		effects = []string{"its clients take it over between two commands"}
	}
	return sessions, effects
}

// impactOfNewTenant also tells when clients of a listener can no longer be a tenant without saying so.
func (d *Daemon) impactOfNewTenant(now *api.Tenant) []string {
	effects := []string{"clients can use the tenant at once"}
	if now != nil && !now.Open {
		effects = []string{"nobody can use the tenant before it has a user"}
	}
	if only := d.table().Registry.ForListener(""); only != nil {
		effects = append(effects, fmt.Sprintf("tenant %s is no longer the only one: new clients of listeners without a tenant must log in", only.Name))
	}
	return effects
}
