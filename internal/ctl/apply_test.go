package ctl

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const firstDocuments = `# two tenants on two clusters
kind: User
tenant: acme
name: app
password: secret
---
kind: Tenant
name: acme
cluster: c1
---
kind: Cluster
name: c1
addresses: [127.0.0.1:7001]
auth: {username: sluice, password: hidden}
---
kind: Cluster
name: c2
cluster_kind: cluster
addresses: [127.0.0.1:7101, 127.0.0.1:7102]
---
kind: Tenant
name: bolt
cluster: c2
databases: [0]
`

func TestApplyMakesWhatDocumentsSay(t *testing.T) {
	f := startFleet(t)
	path := f.file("all.yaml", firstDocuments)
	f.must(1, "diff -f "+path)
	golden(t, "diff-first.txt", f.out.String())
	require.Contains(t, f.fails(ExitError, "apply -f "+path), "the same with --yes")
	f.must(ExitOK, "clusters list -o name")
	require.Equal(t, "filed\n", f.out.String(), "nothing was applied without a yes")

	f.must(ExitOK, "apply --yes -f "+path)
	golden(t, "apply-first.txt", f.out.String())
	require.NotContains(t, f.out.String(), "hidden")
	require.NotContains(t, f.out.String(), "password: secret")

	// Again: nothing changes.
	require.Equal(t, "nothing to do: 5 documents, all as they should be\n", f.must(ExitOK, "apply -f "+path))
	f.must(ExitOK, "diff -f "+path)
	require.Empty(t, f.out.String())
}

func TestApplyAsksAndShowsTheDifference(t *testing.T) {
	f := startFleet(t)
	f.furnish()
	path := f.file("acme.json", "{\"kind\":\"Tenant\",\n\t\"name\":\"acme\",\"cluster\":\"c2\",\"frontend\":\"cluster\"}")
	f.isIn, f.in = true, strings.NewReader("y\n")
	f.must(ExitOK, "apply -f "+path+" --reason 'moving house'")
	require.Contains(t, f.out.String(), "-cluster: c1\n+cluster: c2\n")
	require.Contains(t, f.out.String(), "-frontend: standalone\n+frontend: cluster\n")
	require.Contains(t, f.out.String(), "tenant acme updated (version 2)\n")
	require.Contains(t, f.err.String(), "Apply 1 change (1 to update)? [y/N]")
	require.Contains(t, f.must(ExitOK, "tenants history acme"), "moving house")
	require.Contains(t, f.must(1, "diff --color always -f "+f.file("back.yaml", "{kind: Tenant, name: acme, cluster: c1}")), "\x1b[31m-cluster: c2\x1b[0m")
}

func TestPruneDeletesWhatIsInNoDocument(t *testing.T) {
	f := startFleet(t)
	f.must(ExitOK, "apply --yes -f "+f.file("all.yaml", firstDocuments))
	less := f.file("less.yaml", `
kind: Cluster
name: c1
addresses: [127.0.0.1:7001]
auth: {username: sluice}
---
kind: Tenant
name: bolt
cluster: c1
---
kind: User
tenant: bolt
name: web
sha256: 2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b
`)
	f.must(1, "diff --prune -f "+less)
	golden(t, "diff-prune.txt", f.out.String())
	f.must(ExitOK, "apply --prune --yes -f "+less)
	require.Equal(t, "c1\nfiled\n", f.must(ExitOK, "clusters list -o name"), "what the file declares stays")
	require.Equal(t, "bolt\n", f.must(ExitOK, "tenants list -o name"))
	require.Equal(t, "bolt/web\n", f.must(ExitOK, "users list -o name"))
	f.must(ExitOK, "apply --prune -f "+less)

	// Only kinds that the documents have are looked at.
	f.must(ExitOK, "apply --prune --yes -f "+f.file("tenant.yaml", "kind: Tenant\nname: bolt\ncluster: c1\n"))
	require.Equal(t, "bolt/web\n", f.must(ExitOK, "users list -o name"))
}

func TestPruneKeepsWhatIsInUse(t *testing.T) {
	f := startFleet(t)
	f.furnish()
	text := f.fails(ExitConflict, "apply --prune --yes -f "+f.file("c2.yaml", "kind: Cluster\nname: c2\ncluster_kind: cluster\naddresses: [127.0.0.1:7101]\n"))
	require.Contains(t, text, "--prune: cluster c1:")
	require.Contains(t, text, "is used by acme")
	require.Contains(t, f.must(ExitOK, "clusters get c2 -o yaml"), "- 127.0.0.1:7102", "nothing is applied when something is wrong")
}

