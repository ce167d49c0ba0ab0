package session

import (
	"github.com/tidwall/redcon"

	"github.com/sluiceproxy/sluice/internal/command"
	"github.com/sluiceproxy/sluice/internal/route"
	"github.com/sluiceproxy/sluice/internal/upstream"
)

// latency answers LATENCY as a Redis with the latency monitor off and nothing sampled: a node's samples are those of all
// tenants together. The proxy's own are among its metrics.
func (s *Session) latency(cmd *command.Command, args [][]byte) bool {
	switch cmd.Name {
	case "latency|latest", "latency|history":
		s.replyLocal(replyNoElements)
	case "latency|reset":
		s.replyInt(0)
	case "latency|graph":
		s.appendError("ERR No samples available for event '" + oneLine(args[2]) + "'")
	case "latency|doctor":
		s.replyLocal(s.appendText(nil, latencyDoctor))
	case "latency|histogram":
		s.replyLocal(s.appendMap(nil, 0))
	default: // help
		s.replyLines(latencyHelp)
	}
	return true
}

const latencyDoctor = "I'm sorry, Dave, I can't do that. Latency monitoring is disabled in this Redis instance. You may use " +
	"\"CONFIG SET latency-monitor-threshold <milliseconds>.\" in order to enable it. If we weren't in a deep space mission I'd suggest " +
	"to take a look at https://redis.io/topics/latency-monitor.\n"

var latencyHelp = []string{ //nolint:gochecknoglobals // constant
	"LATENCY <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
	"DOCTOR", "    Return a human readable latency analysis report.",
	"GRAPH <event>", "    Return an ASCII latency graph for the <event> class.",
	"HISTORY <event>", "    Return time-latency samples for the <event> class.",
	"LATEST", "    Return the latest latency samples for all events.",
	"RESET [<event> ...]", "    Reset latency data of one or more <event> classes.", "    (default: reset all data for all event classes)",
	"HISTOGRAM [COMMAND ...]",
	"    Return a cumulative distribution of latencies in the format of a histogram for the specified command names.",
	"    If no commands are specified then all histograms are replied.",
	"HELP", "    Prints this help.",
}

// memory serves MEMORY DOCTOR and MEMORY STATS. They are about a whole server: a tenant that has one for itself gets its
// answers, any other tenant what is its own, the number of its keys.
func (s *Session) memory(cmd *command.Command, args [][]byte, raw []byte) bool {
	if !s.sharded && !s.sharesCluster() {
		return s.forward(cmd, args, raw)
	}
	if cmd.Name == "memory|doctor" {
		s.replyLocal(s.appendText(nil, memoryDoctor))
		return true
	}
	if s.routesChanged() {
		return false
	}
	slots := []int32{route.NoSlot}
	if s.sharded {
		slots = s.local.ShardSlots()
	}
	if len(slots) == 0 {
		return s.refuse(errNotSent(upstream.Uncovered, false))
	}
	s.scatter(cmd, route.FanOut(dbSizeCommand, slots, s.worker.shared.Settings.OutputBuffer, func(dst []byte, replies [][]byte) []byte {
		if e := route.FirstError(replies); e != nil {
			return append(dst, e...)
		}
		return route.MergeSum(redcon.AppendBulkString(s.appendMap(dst, 1), "keys.count"), replies)
	}).For(args))
	return true
}

const memoryDoctor = "Hi Sam, I can't find any memory issue in your instance. I can only account for what occurs on this base.\n"
