package e2e

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/ctl"
	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/pkg/api"
)

// killed is a data directory whose daemons are killed, and what they acknowledged.
type killed struct {
	t      *testing.T
	binary string
	dir    string
	server *redistest.Server
	// counts are the newest number that each tenant was acknowledged, and the newest that was sent.
	acknowledged, sent [4]atomic.Int64
	users              []string // that were acknowledged since the last start
	writes             atomic.Int64
}

// TestDaemonSurvivesKill kills daemons with SIGKILL while clients of the admin API and proxyctl write: the next one starts, and has all that was
// acknowledged.
func TestDaemonSurvivesKill(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	t.Parallel()
	k := &killed{t: t, binary: buildSluiced(t), dir: t.TempDir(), server: redistest.Standalone(t)}
	kills := full(4, 200)
	for range kills {
		k.round()
	}
	p, client := k.start()
	k.check(p, client)
	t.Logf("%d acknowledged writes, %d kills", k.writes.Load(), kills)
	require.NotZero(t, k.writes.Load())
}

func (k *killed) start() (*process, *api.Client) {
	k.t.Helper()
	p := startProcess(k.t, k.binary, nil, "serve", "--data-dir", k.dir, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
	server := p.adminURL()
	token, err := os.ReadFile(filepath.Join(k.dir, "admin-token"))
	require.NoError(k.t, err)
	client, err := api.New(api.Options{Server: server, Token: strings.TrimSpace(string(token)), Retries: -1})
	require.NoError(k.t, err)
	k.t.Cleanup(client.Close)
	return p, client
}

// round starts a daemon, sees that it has everything, and kills it while it is written to.
func (k *killed) round() {
	p, client := k.start()
	k.prepare(client)
	k.check(p, client)
	var running sync.WaitGroup
	for i := range k.sent {
		running.Go(func() { k.count(client, i) })
	}
	running.Go(func() { k.makeUsers(client) })
	time.Sleep(time.Duration(rand.IntN(60)) * time.Millisecond) // any moment will do
	require.NoError(k.t, p.cmd.Process.Kill())
	p.wait()
	running.Wait()
}

// prepare registers the tenants unless they are there.
func (k *killed) prepare(client *api.Client) {
	k.t.Helper()
	if k.sent[0].Load() > 0 {
		return
	}
	_, err := client.Clusters().Create(k.t.Context(), api.Cluster{Name: "main", Addresses: []string{k.server.Addr()}}, api.WriteOptions{})
	require.NoError(k.t, err)
	for i := range k.sent {
		_, err := client.Tenants().Create(k.t.Context(), api.Tenant{Name: fmt.Sprint("t", i), Cluster: "main"}, api.WriteOptions{})
		require.NoError(k.t, err)
	}
}

// check requires that every tenant has the last number that was acknowledged, or one that was on its way when the daemon
// was killed, and that every user is there and can log in.
func (k *killed) check(p *process, client *api.Client) {
	k.t.Helper()
	for i := range k.sent {
		tenant, err := client.Tenants().Get(k.t.Context(), fmt.Sprint("t", i))
		require.NoError(k.t, err)
		number := int64(time.Duration(tenant.CommandTimeout).Milliseconds()) - firstTimeout
		if k.sent[i].Load() > 0 {
			require.GreaterOrEqual(k.t, number, k.acknowledged[i].Load(), "an acknowledged change is lost")
			require.LessOrEqual(k.t, number, k.sent[i].Load())
			k.acknowledged[i].Store(number)
			history, err := client.Tenants().History(k.t.Context(), tenant.Name)
			require.NoError(k.t, err)
			require.Equal(k.t, tenant.Meta.Version, history[0].Version)
		}
	}
	for _, name := range k.users {
		c := redistest.Dial(k.t, p.clientAddr())
		require.Equal(k.t, "+OK\r\n", string(c.Do("AUTH", name, "pw-"+name)), "an acknowledged user is lost")
		c.Close()
		require.NoError(k.t, client.Users("t0").Delete(k.t.Context(), name, api.WriteOptions{}))
	}
	k.users = nil
}

// firstTimeout is the command timeout of a tenant whose number is 0, in milliseconds.
const firstTimeout = 5000

// count changes a tenant again and again until the daemon is gone; the last one by proxyctl.
func (k *killed) count(client *api.Client, i int) {
	for n := k.acknowledged[i].Load() + 1; ; n++ {
		k.sent[i].Store(n)
		var err error
		if i == len(k.sent)-1 {
			err = k.proxyctl(client, fmt.Sprintf("tenants update t%d --command-timeout %dms", i, firstTimeout+n))
		} else {
			_, err = client.Tenants().Patch(context.Background(), fmt.Sprint("t", i), map[string]any{"command_timeout": fmt.Sprintf("%dms", firstTimeout+n)}, api.WriteOptions{})
		}
		if err != nil {
			return
		}
		k.acknowledged[i].Store(n)
		k.writes.Add(1)
	}
}

func (k *killed) proxyctl(client *api.Client, line string) error {
	environment := map[string]string{"SLUICE_SERVER": client.Server(), "SLUICE_TOKEN_FILE": filepath.Join(k.dir, "admin-token"), "XDG_CONFIG_HOME": k.dir}
	code := ctl.Run(context.Background(), &ctl.Environment{
		In: strings.NewReader(""), Out: io.Discard, Err: io.Discard, Getenv: func(name string) string { return environment[name] },
	}, append(strings.Fields(line), "--token-file", environment["SLUICE_TOKEN_FILE"]))
	if code != ctl.ExitOK {
		return fmt.Errorf("proxyctl ends with %d", code)
	}
	return nil
}

// makeUsers registers users until the daemon is gone.
func (k *killed) makeUsers(client *api.Client) {
	for {
		name := fmt.Sprintf("u%d", rand.Uint64())
		if _, err := client.Users("t0").Create(context.Background(), api.User{Name: name, SHA256: sha256Hex("pw-" + name)}, api.WriteOptions{}); err != nil {
			return
		}
		k.users = append(k.users, name)
		k.writes.Add(1)
	}
}
