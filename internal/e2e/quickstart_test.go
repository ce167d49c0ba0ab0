package e2e

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/pkg/api"
)

// newcomer is a machine on which the repository was cloned and built, as the commands of README.md find it. Ports are others,
// because tests share theirs.
type newcomer struct {
	t      *testing.T
	folder string
	ports  *strings.Replacer
}

// readme gives the commands of the block that has a text, line by line.
func readme(t *testing.T, text string) []string {
	t.Helper()
	content, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	for i, block := range strings.Split(string(content), "\n```\n") {
		if i%2 == 1 && strings.Contains(block, text) {
			return strings.Split(block, "\n")
		}
	}
	require.Fail(t, "README.md has no block with "+text)
	return nil
}

func newNewcomer(t *testing.T) *newcomer {
	t.Helper()
	folder := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", folder+"/bin/", "../../cmd/...")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	output, err := build.CombinedOutput()
	require.NoError(t, err, string(output))
	return &newcomer{t: t, folder: folder, ports: strings.NewReplacer()}
}

// moved puts other ports in the place of those that the files say.
func (n *newcomer) moved(ports map[string]string) {
	n.t.Helper()
	var pairs []string
	for from, to := range ports {
		_, port, err := net.SplitHostPort(to)
		require.NoError(n.t, err)
		pairs = append(pairs, from, port)
	}
	n.ports = strings.NewReplacer(pairs...)
	folder := filepath.Join(n.folder, "configs", "registered")
	require.NoError(n.t, os.MkdirAll(folder, 0o750))
	content, err := os.ReadFile("../../configs/registered/two-tenants.yaml")
	require.NoError(n.t, err)
	require.NoError(n.t, os.WriteFile(filepath.Join(folder, "two-tenants.yaml"), []byte(n.ports.Replace(string(content))), 0o600))
}

// does types a line into a shell; it must succeed.
func (n *newcomer) does(line string) string {
	n.t.Helper()
	shell := exec.Command("bash", "-c", n.ports.Replace(line)) // at the end of a test too
	shell.Dir = n.folder
	// The server is the one that is told when none is, but for its port.
	shell.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + n.folder, "SLUICE_SERVER=" + n.ports.Replace(api.DefaultServer)}
	output, err := shell.CombinedOutput()
	require.NoError(n.t, err, "%s\n%s", line, output)
	return string(output)
}

// serve starts the daemon that a line of README.md starts.
func (n *newcomer) serve(line string) *process {
	n.t.Helper()
	words := strings.Fields(n.ports.Replace(line))
	require.Equal(n.t, "bin/sluiced", words[0])
	words[3] = filepath.Join(n.folder, words[3]) // the data directory
	return startProcess(n.t, filepath.Join(n.folder, words[0]), nil, words[1:]...)
}

// freeAddress is one on which nothing listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

// TestQuickStart does what README.md says, word by word.
func TestQuickStart(t *testing.T) {
	t.Parallel()
	n := newNewcomer(t)
	one, wide := redistest.Standalone(t), redistest.Cluster(t, 3, 0)
	start := func() {
		n.moved(map[string]string{
			"6380": freeAddress(t), "8380": freeAddress(t), "7001": one.Addr(), "7101": wide.Addrs()[0], "7102": wide.Addrs()[1],
		})
	}
	start()
	five := readme(t, "--data-dir data")
	require.Len(t, five, 5)
	require.Equal(t, "make build", five[0])
	daemon := n.serve(five[1])
	daemon.clientAddr()
	n.does(five[2])
	n.does(five[3])
	require.Contains(t, n.does(five[4]), "OK\n")
	require.Contains(t, n.does(strings.ReplaceAll(five[4], "app", "web")), "OK\n")
	require.Equal(t, "$1\r\nv\r\n", string(one.Do("GET", "k")))
	require.Equal(t, "ready\n", n.does("bin/proxyctl status -o json | grep -q '\"ready\": true' && echo ready"))

	// One by one, on another empty machine.
	_ = daemon.cmd.Process.Kill()
	daemon.wait()
	require.NoError(t, os.RemoveAll(filepath.Join(n.folder, "data")))
	start()
	n.serve(five[1]).clientAddr()
	n.does(five[2])
	lines := readme(t, "tenants rollback")
	require.Len(t, lines, 4)
	for _, line := range lines[:3] {
		n.does(line)
	}
	require.Contains(t, n.does(five[4]), "OK\n")
	require.Contains(t, n.does(lines[3]), `"cluster": "c2"`)
	require.Equal(t, "c1\n", n.does(`bin/proxyctl tenants get acme -o json | sed -n 's/.*"cluster": "\(.*\)".*/\1/p'`))
}

// TestServersForTrying starts the servers that README.md offers for trying.
func TestServersForTrying(t *testing.T) {
	t.Parallel()
	n := &newcomer{t: t, folder: t.TempDir(), ports: strings.NewReplacer()}
	n.moved(map[string]string{"7001": freeAddress(t), "7101": freeAddress(t)})
	lines := readme(t, "ADDSLOTSRANGE")
	require.Len(t, lines, 3)
	for i, line := range lines[:2] {
		n.does(line + " --pidfile " + n.folder + "/pid" + strconv.Itoa(i))
	}
	t.Cleanup(func() { n.does("kill $(cat pid0 pid1)") })
	for _, line := range lines {
		port := regexp.MustCompile(`\b7\d01\b`).FindString(line)
		require.Eventually(t, func() bool { return strings.Contains(n.does("redis-cli -p "+port+" PING || true"), "PONG") }, eventually, tick)
	}
	require.Equal(t, "OK\n", n.does(lines[2]))
}

// TestFirstTry runs what README.md shows of `make run`.
func TestFirstTry(t *testing.T) {
	t.Parallel()
	n := &newcomer{t: t, folder: t.TempDir()}
	clients, admin := freeAddress(t), freeAddress(t)
	n.moved(map[string]string{"6380": clients, "8380": admin})
	daemon := startProcess(t, buildSluiced(t), []string{"SLUICE_LISTENERS_0_ADDRESS=" + clients, "SLUICE_ADMIN_ADDRESS=" + admin}, "serve")
	daemon.clientAddr()
	lines := readme(t, "SET greeting")
	require.Len(t, lines, 3)
	require.Equal(t, "OK\n", n.does(lines[0]))
	require.Equal(t, "hello\n", n.does(lines[1]))
	require.Contains(t, n.does(strings.Replace(lines[2], "curl", "curl -s", 1)), `"ready"`)
}
