package scenario

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/bench/rig"
)

func TestTenantsAreSpreadOverClustersAndTheseOverServers(t *testing.T) {
	text := tenantsFile(40, 20, []*rig.Process{{Addr: "127.0.0.1:1"}, {Addr: "127.0.0.1:2"}})("127.0.0.1:3", "127.0.0.1:4")
	require.Contains(t, text, "listeners: [{address: \"127.0.0.1:3\"}]\nadmin: {address: \"127.0.0.1:4\"}\n")
	require.Contains(t, text, "  - {name: cluster-19, addresses: [\"127.0.0.1:2\"]}\n")
	require.Contains(t, text, fmt.Sprintf("  - {name: tenant-27, cluster: cluster-7, users: [{name: user-27, sha256: %x}]}\n",
		sha256.Sum256([]byte("password-27"))))
	require.Equal(t, 60, strings.Count(text, "  - {"))
	all := logins(0, 20, 2)
	require.Equal(t, "*3\r\n$4\r\nAUTH\r\n$7\r\nuser-20\r\n$11\r\npassword-20\r\n", string(all[1]))
}
