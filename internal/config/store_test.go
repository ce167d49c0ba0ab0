package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestStore(t *testing.T) {
	t.Setenv("ETCD_PASSWORD", "etcd's")
	t.Setenv("SLUICE_KEY_OF_SECRETS", "the key")
	c, err := load(t, "store: {kind: etcd, etcd: {endpoints: ['http://127.0.0.1:2379'], username: u, password_env: ETCD_PASSWORD}}\nsecrets: {key_env: SLUICE_KEY_OF_SECRETS}")
	require.NoError(t, err, "neither clusters nor tenants are needed")
	require.Equal(t, StoreEtcd, c.StoreKind())
	require.Equal(t, "etcd's", c.Store.Etcd.Password.Reveal())
	require.Equal(t, "the key", c.Secrets.Key.Reveal())
	require.Equal(t, "/sluice/", c.Store.Etcd.Prefix)
	require.Empty(t, c.Clusters)
}

func TestDataDir(t *testing.T) {
	folder := t.TempDir()
	t.Chdir(folder)
	flags := flagSet()
	require.NoError(t, flags.Parse([]string{"--data-dir=state"}))
	c, err := Load("", flags)
	require.NoError(t, err)
	require.Empty(t, c.Clusters, "nothing is embedded where clusters can be registered")
	require.Equal(t, StoreBolt, c.StoreKind())
	require.Equal(t, filepath.Join(folder, "state"), c.DataDir)
	require.Equal(t, filepath.Join(folder, "state", "store.db"), c.StorePath())

	require.NoError(t, os.Mkdir("etc", 0o700))
	require.NoError(t, os.WriteFile("etc/sluice.yaml", []byte("data_dir: state"), 0o600))
	c, err = Load("etc/sluice.yaml", nil)
	require.NoError(t, err)
	require.Equal(t, filepath.Join(folder, "etc", "state"), c.DataDir, "it starts where the file is")
	c, err = Load("etc/sluice.yaml", flags)
	require.NoError(t, err)
	require.Equal(t, filepath.Join(folder, "state"), c.DataDir, "it starts where the process does")
	require.Equal(t, StoreMemory, Embedded().StoreKind())
	require.False(t, Embedded().HasStore())
}

func TestWrongStores(t *testing.T) {
	for content, want := range map[string]string{
		"store: {kind: bbolt}":                                                                                 "store.path: (not set): is needed",
		"store: {kind: etcd}":                                                                                  "store.etcd.endpoints: (not set): is needed",
		"store: {etcd: {endpoints: ['http://e:1']}}":                                                           `store.etcd.endpoints: "http://e:1": is for a store of kind etcd`,
		"store: {kind: etcd, etcd: {endpoints: [e:1]}}":                                                        "store.etcd.endpoints[0]: (not shown): is not the URL",
		"store: {kind: etcd, etcd: {endpoints: ['http://u:hunter2@e:1']}}":                                     "store.etcd.endpoints[0]: (not shown): is not the URL",
		"store: {kind: etcd, etcd: {endpoints: ['http://e:1'], tls: {server_name: x}}}":                        "is not encrypted",
		"store: {kind: etcd, etcd: {endpoints: ['http://e:1'], username: u}}":                                  "has no password",
		"data_dir: d\nlisteners: [{address: ':1', admin: true}, {address: ':2'}]":                              "lets other machines reach a listener for operators",
		"data_dir: d\nlisteners: [{address: '127.0.0.1:1', admin: true}]":                                      "leaves no listener for clients",
		"data_dir: d\nlisteners: [{address: '127.0.0.1:1', insecure: true}]":                                   "is for listeners of operators",
		"data_dir: d\nlisteners: [{address: '127.0.0.1:1', admin: true, advertise: ['a:1']}, {address: ':2'}]": "cannot be: the listener is for operators",
		"data_dir: d\nlisteners: [{address: '127.0.0.1:1', admin: true, tenant: a}, {address: ':2'}]":          "cannot be: the listener is for operators",
		"listeners: [{address: ':1', tenant: a}, {address: '127.0.0.1:2', admin: true}]\nclusters: [{name: c, kind: standalone, addresses: ['b:1']}]\ntenants: [{name: a, cluster: c}, {name: b, cluster: c, users: [{name: u, sha256: '" + strings.Repeat("0", 64) + "'}]}]": "can have no clients",
		"data_dir: d\ntenants: [{name: a, cluster: b}]": "is not a configured cluster",
	} {
		_, err := load(t, content)
		require.ErrorContains(t, err, want, content)
		require.False(t, strings.Contains(err.Error(), "hunter2"))
	}
}

func TestTokensAreLive(t *testing.T) {
	before, err := load(t, "data_dir: /d")
	require.NoError(t, err)
	after, err := load(t, "data_dir: /d\nadmin: {tokens: [{name: a, role: admin, sha256: '"+strings.Repeat("0", 64)+"'}]}")
	require.NoError(t, err)
	require.Equal(t, []string{"admin.tokens"}, Diff(before, after).Live)
	require.Empty(t, Diff(before, after).Restart)
	secure, err := load(t, "store: {kind: etcd, etcd: {endpoints: ['https://e:1'], tls: {server_name: x}}}")
	require.NoError(t, err)
	require.Equal(t, []string{"data_dir", "store.etcd.endpoints", "store.etcd.tls", "store.kind"}, slices.Sorted(slices.Values(Diff(before, secure).Restart)))
}
