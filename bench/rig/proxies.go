package rig

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// Backend is what a proxy stands in front of.
type Backend struct {
	Nodes   []*Process
	Cluster bool // a Redis Cluster, not one standalone server
}

func (b Backend) addrs() string {
	addrs := make([]string, len(b.Nodes))
	for i, node := range b.Nodes {
		addrs[i] = node.Addr
	}
	return strings.Join(addrs, ",")
}

// ErrNotPossible marks what this machine or this program cannot do; the benchmark goes on without it.
var ErrNotPossible = errors.New("not possible here")

// Proxy starts a proxy by its name: sluiced, twemproxy, predixy or haproxy.
func (r *Rig) Proxy(ctx context.Context, name string, b Backend, sluiced Sluiced) (*Process, error) {
	switch name {
	case "sluiced":
		return r.Sluiced(ctx, b, sluiced)
	case "twemproxy":
		return r.twemproxy(ctx, b)
	case "predixy":
		return r.predixy(ctx, b)
	case "haproxy":
		return r.haproxy(ctx, b)
	}
	return nil, fmt.Errorf("cannot start %q: it is none of sluiced, twemproxy, predixy, haproxy", name)
}

// Sluiced is how the daemon is started.
type Sluiced struct {
	Path string   // the built daemon
	Args []string // further arguments of "sluiced serve"
	Env  []string // further environment, NAME=value
}

// Sluiced starts the daemon in front of a backend, with its admin port, and returns when it is ready.
func (r *Rig) Sluiced(ctx context.Context, b Backend, s Sluiced) (*Process, error) {
	return r.start(ctx, program{
		name: "sluiced", path: s.Path, ports: 2, admin: 1, env: s.Env, ready: readySluiced,
		args: func(_ string, ports []int) ([]string, error) {
			args := []string{"serve", "--listen", loopback(ports[0]), "--backend", b.addrs(), "--admin", loopback(ports[1])}
			if b.Cluster {
				args = append(args, "--backend-kind", "cluster")
			}
			return append(args, s.Args...), nil
		},
	})
}

// SluicedWith starts the daemon with a configuration file, which text makes for the address of the clients and that of
// the admin port, and returns when it is ready.
func (r *Rig) SluicedWith(ctx context.Context, text func(clients, admin string) string, s Sluiced) (*Process, error) {
	return r.start(ctx, program{
		name: "sluiced", path: s.Path, ports: 2, admin: 1, env: s.Env, ready: saysReady,
		args: func(dir string, ports []int) ([]string, error) {
			file := filepath.Join(dir, "sluice.yaml")
			args := append([]string{"serve", "--config", file}, s.Args...)
			return args, os.WriteFile(file, []byte(text(loopback(ports[0]), loopback(ports[1]))), 0o600)
		},
	})
}

func readySluiced(ctx context.Context, p *Process) error {
	if err := saysReady(ctx, p); err != nil {
		return err
	}
	return answersPing(ctx, p)
}

// saysReady asks the admin port, which needs no password.
func saysReady(ctx context.Context, p *Process) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.Admin+"/readyz", http.NoBody)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("/readyz answers %s", response.Status)
	}
	return nil
}

// BuildSluiced compiles the daemon of the module in that folder.
func BuildSluiced(ctx context.Context, module, to string) error {
	command := exec.CommandContext(ctx, "go", "build", "-o", to, "./cmd/sluiced")
	command.Dir = module
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("cannot build sluiced: %w\n%s", err, output)
	}
	return nil
}

// Floor compiles and starts the floor server of the module in that folder.
func (r *Rig) Floor(ctx context.Context, module string, replyBytes int) (*Process, error) {
	compiler, err := exec.LookPath("cc")
	if err != nil {
		return nil, fmt.Errorf("%w: there is no C compiler (cc) to build the floor with", ErrNotPossible)
	}
	binary := filepath.Join(r.dir, "floor")
	source := filepath.Join(module, "bench", "floor", "floor.c")
	command := exec.CommandContext(ctx, compiler, "-O2", "-o", binary, source)
	if output, err := command.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: cc cannot build the floor: %w: %s", ErrNotPossible, err, output)
	}
	return r.start(ctx, program{
		name: "floor", path: binary, ports: 1, ready: answersPing,
		args: func(_ string, ports []int) ([]string, error) {
			return []string{strconv.Itoa(ports[0]), strconv.Itoa(replyBytes)}, nil
		},
	})
}

// configured starts a peer that wants a configuration file.
func (r *Rig) configured(ctx context.Context, p program, text func(ports []int) string, args func(file string, ports []int) []string) (*Process, error) {
	if !Installed(p.path) {
		return nil, fmt.Errorf("%w: %s is not installed", ErrNotPossible, p.path)
	}
	p.ready = answersPing
	p.args = func(dir string, ports []int) ([]string, error) {
		file := filepath.Join(dir, "proxy.conf")
		return args(file, ports), os.WriteFile(file, []byte(text(ports)), 0o600)
	}
	return r.start(ctx, p)
}

func (r *Rig) haproxy(ctx context.Context, b Backend) (*Process, error) {
	if b.Cluster {
		return nil, fmt.Errorf("%w: haproxy knows nothing of Redis Cluster", ErrNotPossible)
	}
	text := func(ports []int) string {
		return fmt.Sprintf("global\n  maxconn 4000\ndefaults\n  mode tcp\n  timeout connect 5s\n  timeout client 120s\n"+
			"  timeout server 120s\nlisten redis\n  bind 127.0.0.1:%d\n  server redis %s\n", ports[0], b.Nodes[0].Addr)
	}
	return r.configured(ctx, program{name: "haproxy", path: "haproxy", ports: 1}, text,
		func(file string, _ []int) []string { return []string{"-db", "-f", file} })
}

func (r *Rig) twemproxy(ctx context.Context, b Backend) (*Process, error) {
	if b.Cluster {
		return nil, fmt.Errorf("%w: twemproxy knows nothing of Redis Cluster", ErrNotPossible)
	}
	text := func(ports []int) string {
		return fmt.Sprintf("bench:\n  listen: 127.0.0.1:%d\n  redis: true\n  hash: fnv1a_64\n  distribution: ketama\n"+
			"  servers:\n   - %s:1\n", ports[0], b.Nodes[0].Addr)
	}
	return r.configured(ctx, program{name: "twemproxy", path: "nutcracker", ports: 2}, text,
		func(file string, ports []int) []string {
			return []string{"-c", file, "-a", "127.0.0.1", "-s", strconv.Itoa(ports[1]), "-v", "3"}
		})
}

func (r *Rig) predixy(ctx context.Context, b Backend) (*Process, error) {
	servers := "StandaloneServerPool {\n Databases 1\n Hash crc16\n HashTag \"{}\"\n Distribution modula\n" +
		" RefreshMethod fixed\n Group one {\n  + " + b.Nodes[0].Addr + "\n }\n}\n"
	if b.Cluster {
		servers = "ClusterServerPool {\n Servers {\n  + " + strings.ReplaceAll(b.addrs(), ",", "\n  + ") + "\n }\n}\n"
	}
	text := func(ports []int) string {
		return fmt.Sprintf("Name bench\nBind 127.0.0.1:%d\nWorkerThreads 1\nClientTimeout 0\nLogInfoSample 10000\n"+
			"Authority {\n Auth {\n  Mode write\n }\n}\n%s", ports[0], servers)
	}
	return r.configured(ctx, program{name: "predixy", path: "predixy", ports: 1}, text,
		func(file string, _ []int) []string { return []string{file} })
}
