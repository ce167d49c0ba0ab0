package config

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"
)

const (
	flagListen      = "listen"
	flagBackend     = "backend"
	flagBackendKind = "backend-kind"
	flagTrusted     = "trusted"
	flagAdmin       = "admin"
	flagAdminRESP   = "admin-resp"
)

// AddFlags adds the flags that Load looks for. Values are texts that Load
// checks, so that a wrong flag is told together with everything else.
func AddFlags(flags *pflag.FlagSet) {
	flags.StringSlice(flagListen, nil, "take clients at this `ADDRESS` (host:port or unix:///path) in place of the file's listeners; may be repeated")
	flags.StringSlice(flagAdminRESP, nil, "take PROXY commands of operators who have only redis-cli at this `ADDRESS` too (host:port or unix:///path); may be repeated")
	flags.StringSlice(flagBackend, nil, "without a file: serve this backend, `HOST:PORT[,HOST:PORT…]`, to one tenant without a password")
	flags.String(flagBackendKind, "", "what --backend is, `standalone|cluster`; without it one address is standalone and several are a cluster")
	flags.Bool(flagTrusted, false, "the tenant of --backend owns it: CONFIG SET, DEBUG, SHUTDOWN and the like are passed through")
	for _, f := range scalarFlags() {
		flags.String(f.name, "", f.usage)
	}
}

func flagSet() *pflag.FlagSet {
	flags := pflag.NewFlagSet("config", pflag.ContinueOnError)
	AddFlags(flags)
	return flags
}

// scalarFlag is a flag that sets one key.
type scalarFlag struct{ name, key, usage string }

func scalarFlags() []scalarFlag {
	return []scalarFlag{
		{flagAdmin, "admin.address", "`ADDRESS` of the admin port for metrics and health, or off (default 127.0.0.1:8380)"},
		{"data-dir", "data_dir", "keep what is registered through the admin API in this `FOLDER`"},
		{"log-level", "log.level", "`LEVEL` of the log: debug, info, warn or error (default info)"},
		{"log-format", "log.format", "`FORMAT` of the log: console or json (default console)"},
		{"loops", "loops", "at most this `NUMBER` of event loops; 0: what the machine gives (default 0)"},
		{"max-clients", "clients.max", "at most this `NUMBER` of clients (default 10000)"},
		{"max-pipes", "pipes.max", "at most this `NUMBER` of shared connections per loop and node (default 4)"},
		{"stream-threshold", "stream_threshold", "stream values above this `SIZE` past the shared connections (default 256KiB)"},
		{"drain-timeout", "drain_timeout", "`DURATION` within which clients finish when the daemon stops (default 30s)"},
	}
}

// flagOf is the flag that was given for a key, or nil.
func flagOf(flags *pflag.FlagSet, key string) *pflag.Flag {
	for _, f := range scalarFlags() {
		if f.key == key {
			return given(flags, f.name)
		}
	}
	return nil
}

func given(flags *pflag.FlagSet, name string) *pflag.Flag {
	if flags == nil {
		return nil
	}
	if flag := flags.Lookup(name); flag != nil && flag.Changed {
		return flag
	}
	return nil
}

// applyQuickFlags puts what --listen and --backend describe into the tree.
func applyQuickFlags(f *findings, tree map[string]any, flags *pflag.FlagSet, path string) {
	if flag := given(flags, flagListen); flag != nil {
		var listeners []any
		for _, address := range flagItems(flag) {
			listeners = append(listeners, map[string]any{"address": address})
		}
		tree["listeners"] = listeners
		f.origins["listeners"] = "--" + flagListen
	}
	backend, kind, trusted := given(flags, flagBackend), given(flags, flagBackendKind), given(flags, flagTrusted)
	switch {
	case backend == nil && trusted != nil:
		f.wrongFlag(trusted, "is about the tenant of a backend that is not given", "add --backend HOST:PORT")
	case backend == nil && kind != nil:
		f.wrongFlag(kind, "says what a backend is that is not given", "add --backend HOST:PORT")
	case backend != nil && path != "":
		f.wrongFlag(backend, "describes the whole of clusters and tenants, and so does "+path, "use one of them")
	case backend != nil:
		applyBackend(f, tree, flagItems(backend), kind, trusted)
	}
}

// applyAdminRESP adds the listeners of --admin-resp to those that file, variables and --listen describe.
func applyAdminRESP(f *findings, tree map[string]any, flags *pflag.FlagSet) {
	flag := given(flags, flagAdminRESP)
	if flag == nil {
		return
	}
	if tree["listeners"] == nil {
		tree["listeners"] = []any{map[string]any{"address": defaultListen}}
	}
	listeners, ok := tree["listeners"].([]any)
	if !ok {
		return // decoding tells of it
	}
	for _, address := range flagItems(flag) {
		f.origins[fmt.Sprintf("listeners[%d].address", len(listeners))] = "--" + flagAdminRESP
		listeners = append(listeners, map[string]any{"address": address, "admin": true})
	}
	tree["listeners"] = listeners
}

func applyBackend(f *findings, tree map[string]any, addresses []string, kind, trusted *pflag.Flag) {
	const name = "backend"
	cluster := map[string]any{"name": name, "kind": string(Standalone), "addresses": addresses}
	f.origins["clusters"], f.origins["tenants"] = "--"+flagBackend, "--"+flagBackend
	if len(addresses) > 1 {
		cluster["kind"] = string(RedisCluster)
	}
	if kind != nil {
		cluster["kind"] = kind.Value.String()
		f.origins["clusters[0].kind"] = "--" + flagBackendKind
	}
	tree["clusters"] = []any{cluster}
	owner := map[string]any{"name": defaultTenant, "cluster": name}
	if trusted != nil {
		owner["trusted"] = trusted.Value.String()
		f.origins["tenants[0].trusted"] = "--" + flagTrusted
	}
	tree["tenants"] = []any{owner}
}

func (f *findings) wrongFlag(flag *pflag.Flag, wrong, mend string) {
	f.problems = append(f.problems, Problem{
		Source: "--" + flag.Name, Value: shown(strings.Join(flagItems(flag), ",")), Wrong: wrong, Mend: mend,
	})
}

func flagItems(flag *pflag.Flag) []string {
	if list, ok := flag.Value.(pflag.SliceValue); ok {
		return list.GetSlice()
	}
	return []string{flag.Value.String()}
}
