package session

import (
	"fmt"
	"strings"

	"github.com/tidwall/redcon"

	"github.com/sluiceproxy/sluice/internal/command"
)

// nameMax bounds the texts that a client may store in its session.
const nameMax = 1024

// client handles CLIENT subcommands.
func (s *Session) client(cmd *command.Command, args [][]byte) bool {
	switch cmd.Name {
	case "client|id":
		s.replyInt(int64(s.id))
	case "client|getname":
		s.clientName()
	case "client|setname":
		s.setName(string(args[2]))
	case "client|setinfo":
		s.setInfo(string(args[2]), string(args[3]))
	case "client|info":
		s.replyLocal(s.appendText(nil, s.describe()+"\n"))
	case "client|list":
		s.clientList(args[2:])
	case "client|no-evict", "client|no-touch":
		s.onOff(args[2])
	case "client|reply":
		s.setReplyMode(string(args[2]))
	case "client|help":
		s.clientHelp()
	case "client|unblock":
		s.clientUnblock(args[2:])
	default:
		return s.refuse(errNotSupportedYet(cmd.Name))
	}
	return true
}

func (s *Session) clientName() {
	if s.name == "" {
		s.replyLocal(s.appendNull(nil))
		return
	}
	s.replyBulk([]byte(s.name))
}

// validName reports whether every byte is printable ASCII without blanks, as CLIENT SETNAME asks.
func validName(name string) bool {
	for i := range len(name) {
		if name[i] < '!' || name[i] > '~' {
			return false
		}
	}
	return len(name) <= nameMax
}

func (s *Session) setName(name string) {
	if !validName(name) {
		s.appendError(errClientName)
		return
	}
	s.name = name
	s.replyOK()
}

func (s *Session) setInfo(attribute, value string) {
	if !validName(value) {
		s.appendError("ERR " + strings.ToLower(oneLine([]byte(attribute))) + " cannot contain spaces, newlines or special characters.")
		return
	}
	switch strings.ToLower(attribute) {
	case "lib-name":
		s.libName = value
	case "lib-ver":
		s.libVersion = value
	default:
		s.appendError("ERR Unrecognized option '" + oneLine([]byte(attribute)) + "'")
		return
	}
	s.replyOK()
}

func (s *Session) onOff(arg []byte) {
	switch strings.ToLower(string(arg)) {
	case "on", "off":
		s.replyOK()
	default:
		s.appendError(errSyntax)
	}
}

func (s *Session) setReplyMode(mode string) {
	switch strings.ToLower(mode) {
	case "on":
		s.reply = replyOn
		s.replyOK()
	case "off":
		s.reply = replyOff
	case "skip":
		if s.reply != replyOff {
			s.reply = replySkipNext
		}
	default:
		s.appendError(errSyntax)
	}
}

// describe is the session's line in CLIENT LIST, with Redis's fields.
func (s *Session) describe() string {
	now := s.worker.Loop.Now()
	user := tenantUser(s)
	return fmt.Sprintf("id=%d addr=%s laddr=%s fd=-1 name=%s age=%d idle=%d flags=N db=%d sub=0 psub=0 ssub=0 multi=-1 qbuf=%d qbuf-free=0 "+
		"argv-mem=0 multi-mem=0 rbs=0 rbp=0 obl=0 oll=0 omem=%d tot-mem=0 events=r cmd=%s user=%s redir=-1 resp=%d lib-name=%s lib-ver=%s",
		s.id, s.peer, s.listener, s.name, (now-s.created)/1e9, (now-s.lastActive)/1e9, s.database, s.conn.Unread(), s.conn.Pending(),
		lastCommand(s.lastName), user, s.protocol, s.libName, s.libVersion)
}

func lastCommand(name string) string {
	if name == "" {
		return "NULL"
	}
	return name
}

func tenantUser(s *Session) string {
	if s.user == nil {
		return "default"
	}
	return s.user.Name
}

// clientList answers with the clients of the session's own tenant, on all loops.
func (s *Session) clientList(options [][]byte) {
	wanted, problem := parseListOptions(options)
	if problem != "" {
		s.appendError(problem)
		return
	}
	name := s.tenant.Name
	lines := make([][]string, len(s.worker.shared.Workers))
	s.askLoops(func(w *Worker) {
		w.Each(func(other *Session) {
			if other.tenant != nil && other.tenant.Name == name && (wanted == nil || wanted[other.id]) {
				lines[w.Loop.ID()] = append(lines[w.Loop.ID()], other.describe()+"\n")
			}
		})
	}, func() []byte {
		var all strings.Builder
		for _, of := range lines {
			for i := len(of) - 1; i >= 0; i-- {
				all.WriteString(of[i])
			}
		}
		return s.appendText(nil, all.String())
	})
}

// parseListOptions reads [TYPE type] [ID id …]; a nil map means every client.
func parseListOptions(options [][]byte) (wanted map[uint64]bool, problem string) {
	if len(options) == 0 {
		return nil, ""
	}
	switch strings.ToLower(string(options[0])) {
	case "type":
		if len(options) != 2 {
			return nil, errSyntax
		}
		switch strings.ToLower(string(options[1])) {
		case "normal":
			return nil, ""
		case "master", "replica", "slave", "pubsub":
			return map[uint64]bool{}, ""
		}
		return nil, "ERR Unknown client type '" + oneLine(options[1]) + "'"
	case "id":
		if len(options) < 2 {
			return nil, errSyntax
		}
		wanted = make(map[uint64]bool)
		for _, arg := range options[1:] {
			id, ok := parseInteger(arg)
			if !ok {
				return nil, "ERR Invalid client ID"
			}
			wanted[uint64(id)] = true
		}
		return wanted, ""
	}
	return nil, errSyntax
}

// askLoops runs ask on every loop, one after the other, and answers the command at hand with what answer makes of it.
func (s *Session) askLoops(ask func(*Worker), answer func() []byte) {
	w := s.worker
	p := s.newLocal()
	p.others++
	s.barrier = true
	go func() { // ends when every loop has answered or stopped
		for _, other := range w.shared.Workers {
			other.Loop.Call(func() { ask(other) })
		}
		w.Loop.Post(func() {
			if p.session == nil {
				p.complete(nil)
				return
			}
			p.complete(answer())
		})
	}()
}

func (s *Session) clientHelp() {
	lines := []string{
		"CLIENT <subcommand> [<arg> [value] [opt] ...]. Subcommands:",
		"GETNAME", "    Return the name of the current connection.",
		"ID", "    Return the ID of the current connection.",
		"INFO", "    Return information about the current client connection.",
		"LIST [options ...]", "    Return information about the tenant's client connections. Options:",
		"    * TYPE (NORMAL|MASTER|REPLICA|PUBSUB)", "    * ID <id> [<id> ...]",
		"NO-EVICT (ON|OFF)", "    Accepted; the proxy evicts no client.",
		"NO-TOUCH (ON|OFF)", "    Accepted.",
		"REPLY (ON|OFF|SKIP)", "    Control the replies sent to the current connection.",
		"SETINFO <option> <value>", "    Set client meta attr. Options are: LIB-NAME, LIB-VER.",
		"SETNAME <name>", "    Assign the name <name> to the current connection.",
		"HELP", "    Print this help.",
	}
	b := redcon.AppendArray(nil, len(lines))
	for _, line := range lines {
		b = redcon.AppendString(b, line)
	}
	s.replyLocal(b)
}
