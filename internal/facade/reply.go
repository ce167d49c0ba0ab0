package facade

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/redcon"

	"github.com/sluiceproxy/sluice/internal/topology"
)

// Replies have the form of Redis 7's; see https://redis.io/docs/latest/commands/cluster-shards/ and its neighbours.

// AppendSlots appends the reply to CLUSTER SLOTS.
func (v View) AppendSlots(dst []byte, protocol int) []byte {
	dst = redcon.AppendArray(dst, len(v.Nodes))
	for i := range v.Nodes {
		n := &v.Nodes[i]
		dst = redcon.AppendArray(dst, 3)
		dst = redcon.AppendInt(dst, int64(n.Slots.First))
		dst = redcon.AppendInt(dst, int64(n.Slots.Last))
		dst = redcon.AppendArray(dst, 4)
		dst = redcon.AppendBulkString(dst, n.Host)
		dst = redcon.AppendInt(dst, int64(n.Port))
		dst = redcon.AppendBulkString(dst, n.ID)
		dst = appendMap(dst, 0, protocol)
	}
	return dst
}

// AppendShards appends the reply to CLUSTER SHARDS.
func (v View) AppendShards(dst []byte, protocol int) []byte {
	dst = redcon.AppendArray(dst, len(v.Nodes))
	for i := range v.Nodes {
		n := &v.Nodes[i]
		dst = appendMap(dst, 2, protocol)
		dst = redcon.AppendBulkString(dst, "slots")
		dst = redcon.AppendArray(dst, 2)
		dst = redcon.AppendInt(dst, int64(n.Slots.First))
		dst = redcon.AppendInt(dst, int64(n.Slots.Last))
		dst = redcon.AppendBulkString(dst, "nodes")
		dst = redcon.AppendArray(dst, 1)
		dst = v.appendShardNode(dst, n, protocol)
	}
	return dst
}

func (v View) appendShardNode(dst []byte, n *Node, protocol int) []byte {
	pairs, port := 7, "port"
	if n.named() {
		pairs++
	}
	if v.TLS {
		port = "tls-port"
	}
	dst = appendMap(dst, pairs, protocol)
	dst = appendField(dst, "id", n.ID)
	dst = redcon.AppendBulkString(dst, port)
	dst = redcon.AppendInt(dst, int64(n.Port))
	dst = appendField(dst, "ip", n.Host)
	dst = appendField(dst, "endpoint", n.Host)
	if n.named() {
		dst = appendField(dst, "hostname", n.Host)
	}
	dst = appendField(dst, "role", "master")
	dst = redcon.AppendBulkString(dst, "replication-offset")
	dst = redcon.AppendInt(dst, 0)
	return appendField(dst, "health", "online")
}

func appendField(dst []byte, name, value string) []byte {
	return redcon.AppendBulkString(redcon.AppendBulkString(dst, name), value)
}

func appendMap(dst []byte, pairs, protocol int) []byte {
	if protocol < 3 {
		return redcon.AppendArray(dst, 2*pairs)
	}
	dst = append(dst, '%')
	dst = strconv.AppendInt(dst, int64(pairs), 10)
	return append(dst, '\r', '\n')
}

// busOffset is how far from a node's port Redis has the cluster bus. There is none here, but readers expect a number.
const busOffset = 10000

// Lines is the text of CLUSTER NODES.
func (v View) Lines(now time.Time) string {
	var b strings.Builder
	for i := range v.Nodes {
		n := &v.Nodes[i]
		bus, name, flags := n.Port+busOffset, "", "master"
		if bus > 65535 {
			bus = 0
		}
		if n.named() {
			name = "," + n.Host
		}
		pong := now.UnixMilli()
		if i == v.Self {
			flags = "myself,master"
		}
		fmt.Fprintf(&b, "%s %s:%d@%d%s %s - 0 %d %d connected %s\n", n.ID, n.Host, n.Port, bus, name, flags, pong, i+1, slotText(n.Slots))
	}
	return b.String()
}

func slotText(r topology.Range) string {
	if r.First == r.Last {
		return strconv.Itoa(int(r.First))
	}
	return strconv.Itoa(int(r.First)) + "-" + strconv.Itoa(int(r.Last))
}

// Info is the text of CLUSTER INFO. served is the number of slots that the backend has nodes for.
func (v View) Info(served int) string {
	state := "ok"
	if served < topology.SlotCount {
		state = "fail"
	}
	lines := []string{
		"cluster_state:" + state,
		fmt.Sprintf("cluster_slots_assigned:%d", topology.SlotCount),
		fmt.Sprintf("cluster_slots_ok:%d", served),
		"cluster_slots_pfail:0",
		fmt.Sprintf("cluster_slots_fail:%d", topology.SlotCount-served),
		fmt.Sprintf("cluster_known_nodes:%d", len(v.Nodes)),
		fmt.Sprintf("cluster_size:%d", len(v.Nodes)),
		fmt.Sprintf("cluster_current_epoch:%d", len(v.Nodes)),
		fmt.Sprintf("cluster_my_epoch:%d", v.Self+1),
		"cluster_stats_messages_sent:0",
		"cluster_stats_messages_received:0",
		"total_cluster_links_buffer_limit_exceeded:0",
	}
	return strings.Join(lines, "\r\n") + "\r\n"
}
