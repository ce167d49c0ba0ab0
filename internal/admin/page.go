package admin

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/sluiceproxy/sluice/pkg/api"
)

const cursorCheck = 8 // bytes

// cursor is the key of a page's last item, with a check of what list it belongs to.
func cursor(scope, last string) string {
	sum := sha256.Sum256([]byte(scope + "\x00" + last))
	return base64.RawURLEncoding.EncodeToString(append(sum[:cursorCheck], last...))
}

func parseCursor(scope, page string) (last string, ok bool) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(page)
	if err != nil || len(b) < cursorCheck {
		return "", false
	}
	last = string(b[cursorCheck:])
	return last, cursor(scope, last) == page
}

// paginate is a page of items that are in the order of their keys. Items that come or go between two pages neither repeat
// nor hide others.
func paginate[T any](items []T, key func(*T) string, scope string, in *PageInput) (page api.Page[T], err error) {
	page = api.Page[T]{Items: []T{}, Total: len(items)}
	if in.Page != "" {
		last, ok := parseCursor(scope, in.Page)
		if !ok {
			return page, invalidField("query.page", "is not the next of a page of this list with this filter; begin without it", in.Page)
		}
		begin, _ := slices.BinarySearchFunc(items, last, func(item T, last string) int {
			if key(&item) <= last {
				return -1
			}
			return 1
		})
		items = items[begin:]
	}
	if len(items) > in.Limit {
		items = items[:in.Limit]
		page.Next = cursor(scope, key(&items[in.Limit-1]))
	}
	page.Items = append(page.Items, items...)
	return page, nil
}

// term is one condition of a filter.
type term struct {
	field    string
	operator string // "=", "!=" or "~"
	value    string
}

// parseFilter makes a filter of its text; see listInput.
func parseFilter[T any](text string) (func(*T) bool, error) {
	if text == "" {
		return func(*T) bool { return true }, nil
	}
	known := fieldsOf(reflect.TypeFor[T](), "")
	var terms []term
	for _, part := range strings.Split(text, ",") {
		t := parseTerm(part)
		if !slices.Contains(known, t.field) {
			return nil, invalidField("query.filter", fmt.Sprintf("names %q, which is not a field; the fields are %s", t.field, strings.Join(known, ", ")), text)
		}
		terms = append(terms, t)
	}
	return func(entity *T) bool {
		b, err := json.Marshal(entity)
		var object map[string]any
		if err != nil || json.Unmarshal(b, &object) != nil {
			return false
		}
		return !slices.ContainsFunc(terms, func(t term) bool { return !t.holds(object) })
	}, nil
}

func parseTerm(part string) term {
	i := strings.IndexAny(part, "=~")
	switch {
	case i < 0:
		return term{"name", "~", part}
	case i > 0 && part[i] == '=' && part[i-1] == '!':
		return term{part[:i-1], "!=", part[i+1:]}
	}
	return term{part[:i], part[i : i+1], part[i+1:]}
}

func (t *term) holds(object map[string]any) bool {
	var value any = object
	for _, name := range strings.Split(t.field, ".") {
		within, _ := value.(map[string]any)
		value = within[name]
	}
	values, several := value.([]any)
	if !several {
		values = []any{value}
	}
	found := slices.ContainsFunc(values, func(v any) bool {
		text := ""
		if v != nil {
			text = fmt.Sprint(v)
		}
		if t.operator == "~" {
			return strings.Contains(text, t.value)
		}
		return text == t.value || v == nil && t.value == "false" // false is left out
	})
	return found != (t.operator == "!=")
}

// fieldsOf lists the paths of the fields that have values.
func fieldsOf(t reflect.Type, prefix string) (fields []string) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Type.Kind() == reflect.Pointer && f.Type.Elem().Kind() == reflect.Struct {
			fields = append(fields, fieldsOf(f.Type.Elem(), prefix+name+".")...)
		} else if f.Tag.Get("writeOnly") == "" {
			fields = append(fields, prefix+name)
		}
	}
	return fields
}
