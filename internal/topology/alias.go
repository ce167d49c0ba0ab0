package topology

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

func shardAlias(number int) string { return "shard-" + strconv.Itoa(number) }

// number gives every shard that has none the lowest free number, in the order
// of the shards, and writes the aliases.
func (d *draft) number() {
	taken := make(map[int]bool, len(d.shards))
	for i := range d.shards {
		if d.shards[i].numbered {
			taken[d.shards[i].number] = true
		}
	}
	next := 0
	for i := range d.shards {
		s := &d.shards[i]
		if !s.numbered {
			for taken[next] {
				next++
			}
			s.number, s.numbered, taken[next] = next, true, true
		}
		s.nameNodes()
	}
}

// nameNodes writes the aliases of one shard. A replica that has a replica's
// alias of this shard keeps it; the others fill the gaps from 1.
func (s *shardDraft) nameNodes() {
	shard := shardAlias(s.number)
	s.primary.Alias = shard + "/primary"
	prefix := shard + "/replica-"
	taken := make(map[string]bool, len(s.replicas))
	for i := range s.replicas {
		alias := s.replicas[i].Alias
		if !strings.HasPrefix(alias, prefix) || taken[alias] {
			s.replicas[i].Alias = ""
			continue
		}
		taken[alias] = true
	}
	next := 1
	for i := range s.replicas {
		if s.replicas[i].Alias != "" {
			continue
		}
		for taken[prefix+strconv.Itoa(next)] {
			next++
		}
		s.replicas[i].Alias = prefix + strconv.Itoa(next)
		taken[s.replicas[i].Alias] = true
	}
}

// WithAliasesOf is m with the shard numbers and replica aliases of old,
// wherever a shard of m goes on from one of old's: it has the same primary, or
// a former replica took over, or at least a node stayed. All else gets the
// lowest free numbers.
func (m *Map) WithAliasesOf(old *Map) *Map {
	if old == nil {
		return m
	}
	d := m.draft()
	for i := range d.shards {
		d.shards[i].forgetAliases()
	}
	d.inheritNumbers(old)
	d.inheritReplicaAliases(old)
	return d.build()
}

func (s *shardDraft) forgetAliases() {
	s.numbered = false
	for i := range s.replicas {
		s.replicas[i].Alias = ""
	}
}

// heir is a shard of the new map that might go on from a shard of the old one.
type heir struct {
	shard  int // index in the draft
	number int // of the old shard
	claim  int // how good its claim is, 0 the best
}

// inheritNumbers lets the best claims be served first; one number goes to one shard.
func (d *draft) inheritNumbers(old *Map) {
	heirs := d.heirs(old)
	slices.SortStableFunc(heirs, func(a, b heir) int { return cmp.Compare(a.claim, b.claim) })
	taken := make(map[int]bool, len(old.Shards))
	for _, h := range heirs {
		s := &d.shards[h.shard]
		if !s.numbered && !taken[h.number] {
			s.number, s.numbered, taken[h.number] = h.number, true, true
		}
	}
}

func (d *draft) heirs(old *Map) []heir {
	places := old.places()
	var heirs []heir
	for i := range d.shards {
		s := &d.shards[i]
		claim := s.firstClaim()
		if was, ok := places.of(&s.primary); ok {
			heirs = append(heirs, heir{shard: i, number: was.shard, claim: claim + int(was.role)})
		}
		for j := range s.replicas {
			if was, ok := places.of(&s.replicas[j]); ok {
				heirs = append(heirs, heir{shard: i, number: was.shard, claim: claim + 2 + int(was.role)})
			}
		}
	}
	return heirs
}

// firstClaim puts shards without slots behind all others: Redis 7.0 lists a
// dead primary as such a shard of its own, while its successor is the shard.
func (s *shardDraft) firstClaim() int {
	if len(s.slots) == 0 {
		return 4
	}
	return 0
}

// place is where a node was in a map.
type place struct {
	shard int // its number
	role  Role
	alias string
}

// places are a map's nodes by their identity.
type places map[string]place

// of finds a node by its id; by its address only if it had no id then, as one
// that a MOVED has named.
func (p places) of(n *Node) (place, bool) {
	if was, ok := p[n.ID]; ok && n.ID != "" {
		return was, true
	}
	was, ok := p[n.Addr]
	return was, ok
}

func (m *Map) places() places {
	places := make(places, len(m.Nodes))
	for i := range m.Shards {
		s := &m.Shards[i]
		for _, n := range s.Replicas {
			places[identity(n)] = place{shard: s.Number, role: RoleReplica, alias: n.Alias}
		}
		places[identity(s.Primary)] = place{shard: s.Number, role: RolePrimary, alias: s.Primary.Alias}
	}
	return places
}

// identity is what makes two entries in two maps the same node: its id also
// when its address has changed, its address if it has no id.
func identity(n *Node) string {
	if n.ID != "" {
		return n.ID
	}
	return n.Addr
}

func (d *draft) inheritReplicaAliases(old *Map) {
	places := old.places()
	for i := range d.shards {
		for j := range d.shards[i].replicas {
			replica := &d.shards[i].replicas[j]
			if was, ok := places.of(replica); ok {
				replica.Alias = was.alias
			}
		}
	}
}
