package session

import (
	"bytes"

	"github.com/sluiceproxy/sluice/internal/command"
	"github.com/sluiceproxy/sluice/internal/tenant"
	"github.com/sluiceproxy/sluice/pkg/resp"
)

// gatherMax is how long a command may be that is received whole although one of its arguments is long: one that several
// nodes or the proxy itself must see, or whose node is told by what comes behind that argument.
const gatherMax = 16 << 20

// gathers reports whether a command with a long argument, of which b holds the beginning, is received whole. What is part
// of a transaction is, since nothing of that may run before EXEC.
func (s *Session) gathers(b []byte) bool {
	if s.tenant == nil {
		return false
	}
	if s.transaction != nil {
		_, _, length, _, _ := s.scan.OpenBulk()
		return s.mayQueue(length)
	}
	if s.scan.Need() > gatherMax {
		return false
	}
	_, start, _, argc, _ := s.scan.OpenBulk()
	args := resp.AppendArgs(s.worker.args[:0], b[:bytes.LastIndexByte(b[:start], '$')])
	if len(args) == 0 || command.Lookup(args[0]) == nil {
		return false
	}
	cmd, _, problem := s.judgeStream(b[:start], argc)
	switch problem {
	case errArgumentTooLong, errKeyAfterLong:
		return true
	case "":
		return cmd.Kind == command.KindSplit && s.sharded && s.tenant.CrossSlot == tenant.Split && (cmd.Name != "mset" || argc > 3)
	}
	return false
}
