package session

import (
	"math/rand/v2"

	"github.com/sluiceproxy/sluice/internal/command"
	"github.com/sluiceproxy/sluice/internal/route"
	"github.com/sluiceproxy/sluice/internal/upstream"
)

// runFanOut handles the commands that concern the whole keyspace or every node. It returns false when the command must
// wait.
func (s *Session) runFanOut(cmd *command.Command, args [][]byte, raw []byte) bool {
	if cmd.Class == command.ClassPubSub {
		return s.runPubSub(cmd, args, raw)
	}
	if problem := s.trespass(cmd, args); problem != "" {
		return s.refuse(problem)
	}
	if cmd.Name == "memory|doctor" || cmd.Name == "memory|stats" {
		return s.memory(cmd, args, raw)
	}
	if cmd.Class == command.ClassScripting {
		return s.runScripting(cmd, args, raw)
	}
	if !s.sharded {
		return s.forward(cmd, args, raw)
	}
	if s.routesChanged() {
		return false
	}
	switch cmd.Name {
	case "dbsize":
		return s.fanOut(cmd, args, raw, route.MergeSum)
	case "keys":
		return s.fanOut(cmd, args, raw, route.MergeArrays)
	case "flushall", "flushdb":
		return s.fanOut(cmd, args, raw, route.MergeOK)
	case "lastsave":
		return s.fanOut(cmd, args, raw, route.MergeLeast)
	case "randomkey":
		return s.randomKey(cmd, args)
	case "scan":
		return s.walkKeys(cmd, args)
	}
	return s.forward(cmd, args, raw)
}

// fanOut asks the primary of every shard and answers with what merge makes of their replies, which may be run on another
// tick but always on the session's loop.
func (s *Session) fanOut(cmd *command.Command, args [][]byte, raw []byte, merge route.Merge) bool {
	slots := s.local.ShardSlots()
	if len(slots) == 0 {
		return s.refuse(errNotSent(upstream.Uncovered, false))
	}
	if s.loose {
		raw = s.worker.encode(args)
	}
	request := append([]byte(nil), raw...)
	s.scatter(cmd, route.FanOut(request, slots, s.worker.shared.Settings.OutputBuffer, merge))
	return true
}

// randomKey asks every shard for a key and chooses by how many each has.
func (s *Session) randomKey(cmd *command.Command, args [][]byte) bool {
	slots := s.local.ShardSlots()
	if len(slots) == 0 {
		return s.refuse(errNotSent(upstream.Uncovered, false))
	}
	parts := make([]route.Part, 0, 2*len(slots))
	for _, at := range slots {
		parts = append(parts, route.Part{Slot: at, Request: dbSizeCommand}, route.Part{Slot: at, Request: randomKeyCommand})
	}
	s.scatter(cmd, route.Ask(parts, s.worker.shared.Settings.OutputBuffer, route.MergeWeighted(rand.Int64N)).For(args))
	return true
}

var (
	dbSizeCommand    = []byte("*1\r\n$6\r\nDBSIZE\r\n")    //nolint:gochecknoglobals // constant
	randomKeyCommand = []byte("*1\r\n$9\r\nRANDOMKEY\r\n") //nolint:gochecknoglobals // constant
)

// adminProblem is why a command about the backend's operation is refused.
func (s *Session) adminProblem(name string) string {
	if name == "swapdb" && s.slotted {
		return errSwapDB
	}
	return errAdmin(name)
}
