// Package command knows what a RESP command is: its arity, flags, class, how the proxy serves it and where its keys are.
//
// The table is generated from a running Redis (see gen) and corrected by a small overlay. It is built once at program
// start and never changes, so everything here may be used from any goroutine without a lock.
package command

//go:generate go run ./gen

// Command is one row of the table: a command or a subcommand. It is immutable.
type Command struct {
	// ID is the row's position in All. It is dense and stable within one build, so it can index an array of counters.
	ID int
	// Name is in lower case; a subcommand's is "container|sub", as in "config|get".
	Name string
	// Parent is the container that a subcommand belongs to, nil for a command.
	Parent *Command
	// Arity is the exact count of arguments including the name, or the negated least count.
	Arity int
	// Flags are those that COMMAND reports.
	Flags Flags
	// Categories are the ACL categories that COMMAND reports.
	Categories Categories
	// Class labels metrics.
	Class Class
	// Kind says how the proxy serves the command. Where that depends on the arguments too, KindFor decides.
	Kind Kind
	// AnyNode is true for a command without keys that one node of a cluster answers rightly for the whole cluster,
	// such as PUBLISH. Where it is false, one node of several knows only its part: DBSIZE, KEYS, SCRIPT LOAD.
	AnyNode bool
	// Added is true when the overlay knows the command and the server that the table was read from did not.
	Added bool
	// Stateful is true of a learned command that may change the state of its connection.
	Stateful bool
	// KeySpecs tell where the keys are, as COMMAND reports them.
	KeySpecs []KeySpec
	// FirstKey, LastKey and KeyStep are the older and coarser way to tell it, as COMMAND reports them.
	FirstKey, LastKey, KeyStep int
	// Tips are Redis's hints for clients and proxies.
	Tips []string
	// Subcommands is empty unless the command is a container. Sorted by name.
	Subcommands []*Command

	// byHand names the finder for keys that the specs cannot describe.
	byHand handFinder
	// single is the position of the only key, 0 when there is none or more may follow.
	single int
}

// Lookup finds a command by its name in any case, nil if there is none. Subcommands are found with Resolve.
func Lookup(name []byte) *Command {
	return catalog.lookup(name)
}

// All lists every command and subcommand, each at the position that is its ID. The slice must not be changed.
func All() []*Command {
	return catalog.all
}

// Count is how many rows All has.
func Count() int {
	return len(catalog.all)
}

// Resolve gives the subcommand that args ask for, or the command itself when it is no container or stands alone.
// The error is a *ReplyError with Redis's text for an unknown subcommand. args[0] is the command's name.
func (c *Command) Resolve(args [][]byte) (*Command, error) {
	if len(c.Subcommands) == 0 || len(args) < 2 {
		return c, nil
	}
	if sub := c.subcommand(args[1]); sub != nil {
		return sub, nil
	}
	return nil, &ReplyError{Text: unknownSubcommand(args)}
}

// CheckArity reports whether a command line of argc arguments, the name included, has a length that the command accepts.
func (c *Command) CheckArity(argc int) bool {
	if c.Arity >= 0 {
		return argc == c.Arity
	}
	return argc >= -c.Arity
}

// KindFor is Kind, but for commands whose options change it: XREAD and XREADGROUP need a connection of their own only
// with BLOCK.
func (c *Command) KindFor(args [][]byte) Kind {
	if c.Kind == KindForward && c.Flags&Blocking != 0 && hasBlockOption(args) {
		return KindDedicated
	}
	return c.Kind
}

// subcommand finds the subcommand of a container by its own name in any case.
func (c *Command) subcommand(name []byte) *Command {
	own := len(c.Name) + 1
	for _, sub := range c.Subcommands {
		if equalFold(name, sub.Name[own:]) {
			return sub
		}
	}
	return nil
}

// hasBlockOption looks for BLOCK where XREAD and XREADGROUP look for it: before STREAMS, and not as a group's name. Options
// that are not known here are passed over: a newer server's must not let a blocking command onto a shared connection.
func hasBlockOption(args [][]byte) bool {
	for i := 1; i < len(args); i++ {
		switch {
		case equalFold(args[i], "block"):
			return true
		case equalFold(args[i], "streams"):
			return false
		case equalFold(args[i], "count"):
			i++
		case equalFold(args[i], "group"):
			i += 2
		}
	}
	return false
}
