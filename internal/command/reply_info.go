package command

// infoOfAll answers COMMAND and COMMAND INFO without names.
func (e *encoder) infoOfAll() {
	commands := catalog.commands()
	e.array(len(commands))
	for _, c := range commands {
		e.info(c)
	}
}

// infoOf answers COMMAND INFO with names; unknown ones give null.
func (e *encoder) infoOf(names [][]byte) {
	if len(names) == 0 {
		e.infoOfAll()
		return
	}
	e.array(len(names))
	for _, name := range names {
		if c := catalog.lookupFull(name); c != nil {
			e.info(c)
			continue
		}
		e.null()
	}
}

func (e *encoder) info(c *Command) {
	e.array(10)
	e.bulk(c.Name)
	e.integer(c.Arity)
	e.flagSet(uint64(c.Flags), flagNames[:], "")
	e.integer(c.FirstKey)
	e.integer(c.LastKey)
	e.integer(c.KeyStep)
	e.flagSet(uint64(c.Categories), categoryNames[:], "@")
	e.set(len(c.Tips))
	for _, tip := range c.Tips {
		e.bulk(tip)
	}
	e.set(len(c.KeySpecs))
	for i := range c.KeySpecs {
		e.keySpec(&c.KeySpecs[i])
	}
	if len(c.Subcommands) == 0 {
		e.set(0)
		return
	}
	e.array(len(c.Subcommands))
	for _, sub := range c.Subcommands {
		e.info(sub)
	}
}

func (e *encoder) keySpec(s *KeySpec) {
	if s.Notes != "" {
		e.mapping(4)
		e.pair("notes", s.Notes)
	} else {
		e.mapping(3)
	}
	e.bulk("flags")
	e.flagSet(uint64(s.Flags), keyFlagNames[:], "")
	e.bulk("begin_search")
	e.beginSearch(s)
	e.bulk("find_keys")
	e.findKeys(s)
}

// typed opens the map that describes one half of a key spec by n numbers or words.
func (e *encoder) typed(kind string, n int) {
	e.mapping(2)
	e.pair("type", kind)
	e.bulk("spec")
	e.mapping(n)
}

func (e *encoder) number(name string, value int) {
	e.bulk(name)
	e.integer(value)
}

func (e *encoder) beginSearch(s *KeySpec) {
	switch s.Begin {
	case BeginIndex:
		e.typed("index", 1)
		e.number("index", s.Index)
	case BeginKeyword:
		e.typed("keyword", 2)
		e.pair("keyword", s.Keyword)
		e.number("startfrom", s.StartFrom)
	default:
		e.typed("unknown", 0)
	}
}

func (e *encoder) findKeys(s *KeySpec) {
	switch s.Find {
	case FindRange:
		e.typed("range", 3)
		e.number("lastkey", s.LastKey)
		e.number("keystep", s.KeyStep)
		e.number("limit", s.Limit)
	case FindKeyNum:
		e.typed("keynum", 3)
		e.number("keynumidx", s.CountAt)
		e.number("firstkey", s.FirstKey)
		e.number("keystep", s.KeyStep)
	default:
		e.typed("unknown", 0)
	}
}
