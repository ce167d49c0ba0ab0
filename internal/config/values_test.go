package config

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestByteSizes(t *testing.T) {
	for text, want := range map[string]ByteSize{
		"0": 0, "4096": 4096, "7b": 7, "1k": 1000, "1kb": 1024, "1KiB": 1024, "32mb": 32 << 20, "1MiB": 1 << 20,
		"2m": 2000000, "1 GB": 1 << 30, "1GiB": 1 << 30, "3g": 3000000000,
	} {
		size, err := ParseByteSize(text)
		require.NoError(t, err, text)
		require.Equal(t, want, size, text)
		again, err := ParseByteSize(size.String())
		require.NoError(t, err)
		require.Equal(t, size, again)
	}
	for _, text := range []string{"", "-1", "1.5GiB", "MiB", "1TiB", "1bb", "1kk", "9223372036854775807k", "99999999999999999999"} {
		_, err := ParseByteSize(text)
		require.Error(t, err, text)
	}
	require.Equal(t, "32MiB", ByteSize(32<<20).String())
	require.Equal(t, "1000", ByteSize(1000).String())
}

func TestDurations(t *testing.T) {
	for text, want := range map[string]time.Duration{"0": 0, "0s": 0, "300s": 5 * time.Minute, "1us": time.Microsecond} {
		d, err := parseDuration(text)
		require.NoError(t, err, text)
		require.Equal(t, want, d)
	}
	for _, text := range []string{"5", "1.5", "soon", ""} {
		_, err := parseDuration(text)
		require.Error(t, err, text)
	}
	for d, want := range map[time.Duration]string{0: "0s", 30 * time.Second: "30s", 5 * time.Minute: "5m", time.Hour: "1h", 90 * time.Minute: "1h30m", 70 * time.Second: "1m10s"} {
		require.Equal(t, want, formatDuration(d))
	}
}

func TestNearest(t *testing.T) {
	keys := []string{"address", "addresses", "max", "max_inflight", "idle_timeout"}
	for word, want := range map[string]string{
		"adress": "address", "adresses": "addresses", "maxx": "max", "max-inflight": "max_inflight",
		"idletimeout": "idle_timeout", "idle": "idle_timeout", "colour": "", "x": "",
	} {
		require.Equal(t, want, nearest(word, keys), word)
	}
}

func TestSecretsAreNeverSeen(t *testing.T) {
	const marker = "hunter2"
	t.Setenv("MARKED", marker)
	hash := strings.Repeat("ab", 32)
	c, err := load(t, `
clusters:
  - {name: main, addresses: [10.0.0.1:6379], auth: {password: `+marker+`}}
  - {name: other, addresses: [10.0.0.1:6379], auth: {password_env: MARKED}}
tenants:
  - name: acme
    cluster: main
    users: [{name: alice, sha256: `+hash+`}, {name: bob, password_env: MARKED}]
`)
	require.NoError(t, err)
	require.Equal(t, marker, c.Clusters[0].Auth.Password.Reveal())
	require.Equal(t, marker, c.Tenants[0].Users[1].Password.Reveal())

	var printed strings.Builder
	for _, value := range []any{c, *c, c.Clusters, c.Clusters[0], c.Tenants, c.Tenants[0].Users[1], &c.Tenants[0].Users[1], c.Clusters[0].Auth.Password} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			fmt.Fprintf(&printed, verb, value)
		}
		encoded, err := json.Marshal(value)
		require.NoError(t, err)
		printed.Write(encoded)
	}
	for _, secret := range []string{marker, hash, fmt.Sprintf("%x", marker), fmt.Sprintf("%x", hash)} {
		require.NotContains(t, printed.String(), secret)
	}
	require.Contains(t, c.String(), `"password": "[redacted]"`)
	require.Contains(t, c.String(), `"sha256": "[redacted]"`)
	require.Contains(t, c.String(), `"drain_timeout": "30s"`)
	require.Empty(t, NewSecret("").String())
}

func TestRenderedConfigurationIsOne(t *testing.T) {
	c, err := Load("testdata/good/same.yaml", nil)
	require.NoError(t, err)
	c.Tenants[0].Users = nil // what is redacted cannot be read again
	again, err := load(t, c.String())
	require.NoError(t, err)
	c.Source, again.Source = "", ""
	require.Equal(t, c.String(), again.String())
}
