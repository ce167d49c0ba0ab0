package e2e

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/redistest"
)

// driverTimeout bounds one run of one client.
const driverTimeout = 2 * time.Minute

// driver is a program in clients/ that uses a client library as applications do. It ends with a status of its own when
// anything is not as a server does it.
type driver struct {
	name string
	// script is the file that the language's program runs, empty for a program that is built.
	script string
	// args follow the host and the port, or the address. The last is a prefix for the keys of this run.
	args []string
	// notOnCluster says why the client cannot use a Redis Cluster that looks like one server, if it cannot.
	notOnCluster string
}

// drivenAt is where a driver is sent.
type drivenAt struct {
	name, addr string
	cluster    bool
}

// drivenTargets starts what all drivers use: a server that is asked directly, which shows that the driver is right, and
// two proxies.
func drivenTargets(t *testing.T) []drivenAt {
	t.Helper()
	users := fmt.Sprintf("users: [{name: ann, sha256: %q}]", sha256Hex("pw"))
	one := startProxy(t, tenantYAML("standalone", []string{redistest.Standalone(t).Addr()}, users))
	one.awaitReady(t)
	cluster := clusterProxy(t, redistest.Cluster(t, 3, 0), users)
	return []drivenAt{
		{"direct", redistest.Standalone(t, redistest.WithUser("ann", "pw", "~* &* +@all")).Addr(), false},
		{"one server", one.Addr, false},
		{"cluster", cluster.Addr, true},
	}
}

// TestDrivenClients lets client libraries of other languages, and job queues, do their work through the proxy.
func TestDrivenClients(t *testing.T) {
	t.Parallel()
	targets := drivenTargets(t)
	t.Run("python", func(t *testing.T) { drivePython(t, targets) })
	t.Run("node", func(t *testing.T) { driveNode(t, targets) })
	t.Run("asynq", func(t *testing.T) { driveAsynq(t, targets) })
}

func drivePython(t *testing.T, targets []drivenAt) {
	python, packages := pythonPackages(t)
	run := func(d *driver, host, port string) *exec.Cmd {
		args := append([]string{filepath.Join("clients", "python", d.script), host, port}, d.args...)
		cmd := exec.Command(python, args...)
		cmd.Env = append(os.Environ(), "PYTHONPATH="+packages, "PYTHONDONTWRITEBYTECODE=1", "PYTHONUNBUFFERED=1")
		return cmd
	}
	drive(t, targets, run,
		driver{name: "redis-py RESP2", script: "redis_py.py", args: []string{"2", "py2"}},
		driver{name: "redis-py RESP3", script: "redis_py.py", args: []string{"3", "py3"}},
		driver{name: "celery", script: "celery_worker.py", args: []string{"celery"}},
		driver{name: "rq", script: "rq_worker.py", args: []string{"rq"}, notOnCluster: "its transactions have keys in several slots, and no prefix changes that"})
}

func driveNode(t *testing.T, targets []drivenAt) {
	node, scripts := nodePackages(t)
	run := func(d *driver, host, port string) *exec.Cmd {
		return exec.Command(node, append([]string{filepath.Join(scripts, d.script), host, port}, d.args...)...)
	}
	drive(t, targets, run,
		driver{name: "node-redis RESP2", script: "node_redis.mjs", args: []string{"2", "node2"}},
		driver{name: "node-redis RESP3", script: "node_redis.mjs", args: []string{"3", "node3"}},
		driver{name: "ioredis", script: "ioredis.mjs", args: []string{"ioredis"}},
		driver{name: "bullmq", script: "bullmq_worker.mjs", args: []string{"bullmq"}})
}

func driveAsynq(t *testing.T, targets []drivenAt) {
	program := asynqProgram(t)
	run := func(d *driver, host, port string) *exec.Cmd {
		return exec.Command(program, append([]string{net.JoinHostPort(host, port)}, d.args...)...)
	}
	drive(t, targets, run, driver{name: "asynq", args: []string{"asynq"}})
}

// drive runs each driver against each target, all at once.
func drive(t *testing.T, targets []drivenAt, command func(d *driver, host, port string) *exec.Cmd, drivers ...driver) {
	for i := range drivers {
		d := &drivers[i]
		for _, target := range targets {
			t.Run(d.name+"/"+target.name, func(t *testing.T) {
				if target.cluster && d.notOnCluster != "" {
					t.Skip(d.notOnCluster)
				}
				t.Parallel()
				host, port, err := net.SplitHostPort(target.addr)
				require.NoError(t, err)
				output, err := bounded(t, driverTimeout, command(d, host, port))
				require.NoError(t, err, "%s", output)
				require.Contains(t, output, "done")
			})
		}
	}
}

// bounded runs a program and ends it when it takes too long. The output is complete also then.
func bounded(t *testing.T, limit time.Duration, cmd *exec.Cmd) (output string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	within := exec.CommandContext(ctx, cmd.Path, cmd.Args[1:]...)
	within.Dir, within.Env = cmd.Dir, cmd.Env
	within.WaitDelay = 5 * time.Second // a child of the program may hold the output open
	b, err := within.CombinedOutput()
	if ctx.Err() != nil {
		err = fmt.Errorf("%s does not end within %s: %w", filepath.Base(cmd.Path), limit, err)
	}
	return string(b), err
}
