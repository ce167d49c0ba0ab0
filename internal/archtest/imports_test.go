package archtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestImportsGoOneWay reads the real import graph, as compiled for each supported system.
func TestImportsGoOneWay(t *testing.T) {
	root := moduleRoot(t)
	dependOnSources(t, root)
	for _, system := range []string{"linux", "darwin"} {
		t.Run(system, func(t *testing.T) {
			packages := listPackages(t, root, system)
			require.NotEmpty(t, packages)
			require.Empty(t, violations(packages), "the layers are described in ARCHITECTURE.md")
		})
	}
}

func moduleRoot(t *testing.T) string {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	require.NoError(t, err)
	require.FileExists(t, filepath.Join(root, "go.mod"))
	return root
}

// listPackages runs go list over the module's own packages, without their tests. With -deps
// it also tells of packages that are not ours; violations skips them.
func listPackages(t *testing.T, root, system string) []goPackage {
	list := exec.Command("go", "list", "-deps", "-json=ImportPath,Name,GoFiles,Imports,Deps", "./...")
	list.Dir = root
	list.Env = append(os.Environ(), "GOOS="+system, "GOARCH=arm64", "CGO_ENABLED=0")
	var stderr bytes.Buffer
	list.Stderr = &stderr
	output, err := list.Output()
	require.NoError(t, err, stderr.String())

	var packages []goPackage
	for decoder := json.NewDecoder(bytes.NewReader(output)); ; {
		var p goPackage
		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			return packages
		}
		require.NoError(t, err)
		if len(p.GoFiles) > 0 { // a folder of tests alone has no layer
			packages = append(packages, p)
		}
	}
}

// dependOnSources looks at every Go file of the module. go test remembers a result until a
// file that the test itself looked at changes, and it does not see what go list reads.
func dependOnSources(t *testing.T, root string) {
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && path != root && strings.HasPrefix(entry.Name(), ".") {
			return filepath.SkipDir
		}
		if strings.HasSuffix(path, ".go") {
			_, err = os.Stat(path)
		}
		return err
	})
	require.NoError(t, err)
}

// TestViolationsAreFound feeds the rules with one breach each: a rule that finds nothing
// would otherwise pass for ever.
func TestViolationsAreFound(t *testing.T) {
	for name, c := range map[string]struct {
		pkg  goPackage
		want string
	}{
		"a foundation imports another": {
			goPackage{ImportPath: module + "/internal/topology", Name: "topology", Imports: []string{module + "/pkg/slot"}},
			"internal/topology imports " + module + "/pkg/slot",
		},
		"a lower layer imports a higher one": {
			goPackage{ImportPath: module + "/internal/pipe", Name: "pipe", Imports: []string{module + "/internal/session"}},
			"internal/pipe imports " + module + "/internal/session",
		},
		"a sub-package is held to its layer's rules": {
			goPackage{ImportPath: module + "/internal/loop/poll", Name: "poll", Imports: []string{module + "/internal/pipe"}},
			"layer internal/loop may import only []",
		},
		"the data plane reaches viper through others": {
			goPackage{ImportPath: module + "/internal/route", Name: "route", Deps: []string{"github.com/spf13/viper/internal/features"}},
			"which the data plane must not know",
		},
		"the data plane reaches configuration": {
			goPackage{ImportPath: module + "/internal/server", Name: "server", Deps: []string{module + "/internal/config"}},
			"which the data plane must not know",
		},
		"a program goes past the daemon": {
			goPackage{ImportPath: module + "/cmd/sluiced", Name: "main", Imports: []string{module + "/internal/session"}},
			"cmd/sluiced imports " + module + "/internal/session",
		},
		"production code links test code": {
			goPackage{ImportPath: module + "/internal/daemon", Name: "daemon", Deps: []string{"github.com/stretchr/testify/require"}},
			"which is for tests only",
		},
		"production code links a layer's fake": {
			goPackage{ImportPath: module + "/internal/server", Name: "server", Deps: []string{module + "/internal/loop/looptest"}},
			"which is for tests only",
		},
		"a package without a rule": {
			goPackage{ImportPath: module + "/internal/novelty", Name: "novelty"},
			"layer internal/novelty has no rule",
		},
		"a vague name": {
			goPackage{ImportPath: module + "/internal/session/util", Name: "util"},
			`a package named "util" says nothing`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			found := violations([]goPackage{c.pkg})
			require.Len(t, found, 1)
			require.Contains(t, found[0], c.want)
		})
	}
}

func TestWhatServesTestsIsExempt(t *testing.T) {
	reachesEverything := []string{module + "/internal/daemon", "github.com/stretchr/testify/require", "testing"}
	for _, p := range []goPackage{
		{ImportPath: module + "/internal/redistest", Name: "redistest"},
		{ImportPath: module + "/internal/loop/looptest", Name: "looptest"},
		{ImportPath: module + "/internal/command/generate", Name: "main"},
		{ImportPath: module + "/bench/load", Name: "load"},
	} {
		p.Imports, p.Deps = reachesEverything, reachesEverything
		require.Empty(t, violations([]goPackage{p}), p.ImportPath)
	}
}

func TestDaemonMayImportEveryLayer(t *testing.T) {
	p := goPackage{ImportPath: module + "/internal/daemon", Name: "daemon"}
	for _, layer := range append([]string{"internal/config", "internal/admin", "internal/store", "pkg/api"}, dataPlane...) {
		p.Imports = append(p.Imports, module+"/"+layer)
	}
	require.Empty(t, violations([]goPackage{p}))
}
