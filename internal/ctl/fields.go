package ctl

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// field is a flag that sets a field of an entity.
type field struct {
	flag string
	path string // of the field, with dots
	help string
	kind fieldKind
	// complete suggests values.
	values   []string
	complete cobra.CompletionFunc
}

type fieldKind int

const (
	oneText fieldKind = iota
	texts
	numbers
	boolean
	duration
	moment
	presence // an object that is there or not
)

func addFields(cmd *cobra.Command, fields []field) {
	f := cmd.Flags()
	for _, x := range fields {
		switch x.kind {
		case oneText, moment:
			f.String(x.flag, "", x.help)
		case texts:
			f.StringSlice(x.flag, nil, x.help)
		case numbers:
			f.IntSlice(x.flag, nil, x.help)
		case boolean, presence:
			f.Bool(x.flag, false, x.help)
		case duration:
			f.Duration(x.flag, 0, x.help)
		}
		complete := x.complete
		if len(x.values) > 0 {
			complete = cobra.FixedCompletions(x.values, cobra.ShellCompDirectiveNoFileComp)
		}
		if complete != nil {
			_ = cmd.RegisterFlagCompletionFunc(x.flag, complete) // the flag was added above
		}
	}
}

// changes is a merge patch of the flags that were given.
func changes(cmd *cobra.Command, fields []field) (map[string]any, error) {
	patch := make(map[string]any)
	for _, x := range fields {
		if !cmd.Flags().Changed(x.flag) {
			continue
		}
		value, err := x.value(cmd.Flags())
		if err != nil {
			return nil, usagef(cmd, "--%s: %w", x.flag, err)
		}
		put(patch, x.path, value)
	}
	return patch, nil
}

func (x *field) value(f *pflag.FlagSet) (any, error) {
	switch x.kind {
	case oneText:
		s, err := f.GetString(x.flag)
		if s == "" {
			return nil, err // back to the default
		}
		return s, err
	case texts:
		return f.GetStringSlice(x.flag)
	case numbers:
		return f.GetIntSlice(x.flag)
	case boolean:
		return f.GetBool(x.flag)
	case duration:
		d, err := f.GetDuration(x.flag)
		return d.String(), err
	case moment:
		s, err := f.GetString(x.flag)
		if s == "" {
			return nil, err
		}
		return momentOf(s)
	case presence:
		if there, _ := f.GetBool(x.flag); !there {
			return nil, nil //nolint:nilnil // null, which removes the object
		}
		return map[string]any{}, nil
	}
	panic("BUG: a field of no kind")
}

// momentOf reads a time or a duration from now.
func momentOf(s string) (time.Time, error) {
	if d, err := time.ParseDuration(s); err == nil {
		return time.Now().Add(d).UTC().Truncate(time.Second), nil
	}
	if days, found := strings.CutSuffix(s, "d"); found {
		var n int
		if _, err := fmt.Sscanf(days, "%d", &n); err == nil {
			return time.Now().AddDate(0, 0, n).UTC().Truncate(time.Second), nil
		}
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if at, err := time.Parse(layout, s); err == nil {
			return at, nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is neither a time such as 2030-01-31 or 2030-01-31T12:00:00Z nor a duration such as 12h or 90d", s)
}

// put sets a field in nested objects. An object that is there already is added to.
func put(into map[string]any, path string, value any) {
	for {
		head, rest, nested := strings.Cut(path, ".")
		inner, isObject := into[head].(map[string]any)
		if !nested {
			if _, empty := value.(map[string]any); !empty || !isObject {
				into[head] = value
			}
			return
		}
		if !isObject {
			inner = make(map[string]any)
			into[head] = inner
		}
		into, path = inner, rest
	}
}

// withoutNulls is a patch for nothing: the entity itself.
func withoutNulls(fields map[string]any) map[string]any {
	for name, value := range fields {
		switch v := value.(type) {
		case nil:
			delete(fields, name)
		case map[string]any:
			withoutNulls(v)
		}
	}
	return fields
}

// decodeStrictly reads an object whose fields must all be known, and words what is wrong.
func decodeStrictly(b []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(b))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(into)
	if err == nil {
		return nil
	}
	if wrong := (*json.UnmarshalTypeError)(nil); errors.As(err, &wrong) {
		hint := ""
		if wrong.Type.String() == "string" {
			hint = "; put it in quotes"
		}
		return fmt.Errorf("%s must be of type %s, not %s%s", wrong.Field, wrong.Type, wrong.Value, hint)
	}
	if unknown, found := strings.CutPrefix(err.Error(), "json: unknown field "); found {
		return fmt.Errorf("there is no field %s%s", unknown, isIt(strings.Trim(unknown, `"`), fieldsOf(reflect.TypeOf(into))))
	}
	return errors.New(strings.TrimPrefix(err.Error(), "json: "))
}
