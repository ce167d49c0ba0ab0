package e2e

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/pkg/api"
)

// fullSize has tests run at the size that is promised, instead of one that fits every run of all tests: see CONTRIBUTING.md.
var fullSize = flag.Bool("full", false, "tests in full: 60 s of load, 200 kills of the daemon, thousands of clients cut off") //nolint:gochecknoglobals // a flag

// full chooses a size.
func full[T any](short, long T) T {
	if *fullSize {
		return long
	}
	return short
}

// backend is a cluster that changes: one keyspace that can be reached at several addresses, and whose password changes.
type backend struct {
	name      string
	servers   []*redistest.Server
	addresses [][]string
	password  string
}

const proxyUser = "proxy"

func newBackend(t *testing.T, name string, sharded bool) *backend {
	t.Helper()
	b := &backend{name: name, password: "first"}
	user := redistest.WithUser(proxyUser, b.password, "~* &* +@all")
	if sharded {
		servers := redistest.Cluster(t, 3, 0, user)
		addresses := servers.Addrs()
		b.servers, b.addresses = servers.Servers(), [][]string{addresses[:1], addresses[1:], addresses}
		return b
	}
	server := redistest.Standalone(t, user)
	b.servers = []*redistest.Server{server}
	for range 2 { // the same data at other addresses
		b.addresses = append(b.addresses, []string{redistest.NewFaultyProxy(t, server.Addr()).Addr()})
	}
	b.addresses = append(b.addresses, []string{server.Addr()})
	return b
}

func (b *backend) setUser(t *testing.T, rule string) {
	t.Helper()
	for _, s := range b.servers {
		require.Equal(t, "+OK\r\n", string(s.Do("ACL", "SETUSER", proxyUser, rule)))
	}
}

// changer makes changes, one after the other, beside a crowd that must not notice them.
type changer struct {
	*crowd
	t        *testing.T
	p        *proxy
	r        registrar
	random   *rand.Rand
	backends []*backend // the last one is a Redis Cluster
	n        int
	kinds    map[string]int
	slowest  time.Duration
}

// TestChangesUnderLoad changes tenants, users, databases, addresses and passwords of clusters at random while clients write
// in pipelines and transactions: no command may fail, none may be run twice, and no connection may be lost but those of a user or
// tenant that was removed.
func TestChangesUnderLoad(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	clients, changes, load := full(40, 200), full(60, 500), full(3*time.Second, time.Minute)
	seed := uint64(time.Now().UnixNano())
	c := newChanger(t, seed)
	for i := range clients {
		c.start(i)
	}
	began := time.Now()
	for n := range changes {
		c.change()
		time.Sleep(time.Until(began.Add(load * time.Duration(n+1) / time.Duration(changes)))) // a rate of changes, not a wait for one
	}
	t.Logf("seed %d: %d changes in %s beside %d clients with %d replies; slowest change %s; %v",
		seed, changes, time.Since(began).Round(time.Millisecond), clients, c.served(), c.slowest, c.kinds)
	for _, entry := range c.p.Logs.FilterMessage("node is unavailable").All() {
		t.Log(entry.Time, entry.Message, entry.ContextMap())
	}
	c.requireRight()
	require.Empty(t, c.errors())
	require.Zero(t, c.p.metric(t, "sluice_clients_disconnected_total", `reason="left_behind"`))
}

// newChanger has tenants f0 to f3 that stay on their clusters, and m0 to m2 that are moved between the standalone ones.
func newChanger(t *testing.T, seed uint64) *changer {
	t.Helper()
	c := &changer{t: t, random: rand.New(rand.NewPCG(seed, 0)), kinds: make(map[string]int)}
	for i := range 4 {
		c.backends = append(c.backends, newBackend(t, fmt.Sprint("c", i), i == 3))
	}
	c.p = emptyProxy(t, t.TempDir())
	c.r = c.p.registrar(t)
	for i, b := range c.backends {
		cluster := api.Cluster{Name: b.name, Addresses: b.addresses[0], Auth: &api.ClusterAuth{Username: proxyUser, Password: b.password}}
		if i == 3 {
			cluster.ClusterKind = "cluster"
		}
		_, err := c.r.Clusters().Create(t.Context(), anyWrite(), cluster)
		require.NoError(t, err)
		c.tenant(fmt.Sprint("f", i), b.name)
		if i < 3 {
			c.tenant(fmt.Sprint("m", i), b.name)
		}
	}
	c.p.awaitReady(t)
	c.crowd = newCrowd(t)
	return c
}

// tenant registers a tenant with a user of the same name.
func (c *changer) tenant(name, cluster string) {
	c.r.tenant(name, cluster)
	c.r.user(name, name)
}

