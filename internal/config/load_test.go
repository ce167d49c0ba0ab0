package config

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// writeFiles makes folder/files with a password, a certificate and its key.
func writeFiles(t *testing.T, folder string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"redis.internal"}}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(filepath.Join(folder, "files"), 0o700))
	for name, content := range map[string][]byte{
		"server.pem": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}),
		"server.key": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
		"password":   []byte("from a file\r\n"),
		"token":      []byte("a token of more than 20 bytes\n"),
	} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, "files", name), content, 0o600))
	}
}

// loadEverything loads a copy of testdata/good/everything.yaml beside the files that it names.
func loadEverything(t *testing.T) (c *Config, folder string) {
	t.Helper()
	folder = t.TempDir()
	writeFiles(t, folder)
	content, err := os.ReadFile("testdata/good/everything.yaml")
	require.NoError(t, err)
	path := filepath.Join(folder, "good", "everything.yaml")
	require.NoError(t, os.Mkdir(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, content, 0o600))
	t.Setenv("SLUICE_CAROL", "carol's")
	t.Setenv("SLUICE_ROBOT", "robot's token, of more than 20 bytes")
	c, err = Load(path, nil)
	require.NoError(t, err)
	return c, folder
}

// load loads a file of this content.
func load(t *testing.T, content string) (*Config, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "sluice.yaml")
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return Load(path, nil)
}

func TestEveryKeyIsRead(t *testing.T) {
	c, _ := loadEverything(t)
	given := map[string]bool{}
	collect(plain(*c), "", func(path, value string) { given[path+"="+value] = true })
	for _, key := range Keys() {
		other := 0
		for setting := range given {
			path, value, _ := strings.Cut(setting, "=")
			if path == key.Path && value != key.Default && value != "[]" {
				other++
			}
		}
		if key.Path == "store.etcd.password_env" || key.Path == "secrets.key_env" {
			continue // in the place of the file; see TestStore
		}
		require.NotZero(t, other, "%s has no value but its default", key.Path)
	}
}

// collect visits the leaves of a tree, with the indexes of lists left out of their paths.
func collect(tree any, path string, visit func(path, value string)) {
	switch node := tree.(type) {
	case map[string]any:
		for key, below := range node {
			collect(below, strings.TrimPrefix(path+"."+key, "."), visit)
		}
	case []any:
		for _, item := range node {
			if _, ok := item.(map[string]any); ok {
				collect(item, path+"[]", visit)
			} else {
				visit(path, fmt.Sprint(item))
			}
		}
	default:
		visit(path, fmt.Sprint(node))
	}
}

func TestValuesOfEverything(t *testing.T) {
	c, folder := loadEverything(t)
	file := func(name string) string { return filepath.Join(folder, "files", name) }

	network, address := c.Listeners[1].Network()
	require.Equal(t, []string{"unix", "/run/sluice/sluice.sock"}, []string{network, address})
	require.Equal(t, FileMode(0o600), c.Listeners[1].Mode)
	require.Equal(t, file("server.key"), c.Listeners[0].TLS.Key, "paths start where the file is")
	require.Nil(t, c.Listeners[1].TLS)
	admin := c.Admin
	require.Equal(t, file("server.key"), admin.TLS.Key)
	require.Equal(t, "e2186dbdb1bb4193608605e84f33208765b5693b55edd4f730a719a100eeea6f", admin.Tokens[0].SHA256.Reveal())
	require.Equal(t, "616e896f372a4c2fe672cb63234c4e85", admin.Tokens[1].SHA256.Reveal()[:32], "of the file's line")
	require.Len(t, admin.Tokens[2].SHA256.Reveal(), 64)
	admin.TLS, admin.Tokens = nil, nil
	require.Equal(t, Admin{Address: "0.0.0.0:9380", PProf: true, Insecure: true, Audit: file("audit.log")}, admin)
	require.Equal(t, filepath.Join(folder, "data"), c.DataDir)
	require.Equal(t, "from a file", c.Store.Etcd.Password.Reveal())
	require.Equal(t, "from a file", c.Secrets.Key.Reveal())
	require.Equal(t, Clients{20000, 10 * time.Minute, time.Minute, 64 << 20, 512 << 20, 2048, 500, 45 * time.Second}, c.Clients)
	require.Equal(t, Pipes{8, 500 * time.Microsecond, 2 * time.Minute, 1000, 100 * time.Microsecond, 64}, c.Pipes)
	require.Equal(t, Slowlog{25 * time.Millisecond, 64}, c.Slowlog)
	require.Equal(t, Dedicated{2, 100, 3 * time.Second, time.Minute}, c.Dedicated)
	require.Equal(t, ByteSize(2<<20), c.StreamThreshold)

	sharded := c.Clusters[0]
	require.Equal(t, RedisCluster, sharded.Kind)
	require.Equal(t, "from a file", sharded.Auth.Password.Reveal())
	require.True(t, sharded.TLS.Enabled)
	require.Equal(t, "inline", c.Clusters[1].Auth.Password.Reveal())
	require.Equal(t, Standalone, c.Clusters[1].Kind)
	require.Equal(t, 2*time.Second, c.Clusters[1].ConnectTimeout)
	require.Equal(t, "carol's", c.Clusters[2].Auth.Password.Reveal())
	require.Equal(t, EmbeddedKind, c.Clusters[3].Kind)

	acme, umbrella := c.Tenants[0], c.Tenants[1]
	require.Equal(t, []int{0}, acme.Databases)
	require.Equal(t, []int{2, 0}, umbrella.Databases)
	require.Equal(t, "from a file", acme.Users[2].Password.Reveal())
	require.Equal(t, "carol's", umbrella.Users[0].Password.Reveal())
	require.Len(t, c.Warnings, 3, "TLS off, not verified, a path that is not used: %q", c.Warnings)
}

