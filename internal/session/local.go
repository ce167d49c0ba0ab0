package session

import (
	"strconv"
	"time"

	"github.com/tidwall/redcon"

	"github.com/sluiceproxy/sluice/internal/command"
)

// runLocal answers what the proxy itself answers. Commands that change how the session is served are barriers: what was
// sent before them is settled first. It returns false when the command must wait.
func (s *Session) runLocal(cmd *command.Command, args [][]byte) bool {
	if cmd.Class == command.ClassCluster {
		return s.runCluster(cmd, args)
	}
	if changesSession(cmd.Name) && s.busy() {
		return false
	}
	if s.stats != nil {
		s.stats.observe(cmd.Class, 0)
	}
	if s.worker.slowAfter <= 0 {
		s.noteLocal(cmd, args)
	}
	if s.tracking != nil {
		s.endCaching(cmd)
	}
	switch cmd.Name {
	case "ping":
		s.ping(args)
	case "echo":
		s.replyBulk(args[1])
	case "auth":
		s.auth(args)
	case "hello":
		s.hello(args)
	case "quit":
		s.replyOK()
		s.finish()
	case "reset":
		s.reset()
	case "select":
		s.selectDatabase(args[1])
	case "time":
		s.time()
	case "role":
		s.replyLocal([]byte("*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n"))
	case "info":
		s.info(args[1:])
	case "monitor":
		return s.startMonitor()
	default:
		return s.runContainer(cmd, args)
	}
	return true
}

// changesSession lists the barriers.
func changesSession(name string) bool {
	switch name {
	case "auth", "hello", "quit", "reset", "select", "client|reply":
		return true
	}
	return false
}

// runContainer answers the subcommands of COMMAND, CONFIG, ACL and CLIENT.
func (s *Session) runContainer(cmd *command.Command, args [][]byte) bool {
	if cmd.Name == "command" || cmd.Parent != nil && cmd.Parent.Name == "command" {
		s.replyLocal(command.AppendReply(nil, args, int(s.protocol)))
		return true
	}
	switch {
	case cmd.Parent != nil && cmd.Parent.Name == "config":
		s.configCommand(cmd, args)
		return true
	case cmd.Parent != nil && cmd.Parent.Name == "acl":
		s.aclCommand(cmd, args)
		return true
	case cmd.Parent != nil && cmd.Parent.Name == "slowlog":
		return s.slowlogCommand(cmd, args)
	case cmd.Name == "latency", cmd.Parent != nil && cmd.Parent.Name == "latency":
		return s.latency(cmd, args)
	}
	return s.client(cmd, args)
}

func (s *Session) ping(args [][]byte) {
	if s.protocol == 2 && s.subscribed() && len(args) <= 2 {
		b := redcon.AppendBulkString(redcon.AppendArray(nil, 2), "pong")
		s.replyLocal(redcon.AppendBulk(b, append(args, nil)[1]))
		return
	}
	switch len(args) {
	case 1:
		s.replyLocal(replyPong)
	case 2:
		s.replyBulk(args[1])
	default:
		s.appendError("ERR " + command.WrongArity("ping"))
	}
}

// reset returns the session to the state of a new one, as RESET does.
func (s *Session) reset() {
	s.transaction = nil
	s.dropPin()
	s.dropTracking()
	s.leaveChannels()
	s.stopMonitor()
	s.leave()
	s.tenant, s.user, s.local = nil, nil, nil
	s.limits = &s.worker.strict
	s.protocol, s.name, s.database = 2, "", 0
	if s.reply == replyOff {
		s.reply = replyOn
	}
	s.become(s.worker.snapshot().Registry.ForListener(s.bound), nil)
	s.replyLocal([]byte("+RESET\r\n"))
}

func (s *Session) selectDatabase(arg []byte) {
	v, ok := parseInteger(arg)
	database := int(v)
	switch {
	case !ok:
		s.appendError(errNotInteger)
	case v != int64(int32(v)):
		s.appendError(errNotInt32)
	case s.slotted && database != 0:
		s.appendError(errSharded)
	case s.fronted:
		s.replyOK() // its only database is shown as 0, whichever it is
	case database < 0:
		s.appendError(errIndexRange)
	case !s.tenant.Allows(database):
		s.appendError(errDatabase(database))
	case s.pinned != nil:
		s.selectPinned(database)
	default:
		s.database = database
		s.retarget()
		s.replyOK()
	}
}

// selectPinned lets the node answer SELECT of a session that watches keys: they and the transaction are on a connection of
// its own, which must know.
func (s *Session) selectPinned(database int) {
	p := s.newPending(command.ClassConnection)
	p.selects = int32(database) + 1
	p.amend = func(p *pending, reply []byte) []byte {
		if reply[0] != '+' {
			p.selects = 0
		}
		return reply
	}
	s.barrier = true
	s.pinned.dirty, s.pinned.barrierOf = true, p
	s.sendPinned(p, s.pinned.slot, s.worker.encode([][]byte{[]byte("SELECT"), strconv.AppendInt(nil, int64(database), 10)}))
}

// parseInteger reads an integer as strictly as Redis does: no sign in front but '-', no leading zeros.
func parseInteger(arg []byte) (v int64, ok bool) {
	v, err := strconv.ParseInt(string(arg), 10, 64)
	return v, err == nil && strconv.FormatInt(v, 10) == string(arg)
}

func (s *Session) time() {
	now := time.Now()
	b := redcon.AppendArray(s.worker.buf[:0], 2)
	b = redcon.AppendBulkString(b, strconv.FormatInt(now.Unix(), 10))
	b = redcon.AppendBulkString(b, strconv.Itoa(now.Nanosecond()/1000))
	s.worker.buf = b
	s.replyLocal(b)
}