// start lets a client count in pipelines or transactions where its tenant stays, or write where it is moved.
func (c *changer) start(i int) {
	tenant := []string{"f0", "f1", "f2", "f3", "m0", "m1", "m2"}[i%7]
	conn := c.p.login(c.t, tenant)
	step, key := count, fmt.Sprintf("client:%d", i)
	switch {
	case i%3 == 2:
		step = countInTransactions
	case tenant[0] == 'm':
		step = write
	}
	if i%3 == 2 && tenant[0] == 'm' {
		key += ":{moved}" // its count is another on each cluster
	}
	c.join(func() {
		at := 0
		for n := 0; !c.ended(); n++ {
			if err := step(c.crowd, conn, key, &at, 1+n%8); err != nil {
				c.wrong("%s of tenant %s: %v", key, tenant, err)
				return
			}
		}
	})
}

// count increments a counter several times in one write. Every reply must be the next number.
func count(c *crowd, conn *redistest.Conn, key string, at *int, depth int) error {
	if err := conn.TrySend(strings.Repeat("INCR "+key+"\r\n", depth)); err != nil {
		return err
	}
	for range depth {
		*at++
		if err := expect(c, conn, fmt.Sprintf(":%d\r\n", *at)); err != nil {
			return err
		}
	}
	return nil
}

// write sets a key several times in one write.
func write(c *crowd, conn *redistest.Conn, key string, _ *int, depth int) error {
	if err := conn.TrySend(strings.Repeat("SET "+key+" v\r\n", depth)); err != nil {
		return err
	}
	for range depth {
		if err := expect(c, conn, "+OK\r\n"); err != nil {
			return err
		}
	}
	return nil
}

// countInTransactions increments a counter that it watches: nobody else does, so that no transaction may be refused.
func countInTransactions(c *crowd, conn *redistest.Conn, key string, at *int, _ int) error {
	if err := conn.TrySend("WATCH " + key + "\r\n"); err != nil {
		return err
	}
	if err := expect(c, conn, "+OK\r\n"); err != nil {
		return err
	}
	if err := conn.TrySend("MULTI\r\nINCR " + key + "\r\nEXEC\r\n"); err != nil {
		return err
	}
	*at++
	last := fmt.Sprintf("*1\r\n:%d\r\n", *at)
	if strings.HasSuffix(key, ":{moved}") {
		last = "*1\r\n:"
	}
	for _, reply := range []string{"+OK\r\n", "+QUEUED\r\n", last} {
		if err := expect(c, conn, reply); err != nil {
			return err
		}
	}
	return nil
}

// expect reads a reply that begins as wanted.
func expect(c *crowd, conn *redistest.Conn, want string) error {
	reply, err := conn.TryRead()
	if err != nil {
		return fmt.Errorf("instead of %q, after %q: %w", want, reply, err)
	}
	c.saw(reply)
	if !strings.HasPrefix(string(reply), want) {
		return fmt.Errorf("%q instead of %q", reply, want)
	}
	return nil
}

// change makes one change.
func (c *changer) change() {
	c.n++
	kinds := []struct {
		name string
		make func()
	}{
		{"tenant moved", c.moveTenant}, {"tenant changed", c.changeTenant}, {"tenant made and removed", c.passingTenant},
		{"databases", c.changeDatabases}, {"user made", c.newUser}, {"user's password", c.changeUser}, {"user removed", c.passingUser},
		{"address", c.changeAddress}, {"password", c.changePassword}, {"address and timeouts", c.changeCluster},
	}
	kind := kinds[c.random.IntN(len(kinds))]
	c.kinds[kind.name]++
	began := time.Now()
	kind.make()
	c.slowest = max(c.slowest, time.Since(began))
}

func (c *changer) anyTenant() string {
	return []string{"f0", "f1", "f2", "f3", "m0", "m1", "m2"}[c.random.IntN(7)]
}
func (c *changer) anyBackend() *backend { return c.backends[c.random.IntN(len(c.backends))] }

func (c *changer) moveTenant() {
	c.r.patchTenant(fmt.Sprint("m", c.random.IntN(3)), fmt.Sprintf(`{"cluster": %q}`, c.backends[c.random.IntN(3)].name))
}

func (c *changer) changeTenant() {
	c.r.patchTenant(c.anyTenant(), fmt.Sprintf(`{"command_timeout": "%ds", "cross_slot": %q}`, 20+c.random.IntN(20), []string{"split", "error"}[c.random.IntN(2)]))
}

func (c *changer) changeDatabases() {
	tenant := []string{"f0", "f1", "f2", "m0", "m1", "m2"}[c.random.IntN(6)]
	c.r.patchTenant(tenant, fmt.Sprintf(`{"databases": [0, %d]}`, 1+c.random.IntN(15)))
}

