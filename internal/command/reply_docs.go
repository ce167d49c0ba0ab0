package command

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"sync"
)

// docsFile holds the documentation of all commands by name. Most processes never need it decoded.
//
//go:embed docs_gen.json
var docsFile []byte

// docs decodes docsFile once, when a client first asks.
var docs = sync.OnceValue(func() map[string]*documentation {
	decoded := map[string]*documentation{}
	if err := json.Unmarshal(docsFile, &decoded); err != nil {
		panic(fmt.Sprintf("BUG: embedded docs_gen.json: %v", err))
	}
	return decoded
})

// documentation is what COMMAND DOCS tells of one command, subcommands apart.
type documentation struct {
	Summary         string      `json:"summary"`
	Since           string      `json:"since"`
	Group           string      `json:"group"`
	Complexity      string      `json:"complexity"`
	DocFlags        []string    `json:"doc_flags"`
	DeprecatedSince string      `json:"deprecated_since"`
	ReplacedBy      string      `json:"replaced_by"`
	History         [][2]string `json:"history"`
	Arguments       []argument  `json:"arguments"`
}

// argument is one argument of a command's syntax, or a group of them.
type argument struct {
	Name            string     `json:"name"`
	Type            string     `json:"type"`
	KeySpecIndex    *int       `json:"key_spec_index"`
	Token           *string    `json:"token"` // may be empty and yet be there
	Summary         string     `json:"summary"`
	Since           string     `json:"since"`
	DeprecatedSince string     `json:"deprecated_since"`
	Flags           []string   `json:"flags"`
	Arguments       []argument `json:"arguments"`
}

// docsOf answers COMMAND DOCS; without names it tells of every command, and it leaves unknown ones out.
func (e *encoder) docsOf(names [][]byte) {
	var wanted []*Command
	for _, name := range names {
		if c := catalog.lookupFull(name); c != nil {
			wanted = append(wanted, c)
		}
	}
	if len(names) == 0 {
		wanted = catalog.commands()
	}
	e.docsMap(wanted)
}

func (e *encoder) docsMap(commands []*Command) {
	e.mapping(len(commands))
	for _, c := range commands {
		e.bulk(c.Name)
		e.docs(docs()[c.Name], c.Subcommands)
	}
}

func (e *encoder) docs(d *documentation, subcommands []*Command) {
	e.mapping(3 + count(d.Complexity != "", d.DocFlags != nil, d.DeprecatedSince != "", d.ReplacedBy != "",
		d.History != nil, d.Arguments != nil, len(subcommands) > 0))
	e.pair("summary", d.Summary)
	e.pair("since", d.Since)
	e.pair("group", d.Group)
	e.optionalPair("complexity", d.Complexity)
	e.optionalFlags("doc_flags", d.DocFlags)
	e.optionalPair("deprecated_since", d.DeprecatedSince)
	e.optionalPair("replaced_by", d.ReplacedBy)
	if d.History != nil {
		e.bulk("history")
		e.set(len(d.History))
		for _, change := range d.History {
			e.array(2)
			e.bulk(change[0])
			e.bulk(change[1])
		}
	}
	e.arguments(d.Arguments)
	if len(subcommands) > 0 {
		e.bulk("subcommands")
		e.docsMap(subcommands)
	}
}

// arguments appends the entry of that name unless there are none.
func (e *encoder) arguments(arguments []argument) {
	if arguments == nil {
		return
	}
	e.bulk("arguments")
	e.array(len(arguments))
	for i := range arguments {
		e.argument(&arguments[i])
	}
}

func (e *encoder) argument(a *argument) {
	e.mapping(2 + count(a.KeySpecIndex != nil, a.Token != nil, a.Summary != "", a.Since != "", a.DeprecatedSince != "",
		a.Flags != nil, a.Arguments != nil))
	e.pair("name", a.Name)
	e.pair("type", a.Type)
	if a.KeySpecIndex != nil {
		e.number("key_spec_index", *a.KeySpecIndex)
	}
	if a.Token != nil {
		e.pair("token", *a.Token)
	}
	e.optionalPair("summary", a.Summary)
	e.optionalPair("since", a.Since)
	e.optionalPair("deprecated_since", a.DeprecatedSince)
	e.optionalFlags("flags", a.Flags)
	e.arguments(a.Arguments)
}

func (e *encoder) optionalPair(key, value string) {
	if value != "" {
		e.pair(key, value)
	}
}

func (e *encoder) optionalFlags(key string, flags []string) {
	if flags != nil {
		e.bulk(key)
		e.statusSet(flags)
	}
}

// count is how many of the conditions hold.
func count(conditions ...bool) int {
	n := 0
	for _, holds := range conditions {
		if holds {
			n++
		}
	}
	return n
}
