package admin

import (
	"flag"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write docs/openapi.yaml anew") //nolint:gochecknoglobals // a flag

// TestDocumentIsFresh compares docs/openapi.yaml with what the types and routes say.
func TestDocumentIsFresh(t *testing.T) {
	const path = "../../docs/openapi.yaml"
	document := append([]byte("# Written by go test ./internal/admin -run TestDocumentIsFresh -update\n"), OpenAPI()...)
	if *update {
		require.NoError(t, os.WriteFile(path, document, 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), string(document), "run it with -update")
	require.Equal(t, OpenAPI(), OpenAPI(), "the order is the same every time")
}

// TestServeForTools serves the API to tools of other languages until it is killed, and writes its address to a file: see
// scripts/check-api.
func TestServeForTools(t *testing.T) {
	file := os.Getenv("SLUICE_TEST_SERVE_API")
	if file == "" {
		t.Skip("scripts/check-api runs it")
	}
	s := start(t)
	s.furnish()
	require.NoError(t, os.WriteFile(file+".new", []byte(s.server.Address()), 0o600))
	require.NoError(t, os.Rename(file+".new", file))
	<-t.Context().Done()
}
