package config

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

const small = `
listeners: [{address: 127.0.0.1:6380}]
loops: 1
clients: {max: 50}
clusters: [{name: main, addresses: [10.0.0.1:6379]}]
tenants: [{name: default, cluster: main}]
`

func TestVariablesWinOverTheFile(t *testing.T) {
	for name, value := range map[string]string{
		"SLUICE_LOOPS":                          "7",
		"SLUICE_CLIENTS_MAX":                    "60",
		"SLUICE_CLIENTS_MAX_INFLIGHT":           "61",
		"SLUICE_ADMIN_PPROF":                    "true",
		"SLUICE_DRAIN_TIMEOUT":                  "1s",
		"SLUICE_STREAM_THRESHOLD":               "64kb",
		"SLUICE_LOG_FORMAT":                     "", // as if it were not set
		"SLUICE_LISTENERS_0_ADDRESS":            "127.0.0.1:1",
		"SLUICE_LISTENERS_1_ADDRESS":            "unix:///tmp/s.sock",
		"SLUICE_LISTENERS_1_MODE":               "0600",
		"SLUICE_CLUSTERS_0_KIND":                "cluster",
		"SLUICE_CLUSTERS_0_ADDRESSES":           "10.0.0.1:1, 10.0.0.2:2",
		"SLUICE_CLUSTERS_0_AUTH_PASSWORD":       "[not a list",
		"SLUICE_CLUSTERS_0_TLS_SERVER_NAME":     "redis.internal",
		"SLUICE_TENANTS_0_COMMAND_TIMEOUT":      "1m",
		"SLUICE_TENANTS_0_DATABASES":            "[0]",
		"SLUICE_TENANTS_0_USERS_0_NAME":         "alice",
		"SLUICE_TENANTS_0_USERS_0_PASSWORD_ENV": "SLUICE_ALICE",
		"SLUICE_ALICE":                          "secret",
	} {
		t.Setenv(name, value)
	}
	c, err := load(t, small)
	require.NoError(t, err)
	require.Equal(t, 7, c.Loops)
	require.Equal(t, 60, c.Clients.Max)
	require.Equal(t, 61, c.Clients.MaxInflight)
	require.True(t, c.Admin.PProf)
	require.Equal(t, time.Second, c.DrainTimeout)
	require.Equal(t, ByteSize(64<<10), c.StreamThreshold)
	require.Equal(t, "console", c.Log.Format)
	require.Equal(t, []Listener{{Address: "127.0.0.1:1", Mode: 0o660}, {Address: "unix:///tmp/s.sock", Mode: 0o600}}, c.Listeners)
	require.Equal(t, RedisCluster, c.Clusters[0].Kind)
	require.Equal(t, []string{"10.0.0.1:1", "10.0.0.2:2"}, c.Clusters[0].Addresses)
	require.Equal(t, "[not a list", c.Clusters[0].Auth.Password.Reveal())
	require.Equal(t, "redis.internal", c.Clusters[0].TLS.ServerName)
	require.True(t, c.Clusters[0].TLS.Enabled)
	require.Equal(t, time.Minute, c.Tenants[0].CommandTimeout)
	require.Equal(t, "secret", c.Tenants[0].Users[0].Password.Reveal())
}

func TestWholeListsInVariables(t *testing.T) {
	t.Setenv("SLUICE_LISTENERS", `[{"address": "127.0.0.1:1"}, {"address": "127.0.0.1:2"}]`)
	t.Setenv("SLUICE_LISTENERS_1_ADDRESS", "127.0.0.1:3")
	t.Setenv("SLUICE_CLUSTERS", "- name: main\n  addresses:\n    - 10.0.0.9:6379\n")
	t.Setenv("SLUICE_TENANTS", "[{name: acme, cluster: main}]")
	for name, path := range map[string]string{"file": "testdata/good/same.json", "no file": ""} {
		t.Run(name, func(t *testing.T) {
			c, err := Load(path, nil)
			require.NoError(t, err)
			require.Equal(t, "127.0.0.1:1", c.Listeners[0].Address)
			require.Equal(t, "127.0.0.1:3", c.Listeners[1].Address)
			require.Equal(t, []string{"10.0.0.9:6379"}, c.Clusters[0].Addresses)
			require.Equal(t, "acme", c.Tenants[0].Name)
			require.True(t, c.Tenants[0].Open())
		})
	}
}

