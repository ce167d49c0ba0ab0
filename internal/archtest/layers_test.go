package archtest

import (
	"fmt"
	"slices"
	"strings"
)

const module = "github.com/sluiceproxy/sluice"

// foundations know none of the others: neither each other nor anything above them.
var foundations = []string{
	"internal/loop", "pkg/resp", "pkg/slot", "internal/command", "internal/tenant",
	"internal/limit", "internal/topology", "internal/config",
}

// dataPlane is every layer that a command passes, lowest first.
var dataPlane = []string{
	"internal/loop", "pkg/resp", "pkg/slot", "internal/command", "internal/tenant",
	"internal/limit", "internal/topology", "internal/facade", "internal/pipe", "internal/upstream",
	"internal/route", "internal/session", "internal/server",
}

// notForDataPlane is what the data plane must not reach even through another package: files,
// flags and environment, the admin API and the store.
var notForDataPlane = []string{
	"github.com/spf13/viper",
	"github.com/spf13/cobra",
	"github.com/fsnotify/fsnotify",
	module + "/internal/config",
	module + "/internal/admin",
	module + "/internal/store",
	module + "/internal/daemon",
}

// forTestsOnly must not be linked into a program.
var forTestsOnly = []string{
	module + "/internal/redistest",
	module + "/internal/sim",
	module + "/internal/e2e",
	module + "/internal/archtest",
	module + "/bench",
	"github.com/stretchr/testify",
	"go.uber.org/goleak",
	"testing",
}

// vagueNames say nothing about what a package is for. Metrics belong to the package that
// counts them, in its metrics.go.
var vagueNames = []string{"util", "utils", "common", "types", "helpers", "misc", "metrics"}

// allowedImports names, for every layer, the layers it may import. Imports go one way only.
func allowedImports() map[string][]string {
	allowed := map[string][]string{
		"internal/pipe":     {"internal/loop", "pkg/resp"},
		"internal/upstream": {"internal/pipe", "internal/topology", "internal/loop", "pkg/resp", "pkg/slot"},
		"internal/facade":   {"internal/topology"},
		"internal/route": {
			"internal/facade", "internal/upstream", "internal/tenant", "internal/command",
			"internal/pipe", "internal/topology", "internal/loop", "pkg/resp", "pkg/slot",
		},
		"internal/session": {
			"internal/route", "internal/limit", "internal/facade",
			"internal/upstream", "internal/tenant", "internal/command",
			"internal/pipe", "internal/topology", "internal/loop", "pkg/resp", "pkg/slot",
		},
		"internal/server": {
			"internal/session",
			"internal/route", "internal/limit", "internal/facade", "internal/upstream", "internal/tenant", "internal/command",
			"internal/pipe", "internal/topology", "internal/loop", "pkg/resp", "pkg/slot",
		},
		"internal/store":    {},
		"internal/control":  {"pkg/api", "internal/store", "internal/config", "internal/tenant"},
		"internal/admin":    {"pkg/api", "pkg/resp", "internal/control", "internal/store"},
		"internal/archtest": {},
		"internal/ctl":      {"pkg/api"},
		"pkg/api":           {},
		"cmd/sluiced":       {"internal/daemon", "internal/config"},
		"cmd/proxyctl":      {"internal/ctl"},
	}
	for _, foundation := range foundations {
		allowed[foundation] = nil
	}
	allowed["internal/daemon"] = belowDaemon(allowed)
	return allowed
}

// belowDaemon is every library layer: the daemon builds them all. internal/ctl is the other program.
func belowDaemon(allowed map[string][]string) []string {
	var layers []string
	for layer := range allowed {
		if !strings.HasPrefix(layer, "cmd/") && layer != "internal/archtest" && layer != "internal/ctl" {
			layers = append(layers, layer)
		}
	}
	return layers
}

// goPackage is what the rules need of one package, as `go list -json` tells it.
type goPackage struct {
	ImportPath string
	Name       string
	GoFiles    []string
	Imports    []string
	Deps       []string
}

// layerOf is the layer that an import path of this module belongs to: its first two path
// elements, so that a sub-package (internal/loop/looptest) is held to its parent's rules.
func layerOf(importPath string) (layer string, ours bool) {
	rest, ours := strings.CutPrefix(importPath, module+"/")
	if !ours {
		return "", false
	}
	elements := strings.SplitN(rest, "/", 3)
	return strings.Join(elements[:min(2, len(elements))], "/"), true
}

// isExempt: what serves tests, measurements and generators may import what it needs. Nobody
// can import a generator, and forTestsOnly keeps programs from importing the others.
func isExempt(p goPackage) bool {
	layer, _ := layerOf(p.ImportPath)
	if servesTests(p.ImportPath) {
		return true
	}
	return p.Name == "main" && !strings.HasPrefix(layer, "cmd/")
}

// servesTests tells of the packages that forTestsOnly names and, by their names, of the fakes
// that a layer keeps beside itself (internal/loop/looptest).
func servesTests(importPath string) bool {
	for _, path := range forTestsOnly {
		if importPath == path || strings.HasPrefix(importPath, path+"/") {
			return true
		}
	}
	layer, ours := layerOf(importPath)
	subPackage := strings.TrimPrefix(importPath, module+"/"+layer)
	return ours && strings.HasSuffix(subPackage, "test")
}

// violations checks every rule and words each breach as one line.
func violations(packages []goPackage) []string {
	var found []string
	for _, p := range packages {
		layer, ours := layerOf(p.ImportPath)
		if !ours {
			continue
		}
		found = append(found, nameViolations(p)...)
		if isExempt(p) {
			continue
		}
		found = append(found, importViolations(p, layer)...)
		found = append(found, reachViolations(p, layer)...)
	}
	slices.Sort(found)
	return slices.Compact(found)
}

func nameViolations(p goPackage) []string {
	var found []string
	for element := range strings.SplitSeq(strings.TrimPrefix(p.ImportPath, module+"/"), "/") {
		if slices.Contains(vagueNames, element) {
			found = append(found, fmt.Sprintf("%s: a package named %q says nothing; name what it is for", p.ImportPath, element))
		}
	}
	return found
}

func importViolations(p goPackage, layer string) []string {
	allowed, known := allowedImports()[layer]
	if !known {
		return []string{fmt.Sprintf("%s: layer %s has no rule; say in allowedImports what it may import", p.ImportPath, layer)}
	}
	var found []string
	for _, imported := range p.Imports {
		importedLayer, ours := layerOf(imported)
		if ours && importedLayer != layer && !slices.Contains(allowed, importedLayer) {
			found = append(found, fmt.Sprintf("%s imports %s: layer %s may import only %v",
				p.ImportPath, imported, layer, slices.Sorted(slices.Values(allowed))))
		}
	}
	return found
}

func reachViolations(p goPackage, layer string) []string {
	var found []string
	for _, dependency := range p.Deps {
		if servesTests(dependency) {
			found = append(found, fmt.Sprintf("%s reaches %s, which is for tests only", p.ImportPath, dependency))
		}
		if slices.Contains(dataPlane, layer) && isNotForDataPlane(dependency) {
			found = append(found, fmt.Sprintf("%s reaches %s, which the data plane must not know", p.ImportPath, dependency))
		}
	}
	return found
}

func isNotForDataPlane(importPath string) bool {
	return slices.ContainsFunc(notForDataPlane, func(path string) bool {
		return importPath == path || strings.HasPrefix(importPath, path+"/")
	})
}
