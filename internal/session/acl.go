package session

import (
	"crypto/rand"
	"encoding/hex"

	"github.com/tidwall/redcon"

	"github.com/sluiceproxy/sluice/internal/command"
)

const (
	genpassBits    = 256
	genpassBitsMax = 4096
)

// aclCommand answers what of ACL is no matter of the backend's users.
func (s *Session) aclCommand(cmd *command.Command, args [][]byte) {
	switch cmd.Name {
	case "acl|whoami":
		s.replyBulk([]byte(tenantUser(s)))
	case "acl|cat":
		s.aclCategories(args)
	case "acl|genpass":
		s.aclPassword(args)
	default:
		s.replyLines(aclHelp)
	}
}

// aclCategories lists the categories, or the commands of one.
func (s *Session) aclCategories(args [][]byte) {
	if len(args) > 3 {
		s.appendError(errACLUsage(args[1]))
		return
	}
	names := command.CategoryNames()
	if len(args) == 3 {
		var known bool
		if names, known = command.InCategory(args[2]); !known {
			s.appendError("ERR Unknown category '" + oneLine(args[2]) + "'")
			return
		}
	}
	b := redcon.AppendArray(nil, len(names))
	for _, name := range names {
		b = redcon.AppendBulkString(b, name)
	}
	s.replyLocal(b)
}

// aclPassword makes a random password of as many bits as asked for, four to a digit.
func (s *Session) aclPassword(args [][]byte) {
	bits := int64(genpassBits)
	switch len(args) {
	case 2:
	case 3:
		var ok bool
		if bits, ok = parseInteger(args[2]); !ok {
			s.appendError(errNotInteger)
			return
		}
	default:
		s.appendError(errACLUsage(args[1]))
		return
	}
	if bits <= 0 || bits > genpassBitsMax {
		s.appendError(errGenpass)
		return
	}
	digits := int(bits+3) / 4
	secret := make([]byte, (digits+1)/2)
	_, _ = rand.Read(secret)
	s.replyBulk([]byte(hex.EncodeToString(secret)[:digits]))
}

var aclHelp = []string{ //nolint:gochecknoglobals // constant
	"ACL <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
	"CAT [<category>]",
	"    List all commands that belong to <category>, or all command categories",
	"    when no category is specified.",
	"GENPASS [<bits>]",
	"    Generate a secure 256-bit user password. The optional `bits` argument can",
	"    be used to specify a different size.",
	"WHOAMI",
	"    Return the current connection username.",
	"HELP",
	"    Prints this help.",
}
