package config

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/viper"
)

// variables are the SLUICE_… environment variables that are not empty.
//
// A key outside of lists is SLUICE_ and its path in capitals: SLUICE_CLIENTS_MAX.
// A list is given whole as YAML or JSON text, SLUICE_LISTENERS, or by item,
// SLUICE_LISTENERS_0_ADDRESS, which adds to what the file or the text says; a
// list of texts or numbers, SLUICE_CLUSTERS_0_ADDRESSES, may be parted by commas.
type variables struct {
	values map[string]string
	taken  map[string]bool
}

func newVariables(environ []string) *variables {
	v := &variables{values: map[string]string{}, taken: map[string]bool{fileVariable: true}}
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		if strings.HasPrefix(name, variablePrefix) && value != "" {
			v.values[name] = value
		}
	}
	return v
}

// take says whether the variable is set, and that it is used.
func (v *variables) take(name string) bool {
	if _, ok := v.values[name]; !ok {
		return false
	}
	v.taken[name] = true
	return true
}

// step is one part of a key: a name, or the index of a list's item.
type step struct {
	name  string
	index int // -1 when the step is a name
}

// target is a key in a list, or a list, that a variable sets.
type target struct {
	variable string
	key      string
	steps    []step
	asText   bool // the value is a list of sections, written as YAML
	asList   bool // the value is a list of texts or numbers, as YAML or parted by commas
}

// applyTo puts what the variables say about lists into the tree: whole lists
// first, then items in order.
func (v *variables) applyTo(f *findings, tree map[string]any) {
	var targets []target
	for name, value := range v.values {
		t, ok := resolve(reflect.TypeFor[Config](), strings.TrimPrefix(name, variablePrefix))
		if !ok || !t.inList() && !t.asText {
			continue
		}
		t.variable = name
		t.asText = t.asText || t.asList && strings.HasPrefix(strings.TrimSpace(value), "[")
		targets = append(targets, t)
	}
	slices.SortFunc(targets, func(a, b target) int { return compareKeys(a.key, b.key) })
	for _, t := range targets {
		v.taken[t.variable] = true
		if fromFlag := strings.HasPrefix(f.origin(t.key), "--"); !fromFlag || lookUp(tree, t.steps) == nil {
			v.apply(f, tree, t)
		}
	}
}

func (v *variables) apply(f *findings, tree map[string]any, t target) {
	var value any = v.values[t.variable]
	f.origins[t.key] = t.variable
	if t.asText {
		list, err := parseText(v.values[t.variable])
		if err != nil {
			f.wrong(t.key, notShown, "is not YAML or JSON text: "+syntaxText(err), "write a list such as [{…}, {…}]")
			return
		}
		value = list
	}
	if _, err := graft(tree, t.steps, value); err != nil {
		f.wrong(t.key, notShown, err.Error(), "give the items before it too")
	}
}

// parseText reads a value that is written as YAML, of which JSON is a part.
func parseText(text string) (any, error) {
	const key = "value"
	v := viper.New()
	v.SetConfigType("yaml")
	indented := key + ":\n  " + strings.ReplaceAll(text, "\n", "\n  ")
	if err := v.ReadConfig(strings.NewReader(indented)); err != nil {
		return nil, err
	}
	return v.Get(key), nil
}

// graft sets a key below node and gives the node, changed or made.
func graft(node any, steps []step, value any) (any, error) {
	if len(steps) == 0 {
		return value, nil
	}
	at := steps[0]
	if at.index < 0 {
		values, ok := node.(map[string]any)
		if node == nil {
			values, ok = map[string]any{}, true
		}
		if !ok {
			return node, nil // decoding tells of the value in the section's place
		}
		below, err := graft(values[at.name], steps[1:], value)
		values[at.name] = below
		return values, err
	}
	items, ok := anyList(orEmpty(node))
	if !ok {
		return node, nil
	}
	if at.index > len(items) {
		return node, fmt.Errorf("is item %d of a list of %d", at.index, len(items))
	}
	if at.index == len(items) {
		items = append(items, nil)
	}
	below, err := graft(items[at.index], steps[1:], value)
	items[at.index] = below
	return items, err
}

