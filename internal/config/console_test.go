package config

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAdminRESPAddsListeners to whatever else describes listeners.
func TestAdminRESPAddsListeners(t *testing.T) {
	operators := []Listener{{Address: "127.0.0.1:6390", Admin: true, Mode: defaultMode}, {Address: "unix:///run/ops.sock", Admin: true, Mode: defaultMode}}
	for name, c := range map[string]struct {
		listen  string
		environ []string
		want    string
	}{
		"nothing":  {want: defaultListen},
		"--listen": {listen: "127.0.0.1:1", want: "127.0.0.1:1"},
		"variable": {environ: []string{"SLUICE_LISTENERS_0_ADDRESS=127.0.0.1:2"}, want: "127.0.0.1:2"},
	} {
		flags := flagSet()
		require.NoError(t, flags.Set("admin-resp", "127.0.0.1:6390,unix:///run/ops.sock"))
		if c.listen != "" {
			require.NoError(t, flags.Set("listen", c.listen))
		}
		got, err := build("", flags, c.environ)
		require.NoError(t, err, name)
		require.Equal(t, c.want, got.Listeners[0].Address, name)
		require.Len(t, got.ClientListeners(), 1, name)
		require.Equal(t, operators, got.AdminListeners(), name)
		require.True(t, got.Operated())
	}
	flags := flagSet()
	require.NoError(t, flags.Set("admin-resp", "0.0.0.0:6390"))
	_, err := build("", flags, nil)
	require.ErrorContains(t, err, `--admin-resp: listeners[1].address: "0.0.0.0:6390": lets other machines reach a listener for operators`)
}
