package config

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// decoder fills a Config from a tree of maps and lists, as a file's reader
// makes it, and notes every key that is unknown or has a value of a wrong type.
type decoder struct{ *findings }

func (d decoder) section(into reflect.Value, tree any, path string) {
	values, ok := tree.(map[string]any)
	if !ok && tree != nil {
		d.wrong(strings.TrimSuffix(path, "."), shown(tree), "is not a section",
			"put keys below it: "+strings.Join(keysHere(into.Type()), ", "))
	}
	for _, f := range fieldsOf(into.Type()) {
		d.field(into.Field(f.index), f, values[f.key], path+f.key)
	}
	known := keysHere(into.Type())
	for key, value := range values {
		if !slices.Contains(known, key) {
			d.unknown(into.Type(), path, key, value)
		}
	}
}

func (d decoder) field(into reflect.Value, f field, value any, path string) {
	switch f.shape() {
	case sectionList:
		d.list(into, value, path)
	case section:
		if f.typ.Kind() == reflect.Pointer {
			if value == nil {
				return
			}
			into.Set(reflect.New(f.elem()))
			into = into.Elem()
		}
		d.section(into, value, path+".")
	case leaf:
		d.leaf(into, f, value, path)
	}
}

func (d decoder) list(into reflect.Value, value any, path string) {
	if value == nil {
		return
	}
	items, ok := anyList(value)
	if !ok {
		d.wrong(path, shown(value), "is not a list", "write a list of sections, each begun with a dash")
		return
	}
	into.Set(reflect.MakeSlice(into.Type(), len(items), len(items)))
	for i, item := range items {
		where := fmt.Sprintf("%s[%d]", path, i)
		if item == nil {
			d.wrong(where, "", "is empty", "remove it or put keys below it")
		}
		d.section(into.Index(i), item, where+".")
	}
}

// anyList takes a list of any items; TOML's reader makes them of a narrower type.
func anyList(value any) ([]any, bool) {
	if list, ok := value.([]any); ok {
		return list, true
	}
	v := reflect.ValueOf(value)
	if v.Kind() != reflect.Slice {
		return nil, false
	}
	items := make([]any, v.Len())
	for i := range items {
		items[i] = v.Index(i).Interface()
	}
	return items, true
}

func (d decoder) leaf(into reflect.Value, f field, value any, path string) {
	if err := setDefault(into, f); err != nil {
		panic("BUG: default of key " + path + ": " + err.Error())
	}
	if value == nil {
		return
	}
	if err := set(into, f, value); err != nil {
		text := shown(value)
		if f.secret() {
			text = redacted
		}
		wrong, mend, _ := strings.Cut(err.Error(), "; ")
		d.wrong(path, text, wrong, mend)
	}
}

func setDefault(into reflect.Value, f field) error {
	text := f.tag.Get("default")
	if text == "" {
		return nil
	}
	return set(into, f, text)
}

// set stores a value as it came from a file (typed) or from a variable, flag
// or default (text). The error is what is wrong with it and what to do.
func set(into reflect.Value, f field, value any) error {
	var err error
	switch target := into.Addr().Interface().(type) {
	case *Secret:
		target.text, err = asString(value)
	case *bool:
		*target, err = asBool(value)
	case *int:
		*target, err = bounded(f, value, asInt)
	case *time.Duration:
		*target, err = bounded(f, value, asDuration)
	case *ByteSize:
		*target, err = bounded(f, value, asByteSize)
	case *FileMode:
		*target, err = asFileMode(value)
	case *[]string:
		*target, err = asList(value, asString)
	case *[]int:
		*target, err = asList(value, asInt)
	default:
		var text string
		if text, err = asString(value); err == nil {
			into.SetString(text)
			err = oneOf(text, strings.Fields(f.tag.Get("oneof")))
		}
	}
	return err
}

func oneOf(text string, choices []string) error {
	if len(choices) == 0 || slices.Contains(choices, text) {
		return nil
	}
	mend := "choose one of " + strings.Join(choices, ", ")
	if like := nearest(text, choices); like != "" {
		mend = "did you mean " + like + "? The choices are " + strings.Join(choices, ", ")
	}
	return errors.New("is not a known choice; " + mend)
}

func bounded[T cmp.Ordered](f field, value any, parse func(any) (T, error)) (T, error) {
	v, err := parse(value)
	if err != nil {
		return v, err
	}
	low, high := bounds(f, func(text string) (T, error) { return parse(text) })
	if low != nil && v < *low {
		return v, fmt.Errorf("is too small; the least is %s", f.tag.Get("min"))
	}
	if high != nil && v > *high {
		return v, fmt.Errorf("is too large; the most is %s", f.tag.Get("max"))
	}
	return v, nil
}

func asString(value any) (string, error) {
	if text, ok := value.(string); ok {
		return text, nil
	}
	return "", errors.New("is not a text; put it in quotes")
}

func asBool(value any) (bool, error) {
	switch v := value.(type) {
	case bool:
		return v, nil
	case string:
		if v == "true" || v == "false" {
			return v == "true", nil
		}
	}
	return false, errors.New("is neither true nor false; write one of them")
}

func asInt(value any) (int, error) {
	switch v := value.(type) {
	case int:
		return v, nil
	case int64:
		return int(v), nil
	case uint64:
		if v <= math.MaxInt64 {
			return int(v), nil
		}
	case float64: // the reader of JSON makes every number one
		if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
			return int(v), nil
		}
	case string:
		if n, err := strconv.Atoi(v); err == nil {
			return n, nil
		}
	}
	return 0, errors.New("is not a whole number; write digits only")
}

func asDuration(value any) (time.Duration, error) {
	if text, ok := value.(string); ok {
		return parseDuration(text)
	}
	return parseDuration(fmt.Sprint(value))
}

func asByteSize(value any) (ByteSize, error) {
	if text, ok := value.(string); ok {
		return ParseByteSize(text)
	}
	n, err := asInt(value)
	if err != nil || n < 0 {
		return 0, errSize
	}
	return ByteSize(n), nil
}

func asFileMode(value any) (FileMode, error) {
	if text, ok := value.(string); ok {
		return parseFileMode(text)
	}
	return 0, errMode
}

// asList takes a list, a single item, or a text of items parted by commas.
func asList[T any](value any, parse func(any) (T, error)) ([]T, error) {
	items, ok := anyList(value)
	if text, isText := value.(string); isText {
		for part := range strings.SplitSeq(text, ",") {
			items = append(items, strings.TrimSpace(part))
		}
	} else if !ok {
		items = []any{value}
	}
	list := make([]T, 0, len(items))
	for _, item := range items {
		parsed, err := parse(item)
		if err != nil {
			return nil, fmt.Errorf("has an item that %w", err)
		}
		list = append(list, parsed)
	}
	return list, nil
}
