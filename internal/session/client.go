package session

import (
	"strings"

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
	case "client|kill":
		s.clientKill(args[2:])
	case "client|pause":
		s.clientPause(args)
	case "client|unpause":
		s.clientUnpause()
	case "client|list":
		s.clientList(args[2:])
	case "client|no-evict", "client|no-touch":
		s.onOff(cmd.Name, args[2])
	case "client|reply":
		s.setReplyMode(string(args[2]))
	case "client|help":
		s.replyLines(clientHelp)
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

// onOff stores what CLIENT NO-EVICT says, which CLIENT LIST shows: the proxy evicts nobody. NO-TOUCH has no effect.
func (s *Session) onOff(name string, arg []byte) {
	mode := strings.ToLower(string(arg))
	if mode != "on" && mode != "off" {
		s.appendError(errSyntax)
		return
	}
	if name == "client|no-evict" {
		s.noEvict = mode == "on"
	}
	s.replyOK()
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