// lookUp is the value that the tree has for a key, or nil.
func lookUp(node any, steps []step) any {
	for _, at := range steps {
		if at.index < 0 {
			values, _ := node.(map[string]any)
			node = values[at.name]
			continue
		}
		items, _ := anyList(orEmpty(node))
		if at.index >= len(items) {
			return nil
		}
		node = items[at.index]
	}
	return node
}

func orEmpty(node any) any {
	if node == nil {
		return []any{}
	}
	return node
}

func (t target) inList() bool {
	return slices.ContainsFunc(t.steps, func(s step) bool { return s.index >= 0 })
}

// resolve finds the key that a variable's name, without its prefix, stands for.
func resolve(t reflect.Type, name string) (target, bool) {
	for _, f := range fieldsOf(t) {
		upper := strings.ToUpper(f.key)
		here := target{
			key: f.key, steps: []step{{f.key, -1}}, asText: f.shape() == sectionList,
			asList: f.shape() == leaf && f.typ.Kind() == reflect.Slice,
		}
		if name == upper && f.shape() != section {
			return here, true
		}
		rest, ok := strings.CutPrefix(name, upper+"_")
		if !ok || f.shape() == leaf {
			continue
		}
		if f.shape() == sectionList {
			number, after, _ := strings.Cut(rest, "_")
			index, err := strconv.ParseUint(number, 10, 16)
			if err != nil {
				continue
			}
			here.steps = append(here.steps, step{"", int(index)})
			here.key += fmt.Sprintf("[%d]", index)
			rest = after
		}
		if below, found := resolve(f.elem(), rest); found {
			below.key, below.steps = here.key+"."+below.key, append(here.steps, below.steps...)
			return below, true
		}
	}
	return target{}, false
}

// reportUnknown notes variables that are nearly or partly a key's. Others with
// the prefix are let be: they may be meant for another program.
func (v *variables) reportUnknown(f *findings, c *Config) {
	serviceLink := regexp.MustCompile(`_(SERVICE_(HOST|PORT).*|PORT(_\d+_(TCP|UDP).*)?)$`)
	for name := range v.values {
		// Kubernetes sets variables such as SLUICE_ADMIN_PORT for every service.
		if v.taken[name] || serviceLink.MatchString(name) || c.readsVariable(name) {
			continue
		}
		if like := likeVariable(name); like != "" {
			f.problems = append(f.problems, Problem{
				Source: name, Value: notShown, Wrong: "is not a known variable", Mend: "did you mean " + like + "?",
			})
		}
	}
}

// readsVariable says that a password is to be read from the variable.
func (c *Config) readsVariable(name string) bool {
	if c.Secrets.KeyEnv == name || c.Store.Etcd.PasswordEnv == name {
		return true
	}
	for _, token := range c.Admin.Tokens {
		if token.TokenEnv == name {
			return true
		}
	}
	for _, cluster := range c.Clusters {
		if cluster.Auth.PasswordEnv == name {
			return true
		}
	}
	for _, tenant := range c.Tenants {
		for _, user := range tenant.Users {
			if user.PasswordEnv == name {
				return true
			}
		}
	}
	return false
}

func likeVariable(name string) string {
	number := regexp.MustCompile(`_\d+(_|$)`)
	numberless := number.ReplaceAllString(name, "_<n>$1")
	var all []string
	for _, key := range Keys() {
		all = append(all, key.Variable)
	}
	best, bestDistance := "", len(name)
	for _, candidate := range all {
		if d := distance(numberless, candidate); d < bestDistance {
			best, bestDistance = candidate, d
		}
	}
	if bestDistance <= 2 || startsLikeSection(name) {
		return best
	}
	return ""
}

func startsLikeSection(name string) bool {
	for _, f := range fieldsOf(reflect.TypeFor[Config]()) {
		if f.shape() != leaf && strings.HasPrefix(name, variablePrefix+strings.ToUpper(f.key)+"_") {
			return true
		}
	}
	return false
}
