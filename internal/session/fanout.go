package session

import (
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
	if cmd.Class == command.ClassScripting {
		return s.runScripting(cmd, args, raw)
	}
	if !s.sharded {
		return s.forward(cmd, args, raw)
	}
	if s.routesChanged() {
		return false
	}
	if cmd.Name == "dbsize" {
		return s.fanOut(cmd, args, raw, route.MergeSum)
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
