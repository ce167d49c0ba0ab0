package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/sluiceproxy/sluice/internal/config"
	"github.com/sluiceproxy/sluice/internal/daemon"
)

// proxy is a daemon that runs inside the test.
type proxy struct {
	t *testing.T
	*daemon.Daemon
	// Addr is where clients connect, AdminURL the admin port's address.
	Addr     string
	AdminURL string
	// File is the configuration; rewriting it reloads.
	File   string
	Logs   *observer.ObservedLogs
	reload chan struct{}
	cancel context.CancelFunc
	done   chan error
}

// startProxy runs a daemon with the YAML configuration, in which {{listen}} stands for a free address, until the test
// ends.
func startProxy(t *testing.T, yaml string) *proxy {
	t.Helper()
	file := filepath.Join(t.TempDir(), "sluice.yaml")
	require.NoError(t, os.WriteFile(file, []byte(yaml), 0o600))
	core, logs := observer.New(zap.DebugLevel)
	p := &proxy{t: t, File: file, Logs: logs, reload: make(chan struct{}), done: make(chan error, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	started := make(chan *daemon.Daemon, 1)
	go func() {
		p.done <- daemon.Run(ctx, daemon.Options{
			Load:      func() (*config.Config, error) { return config.Load(file, nil) },
			WatchFile: file,
			Version:   "test",
			Reload:    p.reload,
			Log:       zap.New(core),
			Started:   func(d *daemon.Daemon) { started <- d },
		})
	}()
	select {
	case p.Daemon = <-started:
	case err := <-p.done:
		cancel()
		t.Fatalf("cannot start the daemon: %v", err)
	}
	t.Cleanup(func() { _ = p.stop() })
	p.Addr = p.Addresses()[0].String()
	p.AdminURL = "http://" + p.AdminAddress()
	return p
}

// stop drains the daemon and returns what Run returned.
func (p *proxy) stop() error {
	p.cancel()
	select {
	case err := <-p.done:
		p.done <- err
		return err
	case <-time.After(60 * time.Second):
		p.t.Error("the daemon does not stop")
		return nil
	}
}

// standaloneYAML is one open tenant on one server.
func standaloneYAML(addr string, extra ...string) string {
	return fmt.Sprintf(`
listeners: [{address: "127.0.0.1:0"}]
admin: {address: "127.0.0.1:0"}
clusters: [{name: main, kind: standalone, addresses: ["%s"]}]
tenants: [{name: acme, cluster: main, databases: [0, 1, 2]}]
%s`, addr, strings.Join(extra, "\n"))
}

// clusterYAML is one open tenant on a Redis Cluster.
func clusterYAML(addrs []string, extra ...string) string {
	return fmt.Sprintf(`
listeners: [{address: "127.0.0.1:0"}]
admin: {address: "127.0.0.1:0"}
clusters: [{name: main, kind: cluster, addresses: ["%s"]}]
tenants: [{name: acme, cluster: main}]
%s`, strings.Join(addrs, `", "`), strings.Join(extra, "\n"))
}

// How long a test waits for what must happen soon, and how often it looks.
const (
	eventually = 10 * time.Second
	tick       = 10 * time.Millisecond
)