func TestFormatsMeanTheSame(t *testing.T) {
	want, err := Load("testdata/good/same.yaml", nil)
	require.NoError(t, err)
	require.Equal(t, 2, want.Loops)
	require.Equal(t, 77, want.Clients.Max)
	require.Equal(t, defaultAdmin, want.Admin.Address, "null is not given")
	for _, path := range []string{"testdata/good/same.toml", "testdata/good/same.json"} {
		c, err := Load(path, nil)
		require.NoError(t, err)
		require.Equal(t, path, c.Source)
		c.Source = want.Source
		require.Equal(t, want, c)
	}
}

const defaultAdmin = "127.0.0.1:8380"

func TestEmbedded(t *testing.T) {
	c := Embedded()
	require.Equal(t, []Listener{{Address: "127.0.0.1:6380", Mode: 0o660}}, c.Listeners)
	require.Equal(t, defaultAdmin, c.Admin.Address)
	require.Equal(t, "embedded", c.Clusters[0].Name)
	require.Equal(t, EmbeddedKind, c.Clusters[0].Kind)
	require.Equal(t, "default", c.Tenants[0].Name)
	require.Equal(t, "embedded", c.Tenants[0].Cluster)
	require.True(t, c.Tenants[0].Open())
	require.Equal(t, "default", c.ListenerTenant(c.Listeners[0]))
	require.Empty(t, c.Warnings)

	loaded, err := Load("", nil)
	require.NoError(t, err)
	require.Equal(t, c, loaded)
}

func TestListenerTenant(t *testing.T) {
	open, closed := Tenant{Name: "open"}, Tenant{Name: "closed", Users: []User{{Name: "u"}}}
	require.Equal(t, "open", Config{Tenants: []Tenant{open}}.ListenerTenant(Listener{}))
	require.Empty(t, Config{Tenants: []Tenant{closed}}.ListenerTenant(Listener{}))
	require.Empty(t, Config{Tenants: []Tenant{open, closed}}.ListenerTenant(Listener{}))
	require.Equal(t, "closed", Config{Tenants: []Tenant{open, closed}}.ListenerTenant(Listener{Tenant: "closed"}))
}

func TestQuick(t *testing.T) {
	one, err := Quick(nil, []string{"10.0.0.1:6379"}, "", "")
	require.NoError(t, err)
	require.Equal(t, Standalone, one.Clusters[0].Kind)
	require.Equal(t, []string{"10.0.0.1:6379"}, one.Clusters[0].Addresses)
	require.Equal(t, "127.0.0.1:6380", one.Listeners[0].Address)
	require.True(t, one.Tenants[0].Open())

	several, err := Quick([]string{":7380", "unix:///tmp/s.sock"}, []string{"10.0.0.1:7000", "10.0.0.2:7000"}, "", "off")
	require.NoError(t, err)
	require.Equal(t, RedisCluster, several.Clusters[0].Kind)
	require.Len(t, several.Clusters[0].Addresses, 2)
	require.Len(t, several.Listeners, 2)
	require.True(t, several.Admin.Off())
	require.Len(t, several.Warnings, 1)
	require.Contains(t, several.Warnings[0], "other machines can reach tenant default")

	cluster, err := Quick(nil, []string{"10.0.0.1:7000"}, "cluster", "")
	require.NoError(t, err)
	require.Equal(t, RedisCluster, cluster.Clusters[0].Kind)

	_, err = Quick([]string{"nowhere"}, []string{"10.0.0.1"}, "klaster", "0.0.0.0:1")
	require.EqualError(t, err, strings.Join([]string{
		`--admin: admin.address: "0.0.0.0:1": lets other machines reach the admin port without TLS; use 127.0.0.1, give admin.tls, or set admin.insecure: true if the network keeps strangers away`,
		`--backend-kind: clusters[0].kind: "klaster": is not a known choice; did you mean cluster? The choices are standalone, cluster, embedded`,
		`--listen: listeners[0].address: "nowhere": has no port; write host:port`,
	}, "\n"))
	_, err = Quick(nil, nil, "cluster", "")
	require.EqualError(t, err, `--backend-kind: "cluster": says what a backend is that is not given; add --backend HOST:PORT`)
}

