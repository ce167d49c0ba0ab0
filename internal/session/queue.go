package session

import (
	"slices"
	"strconv"

	"github.com/tidwall/redcon"

	"github.com/sluiceproxy/sluice/internal/command"
	"github.com/sluiceproxy/sluice/internal/route"
)

// step is what the proxy does about one command of a transaction, when its reply passes.
type step struct {
	kind       stepKind
	at         int // how many commands of the node's are in front of it
	start, end int // its place in the queue
	database   int32
	cmd        *command.Command
	problem    string   // the answer instead of running it
	line       []byte   // the command in RESP, once EXEC has been sent
	args       [][]byte // name and channel of what is published
}

// stepCost is what a step counts for in transactionMax.
const stepCost = 192

// stepKind says what is done.
type stepKind uint8

const (
	stepNothing   stepKind = iota // the node runs it, and its answer is passed on
	stepReceivers                 // the node publishes, and how many have got it is corrected
	stepSelect                    // the node selects a database, which is the session's then
	stepHello                     // the node changes the protocol version, and the proxy answers
	stepRun                       // the proxy runs it, or refuses to; the node is not told
)

// ofNode reports whether the command is sent to the node, whose answer is looked at.
func (k stepKind) ofNode() bool { return k != stepNothing && k != stepRun }

// lateness is what a transaction has done behind the node's part of it although the client may have put it in front.
type lateness struct {
	reads, writes, scripts string // the first command that reads or writes all shards, or their scripts
}

// judgeQueued tells what is to be done about a command of the transaction, or why it cannot be part of it.
func (s *Session) judgeQueued(cmd *command.Command, args [][]byte) (st step, problem string) {
	switch kind := cmd.KindFor(args); {
	case cmd.Flags&command.NoMulti != 0:
		return st, errNotInMulti
	case s.trusted && ofBackend(cmd):
		return st, s.judgeTrusted(cmd)
	case kind == command.KindLearned && s.judgeLearned(cmd) != "":
		return st, s.judgeLearned(cmd)
	case s.fronted && s.crossesSlots(cmd, args):
		return st, errCrossSlot
	case kind == command.KindAdmin:
		return st, s.adminProblem(cmd.Name)
	case cmd.Name == "client|tracking":
		return st, errTrackingInMulti
	case cmd.Name == "monitor":
		return step{kind: stepRun, cmd: cmd, problem: errMonitorInMulti}, ""
	case cmd.Name == "ssubscribe":
		return step{kind: stepRun, cmd: cmd, problem: errSSubscribeInMulti}, ""
	case cmd.Name == "select" && !s.slotted:
		return s.judgeQueuedSelect(cmd, args[1]), ""
	case cmd.Name == "hello":
		return s.judgeQueuedHello(cmd, args)
	case kind == command.KindLocal && !runsInTransaction(cmd.Name), kind == command.KindDedicated && answersHere(cmd):
		return step{kind: stepRun, cmd: cmd}, ""
	case kind == command.KindDedicated && cmd.Class == command.ClassPubSub:
		s.transaction.hears = true
		return step{kind: stepRun, cmd: cmd}, ""
	case kind == command.KindFanOut && s.concernsAll(cmd):
		return s.judgeQueuedFanOut(cmd, args)
	case kind == command.KindPublish:
		return s.judgeQueuedPublish(cmd, args)
	}
	return st, s.judgeForNode(cmd, args)
}

