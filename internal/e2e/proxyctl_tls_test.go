package e2e

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/ctl"
	"github.com/sluiceproxy/sluice/internal/redistest"
)

// TestProxyctlOverTLS asks an admin port that has TLS and wants certificates of its clients.
func TestProxyctlOverTLS(t *testing.T) {
	t.Parallel()
	files, strangers := redistest.NewTLSFiles(t), redistest.NewTLSFiles(t)
	p := startProxy(t, fmt.Sprintf(`
listeners: [{address: "127.0.0.1:0"}]
admin:
  address: "127.0.0.1:0"
  tls: {cert: %q, key: %q, client_ca: %q}
  tokens: [{name: ops, role: operator, sha256: %q}]
data_dir: %q
`, files.ServerCert, files.ServerKey, files.CA, sha256Hex("slt_of-the-operators"), t.TempDir()))
	token := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(token, []byte("slt_of-the-operators\n"), 0o600))
	environment := map[string]string{"XDG_CONFIG_HOME": t.TempDir()}
	run := func(line string) (code int, out, problems string) {
		var o, e bytes.Buffer
		code = ctl.Run(t.Context(), &ctl.Environment{
			In: strings.NewReader(""), Out: &o, Err: &e, Getenv: func(name string) string { return environment[name] },
		}, strings.Fields(line))
		return code, o.String(), e.String()
	}
	server := " --server https://" + p.AdminAddress() + " --token-file " + token
	certificate := " --cert-file " + files.ClientCert + " --key-file " + files.ClientKey
	for name, c := range map[string]struct{ flags, wrong, try string }{
		"no authority":       {certificate, "certificate signed by unknown authority", "--ca-file FILE"},
		"another authority":  {certificate + " --ca-file " + strangers.CA, "certificate signed by unknown authority", "--ca-file FILE"},
		"no certificate":     {" --ca-file " + files.CA, "certificate required", "--cert-file FILE --key-file FILE"},
		"another's":          {" --ca-file " + files.CA + " --cert-file " + strangers.ClientCert + " --key-file " + strangers.ClientKey, "no answer from", "--cert-file FILE"},
		"another name":       {certificate + " --ca-file " + files.CA + " --server-name sluice.example", "is valid for", "--server-name"},
		"key of another":     {" --ca-file " + files.CA + " --cert-file " + files.ClientCert + " --key-file " + strangers.ClientKey, "cannot read --cert-file and --key-file", ""},
		"half a certificate": {" --cert-file " + files.ClientCert, "belong together", "--help"},
	} {
		code, _, problems := run("status" + server + c.flags)
		require.NotZero(t, code, name)
		require.Contains(t, problems, c.wrong, name)
		require.Contains(t, problems, c.try, name)
	}
	code, _, problems := run("status --server http://" + p.AdminAddress() + " --token-file " + token)
	require.NotZero(t, code)
	require.Contains(t, problems, "https://", "it says that the port speaks TLS")

	// What login was given is in the context.
	_, port, err := net.SplitHostPort(p.AdminAddress())
	require.NoError(t, err)
	code, _, problems = run("login --name prod --server https://localhost:" + port + " --token-file " + token + certificate + " --ca-file " + files.CA + " --server-name redis.test")
	require.Zero(t, code, problems)
	code, out, problems := run("status -o name")
	require.Zero(t, code, problems)
	require.Equal(t, "test\n", out)
	saved, err := os.ReadFile(filepath.Join(environment["XDG_CONFIG_HOME"], "sluice", "proxyctl.yaml"))
	require.NoError(t, err)
	for _, want := range []string{"server_name: redis.test", "ca_file: " + files.CA, "cert_file: " + files.ClientCert, "key_file: " + files.ClientKey} {
		require.Contains(t, string(saved), want)
	}
}
