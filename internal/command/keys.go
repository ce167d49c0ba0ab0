package command

// ErrNoKeys is AppendKeys's answer to a command line that must have keys and in which none can be found. Its text is that
// of Redis's COMMAND GETKEYS. Whatever node gets such a line refuses it with the text that fits, so it may be forwarded
// to any.
var ErrNoKeys error = &ReplyError{Text: "Invalid arguments specified for command"}

// keyList collects key positions and, when somebody wants them, what the command does with each key.
type keyList struct {
	positions []int
	flags     []KeyFlags
	wantFlags bool
	// withChannels also takes what decides the slot without being a key.
	withChannels bool
}

func (l *keyList) add(position int, flags KeyFlags) {
	l.positions = append(l.positions, position)
	if l.wantFlags {
		l.flags = append(l.flags, flags)
	}
}

// cut forgets what was added after the list had size entries.
func (l *keyList) cut(size int) {
	l.positions = l.positions[:size]
	if l.wantFlags {
		l.flags = l.flags[:0]
	}
}

// AppendKeys appends to dst the positions in args of all arguments that decide the command's slot: its keys, or the
// channels of the sharded publish and subscribe commands. c is what Resolve gave and args a line that passed CheckArity;
// args[0] is the name. It allocates only when dst has to grow. A command that needs no key gives none and no error; one
// that does and has none gives ErrNoKeys.
func (c *Command) AppendKeys(dst []int, args [][]byte) ([]int, error) {
	if c.single > 0 && c.single < len(args) {
		return append(dst, c.single), nil
	}
	if len(c.KeySpecs) == 0 {
		return dst, nil
	}
	if !c.CheckArity(len(args)) {
		return dst, ErrNoKeys
	}
	list := keyList{positions: dst, withChannels: true}
	c.collectKeys(&list, args)
	if len(list.positions) == len(dst) && c.Flags&NoMandatoryKeys == 0 {
		return dst, ErrNoKeys
	}
	return list.positions, nil
}

// SingleKey is the position of the command's key when it always has exactly that one, else 0. It holds for lines that
// passed CheckArity.
func (c *Command) SingleKey() int {
	return c.single
}

// HasKeys reports whether the command can have keys; shard channels are none.
func (c *Command) HasKeys() bool {
	for i := range c.KeySpecs {
		if c.KeySpecs[i].Flags&KeyNotKey == 0 {
			return true
		}
	}
	return false
}

// collectKeys finds keys as Redis does: by the specs, and by hand where those are not enough.
func (c *Command) collectKeys(list *keyList, args [][]byte) {
	size := len(list.positions)
	if c.byHand == handSet || c.byHand == handBitfield {
		// The position is plain, the flags depend on the options.
		list.add(1, c.byHand.variableFlags(args))
		return
	}
	if !c.collectBySpecs(list, args) {
		list.cut(size)
		c.collectByHand(list, args)
	}
}

// collectBySpecs is false when a spec is incomplete or does not fit the arguments.
func (c *Command) collectBySpecs(list *keyList, args [][]byte) bool {
	for i := range c.KeySpecs {
		spec := &c.KeySpecs[i]
		if spec.Flags&KeyNotKey != 0 && !list.withChannels {
			continue
		}
		begin, ok := spec.begin(args)
		if !ok {
			return false
		}
		if begin == 0 {
			continue // an optional keyword that is not there
		}
		first, last, ok := spec.span(begin, args)
		if !ok {
			return false
		}
		for at := first; at <= last; at += spec.KeyStep {
			list.add(at, spec.Flags)
		}
		if spec.Flags&KeyIncomplete != 0 {
			return false
		}
	}
	return true
}

// singleKey derives what SingleKey returns: one spec with one fixed position that the arity makes sure of.
func singleKey(c *Command) int {
	if len(c.KeySpecs) != 1 {
		return 0
	}
	spec := &c.KeySpecs[0]
	least := c.Arity
	if least < 0 {
		least = -least
	}
	fixed := spec.Begin == BeginIndex && spec.Find == FindRange && spec.LastKey == 0 && spec.Flags&KeyIncomplete == 0
	if !fixed || spec.Index >= least {
		return 0
	}
	return spec.Index
}

// parseInteger reads a decimal as Redis's string2ll does: no spaces, no plus sign, no leading zeros, 64 bits.
func parseInteger(b []byte) (int64, bool) {
	if len(b) == 1 && b[0] == '0' {
		return 0, true
	}
	negative := len(b) > 0 && b[0] == '-'
	digits := b
	if negative {
		digits = b[1:]
	}
	if len(digits) == 0 || len(digits) > 19 || digits[0] < '1' {
		return 0, false
	}
	var v uint64
	for _, ch := range digits {
		if ch < '0' || ch > '9' {
			return 0, false
		}
		v = v*10 + uint64(ch-'0')
	}
	switch {
	case negative && v <= 1<<63:
		return -int64(v), true
	case !negative && v < 1<<63:
		return int64(v), true
	default:
		return 0, false
	}
}