func TestExportIsWhatApplyReads(t *testing.T) {
	f := startFleet(t)
	f.must(ExitOK, "apply --yes -f "+f.file("all.yaml", firstDocuments))
	f.must(ExitOK, "tokens create ci --role viewer")
	exported := f.must(ExitOK, "export clusters tenants users tokens")
	golden(t, "export.yaml", exported)
	require.Equal(t, "nothing to do: 6 documents, all as they should be\n", f.must(ExitOK, "apply --prune -f "+f.file("exported.yaml", exported)))
	var list []map[string]any
	require.NoError(t, json.Unmarshal([]byte(f.must(ExitOK, "export -o json")), &list))
	require.Len(t, list, 5)
	require.Equal(t, "nothing to do: 5 documents, all as they should be\n", f.must(ExitOK, "apply -f "+f.file("exported.json", f.out.String())))

	// On an empty proxy everything comes back but the secrets, and the message says so.
	other := startFleet(t)
	other.must(ExitOK, "apply --yes -f "+other.file("most.yaml", strings.Split(exported, "---\n# acme/app")[0]))
	require.Equal(t, "acme\nbolt\n", other.must(ExitOK, "tenants list -o name"))
	require.Contains(t, other.fails(ExitError, "apply --yes -f "+other.file("exported.yaml", exported)), "is needed, or one of sha256 and argon2id")
}

// TestQuickStart applies what README.md tells a new operator to.
func TestQuickStart(t *testing.T) {
	f := startFleet(t)
	f.must(ExitOK, "apply --yes -f ../../configs/registered/two-tenants.yaml")
	require.Equal(t, "acme/app\nbolt/web\n", f.must(ExitOK, "users list -o name"))
	f.must(ExitOK, "diff -f ../../configs/registered/two-tenants.yaml")
}

func TestFoldersAndPipesAreRead(t *testing.T) {
	f := startFleet(t)
	folder := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(folder, "tenants"), 0o700))
	for name, text := range map[string]string{
		"c1.yml": "kind: Cluster\nname: c1\naddresses: [127.0.0.1:7001]", "tenants/all.json": `[{"kind":"Tenant","name":"a","cluster":"c1"},{"kind":"Tenant","name":"b","cluster":"c1"}]`,
		"README.md": "not a document", "empty.yaml": "# nothing yet\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
	}
	f.must(ExitOK, "apply --yes -f "+folder)
	require.Equal(t, "a\nb\n", f.must(ExitOK, "tenants list -o name"))
	f.in = strings.NewReader("kind: Tenant\nname: c\ncluster: c1\n")
	f.must(ExitOK, "apply --yes -f -")
	require.Equal(t, "a\nb\nc\n", f.must(ExitOK, "tenants list -o name"))
}

// TestWrongDocuments: all that is wrong is told at once, with file and line, and nothing is changed.
func TestWrongDocuments(t *testing.T) {
	f := startFleet(t)
	for text, want := range map[string]string{
		"kind: Cluster\nname: c1\nadresses: []\n---\nkind: Tenant\ncluster: c1\n": "doc.yaml:1: Cluster: there is no field \"adresses\"; is it addresses?\nFOLDER/doc.yaml:5: Tenant: it needs a name",
		"name: c1":                   "the field kind is missing",
		"kind: standalone\nname: c1": "the kind of a cluster is in the field cluster_kind",
		"kind: User\nname: app":      "it needs a name and a tenant",
		"just text":                  "a document is an object",
		"kind: [":                    "doc.yaml: line 1",
		"# nothing":                  "there is no document in",
		"kind: Cluster\nname: 7":     "name must be of type string, not number; put it in quotes",
		"{kind: Tenant, name: a, cluster: c1}\n---\n{kind: Tenant, name: a, cluster: c2}":          "is in FOLDER/doc.yaml:1 too",
		"{kind: Tenant, name: a, cluster: nowhere}\n---\n{kind: Cluster, name: c, addresses: [x]}": "doc.yaml:1: tenant a:",
		"kind: Cluster\nname: filed\naddresses: [127.0.0.1:1]":                                     "declared in the configuration file",
	} {
		path := f.file("doc.yaml", text)
		got := strings.ReplaceAll(f.fails(ExitError, "apply --yes -f "+path), filepath.Dir(path), "FOLDER")
		require.Contains(t, got, want)
		code := f.run("diff", "-f", path)
		require.Greater(t, code, 1, "an error of diff is not a difference")
	}
	require.Equal(t, "filed\n", f.must(ExitOK, "clusters list -o name"))
	require.Empty(t, f.must(ExitOK, "tenants list -o name"))
	require.Contains(t, f.fails(ExitError, "apply --yes -f /nonexistent"), "no such file")
}

// TestApplyStopsAtChangesOfOthers: what is applied is what was shown.
func TestApplyStopsAtChangesOfOthers(t *testing.T) {
	f := startFleet(t)
	f.furnish()
	f.isIn = true
	f.in = readerFunc(func(b []byte) (int, error) { // somebody else is faster than the answer
		other := &fleet{terminal: newTerminal(t), url: f.url}
		other.env["SLUICE_SERVER"], other.env["SLUICE_TOKEN"] = f.url, f.tokens["admin"]
		other.must(ExitOK, "tenants update acme --database 5")
		return copy(b, "y\n"), nil
	})
	text := f.fails(ExitConflict, "apply -f "+f.file("acme.yaml", "kind: Tenant\nname: acme\ncluster: c2\n"))
	require.Contains(t, text, "0 of 1 were applied before it")
	require.Contains(t, f.must(ExitOK, "tenants get acme -o yaml"), "cluster: c1")
}

type readerFunc func([]byte) (int, error)

func (r readerFunc) Read(b []byte) (int, error) { return r(b) }
