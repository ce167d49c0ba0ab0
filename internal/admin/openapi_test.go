package admin

import (
	"flag"
	"net"
	"os"
	"testing"
	"time"

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

// TestServeForTools serves the API to tools of other languages, for as long as a variable says: see scripts/check-api.
func TestServeForTools(t *testing.T) {
	address, lasting := os.Getenv("SLUICE_TEST_SERVE_API"), os.Getenv("SLUICE_TEST_SERVE_FOR")
	if address == "" {
		t.Skip("scripts/check-api runs it")
	}
	while, err := time.ParseDuration(lasting)
	require.NoError(t, err)
	_, _, err = net.SplitHostPort(address)
	require.NoError(t, err)
	s := start(t, func(o *Options) { o.Address = address })
	s.furnish()
	select {
	case <-time.After(while):
	case <-t.Context().Done():
	}
}
