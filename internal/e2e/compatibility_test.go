package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/command"
	"github.com/sluiceproxy/sluice/internal/redistest"
)

// TestCompatibility plays examples of every command through the proxy and to a server, and fails unless
// docs/compatibility.md says what came of it. `make compatibility` writes that file.
func TestCompatibility(t *testing.T) {
	t.Parallel()
	examples := readCompatibility(t)
	if t.Failed() {
		return
	}
	one := &compatibilityTarget{backends: []*redistest.Server{redistest.Standalone(t)}, direct: redistest.Standalone(t)}
	one.proxy = startProxy(t, standaloneYAML(one.backends[0].Addr()))
	servers := redistest.Cluster(t, 3, 0)
	cluster := &compatibilityTarget{backends: servers.Primaries, direct: redistest.Standalone(t), sharded: true}
	cluster.proxy = clusterProxy(t, servers, "")
	one.proxy.awaitReady(t)

	var outcomes [2][2]map[string]outcome // by target and protocol version
	var all sync.WaitGroup
	for i, target := range []*compatibilityTarget{one, cluster} {
		all.Go(func() {
			for j, protocol := range []int{2, 3} {
				outcomes[i][j] = target.runAll(t, examples, protocol)
			}
		})
	}
	all.Wait()

	text := compatibilityPage(serverVersion(t, one.direct), examples, outcomes)
	path := filepath.Join("..", "..", "docs", "compatibility.md")
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	requireExplained(t, examples, outcomes)
	if v := serverVersion(t, one.direct); v != command.ServerVersion {
		t.Skipf("the page is about Redis %s, and this is %s", command.ServerVersion, v)
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	requireSamePage(t, string(want), text)
}

// requireSamePage tells only the lines that differ: the page is long.
func requireSamePage(t *testing.T, want, got string) {
	t.Helper()
	written, found := strings.Split(want, "\n"), strings.Split(got, "\n")
	for _, line := range written {
		if !slices.Contains(found, line) {
			t.Errorf("docs/compatibility.md says  %s", line)
		}
	}
	for _, line := range found {
		if !slices.Contains(written, line) {
			t.Errorf("the run gives              %s", line)
		}
	}
	require.True(t, want == got, "run `make compatibility` if this is meant")
}

func (c *compatibilityTarget) runAll(t *testing.T, examples map[string]*compatibilityExample, protocol int) map[string]outcome {
	t.Helper()
	outcomes := map[string]outcome{}
	for _, cmd := range command.All() {
		outcomes[cmd.Name] = conclude(c.run(t, examples[cmd.Name], protocol))
	}
	return outcomes
}

// requireExplained fails the test where a reply is another than the server's and the example does not say why.
func requireExplained(t *testing.T, examples map[string]*compatibilityExample, outcomes [2][2]map[string]outcome) {
	t.Helper()
	for i, target := range outcomes {
		for j, byName := range target {
			for _, cmd := range command.All() {
				if o := byName[cmd.Name]; o.mark == different && examples[cmd.Name].because == "" {
					t.Errorf("%s, %s, RESP%d: %s", cmd.Name, []string{"one server", "cluster"}[i], 2+j, strings.Join(o.says, "; "))
				}
			}
		}
	}
}
