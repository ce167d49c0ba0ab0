package config

import (
	"bytes"
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"github.com/spf13/viper"
)

// Load reads the configuration from the file at path (YAML, TOML or JSON, told
// by its extension), the SLUICE_… environment variables and those of AddFlags'
// flags that were given; flags may be nil. Without a path SLUICE_CONFIG names
// the file; without any file, --backend, cluster or tenant the result is that
// of Embedded.
//
// The error is an *Errors that tells everything that is wrong.
func Load(path string, flags *pflag.FlagSet) (*Config, error) {
	if path == "" {
		path = os.Getenv(fileVariable)
	}
	return build(path, flags, os.Environ())
}

// Quick is the configuration of one open tenant, default, before one backend:
// what --listen, --backend, --backend-kind and --admin say without a file. What
// is empty has its default. The environment is not read.
func Quick(listen, backend []string, kind, admin string) (*Config, error) {
	given := flagSet()
	for name, values := range map[string][]string{
		flagListen: listen, flagBackend: backend, flagBackendKind: {kind}, flagAdmin: {admin},
	} {
		if text := strings.Join(values, ","); text != "" {
			if err := given.Set(name, text); err != nil {
				return nil, &Errors{[]Problem{{Source: "--" + name, Value: shown(text), Wrong: "is not a list", Mend: "part addresses by commas"}}}
			}
		}
	}
	return build("", given, nil)
}

// Embedded is the configuration for a first look: a backend in the daemon's
// own memory as cluster embedded, tenant default without a password, clients at
// 127.0.0.1:6380 and the admin port at 127.0.0.1:8380. The environment is not read.
func Embedded() *Config {
	c, err := Quick(nil, nil, "", "")
	if err != nil {
		panic("BUG: the embedded configuration is not valid: " + err.Error())
	}
	return c
}

// largestConfig bounds what is read of a configuration file.
const largestConfig = 64 << 20

const fileVariable = variablePrefix + "CONFIG"

// build reads every source, decodes and validates. What one step finds wrong
// does not keep the next from looking, so that all problems are told at once.
func build(path string, flags *pflag.FlagSet, environ []string) (*Config, error) {
	f, v := newFindings(cmp.Or(path, "no file")), viper.New()
	tree, ok := readFile(f, v, path)
	if !ok {
		return nil, f.err()
	}
	applyQuickFlags(f, tree, flags, path)
	variables := newVariables(environ)
	variables.applyTo(f, tree)
	applyAdminRESP(f, tree, flags)
	applyScalars(f, v, tree, variables, flags)
	applyMissing(tree, path)

	c := &Config{Source: f.source}
	decoder{f}.section(reflect.ValueOf(c).Elem(), tree, "")
	variables.reportUnknown(f, c)
	validate(c, f, filepath.Dir(path))
	if err := f.err(); err != nil {
		return nil, err
	}
	return c, nil
}

// readFile gives the file's content as a tree; ok is false when nothing can be
// made of it.
func readFile(f *findings, v *viper.Viper, path string) (tree map[string]any, ok bool) {
	if path == "" {
		return map[string]any{}, true
	}
	kind := strings.TrimPrefix(strings.ToLower(filepath.Ext(path)), ".")
	if !slices.Contains([]string{"yaml", "yml", "toml", "json"}, kind) {
		f.wrong("", "", "is of an unknown kind", "name it .yaml, .toml or .json")
		return nil, false
	}
	content, err := readBounded(path, largestConfig)
	if err != nil {
		f.wrong("", "", "cannot be read: "+cause(err), "give the path of a file that can")
		return nil, false
	}
	v.SetConfigType(kind)
	if err := v.ReadConfig(bytes.NewReader(content)); err != nil {
		f.wrong("", "", "cannot be read: "+syntaxText(err), "correct what stands there")
		return nil, false
	}
	return v.AllSettings(), true
}

// syntaxText is a reader's error without what it quotes of the file, which may be a secret.
func syntaxText(err error) string {
	text := strings.TrimPrefix(err.Error(), "While parsing config: ")
	quoted := regexp.MustCompile("(?s)`.*`|(anchor|map key:) .*")
	return strings.Join(strings.Fields(quoted.ReplaceAllString(text, "$1 "+notShown)), " ")
}

// cause is why a file could not be used, without its path.
func cause(err error) string {
	var failed *os.PathError
	if errors.As(err, &failed) {
		return failed.Err.Error()
	}
	return err.Error()
}

// applyScalars lets viper decide who sets a key that is not in a list: flag,
// variable or file.
func applyScalars(f *findings, v *viper.Viper, tree map[string]any, variables *variables, flags *pflag.FlagSet) {
	for _, key := range Keys() {
		if strings.Contains(key.Path, "[]") {
			continue
		}
		if variables.take(key.Variable) {
			// BindEnv fails only when it is given no key.
			_ = v.BindEnv(key.Path, key.Variable)
			f.origins[key.Path] = key.Variable
		}
		if flag := flagOf(flags, key.Path); flag != nil {
			// BindPFlag fails only when it is given no flag.
			_ = v.BindPFlag(key.Path, flag)
			f.origins[key.Path] = "--" + flag.Name
		}
		if f.origins[key.Path] != "" {
			put(tree, key.Path, v.Get(key.Path))
		}
	}
}

// put sets a key of sections that are not in a list. Where a value stands in
// the place of a section it stays: decoding tells of it.
func put(tree map[string]any, path string, value any) {
	for {
		name, rest, below := strings.Cut(path, ".")
		if !below {
			tree[name] = value
			return
		}
		if tree[name] == nil {
			tree[name] = map[string]any{}
		}
		next, ok := tree[name].(map[string]any)
		if !ok {
			return
		}
		tree, path = next, rest
	}
}

// applyMissing gives a configuration without listeners the usual one, and one
// that says nothing about backends the embedded one.
func applyMissing(tree map[string]any, path string) {
	if tree["listeners"] == nil {
		tree["listeners"] = []any{map[string]any{"address": defaultListen}}
	}
	if path == "" && tree["clusters"] == nil && tree["tenants"] == nil && !namesStore(tree) {
		const name = "embedded"
		tree["clusters"] = []any{map[string]any{"name": name, "kind": string(EmbeddedKind)}}
		tree["tenants"] = []any{map[string]any{"name": defaultTenant, "cluster": name}}
	}
}

const defaultTenant = "default"
