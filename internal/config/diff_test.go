package config

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

const running = `
listeners: [{address: 127.0.0.1:6380}]
clusters:
  - {name: main, addresses: [10.0.0.1:6379], auth: {password_env: DIFF_PASSWORD}}
  - {name: other, addresses: [10.0.0.2:6379]}
tenants:
  - {name: acme, cluster: main, users: [{name: alice, password_env: DIFF_USER}]}
  - {name: umbrella, cluster: other, users: [{name: bob, password_env: DIFF_USER}]}
`

func TestDiff(t *testing.T) {
	t.Setenv("DIFF_PASSWORD", "one")
	t.Setenv("DIFF_USER", "one")
	before, err := load(t, running)
	require.NoError(t, err)
	same, err := load(t, running)
	require.NoError(t, err)
	require.True(t, Diff(before, same).None())
	require.Equal(t, Change{}, Diff(before, same))

	t.Run("scalars", func(t *testing.T) {
		after, err := load(t, running+"\nloops: 2\nlog: {level: debug, format: json}\ndrain_timeout: 1s\npipes: {max: 9, idle_timeout: 9s}\nstream_threshold: 64KiB\n")
		require.NoError(t, err)
		require.Equal(t, Change{
			Live:    []string{"log.level", "drain_timeout"},
			Restart: []string{"log.format", "loops", "pipes.max", "pipes.idle_timeout", "stream_threshold"},
		}, Diff(before, after))
	})
	t.Run("a secret behind the same reference", func(t *testing.T) {
		t.Setenv("DIFF_PASSWORD", "two")
		after, err := load(t, running)
		require.NoError(t, err)
		require.Equal(t, Change{Clusters: Names{Changed: []string{"main"}}}, Diff(before, after))

		t.Setenv("DIFF_USER", "two")
		after, err = load(t, running)
		require.NoError(t, err)
		require.Equal(t, []string{"acme", "umbrella"}, Diff(before, after).Tenants.Changed)
	})
	t.Run("names", func(t *testing.T) {
		after, err := load(t, `
listeners: [{address: 127.0.0.1:6381}]
clusters:
  - {name: third, addresses: [10.0.0.3:6379]}
  - {name: main, addresses: [10.0.0.9:6379], auth: {password_env: DIFF_PASSWORD}}
tenants:
  - {name: more, cluster: third, users: [{name: carol, password_env: DIFF_USER}]}
  - {name: acme, cluster: main, users: [{name: alice, password_env: DIFF_USER}]}
`)
		require.NoError(t, err)
		require.Equal(t, Change{
			Clusters: Names{Added: []string{"third"}, Removed: []string{"other"}, Changed: []string{"main"}},
			Tenants:  Names{Added: []string{"more"}, Removed: []string{"umbrella"}},
			Restart:  []string{"listeners"},
		}, Diff(before, after))
	})
}

func TestDiffOfAdvertise(t *testing.T) {
	const file = `
listeners: [{address: 127.0.0.1:6381, advertise: [%s]}, {address: %s}]
clusters: [{name: main, addresses: [10.0.0.1:6379]}]
tenants: [{name: acme, cluster: main, frontend: cluster}]
`
	before, err := load(t, fmt.Sprintf(file, "a:1", "127.0.0.1:6382"))
	require.NoError(t, err)
	after, err := load(t, fmt.Sprintf(file, "a:1, b:2", "127.0.0.1:6382"))
	require.NoError(t, err)
	require.Equal(t, Change{Live: []string{"listeners[0].advertise"}}, Diff(before, after))
	after, err = load(t, fmt.Sprintf(file, "a:1, b:2", "127.0.0.1:6383"))
	require.NoError(t, err)
	require.Equal(t, Change{Restart: []string{"listeners"}}, Diff(before, after))
}

func TestSocketWithoutAddressIsWarnedOf(t *testing.T) {
	const file = `
listeners: [{address: "unix:///tmp/sluice-test.sock"%s}]
clusters: [{name: main, addresses: [10.0.0.1:6379]}]
tenants: [{name: acme, cluster: main, frontend: cluster}]
`
	c, err := load(t, fmt.Sprintf(file, ""))
	require.NoError(t, err)
	require.Len(t, c.Warnings, 1)
	require.Contains(t, c.Warnings[0], "listeners[0].advertise: clients of tenant acme")
	c, err = load(t, fmt.Sprintf(file, ", advertise: [proxy:6380]"))
	require.NoError(t, err)
	require.Empty(t, c.Warnings)
}

func TestDiffSeesRenewedCertificates(t *testing.T) {
	before, folder := loadEverything(t)
	path := filepath.Join(folder, "good", "everything.yaml")
	same, err := Load(path, nil)
	require.NoError(t, err)
	require.True(t, Diff(before, same).None())

	writeFiles(t, folder)
	after, err := Load(path, nil)
	require.NoError(t, err)
	require.Equal(t, Change{
		Clusters:     Names{Changed: []string{"sharded"}},
		Certificates: []string{"127.0.0.1:7380", "0.0.0.0:9380"},
	}, Diff(before, after))
	after.Admin.TLS.ClientCA = ""
	require.Equal(t, []string{"admin.tls"}, Diff(before, after).Restart)
}
