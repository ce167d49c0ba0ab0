package session

import (
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/redcon"

	"github.com/sluiceproxy/sluice/internal/command"
	"github.com/sluiceproxy/sluice/internal/facade"
	"github.com/sluiceproxy/sluice/internal/route"
	"github.com/sluiceproxy/sluice/internal/tenant"
	"github.com/sluiceproxy/sluice/internal/topology"
	"github.com/sluiceproxy/sluice/pkg/slot"
)

// runCluster answers CLUSTER, READONLY, READWRITE and ASKING: as a single server to the clients of a tenant that is shown
// as one, else as a node of the cluster that the proxies look like. It returns false when the command must wait.
func (s *Session) runCluster(cmd *command.Command, args [][]byte) bool {
	if s.stats != nil && !asksNode(cmd.Name) {
		s.stats.observe(cmd.Class, 0)
	}
	if !s.fronted {
		return s.refuse(errNoCluster)
	}
	switch cmd.Name {
	case "readonly", "readwrite", "asking":
		s.replyOK() // every slot is served here, by its primary
	case "cluster|keyslot":
		s.replyInt(int64(slot.Of(args[2])))
	case "cluster|countkeysinslot", "cluster|getkeysinslot":
		return s.keysInSlot(cmd, args)
	case "cluster|links":
		s.replyLocal(replyNoElements) // the proxies do not talk with each other
	case "cluster|help":
		s.clusterHelp()
	default:
		return s.clusterView(cmd, args)
	}
	return true
}

// asksNode lists the commands that runCluster sends to a node, where they are counted.
func asksNode(name string) bool {
	return name == "cluster|countkeysinslot" || name == "cluster|getkeysinslot"
}

// clusterView answers what is about the nodes of the cluster that the proxies look like.
func (s *Session) clusterView(cmd *command.Command, args [][]byte) bool {
	if !readsCluster(cmd.Name) {
		return s.refuse(errAdmin(cmd.Name))
	}
	view, ok := s.worker.table.Fleet(s.entry).View(s.tenant.Name, s.listener)
	if !ok {
		return s.refuse(errNoEndpoint)
	}
	switch cmd.Name {
	case "cluster|slots":
		s.replyLocal(view.AppendSlots(nil, int(s.protocol)))
	case "cluster|shards":
		s.replyLocal(view.AppendShards(nil, int(s.protocol)))
	case "cluster|nodes":
		s.replyLocal(s.appendText(nil, view.Lines(time.Now())))
	case "cluster|info":
		s.replyLocal(s.appendText(nil, view.Info(s.local.Covered())))
	case "cluster|myid":
		s.replyBulk([]byte(view.Myself().ID))
	case "cluster|myshardid":
		s.replyBulk([]byte(view.Myself().ShardID))
	default:
		return s.clusterNode(cmd, args[2], view)
	}
	return true
}

// readsCluster lists the subcommands that a view of the cluster answers; the others would change it.
func readsCluster(name string) bool {
	switch name {
	case "cluster|slots", "cluster|shards", "cluster|nodes", "cluster|info", "cluster|myid", "cluster|myshardid",
		"cluster|count-failure-reports", "cluster|replicas", "cluster|slaves":
		return true
	}
	return false
}

// clusterNode answers what is asked about one node: none has replicas, and none has been found failing.
func (s *Session) clusterNode(cmd *command.Command, id []byte, view facade.View) bool {
	switch {
	case !view.Knows(string(id)):
		return s.refuse(errUnknownNode(id))
	case cmd.Name == "cluster|count-failure-reports":
		s.replyInt(0)
	default:
		s.replyLocal(replyNoElements)
	}
	return true
}

// keysInSlot asks the node that has the slot. A server that is no cluster could tell only by looking at every key.
func (s *Session) keysInSlot(cmd *command.Command, args [][]byte) bool {
	at, ok := parseInteger(args[2])
	valid := at >= 0 && at < topology.SlotCount
	problem := errSlot
	if cmd.Name == "cluster|getkeysinslot" {
		count, isCount := parseInteger(args[3])
		ok, valid, problem = ok && isCount, valid && count >= 0, errSlotOrCount
	}
	switch {
	case !ok:
		return s.refuse(errNotInteger)
	case !valid:
		return s.refuse(problem)
	case !s.sharded:
		return s.refuse(errNoSlotIndex)
	case s.routesChanged():
		return false
	}
	p := s.newPending(cmd.Class)
	p.ReadOnly = true
	s.submit(p, int32(at), s.worker.encode(args))
	return true
}

// crossesSlots reports whether the keys of a command are in several slots.
func (s *Session) crossesSlots(cmd *command.Command, args [][]byte) bool {
	decision, _, keys := route.Decide(cmd, args, tenant.Error, s.worker.keys)
	s.worker.keys = keys
	return decision == route.CrossSlot
}

// leavesDatabase tells why a node of a cluster, which has one database only, refuses a command that names another. The
// tenant's own is shown as 0 whichever it is, and put in that place. A malformed line is left to the node.
func (s *Session) leavesDatabase(cmd *command.Command, args [][]byte) (problem string) {
	switch cmd.Name {
	case "move":
		return errClusterMove
	case "copy":
		if slot.Of(args[1]) != slot.Of(args[2]) {
			return errCrossSlot
		}
		for i := 3; i+1 < len(args); i++ {
			if !strings.EqualFold(string(args[i]), "db") {
				continue
			}
			i++
			database, ok := parseInteger(args[i])
			switch {
			case !ok:
				return errNotInteger
			case database != 0:
				return errClusterCopy
			case s.database != 0:
				args[i] = strconv.AppendInt(nil, int64(s.database), 10)
				s.loose = true
			}
		}
	}
	return ""
}

// redisMode is what HELLO and INFO say that the client is connected to.
func (s *Session) redisMode() string { return s.tenant.Frontend.String() }

// clusterEnabled is INFO's cluster_enabled.
func (s *Session) clusterEnabled() string {
	if s.fronted {
		return "1"
	}
	return "0"
}

func (s *Session) clusterHelp() {
	lines := []string{
		"CLUSTER <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
		"COUNT-FAILURE-REPORTS <node-id>", "    Return number of failure reports for <node-id>.",
		"COUNTKEYSINSLOT <slot>", "    Return the number of keys in <slot>.",
		"GETKEYSINSLOT <slot> <count>", "    Return key names in a slot.",
		"INFO", "    Return information about the cluster.",
		"KEYSLOT <key>", "    Return the hash slot for <key>.",
		"LINKS", "    Return no links: the proxies that look like nodes do not talk with each other.",
		"MYID", "    Return the node id.",
		"MYSHARDID", "    Return the node's shard id.",
		"NODES", "    Return cluster configuration seen by node. Output format:",
		"    <id> <ip:port> <flags> <master> <pings> <pongs> <epoch> <link> <slot> ...",
		"REPLICAS <node-id>", "    Return <node-id> replicas.",
		"SLOTS", "    Return information about slots range mappings. Each range is made of:",
		"    start, end, master and replicas IP addresses, ports and ids",
		"SHARDS", "    Return information about slot range mappings and the nodes associated with them.",
		"HELP", "    Prints this help.",
	}
	b := redcon.AppendArray(nil, len(lines))
	for _, line := range lines {
		b = redcon.AppendString(b, line)
	}
	s.replyLocal(b)
}
