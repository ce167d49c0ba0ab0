package session

// ForgetTenants lets go of what loops counted for tenants that the table does not have any more, as soon as no loop has a
// client of theirs: until then, what those still do is counted with the rest, so that no counter ever falls. For any
// goroutine but loops.
func (s *Shared) ForgetTenants() {
	table := s.Table.Load()
	clients := make(map[string]int)
	for _, w := range s.Workers {
		w.Loop.Call(func() {
			for name, stats := range w.tenants {
				if table.Registry.Tenant(name) == nil {
					clients[name] += stats.clients
				}
			}
		})
	}
	for name, n := range clients {
		if n > 0 {
			continue
		}
		for _, w := range s.Workers {
			w.Loop.Call(func() { w.forget(name) })
		}
		s.slow.Delete(name)
	}
}

// forget drops a tenant unless it is there again. Nobody can have become it meanwhile: the table did not have it.
func (w *Worker) forget(name string) {
	stats := w.tenants[name]
	if stats == nil || stats.clients > 0 || w.shared.Table.Load().Registry.Tenant(name) != nil {
		return
	}
	w.endPause(stats)
	w.endHalt(stats)
	delete(w.tenants, name)
}
