package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
)

// row is a command or subcommand as the server describes it, and what the overlay says of it.
type row struct {
	name           string
	arity          int
	flags          []string
	first, last    int
	step           int
	categories     []string
	tips           []string
	keySpecs       []keySpec
	documentation  map[string]any
	class          string
	kind           string
	anyNode, added bool
	byHand         string
}

// keySpec is one key specification in the server's words.
type keySpec struct {
	notes, begin, keyword, find string
	flags                       []string
	index, startFrom            int
	lastKey, keyStep, limit     int
	countAt, firstKey           int
}

// readCommands gives the server's version and all its commands and subcommands, in no particular order.
func readCommands(ctx context.Context, client *redis.Client) (version string, rows []*row, err error) {
	info, err := client.Info(ctx, "server").Result()
	if err != nil {
		return "", nil, fmt.Errorf("cannot read INFO: %w", err)
	}
	_, version, _ = strings.Cut(info, "redis_version:")
	version, _, _ = strings.Cut(version, "\r\n")

	commands, err := client.Do(ctx, "COMMAND").Slice()
	if err != nil {
		return "", nil, fmt.Errorf("cannot read COMMAND: %w", err)
	}
	docs, err := client.Do(ctx, "COMMAND", "DOCS").Result()
	if err != nil {
		return "", nil, fmt.Errorf("cannot read COMMAND DOCS: %w", err)
	}
	for _, command := range commands {
		rows = appendRows(rows, command)
	}
	byName := map[string]map[string]any{}
	collectDocs(byName, docs)
	for _, r := range rows {
		if r.documentation = byName[r.name]; r.documentation == nil {
			return "", nil, fmt.Errorf("COMMAND DOCS says nothing of %s", r.name)
		}
	}
	return version, rows, nil
}

// appendRows reads one entry of COMMAND with its subcommands.
func appendRows(rows []*row, reply any) []*row {
	entry := reply.([]any)
	r := &row{
		name: entry[0].(string), arity: number(entry[1]), flags: words(entry[2]),
		first: number(entry[3]), last: number(entry[4]), step: number(entry[5]),
		tips: words(entry[7]),
	}
	for _, category := range words(entry[6]) {
		r.categories = append(r.categories, strings.TrimPrefix(category, "@"))
	}
	for _, spec := range entry[8].([]any) {
		r.keySpecs = append(r.keySpecs, readKeySpec(spec.(map[any]any)))
	}
	rows = append(rows, r)
	for _, sub := range entry[9].([]any) {
		rows = appendRows(rows, sub)
	}
	return rows
}

func readKeySpec(reply map[any]any) keySpec {
	begin, find := reply["begin_search"].(map[any]any), reply["find_keys"].(map[any]any)
	beginSpec, findSpec := begin["spec"].(map[any]any), find["spec"].(map[any]any)
	s := keySpec{
		flags: words(reply["flags"]), begin: begin["type"].(string), find: find["type"].(string),
		index: number(beginSpec["index"]), startFrom: number(beginSpec["startfrom"]),
		lastKey: number(findSpec["lastkey"]), keyStep: number(findSpec["keystep"]), limit: number(findSpec["limit"]),
		countAt: number(findSpec["keynumidx"]), firstKey: number(findSpec["firstkey"]),
	}
	s.notes, _ = reply["notes"].(string)
	s.keyword, _ = beginSpec["keyword"].(string)
	return s
}

// collectDocs flattens COMMAND DOCS: subcommands become entries of their own.
func collectDocs(byName map[string]map[string]any, reply any) {
	for name, entry := range reply.(map[any]any) {
		documentation := plain(entry).(map[string]any)
		delete(documentation, "subcommands")
		byName[name.(string)] = documentation
		if subcommands, ok := entry.(map[any]any)["subcommands"]; ok {
			collectDocs(byName, subcommands)
		}
	}
}

// plain makes a reply fit for JSON: maps get string keys.
func plain(reply any) any {
	switch v := reply.(type) {
	case map[any]any:
		fields := make(map[string]any, len(v))
		for key, value := range v {
			fields[key.(string)] = plain(value)
		}
		return fields
	case []any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = plain(v[i])
		}
		return list
	default:
		return v
	}
}

// number reads an integer, 0 for what is not there.
func number(reply any) int {
	n, _ := reply.(int64)
	return int(n)
}

func words(reply any) []string {
	var list []string
	for _, word := range reply.([]any) {
		list = append(list, word.(string))
	}
	return list
}
