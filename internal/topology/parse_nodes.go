package topology

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// ParseNodes reads the reply to CLUSTER NODES. It is the costliest of the three
// to ask for and the only one that tells Epoch (the highest config epoch of a
// primary with slots) and Minority.
func ParseNodes(reply string, from Endpoint) (*Map, error) {
	var lines []nodesLine
	number := 0
	for line := range strings.Lines(reply) {
		number++
		if strings.TrimSpace(line) == "" {
			continue
		}
		parsed, ok := parseNodesLine(line, from)
		if !ok {
			return nil, fmt.Errorf("cannot read cluster nodes: line %d has another form", number)
		}
		lines = append(lines, parsed)
	}
	d := draft{}
	d.addLines(lines)
	return d.finish()
}

// nodesLine is one node as CLUSTER NODES tells it.
type nodesLine struct {
	node      Node
	known     bool // has an address and is past its handshake
	reachable bool // for the node that was asked
	primaryID string
	epoch     uint64
	slots     []Range
}

// Fields of a line; slots follow.
const (
	fieldID = iota
	fieldAddr
	fieldFlags
	fieldPrimary
	_ // ping sent
	_ // pong received
	fieldEpoch
	_ // link state
	fieldsBeforeSlots
)

func parseNodesLine(line string, from Endpoint) (nodesLine, bool) {
	fields := strings.Fields(line)
	if len(fields) < fieldsBeforeSlots {
		return nodesLine{}, false
	}
	epoch, err := strconv.ParseUint(fields[fieldEpoch], 10, 64)
	if err != nil {
		return nodesLine{}, false
	}
	slots, ok := parseNodesSlots(fields[fieldsBeforeSlots:])
	if !ok {
		return nodesLine{}, false
	}
	flags := strings.Split(fields[fieldFlags], ",")
	addr, hasAddr := nodesAddr(fields[fieldAddr], from)
	l := nodesLine{
		node:      Node{ID: fields[fieldID], Addr: addr, Healthy: !slices.Contains(flags, "fail")},
		known:     hasAddr && !slices.Contains(flags, "noaddr") && !slices.Contains(flags, "handshake"),
		primaryID: strings.TrimPrefix(fields[fieldPrimary], "-"),
		epoch:     epoch,
		slots:     slots,
	}
	l.reachable = l.known && l.node.Healthy && !slices.Contains(flags, "fail?")
	return l, true
}

// parseNodesSlots skips slots in motion, "[93->-id]": they are still the
// old node's, which answers ASK.
func parseNodesSlots(fields []string) ([]Range, bool) {
	var slots []Range
	for _, field := range fields {
		if strings.HasPrefix(field, "[") {
			continue
		}
		first, last, isRange := strings.Cut(field, "-")
		if !isRange {
			last = first
		}
		r, ok := slotRange(first, last)
		if !ok {
			return nil, false
		}
		slots = append(slots, r)
	}
	return slots, true
}

// nodesAddr reads ip:port@busport,hostname,name=value…; all after the port may
// be missing.
func nodesAddr(field string, from Endpoint) (string, bool) {
	names := strings.Split(field, ",")
	base, _, _ := strings.Cut(names[0], "@")
	if other := otherPort(names[1:], from.TLS); other != "" {
		if i := strings.LastIndexByte(base, ':'); i >= 0 {
			base = base[:i+1] + other
		}
	}
	if strings.HasPrefix(base, unknownHost+":") && len(names) > 1 {
		base = names[1] + strings.TrimPrefix(base, unknownHost)
	}
	return from.Resolve([]byte(base))
}

// otherPort is the port of the protocol that we speak where the node names it
// beside its usual one; empty if it does not.
func otherPort(names []string, tls bool) string {
	wanted := "tcp-port="
	if tls {
		wanted = "tls-port="
	}
	for _, name := range names {
		if port, ok := strings.CutPrefix(name, wanted); ok && port != "0" {
			return port
		}
	}
	return ""
}

func (d *draft) addLines(lines []nodesLine) {
	shardOf := make(map[string]int, len(lines))
	reachable, voters := 0, 0
	for _, l := range lines {
		if l.primaryID != "" {
			continue
		}
		if len(l.slots) > 0 {
			d.epoch = max(d.epoch, l.epoch)
			voters++
			if l.reachable {
				reachable++
			}
		}
		if l.known {
			shardOf[l.node.ID] = len(d.shards)
			d.shards = append(d.shards, shardDraft{primary: l.node, slots: l.slots})
		}
	}
	d.minority = 2*reachable <= voters
	for _, l := range lines {
		if shard, ok := shardOf[l.primaryID]; ok && l.known && l.primaryID != "" {
			d.shards[shard].replicas = append(d.shards[shard].replicas, l.node)
		}
	}
}