func TestEveryKeyHasAVariable(t *testing.T) {
	for _, key := range Keys() {
		t.Run(key.Variable, func(t *testing.T) {
			variable := strings.ReplaceAll(key.Variable, "<n>", "0")
			found, ok := resolve(reflect.TypeFor[Config](), strings.TrimPrefix(variable, variablePrefix))
			require.True(t, ok)
			require.Equal(t, strings.ReplaceAll(key.Path, "[]", "[0]"), found.key)
			if found.inList() {
				return
			}
			t.Setenv(variable, "wrong")
			c, err := Load("", nil)
			if err == nil { // every text will do
				taken := false
				collect(plain(*c), "", func(path, value string) { taken = taken || path == key.Path && strings.Contains(value, "wrong") })
				require.True(t, taken || strings.HasPrefix(key.Path, "store.etcd."), "neither refused nor taken")
				return
			}
			require.ErrorContains(t, err, variable+": "+key.Path+`: "wrong": `)
		})
	}
}

func TestFlagsWinOverVariables(t *testing.T) {
	t.Setenv("SLUICE_LOOPS", "7")
	t.Setenv("SLUICE_CLIENTS_MAX", "60")
	t.Setenv("SLUICE_LISTENERS", "[{address: 127.0.0.1:1}]")
	t.Setenv("SLUICE_LISTENERS_0_ADDRESS", "127.0.0.1:2")
	t.Setenv("SLUICE_CLUSTERS_0_ADDRESSES", "10.0.0.7:7")
	t.Setenv("SLUICE_CLUSTERS_0_AUTH_PASSWORD", "secret")
	flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	flags.String("config", "", "a flag of the caller's own")
	AddFlags(flags)
	require.NoError(t, flags.Parse([]string{
		"--loops=3", "--listen=127.0.0.1:3", "--listen=127.0.0.1:4", "--backend=10.0.0.3:1,10.0.0.3:2", "--admin=off",
		"--log-level=debug", "--log-format=json", "--drain-timeout=9s", "--max-pipes=2", "--stream-threshold=2MiB",
	}))
	c, err := Load("", flags)
	require.NoError(t, err)
	require.Equal(t, 3, c.Loops)
	require.Equal(t, 60, c.Clients.Max, "a flag that is not given changes nothing")
	require.Equal(t, "127.0.0.1:3", c.Listeners[0].Address)
	require.Equal(t, "127.0.0.1:4", c.Listeners[1].Address)
	require.Equal(t, []string{"10.0.0.3:1", "10.0.0.3:2"}, c.Clusters[0].Addresses)
	require.Equal(t, RedisCluster, c.Clusters[0].Kind)
	require.Equal(t, "secret", c.Clusters[0].Auth.Password.Reveal(), "variables add what the flag does not say")
	require.True(t, c.Admin.Off())
	require.Equal(t, Log{"debug", "json"}, c.Log)
	require.Equal(t, 9*time.Second, c.DrainTimeout)
	require.Equal(t, 2, c.Pipes.Max)
	require.Equal(t, ByteSize(2<<20), c.StreamThreshold)
}

func TestEveryScalarFlagSetsAKey(t *testing.T) {
	known := map[string]bool{}
	for _, key := range Keys() {
		known[key.Path] = true
	}
	flags := flagSet()
	for _, f := range scalarFlags() {
		require.True(t, known[f.key], f.key)
		require.NotNil(t, flags.Lookup(f.name))
	}
}

func TestVariableNamesTheFile(t *testing.T) {
	t.Setenv("SLUICE_CONFIG", "testdata/good/same.yaml")
	c, err := Load("", nil)
	require.NoError(t, err)
	require.Equal(t, "testdata/good/same.yaml", c.Source)
	require.Equal(t, 2, c.Loops)
}
