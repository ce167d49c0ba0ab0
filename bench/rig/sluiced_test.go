package rig

import (
	"net"
	"net/http"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMain lets the test binary stand in for the daemon.
func TestMain(m *testing.M) {
	if os.Getenv("RIG_TEST_SLUICED") != "" {
		standInForSluiced()
		return
	}
	os.Exit(m.Run())
}

// standInForSluiced answers a PING and is not ready at first.
func standInForSluiced() {
	after := func(flag string) string { return os.Args[slices.Index(os.Args, flag)+1] }
	listener, err := net.Listen("tcp", after("--listen"))
	if err != nil {
		panic(err)
	}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte("+PONG\r\n"))
			_ = conn.Close()
		}
	}()
	asked := 0
	http.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		if asked++; asked < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	panic(http.ListenAndServe(after("--admin"), nil)) //nolint:gosec // a test's own server
}

func TestSluicedIsStartedAndAwaited(t *testing.T) {
	r, err := New()
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()
	daemon := Sluiced{Path: os.Args[0], Args: []string{"--loops", "1"}, Env: []string{"RIG_TEST_SLUICED=1"}}
	backend := Backend{Nodes: []*Process{{Addr: "127.0.0.1:1"}, {Addr: "127.0.0.1:2"}}, Cluster: true}
	p, err := r.Proxy(t.Context(), "sluiced", backend, daemon)
	require.NoError(t, err)
	require.NotEmpty(t, p.Admin)
	require.Equal(t, []string{
		"serve", "--listen", p.Addr, "--backend", "127.0.0.1:1,127.0.0.1:2", "--admin", p.Admin,
		"--backend-kind", "cluster", "--loops", "1",
	}, p.command.Args[1:])
	p.Stop()
	require.False(t, p.Running())
}
