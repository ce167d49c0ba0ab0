package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/redistest"
)

// TestAuthInTransactions: AUTH as another user of the tenant is done at EXEC, and between WATCH and EXEC at once. As a
// user of another tenant it fails, whose backend the transaction's commands could not be on.
func TestAuthInTransactions(t *testing.T) {
	redistest.LeakCheck(t)
	server, other := redistest.Standalone(t), redistest.Standalone(t)
	p := startProxy(t, fmt.Sprintf(`
listeners: [{address: "127.0.0.1:0"}]
clusters: [{name: main, kind: standalone, addresses: ["%s"]}, {name: second, kind: standalone, addresses: ["%s"]}]
tenants:
  - {name: one, cluster: main, users: [{name: ann, sha256: %[3]q}, {name: eve, sha256: %[3]q}]}
  - {name: two, cluster: second, users: [{name: bob, sha256: %[3]q}]}
`, server.Addr(), other.Addr(), sha256Hex("pw")))
	const wrong = "-WRONGPASS invalid username-password pair or user is disabled.\r\n"
	const elsewhere = "-ERR AUTH as a user of another tenant is not supported by this proxy inside MULTI and between WATCH and EXEC; the user is the same as before\r\n"
	for _, prepared := range []string{"", "WATCH k"} {
		c := redistest.Dial(t, p.Addr)
		play := func(line, want string) {
			t.Helper()
			require.Equal(t, want, string(c.Do(strings.Fields(line)...)), line)
		}
		play("AUTH ann pw", "+OK\r\n")
		play("SET k 1", "+OK\r\n")
		if prepared != "" {
			play(prepared, "+OK\r\n")
			play("AUTH eve wrong", wrong)
			play("AUTH bob pw", elsewhere)
			play("ACL WHOAMI", "$3\r\nann\r\n")
			play("AUTH eve pw", "+OK\r\n")
			play("ACL WHOAMI", "$3\r\neve\r\n")
			play("HELLO 2 AUTH bob wrong", wrong)
			play("HELLO 2 AUTH bob pw SETNAME x", elsewhere)
			play("CLIENT GETNAME", "$-1\r\n")
			require.Contains(t, string(c.Do("HELLO", "2", "AUTH", "ann", "pw", "SETNAME", "y")), "proto\r\n:2\r\n")
			play("CLIENT GETNAME", "$1\r\ny\r\n")
		}
		play("MULTI", "+OK\r\n")
		for _, line := range []string{"GET k", "AUTH eve wrong", "ACL WHOAMI", "AUTH eve pw", "ACL WHOAMI", "AUTH bob pw", "AUTH bob no", "ACL WHOAMI", "GET k"} {
			play(line, "+QUEUED\r\n")
		}
		play("EXEC", "*9\r\n$1\r\n1\r\n"+wrong+"$3\r\nann\r\n+OK\r\n$3\r\neve\r\n"+elsewhere+wrong+"$3\r\neve\r\n$1\r\n1\r\n")
		play("MULTI", "+OK\r\n")
		play("HELLO 3 AUTH ann pw", "-ERR HELLO with AUTH and another protocol version inside MULTI is not supported by this proxy; send it before MULTI\r\n")
		play("EXEC", "-EXECABORT Transaction discarded because of previous errors.\r\n")
		play("AUTH bob pw", "+OK\r\n")
		play("GET k", "$-1\r\n")
	}
}
