package session

import (
	"strings"

	"github.com/sluiceproxy/sluice/internal/command"
)

// trespass tells why a command must not run that names a database, or empties all of them: it would reach what is not
// the tenant's. What is malformed is left to the node to complain of.
func (s *Session) trespass(cmd *command.Command, args [][]byte) (problem string) {
	if cmd.Class == command.ClassScripting {
		return s.trespassScripting(cmd)
	}
	if cmd.Name == "migrate" && s.sharesCluster() {
		return errMigrate
	}
	if s.sharded {
		return "" // there is one database only
	}
	if s.fronted {
		if problem := s.leavesDatabase(cmd, args); problem != "" {
			return problem
		}
	}
	switch cmd.Name {
	case "move":
		return s.outside(args[2])
	case "copy":
		for i := 3; i+1 < len(args) && problem == ""; i++ {
			if strings.EqualFold(string(args[i]), "db") {
				problem = s.outside(args[i+1])
			}
		}
	case "flushall":
		if s.sharesCluster() {
			return errFlushAll
		}
	}
	return problem
}

// outside refuses a database that the tenant may not use.
func (s *Session) outside(arg []byte) (problem string) {
	database, ok := parseInteger(arg)
	if !ok || database < 0 || s.tenant.Allows(int(database)) {
		return ""
	}
	return errDatabase(int(database))
}

// sharesCluster reports whether another tenant's databases are on the same servers.
func (s *Session) sharesCluster() bool { return s.worker.table.Shared(s.tenant) }
