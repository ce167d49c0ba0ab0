package config

import (
	"reflect"
	"slices"
	"strings"
)

// unknown notes a key that nothing knows, with the known key it resembles.
func (d decoder) unknown(t reflect.Type, path, key string, value any) {
	siblings := keysHere(t)
	if like := nearest(key, siblings); like != "" {
		d.wrong(path+key, shownUnknown(t, like, value), "is not a known key", "did you mean "+path+like+"?")
		d.misspelt[path+like] = true
		return
	}
	// Its value is not shown: it may be a secret under a name that is not known.
	if elsewhere := keysNamed(key); elsewhere != "" {
		d.wrong(path+key, notShown, "is not a known key here", "did you mean "+elsewhere+"?")
		return
	}
	d.wrong(path+key, notShown, "is not a known key", "the keys here are "+strings.Join(siblings, ", "))
}

// shownUnknown shows the value of a misspelt key unless a secret is near.
func shownUnknown(t reflect.Type, like string, value any) string {
	for _, f := range fieldsOf(t) {
		if f.secret() || f.key == like && f.shape() != leaf {
			return notShown
		}
	}
	return shown(value)
}

// keysNamed is the key elsewhere that key may have been meant for: of the same
// last name, or the same words in another order (max_clients for clients.max).
func keysNamed(key string) string {
	words := func(path string) []string {
		w := strings.FieldsFunc(path, func(r rune) bool { return strings.ContainsRune("._-[]", r) })
		slices.Sort(w)
		return w
	}
	for _, known := range Keys() {
		if known.Path[strings.LastIndexByte(known.Path, '.')+1:] == key || slices.Equal(words(known.Path), words(key)) {
			return known.Path
		}
	}
	return ""
}
