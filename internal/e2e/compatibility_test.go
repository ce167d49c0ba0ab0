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
)

// TestCompatibility plays examples of every command through the proxy and to a server, and fails unless
// docs/compatibility.md says what came of it. `make compatibility` writes that file.
func TestCompatibility(t *testing.T) {
	t.Parallel()
	examples := readCompatibility(t)
	if t.Failed() {
		return
	}
	one, cluster, fronted, trusted := compatibilityTargets(t)
	targets := []*compatibilityTarget{one, cluster, fronted, trusted}
	var outcomes [4][2]map[string]outcome // by target and protocol version
	var all sync.WaitGroup
	all.Go(func() { takesTurns(t, examples, &outcomes, targets, 0, 3) })
	all.Go(func() { takesTurns(t, examples, &outcomes, targets, 1, 2) })
	all.Wait()

	text := compatibilityPage(serverVersion(t, one.direct.Server), examples, targets, outcomes)
	path := filepath.Join("..", "..", "docs", "compatibility.md")
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	requireExplained(t, examples, targets, outcomes)
	if v := serverVersion(t, one.direct.Server); v != command.ServerVersion {
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
func requireExplained(t *testing.T, examples map[string]*compatibilityExample, targets []*compatibilityTarget, outcomes [4][2]map[string]outcome) {
	t.Helper()
	for i, target := range outcomes {
		for j, byName := range target {
			for _, cmd := range command.All() {
				if o := byName[cmd.Name]; o.mark == different && examples[cmd.Name].becauseOn(targets[i].word) == "" {
					t.Errorf("%s, %s, RESP%d: %s", cmd.Name, targets[i].name, 2+j, strings.Join(o.says, "; "))
				}
			}
		}
	}
}
