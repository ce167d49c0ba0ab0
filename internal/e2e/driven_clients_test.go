package e2e

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
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
	// onCluster is an argument more there.
	onCluster string
}

// drivenAt is where a driver is sent.
type drivenAt struct {
	name, addr string
	cluster    bool
}

// drivenTargets starts what all drivers use: a server and a cluster that are asked directly, which shows that the drivers
// are right, and proxies. Clients in cluster mode are sent to fleets of two.
func drivenTargets(t *testing.T) (targets, fleets []drivenAt) {
	t.Helper()
	users := fmt.Sprintf("users: [{name: ann, sha256: %q}]", sha256Hex("pw"))
	everything := redistest.WithUser("ann", "pw", "~* &* +@all")
	server, sharded := redistest.Standalone(t).Addr(), redistest.Cluster(t, 3, 0, everything)
	one := startProxy(t, tenantYAML("standalone", []string{server}, users))
	one.awaitReady(t)
	cluster := clusterProxy(t, sharded, users)
	return []drivenAt{
			{"direct", redistest.Standalone(t, everything).Addr(), false},
			{"one server", one.Addr, false},
			{"cluster", cluster.Addr, true},
		}, []drivenAt{
			{"direct", sharded.Addrs()[0], true},
			{"one server", startFleet(t, 2, "standalone", server, users)[0].Addr, false},
			{"cluster", startFleet(t, 2, "cluster", sharded.Addrs()[0], users)[0].Addr, true},
		}
}

// TestDrivenClients lets client libraries of other languages, and job queues, do their work through the proxy.
func TestDrivenClients(t *testing.T) {
	t.Parallel()
	targets, fleets := drivenTargets(t)
	for name, drive := range map[string]func(t *testing.T, targets, fleets []drivenAt){
		"python": drivePython, "node": driveNode, "asynq": driveAsynq, "ruby": driveRuby, "java": driveJava,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // each may have to install something
			drive(t, targets, fleets)
		})
	}
}

func drivePython(t *testing.T, targets, fleets []drivenAt) {
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
		driver{name: "redis-py cache", script: "redis_py_cache.py", args: []string{"cache"}},
		driver{name: "celery", script: "celery_worker.py", args: []string{"celery"}},
		driver{name: "rq", script: "rq_worker.py", args: []string{"rq"}, notOnCluster: "its transactions have keys in several slots, and no prefix changes that"})
	drive(t, fleets, run,
		driver{name: "redis-py cluster RESP2", script: "redis_py_cluster.py", args: []string{"2", "pyc2"}},
		driver{name: "redis-py cluster RESP3", script: "redis_py_cluster.py", args: []string{"3", "pyc3"}})
}

func driveNode(t *testing.T, targets, fleets []drivenAt) {
	node, scripts := nodePackages(t)
	run := func(d *driver, host, port string) *exec.Cmd {
		return exec.Command(node, append([]string{filepath.Join(scripts, d.script), host, port}, d.args...)...)
	}
	drive(t, targets, run,
		driver{name: "node-redis RESP2", script: "node_redis.mjs", args: []string{"2", "node2"}},
		driver{name: "node-redis RESP3", script: "node_redis.mjs", args: []string{"3", "node3"}},
		driver{name: "ioredis", script: "ioredis.mjs", args: []string{"ioredis"}},
		driver{name: "bullmq", script: "bullmq_worker.mjs", args: []string{"bullmq"}})
	drive(t, fleets, run,
		driver{name: "node-redis cluster RESP2", script: "node_redis_cluster.mjs", args: []string{"2", "nodec2"}},
		driver{name: "node-redis cluster RESP3", script: "node_redis_cluster.mjs", args: []string{"3", "nodec3"}},
		driver{name: "ioredis cluster", script: "ioredis_cluster.mjs", args: []string{"ioredisc"}})
}

func driveAsynq(t *testing.T, targets, _ []drivenAt) {
	program := asynqProgram(t)
	run := func(d *driver, host, port string) *exec.Cmd {
		return exec.Command(program, append([]string{net.JoinHostPort(host, port)}, d.args...)...)
	}
	drive(t, targets, run, driver{name: "asynq", args: []string{"asynq"}})
}

func driveRuby(t *testing.T, targets, _ []drivenAt) {
	ruby := rubyWithSidekiq(t)
	run := func(d *driver, host, port string) *exec.Cmd {
		return exec.Command(ruby, append([]string{"-W0", filepath.Join("clients", "ruby", d.script), host, port}, d.args...)...)
	}
	drive(t, targets, run, driver{name: "sidekiq", script: "sidekiq_worker.rb", args: []string{"sidekiq"}, onCluster: "cluster"})
}

// driveJava runs one program for each target, which is a plain client and one in cluster mode: a virtual machine takes
// long to start.
func driveJava(t *testing.T, targets, fleets []drivenAt) {
	java, classes := lettuceProgram(t)
	for i, fleet := range fleets {
		host, port, err := net.SplitHostPort(fleet.addr)
		require.NoError(t, err)
		run := func(d *driver, plainHost, plainPort string) *exec.Cmd {
			return exec.Command(java, append([]string{
				"-cp", classes, "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "Lettuce", plainHost, plainPort, host, port,
			}, d.args...)...)
		}
		drive(t, targets[i:i+1], run, driver{name: "lettuce", args: []string{"lettuce-" + fleet.name}})
	}
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
				own := *d
				own.args = slices.Clone(d.args)
				own.args[len(own.args)-1] += "-" + strings.ReplaceAll(target.name, " ", "-") // targets may share servers
				if target.cluster && d.onCluster != "" {
					own.args = append(own.args, d.onCluster)
				}
				output, err := bounded(t, driverTimeout, command(&own, host, port))
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