// TestShippedFiles loads what configs/ holds.
func TestShippedFiles(t *testing.T) {
	for _, name := range []string{"minimal.yaml", "redis-cluster.yaml", "sluice.yaml"} {
		c, err := Load(filepath.Join("..", "..", "configs", name), nil)
		require.NoError(t, err, name)
		require.Empty(t, c.Warnings, name)
	}
}

// TestFullFileHasEveryKey also reads the keys that are commented out in
// configs/sluice.yaml, and compares what it sets with the defaults.
func TestFullFileHasEveryKey(t *testing.T) {
	content, err := os.ReadFile("../../configs/sluice.yaml")
	require.NoError(t, err)
	lines := strings.Split(string(content), "\n")
	commented := map[string]bool{} // keys that a comment stands before
	for i, line := range lines {
		bare := strings.TrimLeft(line, " ")
		if after, ok := strings.CutPrefix(bare, "#"); ok && after != "" && after[0] != ' ' {
			lines[i] = line[:len(line)-len(bare)] + after
		}
		if name, _, ok := strings.Cut(strings.TrimLeft(lines[i], " -"), ":"); ok && i > 0 && !strings.HasPrefix(name, "#") {
			commented[name] = commented[name] || strings.HasPrefix(strings.TrimSpace(lines[i-1]), "# ")
		}
	}
	tree, err := parseText(strings.Join(lines, "\n"))
	require.NoError(t, err)
	found := map[string]bool{}
	collect(tree, "", func(path, _ string) { found[path] = true })
	for _, key := range Keys() {
		require.True(t, found[key.Path], "configs/sluice.yaml does not mention %s", key.Path)
		delete(found, key.Path)
	}
	require.Empty(t, found, "configs/sluice.yaml mentions keys that are not known")
	for _, name := range []string{"loops", "max", "idle_timeout", "stream_threshold", "kind", "databases", "sha256", "client_ca"} {
		require.True(t, commented[name], name)
	}

	c, err := Load("../../configs/sluice.yaml", nil)
	require.NoError(t, err)
	usual := Embedded()
	for name, pair := range map[string][2]any{
		"admin": {usual.Admin, c.Admin}, "log": {usual.Log, c.Log}, "loops": {usual.Loops, c.Loops},
		"clients": {usual.Clients, c.Clients}, "drain_timeout": {usual.DrainTimeout, c.DrainTimeout},
		"pipes": {usual.Pipes, c.Pipes}, "dedicated": {usual.Dedicated, c.Dedicated}, "stream_threshold": {usual.StreamThreshold, c.StreamThreshold},
	} {
		require.Equal(t, pair[0], pair[1], "configs/sluice.yaml does not show the default of %s", name)
	}
	require.NotEqual(t, c.Tenants[0].Users[0].SHA256, c.Tenants[0].Users[1].Argon2id)
}

func FuzzLoad(f *testing.F) {
	for _, pattern := range []string{"testdata/good/*.yaml", "testdata/bad/*.yaml", "../../configs/*.yaml"} {
		files, err := filepath.Glob(pattern)
		require.NoError(f, err)
		for _, file := range files {
			content, err := os.ReadFile(file)
			require.NoError(f, err)
			f.Add(string(content))
		}
	}
	folder := f.TempDir()
	f.Fuzz(func(t *testing.T, content string) {
		path := filepath.Join(folder, "fuzz.yaml")
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		c, err := Load(path, nil)
		if err != nil {
			var all *Errors
			require.ErrorAs(t, err, &all)
			require.NotEmpty(t, all.Problems)
			return
		}
		require.NotEmpty(t, c.Listeners)
		for _, tenant := range c.Tenants {
			require.NotEmpty(t, tenant.Databases)
			require.Contains(t, diffNames(nil, c.Clusters, func(c Cluster) string { return c.Name }).Added, tenant.Cluster)
		}
		require.True(t, Diff(c, c).None())
	})
}