func (c *changer) newUser() {
	name := fmt.Sprint("more", c.n)
	tenant := c.anyTenant()
	c.r.user(tenant, name)
	c.useOnce(c.p.login(c.t, name)).Close()
}

// changeUser changes the password of a user: who is logged in stays.
func (c *changer) changeUser() {
	tenant, name := c.anyTenant(), fmt.Sprint("other", c.n)
	c.r.user(tenant, name)
	conn := c.p.login(c.t, name)
	_, err := c.r.Users().Patch(c.t.Context(), anyWrite(), tenant+"/"+name, fmt.Appendf(nil, `{"sha256": %q}`, sha256Hex("new")))
	require.NoError(c.t, err)
	c.useOnce(conn).Close()
	late := redistest.Dial(c.t, c.p.Addr)
	require.Equal(c.t, wrongPass, string(late.Do("AUTH", name, "pw-"+name)))
	require.Equal(c.t, "+OK\r\n", string(late.Do("AUTH", name, "new")))
	late.Close()
}

func (c *changer) passingUser() {
	tenant, name := c.anyTenant(), fmt.Sprint("passing", c.n)
	c.r.user(tenant, name)
	conn := c.useOnce(c.p.login(c.t, name))
	_, err := c.r.Users().Delete(c.t.Context(), anyWrite(), tenant+"/"+name)
	require.NoError(c.t, err)
	c.mustEnd(conn)
}

func (c *changer) passingTenant() {
	name := fmt.Sprint("passing", c.n)
	c.tenant(name, c.anyBackend().name)
	conn := c.useOnce(c.p.login(c.t, name))
	_, err := c.r.Users().Delete(c.t.Context(), anyWrite(), name+"/"+name)
	require.NoError(c.t, err)
	_, err = c.r.Tenants().Delete(c.t.Context(), anyWrite(), name)
	require.NoError(c.t, err)
	c.mustEnd(conn)
}

// useOnce needs a connection of the client's own, so that the password of the cluster is asked for.
func (c *changer) useOnce(conn *redistest.Conn) *redistest.Conn {
	c.t.Helper()
	for _, step := range [][2]string{{"SET extra v", "+OK\r\n"}, {"WATCH extra", "+OK\r\n"}, {"GET extra", "$1\r\nv\r\n"}, {"UNWATCH", "+OK\r\n"}} {
		conn.Send(step[0] + "\r\n")
		conn.RequireReply(step[1])
	}
	return conn
}

// mustEnd lets a client whose user is gone work until it is told so.
func (c *changer) mustEnd(conn *redistest.Conn) {
	c.join(func() {
		defer conn.Close()
		told := false
		for {
			reply, err := conn.TryRead()
			switch {
			case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
				return
			case err != nil || told || len(reply) == 0 || reply[0] != '-':
				c.wrong("a client whose user is gone: %q %v", reply, err)
				return
			}
			told = true
		}
	})
}

// anyAddresses is one of the backend's lists of addresses, as JSON.
func (c *changer) anyAddresses(b *backend) []byte {
	list, err := json.Marshal(b.addresses[c.random.IntN(3)])
	require.NoError(c.t, err)
	return list
}

func (c *changer) changeAddress() {
	b := c.anyBackend()
	c.r.patchCluster(b.name, fmt.Sprintf(`{"addresses": %s}`, c.anyAddresses(b)))
	c.inForce()
}

func (c *changer) changeCluster() {
	b := c.anyBackend()
	c.r.patchCluster(b.name, fmt.Sprintf(`{"addresses": %s, "connect_timeout": "%ds", "refresh_interval": "%ds"}`,
		c.anyAddresses(b), 5+c.random.IntN(5), 10+c.random.IntN(20)))
	c.inForce()
}

// changePassword does as an operator does: both passwords are valid until the new one is in force, then the old one is not.
func (c *changer) changePassword() {
	b, old := c.anyBackend(), ""
	old, b.password = b.password, fmt.Sprint("password-", c.n)
	b.setUser(c.t, ">"+b.password)
	c.r.patchCluster(b.name, fmt.Sprintf(`{"auth": {"username": %q, "password": %q}}`, proxyUser, b.password))
	c.inForce()
	b.setUser(c.t, "<"+old)
	require.Regexp(c.t, "^-WRONGPASS", string(b.servers[0].Do("AUTH", proxyUser, old)))
	tenant := "f" + strings.TrimPrefix(b.name, "c")
	c.useOnce(c.p.login(c.t, tenant)).Close()
}

// inForce waits until the proxy says that all changes are: the answer to a change does not wait for ever.
func (c *changer) inForce() {
	c.t.Helper()
	revision := c.r.Revision()
	require.Eventually(c.t, func() bool { return c.p.Status().Store.Applied >= revision }, 3*eventually, tick)
}
