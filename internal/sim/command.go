package sim

import (
	"strconv"
	"strings"
)

// outcome is what a client knows of a command.
type outcome uint8

const (
	waiting     outcome = iota
	answered            // the node's reply, or the proxy's to a local command
	notExecuted         // an error that says that nothing was done
	inDoubt             // an error that says that it may have been done
	timedOut            // the same, and the node may still do it
	unknown             // never answered: the client had gone, or had asked for no reply
)

// command is one command of one client, from when it is issued.
type command struct {
	client   *client
	seq      int // of the client, from 1
	args     []string
	keys     []*register // in the order of args; empty for a local command
	writes   bool
	protocol int
	database int

	// want is the reply of a local command, or the only right one when the profile is certain; empty: the oracle judges.
	want string
	// wantPrefix is the beginning of a reply that is not known whole.
	wantPrefix string
	silent     bool // CLIENT REPLY: no reply
	// judge, when set, judges the reply in the place of the oracle.
	judge  func(reply string)
	topics []topic      // of a command about subscriptions, those without an answer
	blocks bool         // it is a blocking pop
	whole  *transaction // that an EXEC executes

	issued   int64
	end      int // position behind it in what its client sends
	outcome  outcome
	executed []int  // how often, by key
	reply    string // of the node that executed it; of DEL the number of keys, in merged
	merged   int
}

// id marks a write, so that its execution can be told from any other.
func (cmd *command) id() string {
	return "c" + strconv.Itoa(cmd.client.id) + "." + strconv.Itoa(cmd.seq)
}

func (cmd *command) name() string { return strings.ToLower(cmd.args[0]) }

// encode is the command as the client sends it.
func (cmd *command) encode(inline bool) string {
	if inline {
		return strings.Join(cmd.args, " ") + "\r\n"
	}
	var b strings.Builder
	b.WriteString("*" + strconv.Itoa(len(cmd.args)) + "\r\n")
	for _, arg := range cmd.args {
		b.WriteString("$" + strconv.Itoa(len(arg)) + "\r\n")
		b.WriteString(arg)
		b.WriteString("\r\n")
	}
	return b.String()
}

// plain reports whether the command can be sent inline.
func (cmd *command) plain() bool {
	for _, arg := range cmd.args {
		if arg == "" || len(arg) > 1000 || strings.ContainsAny(arg, " \r\n\t\"'\x00") {
			return false
		}
	}
	return true
}

// String is for traces.
func (cmd *command) String() string {
	text := strings.Join(cmd.args, " ")
	if len(text) > 120 {
		text = text[:120] + "…"
	}
	return cmd.id() + " " + strconv.Quote(text)
}

// markerKey is a key that never exists. DEL carries one in each slot, so that its executions can be told apart.
func markerKey(tag string, c *command) string { return tag + "#" + c.id() }

func isMarker(key string) bool { return strings.Contains(key, "#") }
