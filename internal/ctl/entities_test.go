package ctl

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/pkg/api"
)

// TestRegisterAndUndo is the first quarter of an hour with proxyctl.
func TestRegisterAndUndo(t *testing.T) {
	f := startFleet(t)
	require.Equal(t, "cluster c1 created (version 1)\n", f.must(ExitOK, "clusters create c1 --kind standalone --address 127.0.0.1:7001"))
	f.must(ExitOK, "clusters create c2 --kind cluster --address 127.0.0.1:7101,127.0.0.1:7102")
	f.must(ExitOK, "tenants create acme --cluster c1")
	f.in = strings.NewReader("secret\n") // <<< secret
	require.Equal(t, "user acme/app created (version 1)\n", f.must(ExitOK, "users create acme app --password-stdin"))
	require.Equal(t, "tenant acme updated (version 2)\n", f.must(ExitOK, "tenants update acme --cluster c2"))
	var tenant api.Tenant
	require.NoError(t, json.Unmarshal([]byte(f.must(ExitOK, "tenants get acme -o json")), &tenant))
	require.Equal(t, "c2", tenant.Cluster)
	require.Equal(t, "tenant acme rolled back (version 3)\n", f.must(ExitOK, "tenants rollback acme"))
	require.Contains(t, f.must(ExitOK, "tenants get acme -o yaml"), "\ncluster: c1\n")
	cluster, err := f.proxy.control.Clusters().Get(t.Context(), "c2")
	require.NoError(t, err)
	require.Equal(t, []string{"127.0.0.1:7101", "127.0.0.1:7102"}, cluster.Addresses)
}

func TestOutputs(t *testing.T) {
	f := startFleet(t)
	f.furnish()
	for _, what := range []string{"clusters list", "clusters get c1", "tenants list", "users list acme", "users list", "users get acme/app", "tenants history acme"} {
		for _, format := range formats {
			f.must(ExitOK, what+" -o "+format)
			require.NotContains(t, f.out.String(), "\x1b")
			golden(t, strings.NewReplacer(" ", "-", "/", "-").Replace(what)+"."+format, f.out.String())
		}
	}
}

func TestColoursOnTerminalsOnly(t *testing.T) {
	f := startFleet(t)
	f.furnish()
	require.NotContains(t, f.must(ExitOK, "nodes"), "\x1b")
	require.Contains(t, f.must(ExitOK, "nodes --color always"), "\x1b[32mup\x1b[0m")
	f.isOut = true
	require.Contains(t, f.must(ExitOK, "nodes"), "\x1b[32mup\x1b[0m")
	require.NotContains(t, f.must(ExitOK, "nodes --color never"), "\x1b")
	require.NotContains(t, f.must(ExitOK, "nodes -o json"), "\x1b")
	f.env["NO_COLOR"] = "1"
	require.NotContains(t, f.must(ExitOK, "nodes"), "\x1b")
}

func TestExitCodesAndHints(t *testing.T) {
	f := startFleet(t)
	f.furnish()
	require.Contains(t, f.fails(ExitNotFound, "tenants get nobody"), "there is no tenant nobody")
	require.Contains(t, f.err.String(), "try:   proxyctl tenants list")
	require.Contains(t, f.fails(ExitNotFound, "users get acme nobody"), "try:   proxyctl users list acme")
	require.Contains(t, f.fails(ExitConflict, "clusters create c1 --address 127.0.0.1:1"), "exists already")
	require.Contains(t, f.fails(ExitConflict, "clusters delete c1 --yes"), "is used by acme")
	require.Contains(t, f.fails(ExitConflict, "clusters update filed --connect-timeout 1s"), "declared in the configuration file")
	require.Contains(t, f.fails(ExitConflict, "tenants update acme --cluster c2 --if-version 9"), "read it again")
	require.Contains(t, f.fails(ExitError, "tenants create bolt --cluster nowhere"), "cluster")
	require.Contains(t, f.fails(ExitError, "clusters create c9 --address nowhere"), "addresses")

	f.env["SLUICE_TOKEN"] = f.tokens["viewer"]
	require.Contains(t, f.fails(ExitRefused, "tenants update acme --cluster c2"), "this needs a token of role admin")
	f.env["SLUICE_TOKEN"] = "slt_wrong"
	require.Contains(t, f.fails(ExitRefused, "tenants list"), "that has not expired: proxyctl login")
	delete(f.env, "SLUICE_TOKEN")
	require.Contains(t, f.fails(ExitRefused, "tenants list"), "in the file admin-token")
}

func TestDryRunChangesNothing(t *testing.T) {
	f := startFleet(t)
	f.furnish()
	out := f.must(ExitOK, "tenants update acme --cluster c2 --dry-run")
	require.Equal(t, "update of tenant acme would change:\n  - cluster: c1\n  + cluster: c2\nsessions that it would touch: 0\n", out)
	require.Contains(t, f.fails(ExitConflict, "tenants delete acme --dry-run"), "is used by user app")
	require.Contains(t, f.must(ExitOK, "users delete acme app --dry-run"), "delete of user acme/app would change:")
	require.Contains(t, f.must(ExitOK, "tenants get acme -o yaml"), "cluster: c1")
	f.must(ExitOK, "users get acme app")
}

func TestDeleteAsksOrNeedsYes(t *testing.T) {
	f := startFleet(t)
	f.furnish()
	require.Contains(t, f.fails(ExitError, "users delete acme app"), "the same with --yes")
	f.isIn, f.in = true, strings.NewReader("n\n")
	require.Contains(t, f.fails(ExitError, "users delete acme app"), "nothing was changed")
	f.in = strings.NewReader("y\n")
	require.Equal(t, "user acme/app deleted\n", f.must(ExitOK, "users delete acme app"))
	require.Equal(t, "user acme/app rolled back (version 3)\n", f.must(ExitOK, "users rollback acme app"))
}

