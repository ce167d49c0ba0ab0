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
	queue    []byte // the commands, in RESP
	count    int
	steps    []step // what the proxy does about some of them, in their order
	remote   int    // how many are the node's
	slot     int32  // of the keys so far; route.NoSlot: none yet
	protocol int8   // that the client will speak behind the commands so far
	moves    bool   // it selects a database or changes the protocol version, which other users of a connection must not see
	broken   bool   // a command was refused: EXEC aborts
	torn     bool   // a client in cluster mode named keys of several slots: EXEC is refused
	hears    bool   // it subscribes
	late     lateness
	// scripts are those that the commands run by their names.
	scripts []*upstream.Script
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
		s.transaction = &transaction{slot: s.watchedSlot(), protocol: s.protocol}
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
	st, problem := s.judgeQueued(cmd, args)
	if problem != "" {
		tx.broken = true
		return s.refuse(problem)
	}
	if s.loose {
		raw = s.worker.encode(args)
	}
	if len(tx.queue)+len(raw)+len(tx.steps)*stepCost > transactionMax {
		tx.broken = true
		return s.refuse(errTransactionLong)
	}
	st.at, st.start = tx.remote, len(tx.queue)
	tx.queue = append(tx.queue, raw...)
	st.end = len(tx.queue)
	tx.count++
	if st.kind != stepNothing {
		tx.steps = append(tx.steps, st)
	}
	if st.kind == stepNothing || st.kind.ofNode() {
		tx.remote++
	}
	if cmd.Class == command.ClassScripting && (st.kind == stepNothing || cmd.Name == "script|load") {
		s.noteScript(cmd, args)
	}
	s.replyLocal(replyQueued)
	return true
}

// mayQueue reports whether a command with an argument of this length is kept until it is whole, because it may become a part
// of the transaction: it must not go to a node before EXEC.
func (s *Session) mayQueue(length int64) bool {
	return s.transaction != nil && length <= transactionMax-int64(len(s.transaction.queue))
}

var replyQueued = []byte("+QUEUED\r\n") //nolint:gochecknoglobals // constant

// exec sends the transaction. A session that watches keys sends it over its own connection, where the node knows of them.
func (s *Session) exec() bool {
	tx := s.transaction
	added := tx.count - tx.remote
	if (s.pinned != nil || tx.moves || added > 0) && s.head != nil {
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
	case tx.remote == 0 && s.pinned == nil:
		s.execHere(tx)
		return true
	}
	if tx.moves {
		at := tx.slot
		if !s.sharded {
			at = route.NoSlot
		}
		if outcome := s.pin(at, pinWatch); outcome != upstream.Sent {
			if s.refusePin(at, outcome, false) {
				return true
			}
			s.transaction = tx
			return false
		}
		s.pinned.dirty = true
	}
	p := s.newPending(command.ClassTransactions)
	p.Preface = uint32(1 + tx.remote)
	if len(tx.steps) > 0 {
		p.execution = &execution{p: p, steps: tx.plan(), count: tx.count, added: added}
	}
	if added > 0 || s.pinned != nil {
		s.alone = p // what comes next must not overtake it by another connection, nor run before what is added
	}
	request := tx.request()
	if s.pinned != nil {
		s.pinned.releaseAfter = p
		s.providePinned(p, tx.slot, tx.scripts)
		s.sendPinned(p, tx.slot, request)
		return true
	}
	s.provideAll(p, tx.slot, tx.scripts)
	s.submit(p, tx.slot, request)
	return true
}

// execHere runs a transaction in which no node has a part.
func (s *Session) execHere(tx *transaction) {
	if s.tracking != nil {
		s.tracking.caching = false
	}
	if tx.count == 0 {
		s.replyLocal(replyNoElements)
		return
	}
	p := s.newPending(command.ClassTransactions)
	x := &execution{p: p, steps: tx.plan(), count: tx.count, added: tx.count}
	p.execution, s.alone = x, p
	x.within = true
	x.take(replyNoElements, true)
	x.within = false
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
