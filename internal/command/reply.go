package command

// AppendReply appends to dst the reply to a COMMAND command line, errors included, as Redis gives it to a client that
// speaks the given protocol version (2 or 3). args[0] is "COMMAND" itself. Where Redis's order is that of a hash table,
// the reply is sorted by name.
func AppendReply(dst []byte, args [][]byte, protocol int) []byte {
	e := encoder{dst: dst, resp3: protocol >= 3}
	e.command(args)
	return e.dst
}

// command answers COMMAND with any subcommand.
func (e *encoder) command(args [][]byte) {
	self := catalog.lookup(args[0])
	if self == nil {
		e.fail(UnknownCommand(args))
		return
	}
	asked, err := self.Resolve(args)
	if err != nil {
		e.fail(err.Error())
		return
	}
	if !asked.CheckArity(len(args)) {
		e.fail(WrongArity(asked.Name))
		return
	}
	switch asked.Name {
	case "command":
		e.infoOfAll()
	case "command|count":
		e.integer(len(catalog.commands()))
	case "command|docs":
		e.docsOf(args[2:])
	case "command|getkeys":
		e.keysOf(args[2:], false)
	case "command|getkeysandflags":
		e.keysOf(args[2:], true)
	case "command|info":
		e.infoOf(args[2:])
	case "command|list":
		e.list(args[2:])
	case "command|help":
		e.help()
	}
}

// commands lists the rows that are no subcommands.
func (x *index) commands() []*Command {
	top := make([]*Command, 0, len(x.all))
	for _, c := range x.all {
		if c.Parent == nil {
			top = append(top, c)
		}
	}
	return top
}

// keysOf answers COMMAND GETKEYS and, with flags, COMMAND GETKEYSANDFLAGS.
func (e *encoder) keysOf(line [][]byte, withFlags bool) {
	c := catalog.lookup(line[0])
	if c != nil {
		c, _ = c.Resolve(line)
	}
	switch {
	case c == nil:
		e.fail("Invalid command specified")
		return
	case !c.HasKeys():
		e.fail("The command has no key arguments")
		return
	case !c.CheckArity(len(line)):
		e.fail("Invalid number of arguments specified for command")
		return
	}
	found := keyList{wantFlags: withFlags}
	c.collectKeys(&found, line)
	if len(found.positions) == 0 && c.Flags&NoMandatoryKeys == 0 {
		e.fail(ErrNoKeys.Error())
		return
	}
	e.array(len(found.positions))
	for i, at := range found.positions {
		if withFlags {
			e.array(2)
		}
		e.bulkBytes(line[at])
		if withFlags {
			e.flagSet(uint64(found.flags[i]), keyFlagNames[:], "")
		}
	}
}

// list answers COMMAND LIST.
func (e *encoder) list(options [][]byte) {
	keep := func(*Command) bool { return true }
	if len(options) > 0 {
		if keep = listFilter(options); keep == nil {
			e.fail("syntax error")
			return
		}
	}
	var names []string
	for _, c := range catalog.all {
		if keep(c) {
			names = append(names, c.Name)
		}
	}
	e.array(len(names))
	for _, name := range names {
		e.bulk(name)
	}
}

// listFilter reads FILTERBY and its two operands, nil for what is no filter. No command comes from a module here.
func listFilter(options [][]byte) func(*Command) bool {
	if len(options) != 3 || !equalFold(options[0], "filterby") {
		return nil
	}
	operand := options[2]
	switch {
	case equalFold(options[1], "module"):
		return func(*Command) bool { return false }
	case equalFold(options[1], "aclcat"):
		category := categoryNamed(operand)
		return func(c *Command) bool { return c.Categories&category != 0 }
	case equalFold(options[1], "pattern"):
		return func(c *Command) bool { return globMatch(operand, c.Name) }
	default:
		return nil
	}
}

func (e *encoder) help() {
	lines := [...]string{
		"COMMAND <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
		"(no subcommand)",
		"    Return details about all Redis commands.",
		"COUNT",
		"    Return the total number of commands in this Redis server.",
		"LIST",
		"    Return a list of all commands in this Redis server.",
		"INFO [<command-name> ...]",
		"    Return details about multiple Redis commands.",
		"    If no command names are given, documentation details for all",
		"    commands are returned.",
		"DOCS [<command-name> ...]",
		"    Return documentation details about multiple Redis commands.",
		"    If no command names are given, documentation details for all",
		"    commands are returned.",
		"GETKEYS <full-command>",
		"    Return the keys from a full Redis command.",
		"GETKEYSANDFLAGS <full-command>",
		"    Return the keys and the access flags from a full Redis command.",
		"HELP",
		"    Prints this help.",
	}
	e.array(len(lines))
	for _, line := range lines {
		e.status(line)
	}
}