// judgeForNode tells why a command that a node runs cannot be part of the transaction; empty: it can.
func (s *Session) judgeForNode(cmd *command.Command, args [][]byte) (problem string) {
	tx := s.transaction
	if problem := s.trespass(cmd, args); problem != "" {
		return problem
	}
	if !s.slotted || cmd.Kind == command.KindLocal {
		return ""
	}
	if problem := s.comesTooLate(cmd, args); problem != "" {
		return problem
	}
	decision, at, keys := route.Decide(cmd, args, s.tenant.CrossSlot, s.worker.keys)
	s.worker.keys = keys
	switch {
	case decision == route.CrossSlot || decision == route.Split:
		return errCrossSlot
	case decision == route.OneNode && s.local.Shards() > 1 && cmd.Name != "unwatch" && cmd.Name != "client|caching":
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

// judgeQueuedSelect takes SELECT into the transaction. What is wrong with its argument the node says at EXEC, as Redis does,
// and the proxy of a database that is not the tenant's.
func (s *Session) judgeQueuedSelect(cmd *command.Command, arg []byte) step {
	if problem := s.outside(arg); problem != "" {
		return step{kind: stepRun, cmd: cmd, problem: problem}
	}
	database, ok := parseInteger(arg)
	if !ok || !s.tenant.Allows(int(database)) {
		return step{}
	}
	s.transaction.moves = true
	return step{kind: stepSelect, database: int32(database)}
}

// judgeQueuedHello takes HELLO into the transaction. When it changes the protocol version, the node must, too, because the
// answers behind it are in that version. It must then be sure beforehand that it will be done.
func (s *Session) judgeQueuedHello(cmd *command.Command, args [][]byte) (st step, problem string) {
	tx := s.transaction
	wanted, problem := parseHello(args)
	switch {
	case problem != "" || wanted.version == 0 || wanted.version == tx.protocol:
		return step{kind: stepRun, cmd: cmd}, ""
	case wanted.user != nil:
		return st, errHelloAuthInMulti
	case s.tracking != nil:
		return st, errHelloTracking
	}
	tx.protocol, tx.moves = wanted.version, true
	return step{kind: stepHello, cmd: cmd, database: int32(wanted.version)}, ""
}

// judgeQueuedPublish takes PUBLISH or SPUBLISH into the transaction. Behind a subscription the proxy publishes, because the
// client listens only then.
func (s *Session) judgeQueuedPublish(cmd *command.Command, args [][]byte) (st step, problem string) {
	if s.transaction.hears {
		return step{kind: stepRun, cmd: cmd}, ""
	}
	if problem = s.judgeForNode(cmd, args); problem != "" {
		return st, problem
	}
	return step{kind: stepReceivers, args: [][]byte{slices.Clone(args[0]), slices.Clone(args[1])}}, ""
}

// concernsAll reports whether no single node can answer a command as the proxy does.
func (s *Session) concernsAll(cmd *command.Command) bool {
	switch {
	case s.sharded, cmd.Class == command.ClassPubSub:
		return true
	case cmd.Name == "memory|doctor", cmd.Name == "memory|stats":
		return s.sharesCluster()
	}
	return false
}

// judgeQueuedFanOut takes a command over all shards into the transaction. It is run when the node has run its part: so
// nothing may follow that would make a difference.
func (s *Session) judgeQueuedFanOut(cmd *command.Command, args [][]byte) (st step, problem string) {
	if problem = s.trespass(cmd, args); problem != "" {
		return st, problem
	}
	late := &s.transaction.late
	note := func(first *string) {
		if *first == "" {
			*first = cmd.Name
		}
	}
	switch cmd.Name {
	case "flushall", "flushdb":
		note(&late.writes)
	case "dbsize", "keys", "randomkey", "scan", "memory|stats":
		note(&late.reads)
	case "script|flush", "function|delete", "function|flush", "function|load", "function|restore":
		note(&late.scripts)
	}
	return step{kind: stepRun, cmd: cmd}, ""
}

// comesTooLate tells why a command cannot stand behind one that is run when the node has run its part of the transaction.
func (s *Session) comesTooLate(cmd *command.Command, args [][]byte) (problem string) {
	late := &s.transaction.late
	scripting := cmd.Class == command.ClassScripting
	publishes := cmd.Kind == command.KindPublish
	switch {
	case late.writes != "" && !publishes && (cmd.Flags&(command.Write|command.ReadOnly) != 0 || scripting || cmd.Kind == command.KindLearned):
		return errTooLateInMulti(cmd.Name, late.writes)
	case late.reads != "" && !publishes && (s.mayWrite(cmd, args) || cmd.Kind == command.KindLearned):
		return errTooLateInMulti(cmd.Name, late.reads)
	case late.scripts != "" && scripting:
		return errTooLateInMulti(cmd.Name, late.scripts)
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

// answersHere lists the commands about client-side caching that only tell of it.
func answersHere(cmd *command.Command) bool {
	return cmd.Name == "client|getredir" || cmd.Name == "client|trackinginfo"
}

// plan gives the steps what they need of the queue.
func (tx *transaction) plan() []step {
	for i := range tx.steps {
		if st := &tx.steps[i]; st.kind == stepRun || st.kind == stepHello {
			st.line = slices.Clone(tx.queue[st.start:st.end])
		}
	}
	return tx.steps
}

// request is what the node is sent: MULTI, its commands and EXEC.
func (tx *transaction) request() []byte {
	request := make([]byte, 0, len(tx.queue)+64)
	request = append(request, "*1\r\n$5\r\nMULTI\r\n"...)
	at := 0
	for i := range tx.steps {
		st := &tx.steps[i]
		switch st.kind {
		case stepRun:
			request = append(request, tx.queue[at:st.start]...)
			at = st.end
		case stepHello:
			request = append(request, tx.queue[at:st.start]...)
			request = appendHello(request, int(st.database))
			at = st.end
		}
	}
	request = append(request, tx.queue[at:]...)
	return append(request, "*1\r\n$4\r\nEXEC\r\n"...)
}

func appendHello(dst []byte, version int) []byte {
	dst = redcon.AppendBulkString(redcon.AppendArray(dst, 2), "HELLO")
	return redcon.AppendBulkString(dst, strconv.Itoa(version))
}