// TestPasswordsComeFromPipesFilesAndPrompts and nowhere else: there is no flag that takes one.
func TestPasswordsComeFromPipesFilesAndPrompts(t *testing.T) {
	f := startFleet(t)
	f.furnish()
	path := f.file("password", "from a file\n")
	f.must(ExitOK, "users create acme filed --password-file "+path)
	f.isIn, f.typed = true, []string{"typed", "typed"}
	f.must(ExitOK, "users create acme typed")
	require.Contains(t, f.err.String(), "password: ")
	require.NotContains(t, f.err.String()+f.out.String(), "typed\n\n")
	f.typed = []string{"typed", "other"}
	require.Contains(t, f.fails(ExitError, "users update acme typed"), "the two passwords differ")
	f.isIn = false
	for input, want := range map[string]string{"": "is empty", "\n": "is empty", "a\nb\n": "more than one line"} {
		f.in = strings.NewReader(input)
		require.Contains(t, f.fails(ExitError, "users update acme app --password-stdin"), want)
	}
	f.in = strings.NewReader("redis password")
	f.must(ExitOK, "clusters update c1 --username sluice --password-stdin")
	out := f.must(ExitOK, "clusters get c1 -o yaml")
	require.Contains(t, out, "username: sluice\n  has_password: true")
	require.NotContains(t, out, "redis password")
}

func TestFlagsSetAndRemoveFields(t *testing.T) {
	f := startFleet(t)
	f.furnish()
	f.must(ExitOK, "clusters create c3 --address 127.0.0.1:7003 --tls --tls-server-name redis --connect-timeout 1s")
	c3, err := f.proxy.control.Clusters().Get(t.Context(), "c3")
	require.NoError(t, err)
	require.Equal(t, "redis", c3.TLS.ServerName)
	f.must(ExitOK, "clusters update c3 --tls=false")
	c3, err = f.proxy.control.Clusters().Get(t.Context(), "c3")
	require.NoError(t, err)
	require.Nil(t, c3.TLS)
	f.must(ExitOK, "tenants create lab --cluster c1 --database 3,4 --open --command-timeout 2s --cross-slot error")
	lab, err := f.proxy.control.Tenants().Get(t.Context(), "lab")
	require.NoError(t, err)
	require.Equal(t, []int{3, 4}, lab.Databases)
	require.True(t, lab.Open)
	f.must(ExitOK, "tenants update lab --open=false --reason 'no more'")
	lab, err = f.proxy.control.Tenants().Get(t.Context(), "lab")
	require.NoError(t, err)
	require.False(t, lab.Open)
	require.Contains(t, f.must(ExitOK, "tenants history lab"), "no more")
}

func TestHistoryOfEverything(t *testing.T) {
	f := startFleet(t)
	f.furnish()
	f.must(ExitOK, "tenants update acme --cluster c2")
	require.Equal(t, "tenant/acme\nuser/acme/app\n", f.must(ExitOK, "history -o name --count 2"))
	require.Equal(t, 2, strings.Count(f.must(ExitOK, "history --kind Tenant --name acme"), "tenant/acme"))
	require.Contains(t, f.out.String(), "cluster: c1→c2")
}

func TestTokensShowTheirSecretOnce(t *testing.T) {
	f := startFleet(t)
	out := f.must(ExitOK, "tokens create ci --role viewer --expires 90d")
	require.Contains(t, out, "token ci created (version 1)\n\n  slt_")
	f.env["SLUICE_TOKEN"] = strings.Fields(out)[5]
	f.must(ExitOK, "tenants list")
	require.NotContains(t, f.fails(ExitRefused, "tokens delete ci --yes"), "slt_")
	f.env["SLUICE_TOKEN"] = f.tokens["admin"]
	require.NotContains(t, f.must(ExitOK, "tokens get ci -o json"), "slt_")
}

func TestClustersAreTestedFirst(t *testing.T) {
	f := startFleet(t)
	f.must(ExitOK, "clusters create c1 --address 127.0.0.1:7001 --test")
	require.Contains(t, f.err.String(), "can be reached: redis 7.0.15, 1 node")
	require.Contains(t, f.fails(ExitError, "clusters create c2 --address 127.0.0.1:9 --test"), "connection refused")
	f.must(ExitNotFound, "clusters get c2")
	f.must(ExitOK, "clusters test c1")
	f.must(ExitError, "clusters test --address 127.0.0.1:9 -o json")
	require.Contains(t, f.out.String(), `"ok": false`)
}

// TestWatchIsBounded by --count, and by the end of the run.
func TestWatchIsBounded(t *testing.T) {
	f := startFleet(t)
	f.furnish()
	require.Equal(t, 3, strings.Count(f.must(ExitOK, "tenants list --watch --interval 100ms --count 3"), "acme"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.Equal(t, ExitOK, f.runIn(ctx, "tenants", "list", "--watch"))
}

func TestNamesAreCompleted(t *testing.T) {
	f := startFleet(t)
	f.furnish()
	require.Equal(t, "c1\nc2\nfiled\n:4\n", f.must(ExitOK, "__complete clusters get", ""))
	require.Equal(t, "app\n:4\n", f.must(ExitOK, "__complete users get acme", ""))
	require.Equal(t, "acme\n:4\n", f.must(ExitOK, "__complete explain", ""))
	require.Contains(t, f.must(ExitOK, "__complete tenants update acme --frontend", ""), "standalone\ncluster\n")
}
