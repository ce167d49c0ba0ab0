package ctl

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// isIt asks whether one of the words was meant, or is empty. What is similar is cobra's to say, as of commands.
func isIt(word string, words []string) string {
	judge := &cobra.Command{SuggestionsMinimumDistance: 2}
	for _, w := range words {
		judge.AddCommand(&cobra.Command{Use: w, Run: func(*cobra.Command, []string) {}})
	}
	similar := judge.SuggestionsFor(word)
	if len(similar) == 0 {
		return ""
	}
	return "; is it " + strings.Join(similar, " or ") + "?"
}

// flagError words what pflag says of a wrong flag.
func flagError(cmd *cobra.Command, err error) error {
	text := err.Error()
	if name, unknown := strings.CutPrefix(text, "unknown flag: --"); unknown {
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		return usagef(cmd, "%s%s", text, strings.ReplaceAll(isIt(name, names), "is it ", "is it --"))
	}
	text, _, isNumber := strings.Cut(text, ": strconv.")
	if isNumber {
		return usagef(cmd, "%s: it is not a number", text)
	}
	return &usageError{cmd, err}
}

// fieldsOf are the names that a type's objects have in JSON, those of objects in it too.
func fieldsOf(t reflect.Type) (names []string) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || t.Implements(reflect.TypeFor[json.Marshaler]()) {
		return nil
	}
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		if name != "" && name != "-" {
			names = append(append(names, name), fieldsOf(t.Field(i).Type)...)
		}
	}
	return slices.Compact(names)
}
