package redistest

import "strconv"

const migrateBatch = 100

// SlotMigration is a slot on its way from one primary to another. A test may
// stay between its steps for as long as it likes: the slot's missing keys then
// answer ASK at the old node, and its multi-key commands TRYAGAIN.
type SlotMigration struct {
	c        *ClusterServers
	slot     string
	from, to *Server
}

// MoveSlot moves a slot with all its keys, while clients may use it.
func (c *ClusterServers) MoveSlot(slot int, from, to *Server) {
	c.t.Helper()
	c.StartMigration(slot, from, to).Finish()
}

// StartMigration marks the slot IMPORTING at its new node and MIGRATING at the old one.
func (c *ClusterServers) StartMigration(slot int, from, to *Server) *SlotMigration {
	c.t.Helper()
	m := &SlotMigration{c: c, slot: strconv.Itoa(slot), from: from, to: to}
	to.mustDo("CLUSTER", "SETSLOT", m.slot, "IMPORTING", c.ids[from])
	from.mustDo("CLUSTER", "SETSLOT", m.slot, "MIGRATING", c.ids[to])
	return m
}

// MoveKeys moves up to n of the slot's keys and returns how many it moved.
func (m *SlotMigration) MoveKeys(n int) int {
	m.c.t.Helper()
	listed := m.from.mustDo("CLUSTER", "GETKEYSINSLOT", m.slot, strconv.Itoa(n)).([]any)
	keys := make([]string, len(listed))
	for i, key := range listed {
		keys[i] = key.(string)
	}
	m.MoveKey(keys...)
	return len(keys)
}

// MoveKey moves the keys named; one that is gone meanwhile is no error.
func (m *SlotMigration) MoveKey(keys ...string) {
	m.c.t.Helper()
	if len(keys) == 0 {
		return
	}
	args := []string{"MIGRATE", "127.0.0.1", strconv.Itoa(m.to.Port()), "", "0", "10000"}
	if password := m.to.Password(); password != "" {
		args = append(args, "AUTH", password)
	}
	args = append(args, "KEYS")
	m.from.mustDo(append(args, keys...)...)
}

// Finish moves the keys that are left and gives the slot to its new node; it
// returns when all running nodes agree.
func (m *SlotMigration) Finish() {
	m.c.t.Helper()
	owner := m.c.ids[m.to]
	m.drain()
	m.to.mustDo("CLUSTER", "SETSLOT", m.slot, "NODE", owner)
	m.from.mustDo("CLUSTER", "SETSLOT", m.slot, "NODE", owner)
	m.c.awaitOwner(m.slot, m.to)
}

// drain moves keys until none is left. None can come back: the old node makes
// no new key in a slot that is migrating.
func (m *SlotMigration) drain() {
	m.c.t.Helper()
	for m.MoveKeys(migrateBatch) > 0 {
		continue
	}
}

// Cancel takes the marks off; keys that were moved stay where they are.
func (m *SlotMigration) Cancel() {
	m.c.t.Helper()
	m.from.mustDo("CLUSTER", "SETSLOT", m.slot, "STABLE")
	m.to.mustDo("CLUSTER", "SETSLOT", m.slot, "STABLE")
}

// awaitOwner returns when every running node gives the slot to owner.
func (c *ClusterServers) awaitOwner(slot string, owner *Server) {
	c.t.Helper()
	number, _ := strconv.Atoi(slot)
	c.eventually("nodes know the slot's new owner", func() bool {
		for _, observer := range c.running() {
			if !c.seesOwner(observer, number, owner) {
				return false
			}
		}
		return true
	})
}

func (c *ClusterServers) seesOwner(observer *Server, slot int, owner *Server) bool {
	view, err := viewOf(observer)
	if err != nil {
		return false
	}
	for i := range view {
		if view[i].serves(slot) {
			return view[i].id == c.ids[owner]
		}
	}
	return false
}
