package control

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/sluiceproxy/sluice/pkg/api"
)

// decodeStrictly reads an object whose fields must all be known.
func decodeStrictly(b []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(b))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(into)
	if err == nil {
		return nil
	}
	field := api.ProblemField{Location: "body", Message: err.Error()}
	if wrong := (*json.UnmarshalTypeError)(nil); errors.As(err, &wrong) {
		field = api.ProblemField{Location: strings.TrimSuffix("body."+wrong.Field, "."), Value: wrong.Value, Message: "must be of type " + wrong.Type.String()}
	}
	return &InvalidError{Fields: []api.ProblemField{field}}
}

func sortBy[T any](all []T, name func(*T) string) {
	slices.SortFunc(all, func(a, b T) int { return cmp.Compare(name(&a), name(&b)) })
}
