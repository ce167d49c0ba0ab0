package session

import (
	"errors"

	"github.com/sluiceproxy/sluice/internal/route"
)

// adoptTable follows a swap of the routing table: an unchanged tenant costs a few comparisons, a changed one is taken over
// when nothing is in flight, and a session whose tenant or user is gone is disconnected.
func (s *Session) adoptTable() (wait bool) {
	table := s.worker.snapshot()
	if s.tenant == nil || s.registry == table.Registry {
		return false
	}
	if s.tracking == nil && table.Registry.Tenant(s.tenant.Name) == s.tenant && table.Cluster(s.tenant) == s.local.Cluster() {
		s.registry = table.Registry // nothing about this session is another
		s.endCarry()
		return false
	}
	if s.pinned != nil || s.transaction != nil || s.tracking != nil || s.subscribed() {
		return s.adoptLater(table)
	}
	if s.head != nil || s.mode != ModeNormal {
		return true
	}
	return s.follow(table)
}

// adoptLater keeps a session on the cluster where it has a connection of its own, a transaction or subscriptions, for a
// while, unless its tenant or user is gone. Subscriptions alone are carried over.
func (s *Session) adoptLater(table *route.Table) (wait bool) {
	t := table.Registry.Tenant(s.tenant.Name)
	gone := t == nil || s.user == nil && !t.Open() || s.user != nil && t.Users[s.user.Name] == nil
	if !gone && s.tracking != nil && s.tracking.trespasses(s, table) {
		s.conn.Close(nil)
		return true
	}
	if gone {
		return s.head == nil && s.follow(table)
	}
	if table.Cluster(t) == s.local.Cluster() {
		s.endCarry()
		if s.pinned == nil && s.transaction == nil && s.tracking == nil && s.head == nil && s.mode == ModeNormal {
			return s.follow(table) // subscriptions stay where they are
		}
		s.lateSince = 0
		return false
	}
	if s.onlySubscribed() && s.carried(table.Cluster(t).Local(s.worker.Loop.ID()).Hub()) {
		if s.head != nil || s.mode != ModeNormal {
			return true
		}
		s.changeHub()
		return s.follow(table)
	}
	now := s.worker.Loop.Now()
	if s.lateSince == 0 {
		s.lateSince = now
	}
	if now-s.lateSince >= int64(s.worker.shared.Settings.MoveTimeout) {
		s.worker.Stats.LeftBehind++
		s.conn.Close(errLeftBehind)
		return true
	}
	return false
}

// onlySubscribed reports whether channels are all that ties the session to its cluster.
func (s *Session) onlySubscribed() bool {
	return s.pinned == nil && s.transaction == nil && s.tracking == nil && s.subscribed()
}

var errLeftBehind = errors.New("the tenant is on another cluster now")

// follow takes the session over to another table. Nothing is in flight.
func (s *Session) follow(table *route.Table) (wait bool) {
	t := table.Registry.Tenant(s.tenant.Name)
	switch {
	case t == nil, s.user == nil && !t.Open(), s.user != nil && t.Users[s.user.Name] == nil:
		s.appendError(errTenantGone)
		s.finish()
		return true
	case s.user != nil:
		s.user = t.Users[s.user.Name]
	}
	if !t.Allows(s.database) {
		s.appendError(errDatabaseGone) // what the client writes next must not end up in another
		s.finish()
		return true
	}
	s.become(t, s.user)
	return false
}
