package topology

import "fmt"

// ParseShards reads the reply to CLUSTER SHARDS, in either protocol, as
// go-redis decodes it. from is the node that gave it. Nodes without an address
// are left out; if that is a shard's only primary, its slots are uncovered.
func ParseShards(v any, from Endpoint) (*Map, error) {
	shards, ok := v.([]any)
	if !ok {
		return nil, fmt.Errorf("cannot read cluster shards: reply is a %T", v)
	}
	var d draft
	for i, shard := range shards {
		parsed, usable, err := parseShard(shard, from)
		if err != nil {
			return nil, fmt.Errorf("cannot read cluster shards: shard %d: %w", i, err)
		}
		if usable {
			d.shards = append(d.shards, parsed)
		}
	}
	return d.finish()
}

func parseShard(v any, from Endpoint) (s shardDraft, usable bool, err error) {
	nodes, ok := lookup(v, "nodes").([]any)
	if !ok {
		return s, false, fmt.Errorf("nodes are a %T", lookup(v, "nodes"))
	}
	if s.slots, err = parseShardSlots(lookup(v, "slots")); err != nil {
		return s, false, err
	}
	for _, node := range nodes {
		if n, ok := parseShardNode(node, from); ok {
			s.addNode(n)
		}
	}
	return s, s.primary.Addr != "", nil
}

// parseShardSlots reads first, last, first, last …; a shard may have none.
func parseShardSlots(v any) ([]Range, error) {
	if v == nil {
		return nil, nil
	}
	bounds, ok := v.([]any)
	if !ok || len(bounds)%2 != 0 {
		return nil, fmt.Errorf("slots are no pairs but a %T", v)
	}
	ranges := make([]Range, 0, len(bounds)/2)
	for i := 0; i < len(bounds); i += 2 {
		r, ok := slotRange(bounds[i], bounds[i+1])
		if !ok {
			return nil, fmt.Errorf("slot range %d is none", i/2)
		}
		ranges = append(ranges, r)
	}
	return ranges, nil
}

// addNode puts a node in its place. Servers that group by shard id list a
// failed primary beside its successor: a healthy one leads, the other follows.
func (s *shardDraft) addNode(n Node) {
	switch {
	case n.Role == RoleReplica:
		s.replicas = append(s.replicas, n)
	case s.primary.Addr == "":
		s.primary = n
	case n.Healthy && !s.primary.Healthy:
		s.replicas = append(s.replicas, s.primary)
		s.primary = n
	default:
		s.replicas = append(s.replicas, n)
	}
}

// parseShardNode is false for a node that cannot be reached by what is said of it.
func parseShardNode(v any, from Endpoint) (Node, bool) {
	host := shardHost(v, from)
	port := shardPort(v, from.TLS)
	if host == "" || !isHost(host) || !isPort(port) {
		return Node{}, false
	}
	n := Node{ID: text(lookup(v, "id")), Addr: join(host, port)}
	if role := text(lookup(v, "role")); role != "master" && role != "primary" {
		n.Role = RoleReplica
	}
	n.Healthy = isHealthy(n.Role, text(lookup(v, "health")))
	return n, true
}

// isHealthy: a primary that is loading answers by itself that it is, which
// clients know; a replica that is loading has nothing to read.
func isHealthy(role Role, health string) bool {
	switch health {
	case "fail":
		return false
	case "loading":
		return role == RolePrimary
	}
	return true
}

// shardHost follows the documentation of CLUSTER SHARDS: endpoint is the
// host to use; null or empty means the host that was asked; "?" means that a
// host name is preferred and not set.
func shardHost(v any, from Endpoint) string {
	switch endpoint := text(lookup(v, "endpoint")); endpoint {
	case "":
		return from.Host
	case unknownHost:
		return firstKnown(text(lookup(v, "ip")), text(lookup(v, "hostname")))
	default:
		return endpoint
	}
}

func firstKnown(hosts ...string) string {
	for _, host := range hosts {
		if host != "" && host != unknownHost {
			return host
		}
	}
	return ""
}

// shardPort takes the port of the protocol that we speak, or the only one there is.
func shardPort(v any, tls bool) int {
	plain, _ := integer(lookup(v, "port"))
	secure, _ := integer(lookup(v, "tls-port"))
	if tls && isPort(secure) || !isPort(plain) {
		return secure
	}
	return plain
}
