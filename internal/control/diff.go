package control

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/sluiceproxy/sluice/pkg/api"
)

// notShown stands for a secret.
const notShown = "(not shown)"

// diff lists what differs between two entities as they are kept, field by field; nil is none. Secrets are named only.
func diff(before, after json.RawMessage, secret map[string]bool) []api.Edit {
	old, now := flat(before), flat(after)
	edits := []api.Edit{}
	fields := maps.Clone(old)
	maps.Copy(fields, now)
	for _, field := range slices.Sorted(maps.Keys(fields)) {
		a, had := old[field]
		b, has := now[field]
		if had == has && reflect.DeepEqual(a, b) {
			continue
		}
		if secret[field] {
			a, b = masked(had), masked(has)
		}
		edits = append(edits, api.Edit{Field: field, Old: a, New: b})
	}
	return edits
}

func masked(there bool) any {
	if there {
		return notShown
	}
	return nil
}

// flat is an object with the paths of its fields; lists are values.
func flat(b json.RawMessage) map[string]any {
	fields := make(map[string]any)
	var object map[string]any
	if len(b) == 0 || json.Unmarshal(b, &object) != nil {
		return fields
	}
	var walk func(prefix string, object map[string]any)
	walk = func(prefix string, object map[string]any) {
		for name, v := range object {
			if inner, ok := v.(map[string]any); ok && len(inner) > 0 {
				walk(prefix+name+".", inner)
				continue
			}
			fields[fmt.Sprint(prefix, name)] = v
		}
	}
	walk("", object)
	return fields
}
