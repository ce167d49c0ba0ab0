package ctl

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// editor makes a program that does edits, one at each start, and keeps what it was shown.
func (f *fleet) editor(edits ...string) (seen func(n string) string) {
	f.t.Helper()
	folder := f.t.TempDir()
	script := "n=$(cat '" + folder + "/n' 2>/dev/null || echo 0); n=$((n+1)); echo $n > '" + folder + "/n'; cp \"$1\" '" + folder + "'/seen$n; case $n in\n"
	for i, edit := range edits {
		script += string(rune('1'+i)) + ") " + edit + ";;\n"
	}
	require.NoError(f.t, os.WriteFile(folder+"/editor", []byte(script+"esac\n"), 0o600))
	f.env["EDITOR"] = "sh '" + folder + "/editor'"
	return func(n string) string {
		b, err := os.ReadFile(folder + "/seen" + n)
		require.NoError(f.t, err)
		return string(b)
	}
}

func TestEdit(t *testing.T) {
	f := startFleet(t)
	f.furnish()
	seen := f.editor(`sed -i 's/^cluster: c1/cluster: c2/' "$1"`)
	require.Equal(t, "tenant acme edited (version 2)\n", f.must(ExitOK, "tenants edit acme --reason 'more room'"))
	require.Contains(t, seen("1"), "# Change tenant acme, save and leave the editor.")
	require.Contains(t, seen("1"), "kind: Tenant\nname: acme\ncluster: c1\n")
	require.Contains(t, f.must(ExitOK, "tenants history acme"), "more room")
}

// TestEditOpensAgainWithTheReason as often as the text is wrong.
func TestEditOpensAgainWithTheReason(t *testing.T) {
	f := startFleet(t)
	f.furnish()
	seen := f.editor(`sed -i 's/^cluster: .*/cluster: nowhere/' "$1"`, `sed -i 's/^cluster: .*/cluter: c2/' "$1"`, `sed -i 's/^name: .*/name: other/; s/^cluter:/cluster:/' "$1"`,
		`sed -i 's/^name: .*/name: acme/' "$1"`)
	require.Equal(t, "tenant acme edited (version 2)\n", f.must(ExitOK, "tenants edit acme"))
	require.Contains(t, seen("2"), "# It was refused:\n# what was sent is not valid\n#   cluster:")
	require.Contains(t, seen("2"), "\ncluster: nowhere\n", "the text is as it was left")
	require.Contains(t, seen("3"), `there is no field "cluter"`)
	require.Contains(t, seen("4"), "it must stay one document of tenant acme")
}

func TestEditWithoutAChange(t *testing.T) {
	f := startFleet(t)
	f.furnish()
	f.editor("true")
	f.must(ExitOK, "clusters edit c1")
	require.Contains(t, f.err.String(), "was not changed: nothing was edited")
	f.editor(": > \"$1\"")
	f.must(ExitOK, "clusters edit c1")
	require.Equal(t, "1\n", f.must(ExitOK, "clusters history c1 -o name"))
	f.editor("exit 3")
	require.Contains(t, f.fails(ExitError, "clusters edit c1"), "set VISUAL or EDITOR")
	require.Contains(t, f.fails(ExitConflict, "clusters edit filed"), "declared in the configuration file")
}

// TestEditKeepsTheText when it cannot be saved.
func TestEditKeepsTheText(t *testing.T) {
	f := startFleet(t)
	f.furnish()
	t.Setenv("TMPDIR", t.TempDir())
	f.editor(`sed -i 's/^cluster: .*/cluster: nowhere/' "$1"`, "true")
	require.Contains(t, f.fails(ExitError, "tenants edit acme"), "the text is kept in "+os.Getenv("TMPDIR"))
}
