package session

import (
	"github.com/tidwall/redcon"

	"github.com/sluiceproxy/sluice/internal/command"
	"github.com/sluiceproxy/sluice/internal/route"
	"github.com/sluiceproxy/sluice/internal/upstream"
)

// transactionMax bounds the bytes of the commands that one transaction may queue.
const transactionMax = 64 << 20

// transaction is what a session has queued since MULTI. The proxy answers +QUEUED itself and sends the whole at EXEC, in
// one piece: so a transaction needs no connection of its own, a node sees it without a pause in the middle, and one that
// is redirected can be sent again whole. See https://redis.io/docs/latest/develop/interact/transactions/.
type transaction struct {
	queue   []byte // the commands, in RESP
	count   int
	slot    int32 // of the keys so far; route.NoSlot: none yet
	selects int32 // 1 + the database that the last SELECT asks for; 0: none
	broken  bool  // a command was refused: EXEC aborts
	torn    bool  // a client in cluster mode named keys of several slots: EXEC is refused
	// scripts are those that the commands run by their names.
	scripts []*upstream.Script
	told    bool // it publishes: the numbers of receivers are to be corrected
}

// endsQueueing lists the commands that run at once although a transaction is being queued.
func endsQueueing(name string) bool {
	switch name {
	case "multi", "exec", "discard", "watch", "quit", "reset":
		return true
	}
	return false
}

// runTransaction handles MULTI, EXEC, DISCARD, WATCH and UNWATCH. It returns false when the command must wait.
func (s *Session) runTransaction(cmd *command.Command, args [][]byte, raw []byte) bool {
	switch cmd.Name {
	case "multi":
		if s.transaction != nil {
			s.appendError(errNestedMulti)
			return true
		}
		s.transaction = &transaction{slot: s.watchedSlot()}
		s.replyOK()
		return true
	case "exec":
		if s.transaction == nil {
			s.appendError(errExecAlone)
			return true
		}
		return s.exec()
	case "discard":
		if s.transaction == nil {
			s.appendError(errDiscardAlone)
			return true
		}
		if s.pinned != nil && s.head != nil {
			return false
		}
		s.transaction = nil
		s.unpin()
		s.replyWithoutNode()
		return true
	case "watch":
		return s.watch(cmd, args, raw)
	default: // unwatch
		if s.pinned != nil && s.head != nil {
			return false
		}
		s.unpin()
		s.replyWithoutNode()
		return true
	}
}

// replyWithoutNode answers a command that CLIENT CACHING in front of it was in vain for.
func (s *Session) replyWithoutNode() {
	if s.tracking != nil {
		s.tracking.caching = false
	}
	s.replyOK()
}

// enqueue puts a command into the transaction, or refuses it as Redis would at once: EXEC aborts then.
func (s *Session) enqueue(cmd *command.Command, args [][]byte, raw []byte) bool {
	tx := s.transaction
	if problem := s.judgeQueued(cmd, args); problem != "" {
		tx.broken = true
		return s.refuse(problem)
	}
	if s.loose {
		raw = s.worker.encode(args)
	}
	if len(tx.queue)+len(raw) > transactionMax {
		tx.broken = true
		return s.refuse(errTransactionLong)
	}
	tx.queue = append(tx.queue, raw...)
	tx.count++
	if cmd.Class == command.ClassScripting {
		s.noteScript(cmd, args)
	}
	tx.told = tx.told || cmd.Kind == command.KindPublish
	s.replyLocal(replyQueued)
	return true
}

// mayQueue reports whether a command with an argument of this length is kept until it is whole, because it may become a part
// of the transaction: it must not go to a node before EXEC.
func (s *Session) mayQueue(length int64) bool {
	return s.transaction != nil && length <= transactionMax-int64(len(s.transaction.queue))
}

var replyQueued = []byte("+QUEUED\r\n") //nolint:gochecknoglobals // constant

// judgeQueued tells why a command cannot be part of the transaction; empty: it can.
func (s *Session) judgeQueued(cmd *command.Command, args [][]byte) (problem string) {
	tx := s.transaction
	switch kind := cmd.KindFor(args); {
	case cmd.Flags&command.NoMulti != 0:
		return errNotInMulti
	case s.trusted && ofBackend(cmd):
		return s.judgeTrusted(cmd)
	case kind == command.KindLearned && s.judgeLearned(cmd) != "":
		return s.judgeLearned(cmd)
	case s.fronted && s.crossesSlots(cmd, args):
		return errCrossSlot
	case kind == command.KindAdmin:
		return errAdmin(cmd.Name)
	case cmd.Name == "select" && !s.fronted:
		return s.judgeQueuedSelect(args[1])
	case kind == command.KindLocal && !runsInTransaction(cmd.Name):
		return errInMulti(cmd.Name)
	case kind == command.KindDedicated && cmd.Flags&command.Blocking == 0 && cmd.Name != "unwatch" && cmd.Name != "client|caching":
		return errInMulti(cmd.Name)
	}
	if problem := s.trespass(cmd, args); problem != "" {
		return problem
	}
	if !s.slotted || cmd.Kind == command.KindLocal {
		return ""
	}
	decision, at, keys := route.Decide(cmd, args, s.tenant.CrossSlot, s.worker.keys)
	s.worker.keys = keys
	switch {
	case decision == route.CrossSlot || decision == route.Split:
		return errCrossSlot
	case decision == route.OneNode && s.local.Shards() > 1:
		return errOneNode(cmd.Name)
	case at == route.NoSlot || at == tx.slot:
		return ""
	case tx.slot == route.NoSlot:
		tx.slot = at
		return ""
	case s.fronted:
		tx.torn = true // as a node that has both slots would find at EXEC
		return ""
	}
	return errCrossSlot
}

