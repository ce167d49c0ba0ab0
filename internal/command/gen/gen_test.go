package main

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/command"
)

func TestGeneratedFilesAreUpToDate(t *testing.T) {
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("no redis-server in PATH")
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	out, err := generate(ctx)
	require.NoError(t, err)
	if out.version != command.ServerVersion {
		t.Skipf("the table is that of Redis %s, this is %s", command.ServerVersion, out.version)
	}
	for path, want := range map[string][]byte{"../table_gen.go": out.table, "../docs_gen.json": out.docs} {
		got, err := os.ReadFile(path)
		require.NoError(t, err)
		require.True(t, string(want) == string(got), "%s is stale: run go generate ./internal/command", path)
	}
}

func TestOverlayComplainsOfUnknownNames(t *testing.T) {
	_, err := applyOverlay([]*row{{name: "get", documentation: map[string]any{"group": "string"}}})
	require.ErrorContains(t, err, "which is no command")
}
