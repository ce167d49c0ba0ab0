package command

import (
	"errors"
	"slices"
	"strings"
)

var errNotInfo = errors.New("not an entry of COMMAND INFO")

// FromInfo makes a command of one entry of COMMAND INFO, as a client library decodes it from RESP2: lists, texts and
// integers. asked is the name by which it was asked for. A command that the table knows under the name which the server
// reports, because an operator has renamed it, is the table's row. Else the command is not in All and its ID is -1. nil
// and no error: the server does not know the command.
func FromInfo(reply any, asked string) (*Command, error) {
	if reply == nil {
		return nil, nil
	}
	c, err := fromEntry(reply)
	if err != nil {
		return nil, err
	}
	if strings.EqualFold(c.Name, asked) {
		return c, nil
	}
	if known := catalog.lookupFull([]byte(c.Name)); known != nil {
		return known, nil
	}
	return c, nil
}

// fromEntry reads an entry. Servers before 7.0 send fewer elements.
func fromEntry(reply any) (*Command, error) {
	entry, ok := reply.([]any)
	if !ok || len(entry) < 6 {
		return nil, errNotInfo
	}
	name, ok := entry[0].(string)
	if !ok {
		return nil, errNotInfo
	}
	c := &Command{
		ID: -1, Name: strings.ToLower(name), Kind: KindLearned, Added: true, Flags: Flags(bitsOf(entry[2], flagNames[:], "")),
		Arity: integerOf(entry[1]), FirstKey: integerOf(entry[3]), LastKey: integerOf(entry[4]), KeyStep: integerOf(entry[5]),
	}
	if len(entry) > 6 {
		c.Categories = Categories(bitsOf(entry[6], categoryNames[:], "@"))
	}
	if len(entry) > 8 {
		c.KeySpecs = keySpecsOf(entry[8])
	}
	if len(c.KeySpecs) == 0 && c.FirstKey > 0 && c.KeyStep > 0 {
		c.KeySpecs = []KeySpec{c.rangeSpec()}
	}
	if len(entry) > 7 {
		c.Tips = textsOf(entry[7])
		c.AnyNode = !slices.ContainsFunc(c.Tips, func(tip string) bool { return strings.HasPrefix(tip, "request_policy:") })
	}
	c.Stateful = c.mayChangeConnection(len(entry) > 6)
	c.single = singleKey(c)
	if len(entry) > 9 {
		c.Subcommands = subcommandsOf(entry[9], c)
	}
	return c, nil
}

func subcommandsOf(list any, container *Command) (all []*Command) {
	entries, _ := list.([]any)
	for _, entry := range entries {
		sub, err := fromEntry(entry)
		if err != nil || !strings.HasPrefix(sub.Name, container.Name+"|") {
			continue
		}
		sub.Parent = container
		all = append(all, sub)
	}
	return all
}

// mayChangeConnection reports whether a command could leave something on a connection that others use too: another
// database, a transaction, a subscription. Servers before 6.0 tell no categories; what they leave open counts as yes.
func (c *Command) mayChangeConnection(hasCategories bool) bool {
	switch {
	case !hasCategories:
		return c.FirstKey == 0 || c.Flags&NoScript != 0
	case c.Categories&(CategoryConnection|CategoryTransaction) != 0:
		return true
	}
	return c.Flags&(PubSub|NoScript) == PubSub|NoScript
}

// KeysUnknown reports whether a command may have keys at places that its specs do not tell.
func (c *Command) KeysUnknown() bool {
	if c.Flags&MovableKeys == 0 || c.byHand != handNone {
		return false
	}
	if len(c.KeySpecs) == 0 {
		return true
	}
	for i := range c.KeySpecs {
		s := &c.KeySpecs[i]
		if s.Begin == BeginUnknown || s.Find == FindUnknown || s.Flags&KeyIncomplete != 0 {
			return true
		}
	}
	return false
}

// rangeSpec says what servers before 7.0 tell of the keys. Where those are movable it is not all.
func (c *Command) rangeSpec() KeySpec {
	s := KeySpec{Begin: BeginIndex, Index: c.FirstKey, Find: FindRange, LastKey: c.LastKey, KeyStep: c.KeyStep}
	if s.LastKey > 0 {
		s.LastKey -= c.FirstKey
	}
	if c.Flags&MovableKeys != 0 {
		s.Flags = KeyIncomplete
	}
	return s
}

func keySpecsOf(list any) (all []KeySpec) {
	entries, _ := list.([]any)
	for _, entry := range entries {
		all = append(all, keySpecOf(pairsOf(entry)))
	}
	return all
}

// keySpecOf reads one spec. What makes no sense is taken as a place that cannot be told.
func keySpecOf(entry map[string]any) KeySpec {
	s := KeySpec{Flags: KeyFlags(bitsOf(entry["flags"], keyFlagNames[:], ""))}
	begin, find := pairsOf(entry["begin_search"]), pairsOf(entry["find_keys"])
	from, how := pairsOf(begin["spec"]), pairsOf(find["spec"])
	switch begin["type"] {
	case "index":
		s.Begin, s.Index = BeginIndex, integerOf(from["index"])
	case "keyword":
		s.Begin, s.StartFrom = BeginKeyword, integerOf(from["startfrom"])
		s.Keyword, _ = from["keyword"].(string)
	}
	s.KeyStep = integerOf(how["keystep"])
	switch find["type"] {
	case "range":
		s.Find, s.LastKey, s.Limit = FindRange, integerOf(how["lastkey"]), integerOf(how["limit"])
	case "keynum":
		s.Find, s.CountAt, s.FirstKey = FindKeyNum, integerOf(how["keynumidx"]), integerOf(how["firstkey"])
	}
	if s.Begin == BeginIndex && s.Index < 1 {
		s.Begin = BeginUnknown
	}
	if s.KeyStep < 1 || s.CountAt < 0 || s.FirstKey < 0 || s.Limit < 0 {
		s.Find = FindUnknown
	}
	return s
}

// pairsOf reads a map, which RESP2 knows as a list.
func pairsOf(value any) map[string]any {
	list, _ := value.([]any)
	pairs := make(map[string]any, len(list)/2)
	for i := 0; i+1 < len(list); i += 2 {
		if name, ok := list[i].(string); ok {
			pairs[name] = list[i+1]
		}
	}
	return pairs
}

func integerOf(value any) int {
	v, _ := value.(int64)
	return int(v)
}

func textsOf(value any) (all []string) {
	list, _ := value.([]any)
	for _, item := range list {
		if text, ok := item.(string); ok {
			all = append(all, text)
		}
	}
	return all
}

// bitsOf sets the bit of every name in the list that is known.
func bitsOf(value any, names []string, prefix string) (bits uint64) {
	for _, text := range textsOf(value) {
		if name, ok := strings.CutPrefix(text, prefix); ok {
			if i := slices.Index(names, strings.ToLower(name)); i >= 0 {
				bits |= 1 << i
			}
		}
	}
	return bits
}