// judgeQueuedSelect takes SELECT into the transaction. What is wrong with its argument the node says at EXEC, as Redis does;
// a database that is not the tenant's is refused at once.
func (s *Session) judgeQueuedSelect(arg []byte) (problem string) {
	if problem := s.outside(arg); problem != "" && !s.sharded {
		return problem
	}
	if database, ok := parseInteger(arg); ok && !s.sharded && s.tenant.Allows(int(database)) {
		s.transaction.selects = int32(database) + 1
	}
	return ""
}

// runsInTransaction lists the commands that the proxy answers itself and that a node may answer in a transaction: they
// leave nothing on a connection that others use too.
func runsInTransaction(name string) bool {
	switch name {
	case "ping", "echo", "time":
		return true
	}
	return false
}

// exec sends the transaction. A session that watches keys sends it over its own connection, where the node knows of them.
func (s *Session) exec() bool {
	tx := s.transaction
	if (s.pinned != nil || tx.selects > 0) && s.head != nil {
		return false
	}
	if s.routesChanged() {
		return false
	}
	s.transaction = nil
	switch {
	case tx.broken:
		s.unpin()
		return s.refuse(errExecAbort)
	case tx.torn:
		s.unpin()
		return s.refuse(errCrossSlot)
	case tx.count == 0 && s.pinned == nil:
		if s.tracking != nil {
			s.tracking.caching = false
		}
		s.replyLocal(replyNoElements)
		return true
	}
	if tx.selects > 0 { // which a connection that others use must not see
		if outcome := s.pin(route.NoSlot, pinWatch); outcome != upstream.Sent {
			if s.refusePin(route.NoSlot, outcome, false) {
				return true
			}
			s.transaction = tx
			return false
		}
		s.pinned.dirty = true
	}
	request := make([]byte, 0, len(tx.queue)+64)
	request = append(request, "*1\r\n$5\r\nMULTI\r\n"...)
	request = append(request, tx.queue...)
	request = append(request, "*1\r\n$4\r\nEXEC\r\n"...)
	p := s.newPending(command.ClassTransactions)
	p.Preface = uint32(1 + tx.count)
	if tx.told || tx.selects > 0 {
		p.amend, p.selects = amendExecuted, tx.selects
	}
	if s.pinned != nil {
		// What comes next must run after it, though by another connection, and SELECT in it decides where.
		s.barrier = true
		s.pinned.barrierOf, s.pinned.releaseAfter = p, p
		s.sendPinned(p, tx.slot, request)
		return true
	}
	s.provideAll(p, tx.slot, tx.scripts)
	s.submit(p, tx.slot, request)
	return true
}

var replyNoElements = []byte("*0\r\n") //nolint:gochecknoglobals // constant

// watch sends WATCH over a connection of the session's own: what it leaves there is for this session alone.
func (s *Session) watch(cmd *command.Command, args [][]byte, raw []byte) bool {
	if s.transaction != nil {
		s.appendError(errWatchInMulti)
		return true
	}
	if s.head != nil {
		return false // what was sent before must not run after it
	}
	at := route.NoSlot
	if s.sharded {
		var decision route.Decision
		decision, at, s.worker.keys = route.Decide(cmd, args, s.tenant.CrossSlot, s.worker.keys)
		if decision != route.Forward || s.pinned != nil && s.pinned.slot != at {
			return s.refuse(errCrossSlot)
		}
	}
	if outcome := s.pin(at, pinWatch); outcome != upstream.Sent {
		return s.refusePin(at, outcome, false)
	}
	if s.loose {
		raw = s.worker.encode(args)
	}
	p := s.newPending(command.ClassTransactions)
	s.barrier = true // what comes next must run after it, by whichever connection
	s.pinned.barrierOf = p
	s.sendPinned(p, at, raw)
	return true
}

// watchedSlot is the slot of the keys that the session watches.
func (s *Session) watchedSlot() int32 {
	if s.pinned == nil {
		return route.NoSlot
	}
	return s.pinned.slot
}

var unwatchCommand = redcon.AppendBulkString(redcon.AppendArray(nil, 1), "UNWATCH") //nolint:gochecknoglobals // constant
