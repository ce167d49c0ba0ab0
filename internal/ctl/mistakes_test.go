package ctl

import (
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMistakesAreAnswered with what was wrong and what to try.
func TestMistakesAreAnswered(t *testing.T) {
	f := startFleet(t)
	f.furnish()
	for _, c := range []struct {
		line  string
		code  int
		wants []string
	}{
		{"sessions kill 999", ExitNotFound, []string{"error: there is no session 999\n", "proxyctl sessions list"}},
		{"clusters create c1 --address 127.0.0.1:1", ExitConflict, []string{"exists already", "update instead of create"}},
		{"clusters get c9", ExitNotFound, []string{"there is no cluster c9", "proxyctl clusters list"}},
		{"users create nobody app --password-file " + f.file("password", "a long secret"), ExitNotFound, []string{"there is no tenant nobody", "proxyctl tenants list"}},
		{"users get acme nobody", ExitNotFound, []string{"there is no user acme/nobody", "proxyctl users list acme"}},
		{"clusters delete c1 --yes", ExitConflict, []string{"is in use; delete or change what uses it first: acme", "is used by acme\n"}},
		{"clusters create c3 --address localhost", ExitError, []string{`addresses[0]: has no port; write host:port (it is "localhost")`}},
		{"tenants create t --cluster c9", ExitError, []string{"did you mean c"}},
		{"tenants update acme --cross-slot maybe", ExitError, []string{"choose one of split, error"}},
		{"explain acme -o json GET a", ExitError, []string{"flags of proxyctl come before the tenant", "proxyctl -o json explain acme"}},
		{"apply --yes -f ../../configs/minimal.yaml", ExitError, []string{"a configuration of sluiced, not a document", "sluiced serve --config"}},
		{"apply --yes -f " + f.file("a.yaml", "kind: Tenant\nname: t9\nclutser: c1\n"), ExitError, []string{`there is no field "clutser"; is it cluster?`}},
		{"apply --yes -f " + f.file("b.yaml", "kind: Tenent\nname: t9\n"), ExitError, []string{`kind "Tenent": must be Cluster, Tenant, User or Token; is it Tenant?`}},
	} {
		got := f.fails(c.code, c.line)
		for _, want := range c.wants {
			require.Contains(t, got, want, c.line)
		}
	}
}

// TestAPortThatIsNotTheAdminPort is most often the one of Redis clients.
func TestAPortThatIsNotTheAdminPort(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ended := make(chan struct{})
	defer func() { _ = listener.Close(); <-ended }()
	go func() {
		defer close(ended)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Read(make([]byte, 4096))
			_, _ = conn.Write([]byte("-ERR wrong number of arguments for 'get' command\r\n"))
			_ = conn.Close()
		}
	}()
	term := newTerminal(t)
	require.Equal(t, ExitError, term.run("status", "--server", "http://"+listener.Addr().String()))
	require.Contains(t, strings.ReplaceAll(term.err.String(), "\n", " "), "that is not an admin port; the one for Redis clients is another")
}
