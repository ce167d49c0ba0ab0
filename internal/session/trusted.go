package session

import (
	"github.com/sluiceproxy/sluice/internal/command"
)

// ofBackend lists the commands that a trusted tenant's backend answers, although the proxy answers or refuses them for
// others. What is about the session itself stays the proxy's: AUTH, SELECT, CLIENT ID, SETNAME, INFO, REPLY, TRACKING,
// UNBLOCK …, ACL WHOAMI and MONITOR.
func ofBackend(cmd *command.Command) bool {
	if cmd.Kind == command.KindAdmin && cmd.Name != "acl|whoami" {
		return true
	}
	switch cmd.Name {
	case "info", "role", "client|list", "client|kill", "client|pause", "client|unpause", "sync", "psync":
		return true
	case "acl|whoami":
		return false
	}
	if cmd.Parent == nil {
		return false
	}
	switch cmd.Parent.Name {
	case "acl", "cluster", "config", "latency", "memory", "module", "slowlog":
		return true
	}
	return false
}

// runTrusted passes a command of a trusted tenant about its backend on. It returns false when the command must wait.
func (s *Session) runTrusted(cmd *command.Command, args [][]byte, raw []byte) bool {
	if problem := s.judgeTrusted(cmd); problem != "" {
		return s.refuse(problem)
	}
	if takesLong(cmd) {
		return s.block(cmd, args, raw)
	}
	return s.forward(cmd, args, raw)
}

// judgeTrusted tells why not even a trusted tenant may send the command; empty: it may.
func (s *Session) judgeTrusted(cmd *command.Command) (problem string) {
	switch cmd.Name {
	case "sync", "psync", "replconf", "script|debug":
		return errReplication(cmd.Name)
	}
	return ""
}

// takesLong lists the commands that go over a connection of their own and without a timeout, because they may block it or
// end it.
func takesLong(cmd *command.Command) bool {
	switch cmd.Name {
	case "bgrewriteaof", "client|kill", "debug", "failover", "pfselftest", "replicaof", "save", "shutdown", "slaveof":
		return true
	}
	return cmd.Parent != nil && (cmd.Parent.Name == "module" || cmd.Parent.Name == "acl")
}
