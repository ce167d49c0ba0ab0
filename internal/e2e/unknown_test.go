package e2e

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/redistest"
)

// TestUnknownCommandOfABackendThatDoesNotTell: where the proxy may not ask about a command, it does not exist.
func TestUnknownCommandOfABackendThatDoesNotTell(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	require.Equal(t, "+OK\r\n", string(server.Do("ACL", "SETUSER", "default", "-command")))
	p := startProxy(t, standaloneYAML(server.Addr()))
	c := redistest.Dial(t, p.Addr)
	for range 2 {
		require.Equal(t, "-ERR unknown command 'GETT', with args beginning with: 'a' \r\n", string(c.Do("GETT", "a")))
	}
	require.Equal(t, "$-1\r\n", string(c.Do("GET", "a")))
}
