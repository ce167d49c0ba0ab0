package topology

import "fmt"

// ParseSlots reads the reply to CLUSTER SLOTS, of every version since Redis 3,
// as go-redis decodes it. from is the node that gave it. It knows nothing of
// health and of nodes without slots.
func ParseSlots(v any, from Endpoint) (*Map, error) {
	entries, ok := v.([]any)
	if !ok {
		return nil, fmt.Errorf("cannot read cluster slots: reply is a %T", v)
	}
	var d draft
	for i, entry := range entries {
		s, usable, err := parseSlotsEntry(entry, from)
		if err != nil {
			return nil, fmt.Errorf("cannot read cluster slots: entry %d: %w", i, err)
		}
		if usable {
			d.shards = append(d.shards, s)
		}
	}
	return d.finish()
}

// parseSlotsEntry reads first slot, last slot, primary, replicas ….
func parseSlotsEntry(v any, from Endpoint) (s shardDraft, usable bool, err error) {
	entry, ok := v.([]any)
	if !ok || len(entry) < 2 {
		return s, false, fmt.Errorf("it is a %T and no range of slots", v)
	}
	r, ok := slotRange(entry[0], entry[1])
	if !ok {
		return s, false, fmt.Errorf("its bounds are no slots")
	}
	s.slots = []Range{r}
	for i, node := range entry[2:] {
		n, ok := parseSlotsNode(node, from)
		switch {
		case i == 0 && !ok:
			return s, false, nil // no primary to send to: the range is uncovered
		case i == 0:
			s.primary = n
		case ok:
			s.replicas = append(s.replicas, n)
		}
	}
	return s, len(entry) > 2, nil
}

// parseSlotsNode reads host, port and, since Redis 4, id and, since 7, a
// record of further names. The host is null or empty if it is the one asked.
func parseSlotsNode(v any, from Endpoint) (Node, bool) {
	fields, ok := v.([]any)
	if !ok || len(fields) < 2 {
		return Node{}, false
	}
	host := text(fields[0])
	switch host {
	case "":
		host = from.Host
	case unknownHost:
		host = furtherName(fields)
	}
	port, _ := integer(fields[1])
	if host == "" || !isHost(host) || !isPort(port) {
		return Node{}, false
	}
	n := Node{Addr: join(host, port), Healthy: true}
	if len(fields) > 2 {
		n.ID = text(fields[2])
	}
	return n, true
}

func furtherName(fields []any) string {
	if len(fields) < 4 {
		return ""
	}
	return firstKnown(text(lookup(fields[3], "ip")), text(lookup(fields[3], "hostname")))
}
