package topology

// unify brings every node to one place: shards with the same primary become
// one, and a replica that is listed twice, or is a primary elsewhere, is
// dropped there.
func (d *draft) unify() {
	seen := make(map[string]int, len(d.shards))
	merged := d.shards[:0]
	for _, s := range d.shards {
		at, ok := seen[identity(&s.primary)]
		if !ok {
			seen[identity(&s.primary)] = len(merged)
			merged = append(merged, s)
			continue
		}
		merged[at].slots = append(merged[at].slots, s.slots...)
		merged[at].replicas = append(merged[at].replicas, s.replicas...)
	}
	d.shards = merged
	for i := range d.shards {
		d.shards[i].keepReplicas(seen, i)
	}
}

// keepReplicas keeps those that nobody has seen yet and marks them as seen.
func (s *shardDraft) keepReplicas(seen map[string]int, shard int) {
	kept := s.replicas[:0]
	for i := range s.replicas {
		key := identity(&s.replicas[i])
		if _, ok := seen[key]; ok {
			continue
		}
		seen[key] = shard
		kept = append(kept, s.replicas[i])
	}
	s.replicas = kept
}
