package ctl

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWrongCommandLines(t *testing.T) {
	for line, want := range map[string]string{
		"tenant list":                          `there is no command "proxyctl tenant"; is it tenants?`,
		"clusters lits":                        "is it list?",
		"clusters get":                         "something is missing: proxyctl clusters get NAME",
		"clusters get a b":                     `"b" is too much`,
		"clusters create c1":                   "--address is needed",
		"tenants create acme":                  "--cluster is needed",
		"tokens create ci":                     "--role is needed",
		"tenants update acme":                  "nothing is to be changed",
		"users create acme":                    "the name of the user is missing",
		"users create acme app":                "--password-stdin or --password-file FILE",
		"clusters create c3 --adress a:1":      "unknown flag: --adress; is it --address?",
		"status --watch --count x":             `invalid argument "x" for "--count" flag: it is not a number`,
		"status --nonsense":                    "unknown flag: --nonsense",
		"status -o xml":                        "must be one of table, wide, json, yaml, name",
		"status --color maybe":                 "must be auto, always or never",
		"status --cert-file a":                 "belong together",
		"status --watch --interval 1ms":        "must be at least 100ms",
		"apply":                                "--file is needed",
		"apply -f -":                           "add --yes",
		"sessions kill":                        "name the sessions",
		"sessions kill seven":                  "is not the number of a session",
		"sessions kill 7 --tenant acme":        "name the sessions",
		"pause acme --mode freeze":             "must be hold or refuse",
		"top --sort size":                      "must be rate, errors, latency, name",
		"tokens create x --role a --expires 7": "nor a duration such as 12h or 90d",
		"users create acme app --password-stdin --password-file x": "give one of",
	} {
		t.Run(line, func(t *testing.T) {
			term := newTerminal(t)
			require.Equal(t, ExitUsage, term.run(words(line)...), term.err.String())
			require.Contains(t, term.err.String(), want)
			require.Contains(t, term.err.String(), "--help")
			require.Empty(t, term.out.String())
		})
	}
}

// TestServerAway: an error says what was wrong and what to try.
func TestServerAway(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	url := "http://" + listener.Addr().String()
	require.NoError(t, listener.Close())
	term := newTerminal(t)
	require.Equal(t, ExitError, term.run("status", "--server", url))
	require.Contains(t, term.err.String(), "error: no answer from "+url)
	require.Contains(t, term.err.String(), "connection refused")
	require.Contains(t, term.err.String(), "curl "+url+"/healthz")
	require.Contains(t, term.err.String(), "SLUICE_SERVER")
	require.NotContains(t, term.err.String(), "\x1b", "no colours where no terminal is")
}

func TestWrongServersAndTokens(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"no scheme":     {[]string{"--server", "127.0.0.1:8380"}, "is not the URL of an admin port, such as http://127.0.0.1:8380"},
		"a password":    {[]string{"--server", "http://a:b@127.0.0.1:8380"}, "use a token"},
		"no token file": {[]string{"--token-file", "/nonexistent"}, "cannot read --token-file"},
		"no CA file":    {[]string{"--ca-file", "/nonexistent"}, "cannot read --ca-file"},
		"no context":    {[]string{"--context", "prod"}, `there is no context "prod"`},
	} {
		t.Run(name, func(t *testing.T) {
			term := newTerminal(t)
			require.Equal(t, ExitError, term.run(append([]string{"status"}, c.args...)...))
			require.Contains(t, term.err.String(), c.want)
		})
	}
}

func TestTokenFileIsOneToken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(path, []byte("one\ntwo\n"), 0o600))
	term := newTerminal(t)
	require.Equal(t, ExitError, term.run("status", "--token-file", path))
	require.Contains(t, term.err.String(), "does not contain one token")
}
