package e2e

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/ctl"
	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/pkg/api"
)

// TestProxyctlAgainstADaemon is a new operator's first quarter of an hour: the token of the first start, two clusters, a
// tenant with a user, its commands, its move to the other cluster and back.
func TestProxyctlAgainstADaemon(t *testing.T) {
	redistest.LeakCheck(t)
	first, second := redistest.Standalone(t), redistest.Standalone(t)
	dir := t.TempDir()
	p := emptyProxy(t, dir)
	environment := map[string]string{"XDG_CONFIG_HOME": t.TempDir()}
	proxyctl := func(input, line string) string {
		t.Helper()
		var out, problems bytes.Buffer
		code := ctl.Run(t.Context(), &ctl.Environment{
			In: strings.NewReader(input), Out: &out, Err: &problems, Getenv: func(name string) string { return environment[name] },
		}, strings.Fields(line))
		require.Equal(t, ctl.ExitOK, code, "%s: %s", line, problems.String())
		return out.String()
	}
	proxyctl("", "login --server http://"+p.AdminAddress()+" --token-file "+filepath.Join(dir, "admin-token"))
	proxyctl("", "clusters create c1 --kind standalone --test --address "+first.Addr())
	proxyctl("", "clusters create c2 --kind standalone --address "+second.Addr())
	proxyctl("", "tenants create acme --cluster c1")
	proxyctl("secret\n", "users create acme app --password-stdin")

	var client *redis.Client
	require.Eventually(t, func() bool { // the change is live a moment after it was acknowledged
		client = redis.NewClient(&redis.Options{Addr: p.Addresses()[0].String(), Username: "app", Password: "secret", MaxRetries: -1})
		err := client.Set(t.Context(), "k", "v", 0).Err()
		if err != nil {
			require.NoError(t, client.Close())
		}
		return err == nil
	}, eventually, tick)
	defer client.Close()
	require.Contains(t, proxyctl("", "sessions list --tenant acme"), "app")
	require.Contains(t, proxyctl("", "explain acme GET k"), "c1")

	proxyctl("", "tenants update acme --cluster c2")
	var tenant api.Tenant
	require.NoError(t, json.Unmarshal([]byte(proxyctl("", "tenants get acme -o json")), &tenant))
	require.Equal(t, "c2", tenant.Cluster)
	require.Eventually(t, func() bool { return client.Get(t.Context(), "k").Err() == redis.Nil }, eventually, tick) //nolint:errorlint // go-redis returns it bare
	proxyctl("", "tenants rollback acme")
	require.Eventually(t, func() bool { return client.Get(t.Context(), "k").Val() == "v" }, eventually, tick)

	require.Equal(t, "nothing to do: 4 documents, all as they should be\n", proxyctl(proxyctl("", "export"), "apply --yes -f -"))
}
