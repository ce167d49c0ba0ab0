package config

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func quickFlags(t *testing.T, args ...string) (*Config, error) {
	t.Helper()
	flags := flagSet()
	require.NoError(t, flags.Parse(args))
	return Load("", flags)
}

func TestTrustedFlag(t *testing.T) {
	c, err := quickFlags(t, "--backend=10.0.0.1:6379", "--trusted")
	require.NoError(t, err)
	require.True(t, c.Tenants[0].Trusted)

	c, err = quickFlags(t, "--backend=10.0.0.1:6379")
	require.NoError(t, err)
	require.False(t, c.Tenants[0].Trusted)

	_, err = quickFlags(t, "--trusted")
	require.EqualError(t, err, `--trusted: "true": is about the tenant of a backend that is not given; add --backend HOST:PORT`)
	_, err = quickFlags(t, "--backend=10.0.0.1:7000,10.0.0.2:7000", "--trusted")
	require.EqualError(t, err, "--trusted: tenants[0].trusted: true: cannot be: cluster backend is of kind cluster; give the tenant a standalone backend, or remove trusted")
}
