package config

import (
	"cmp"
	"fmt"
	"reflect"
	"strings"
	"time"
)

// Key describes one key that can be set.
type Key struct {
	Path     string   // such as "clients.max" or "clusters[].auth.password"
	Variable string   // such as "SLUICE_CLIENTS_MAX" or "SLUICE_CLUSTERS_<n>_AUTH_PASSWORD"
	Default  string   // as it would be written; "" when there is none
	Choices  []string // the values it can have, when they are few
	Secret   bool     // its value is never shown
}

// Keys lists every key, in the order of Config.
func Keys() []Key { return keysOf(reflect.TypeFor[Config](), "", variablePrefix) }

const variablePrefix = "SLUICE_"

func keysOf(t reflect.Type, path, variable string) []Key {
	var keys []Key
	for _, f := range fieldsOf(t) {
		here, name := path+f.key, variable+strings.ToUpper(f.key)
		switch f.shape() {
		case section:
			keys = append(keys, keysOf(f.elem(), here+".", name+"_")...)
		case sectionList:
			keys = append(keys, keysOf(f.elem(), here+"[].", name+"_<n>_")...)
		case leaf:
			keys = append(keys, Key{
				Path: here, Variable: name, Default: f.tag.Get("default"),
				Choices: strings.Fields(f.tag.Get("oneof")), Secret: f.secret(),
			})
		}
	}
	return keys
}

// field is a struct field that holds a key's value.
type field struct {
	key   string
	index int
	typ   reflect.Type
	tag   reflect.StructTag
}

func fieldsOf(t reflect.Type) []field {
	var fields []field
	for i := range t.NumField() {
		if key := t.Field(i).Tag.Get("json"); key != "-" {
			fields = append(fields, field{key: key, index: i, typ: t.Field(i).Type, tag: t.Field(i).Tag})
		}
	}
	return fields
}

func keysHere(t reflect.Type) []string {
	var keys []string
	for _, f := range fieldsOf(t) {
		keys = append(keys, f.key)
	}
	return keys
}

type shape int

const (
	leaf        shape = iota // a value or a list of values
	section                  // keys below a key
	sectionList              // a list of sections
)

func (f field) shape() shape {
	switch {
	case f.secret():
		return leaf
	case f.typ.Kind() == reflect.Struct || f.typ.Kind() == reflect.Pointer:
		return section
	case f.typ.Kind() == reflect.Slice && f.typ.Elem().Kind() == reflect.Struct:
		return sectionList
	}
	return leaf
}

// elem is the struct type of a section or of a list's items.
func (f field) elem() reflect.Type {
	if f.typ.Kind() == reflect.Struct {
		return f.typ
	}
	return f.typ.Elem()
}

func (f field) secret() bool { return f.typ == reflect.TypeFor[Secret]() }

// plain turns a configuration into maps and lists for an encoder: keys as
// configured, durations and sizes as text, secrets redacted.
func plain(value any) any {
	switch v := value.(type) {
	case time.Duration:
		return formatDuration(v)
	case fmt.Stringer:
		if _, whole := value.(Config); !whole {
			return v.String()
		}
	}
	v := reflect.ValueOf(value)
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		return plain(v.Elem().Interface())
	case reflect.Slice:
		items := make([]any, v.Len())
		for i := range items {
			items[i] = plain(v.Index(i).Interface())
		}
		return items
	case reflect.Struct:
		tree := map[string]any{}
		for _, f := range fieldsOf(v.Type()) {
			tree[f.key] = plain(v.Field(f.index).Interface())
		}
		return tree
	}
	return value
}

// bounds reads a field's min and max tags.
func bounds[T cmp.Ordered](f field, parse func(string) (T, error)) (low, high *T) {
	read := func(name string) *T {
		text, ok := f.tag.Lookup(name)
		if !ok {
			return nil
		}
		value, err := parse(text)
		if err != nil {
			panic("BUG: tag " + name + " of key " + f.key + ": " + err.Error())
		}
		return &value
	}
	return read("min"), read("max")
}
