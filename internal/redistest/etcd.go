package redistest

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// EtcdServer is a real etcd process of one member.
type EtcdServer struct {
	t       testing.TB
	process *process
	client  *portLease
	peer    *portLease
	dir     string
	tls     *TLSFiles
}

// Etcd starts an etcd that lives until the test ends. With tls it asks for client certificates.
func Etcd(t testing.TB, tls *TLSFiles) *EtcdServer {
	t.Helper()
	if _, err := exec.LookPath("etcd"); err != nil {
		t.Fatal("etcd is not installed; scripts/install-test-tools installs it")
	}
	e := &EtcdServer{t: t, dir: t.TempDir(), tls: tls}
	for _, lease := range []**portLease{&e.client, &e.peer} {
		var err error
		if *lease, err = leasePort(); err != nil {
			t.Fatal(err)
		}
	}
	e.Start()
	t.Cleanup(func() {
		e.Kill()
		_ = e.client.udp.Close()
		_ = e.peer.udp.Close()
	})
	return e
}

// Endpoint is the URL for clients.
func (e *EtcdServer) Endpoint() string {
	if e.tls != nil {
		return "https://" + e.Addr()
	}
	return "http://" + e.Addr()
}

// Addr is host:port for clients.
func (e *EtcdServer) Addr() string { return loopback(e.client.number) }

// DataDir is where it keeps its data.
func (e *EtcdServer) DataDir() string { return filepath.Join(e.dir, "data") }

// Start starts the process and waits until it takes connections.
func (e *EtcdServer) Start() {
	e.t.Helper()
	peer := "http://" + loopback(e.peer.number)
	args := []string{
		"--data-dir", e.DataDir(), "--listen-client-urls", e.Endpoint(), "--advertise-client-urls", e.Endpoint(),
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default=" + peer,
		"--heartbeat-interval", "50", "--election-timeout", "500", "--log-level", "error",
	}
	if e.tls != nil {
		args = append(args, "--cert-file", e.tls.ServerCert, "--key-file", e.tls.ServerKey,
			"--trusted-ca-file", e.tls.CA, "--client-cert-auth")
	}
	var err error
	log := filepath.Join(e.dir, "log")
	if e.process, err = startProcess("etcd", log, args...); err != nil {
		e.t.Fatal(err)
	}
	for deadline := time.Now().Add(30 * time.Second); ; {
		if e.healthy() {
			return
		}
		if e.process.hasExited() || time.Now().After(deadline) {
			text, _ := os.ReadFile(log)
			e.t.Fatalf("etcd does not start:\n%s", text)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// healthy reports whether it has a leader; with TLS, whether it takes connections.
func (e *EtcdServer) healthy() bool {
	if e.tls != nil {
		conn, err := net.DialTimeout("tcp", e.Addr(), time.Second)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	}
	client := http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := client.Get(e.Endpoint() + "/health")
	if err != nil {
		return false
	}
	defer r.Body.Close()
	var body bytes.Buffer
	_, _ = body.ReadFrom(r.Body)
	return bytes.Contains(body.Bytes(), []byte(`"true"`))
}

// Kill ends the process at once.
func (e *EtcdServer) Kill() { e.process.kill() }

// Freeze stops the process: its connections stay open and silent. Thaw lets it go on.
func (e *EtcdServer) Freeze() { e.must(e.process.signal(syscall.SIGSTOP)) }

// Thaw ends Freeze.
func (e *EtcdServer) Thaw() { e.must(e.process.signal(syscall.SIGCONT)) }

// Backup copies the data; the process must not run.
func (e *EtcdServer) Backup() (dir string) {
	dir = filepath.Join(e.t.TempDir(), "backup")
	e.must(os.CopyFS(dir, os.DirFS(e.DataDir())))
	return dir
}

// Restore puts a backup in the place of the data; the process must not run.
func (e *EtcdServer) Restore(dir string) {
	e.must(os.RemoveAll(e.DataDir()))
	e.must(os.CopyFS(e.DataDir(), os.DirFS(dir)))
	e.must(os.Chmod(e.DataDir(), 0o700))
}

func (e *EtcdServer) must(err error) {
	e.t.Helper()
	if err != nil {
		e.t.Fatal(fmt.Errorf("etcd: %w", err))
	}
}
