package e2e

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/redistest"
)

// rewrite replaces the configuration file and waits until the daemon has read it.
func (p *proxy) rewrite(t *testing.T, yaml string) {
	t.Helper()
	before := p.reloadAttempts()
	next := p.File + ".new"
	require.NoError(t, os.WriteFile(next, []byte(yaml), 0o600))
	require.NoError(t, os.Rename(next, p.File))
	require.Eventually(t, func() bool { return p.reloadAttempts() > before }, eventually, tick)
}

// reloadAttempts counts what the log says of reloads, good and bad.
func (p *proxy) reloadAttempts() (count int) {
	for _, entry := range p.Logs.All() {
		if strings.HasPrefix(entry.Message, "configuration reloaded") || strings.HasPrefix(entry.Message, "configuration not reloaded") {
			count++
		}
	}
	return count
}

const goodReload = "sluice_config_last_reload_successful"

func TestReloadMovesTrafficWithoutAFailedCommand(t *testing.T) {
	t.Parallel()
	one, two, other := redistest.Standalone(t), redistest.Standalone(t), redistest.Standalone(t)
	yaml := func(main string) string {
		return fmt.Sprintf(`
listeners: [{address: "127.0.0.1:0", tenant: moved}, {address: "127.0.0.1:0", tenant: stays}]
admin: {address: "127.0.0.1:0"}
clusters: [{name: main, kind: standalone, addresses: [%q]}, {name: other, kind: standalone, addresses: [%q]}]
tenants: [{name: moved, cluster: main}, {name: stays, cluster: other}]
`, main, other.Addr())
	}
	p := startProxy(t, yaml(one.Addr()))
	p.awaitReady(t)
	var clients, unconcerned []*counterClient
	var running sync.WaitGroup
	for i := range 12 {
		listener := i % 2
		c := &counterClient{conn: redistest.Dial(t, p.Addresses()[listener].String()), key: fmt.Sprintf("counter:%d", i), depth: []int{1, 16, 64}[i%3]}
		if listener == 0 {
			clients = append(clients, c)
		} else {
			unconcerned = append(unconcerned, c)
		}
		running.Go(c.run)
	}
	awaitReplies(t, append(clients, unconcerned...), 100)
	// The new server goes on where the old one is; a counter that starts anew there would show as a wrong reply, so the
	// clients' own view is what counts: every command is answered by a number.
	p.rewrite(t, yaml(two.Addr()))
	require.Eventually(t, func() bool { return string(two.Do("DBSIZE")) == fmt.Sprintf(":%d\r\n", len(clients)) }, eventually, tick)
	at := one.Do("INFO", "commandstats")
	p.reload <- struct{}{} // SIGHUP: nothing changed
	awaitReplies(t, append(clients, unconcerned...), 500)
	require.Equal(t, incrCalls(at), incrCalls(one.Do("INFO", "commandstats")), "nothing goes to the old server any more")

	for _, c := range append(clients, unconcerned...) {
		c.conn.Close()
	}
	running.Wait()
	for _, c := range unconcerned {
		require.Nil(t, c.wrong.Load(), "connection of another tenant")
	}
	for _, c := range clients {
		wrong := c.wrong.Load()
		require.NotNil(t, wrong, "the counter starts anew on the other server")
		require.Contains(t, *wrong, `got ":1\r\n"`, "and that is the first reply that differs")
	}
	require.InDelta(t, 1, p.metric(t, goodReload), 0)
	require.Zero(t, p.metric(t, "sluice_command_errors_total", `reason="connection_lost"`))
}

func incrCalls(info []byte) string {
	_, rest, _ := strings.Cut(string(info), "cmdstat_incr:")
	calls, _, _ := strings.Cut(rest, ",")
	return calls
}

func TestWrongFileKeepsTheLastGoodOne(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	p := startProxy(t, standaloneYAML(server.Addr()))
	p.awaitReady(t)
	c := redistest.Dial(t, p.Addr)
	id := string(c.Do("CLIENT", "ID"))
	require.InDelta(t, 1, p.metric(t, goodReload), 0)
	stamp := p.metric(t, "sluice_config_last_reload_success_timestamp_seconds")
	for _, wrong := range []string{
		"this is: [not yaml", "", "listeners: []\nnosuchkey: 1\n", strings.Replace(standaloneYAML(server.Addr()), "cluster: main", "cluster: nosuch", 1),
		strings.Replace(standaloneYAML(server.Addr()), "databases: [0, 1, 2]", "databases: [-1]", 1),
	} {
		if wrong == "" {
			continue // an empty file is a valid one: everything is default
		}
		p.rewrite(t, wrong)
		require.InDelta(t, 0, p.metric(t, goodReload), 0, wrong)
		require.Equal(t, "+OK\r\n", string(c.Do("SET", "k", "v")))
		require.Equal(t, "+PONG\r\n", string(redistest.Dial(t, p.Addr).Do("PING")))
	}
	require.InDelta(t, stamp, p.metric(t, "sluice_config_last_reload_success_timestamp_seconds"), 0)
	last := p.Logs.FilterMessageSnippet("configuration not reloaded").All()
	require.Contains(t, fmt.Sprint(last[len(last)-1].ContextMap()), "databases")
	p.rewrite(t, standaloneYAML(server.Addr()))
	require.InDelta(t, 1, p.metric(t, goodReload), 0)
	require.Equal(t, id, string(c.Do("CLIENT", "ID")), "the connection was never touched")
}

func TestReloadOfUsersAndTenants(t *testing.T) {
	t.Parallel()
	one, two := redistest.Standalone(t), redistest.Standalone(t)
	yaml := func(tenants ...string) string {
		return fmt.Sprintf(`
listeners: [{address: "127.0.0.1:0"}]
admin: {address: "127.0.0.1:0"}
clusters: [{name: one, kind: standalone, addresses: [%q]}, {name: two, kind: standalone, addresses: [%q]}]
tenants:
%s
`, one.Addr(), two.Addr(), "  - "+strings.Join(tenants, "\n  - "))
	}
	user := func(name, password string) string {
		return fmt.Sprintf("{name: %s, sha256: %q}", name, sha256Hex(password))
	}
	alpha := func(users ...string) string {
		return "{name: alpha, cluster: one, databases: [0, 1], users: [" + strings.Join(users, ", ") + "]}"
	}
	beta := "{name: beta, cluster: two, users: [" + user("ben", "pw-ben") + "]}"
	p := startProxy(t, yaml(alpha(user("ann", "pw-ann"), user("amy", "pw-amy")), beta))
	p.awaitReady(t)
	login := func(name string) *redistest.Conn {
		c := redistest.Dial(t, p.Addr)
		require.Equal(t, "+OK\r\n", string(c.Do("AUTH", name, "pw-"+name)))
		return c
	}
	ann, amy, ben := login("ann"), login("amy"), login("ben")
	annID, benID := string(ann.Do("CLIENT", "ID")), string(ben.Do("CLIENT", "ID"))
	require.Equal(t, "+OK\r\n", string(ann.Do("SET", "k", "one")))
	require.Equal(t, "+OK\r\n", string(ann.Do("SELECT", "1")))

	// A user goes, another changes the password, a third comes.
	p.rewrite(t, yaml(alpha(user("ann", "changed"), user("abe", "pw-abe")), beta))
	amy.RequireReply("-ERR this tenant is no longer served here\r\n")
	amy.RequireClosed()
	require.Equal(t, annID, string(ann.Do("CLIENT", "ID")))
	require.Equal(t, "$-1\r\n", string(ann.Do("GET", "k")), "still in database 1")
	fresh := redistest.Dial(t, p.Addr)
	require.Equal(t, wrongPass, string(fresh.Do("AUTH", "ann", "pw-ann")))
	require.Equal(t, wrongPass, string(fresh.Do("AUTH", "amy", "pw-amy")))
	require.Equal(t, "+OK\r\n", string(fresh.Do("AUTH", "ann", "changed")))
	login("abe")

	// The tenant moves to the other cluster and loses a database.
	p.rewrite(t, yaml("{name: alpha, cluster: two, databases: [0], users: ["+user("ann", "changed")+"]}", beta))
	require.Equal(t, "$-1\r\n", string(fresh.Do("GET", "k")))
	require.Equal(t, "+OK\r\n", string(fresh.Do("SET", "k", "two")))
	require.Equal(t, "$3\r\ntwo\r\n", string(two.Do("GET", "k")))
	ann.RequireReply("-ERR the database of this connection is no longer the tenant's\r\n")
	ann.RequireClosed()

	// The tenant goes.
	p.rewrite(t, yaml(beta))
	fresh.RequireReply("-ERR this tenant is no longer served here\r\n")
	fresh.RequireClosed()
	require.Equal(t, wrongPass, string(redistest.Dial(t, p.Addr).Do("AUTH", "ann", "changed")))
	require.Equal(t, benID, string(ben.Do("CLIENT", "ID")))
	require.Equal(t, "$3\r\ntwo\r\n", string(ben.Do("GET", "k")))
	require.InDelta(t, 1, p.metric(t, goodReload), 0)
	require.Eventually(t, func() bool { return p.metric(t, "sluice_clients", `tenant="alpha"`) == 0 }, eventually, tick)
}

// TestReloadKeepsWhatIsInFlight: a command that waits for its node while the table is swapped gets its reply.
func TestReloadKeepsWhatIsInFlight(t *testing.T) {
	t.Parallel()
	one, two := redistest.Standalone(t), redistest.Standalone(t)
	p := startProxy(t, standaloneYAML(one.Addr()))
	p.awaitReady(t)
	c := redistest.Dial(t, p.Addr)
	require.Equal(t, "+OK\r\n", string(c.Do("SET", "k", "old")))
	two.Do("SET", "k", "new")
	one.Stop()
	c.Send("GET k\r\nINCR n\r\n")
	require.Equal(t, "+PONG\r\n", string(redistest.Dial(t, p.Addr).Do("PING")))
	p.rewrite(t, standaloneYAML(two.Addr()))
	other := redistest.Dial(t, p.Addr)
	require.Equal(t, "$3\r\nnew\r\n", string(other.Do("GET", "k")))
	c.Send("GET k\r\n")
	one.Continue()
	c.RequireReply("$3\r\nold\r\n")
	c.RequireReply(":1\r\n")
	c.RequireReply("$3\r\nnew\r\n")
}

// TestReloadInPlace writes the file as an editor without rename does.
func TestReloadInPlace(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	p := startProxy(t, standaloneYAML(server.Addr()))
	p.awaitReady(t)
	c := redistest.Dial(t, p.Addr)
	require.Regexp(t, "^-NOPERM", string(c.Do("SELECT", "7")))
	before := p.reloadAttempts()
	require.NoError(t, os.WriteFile(p.File, []byte(strings.Replace(standaloneYAML(server.Addr()), "[0, 1, 2]", "[0, 7]", 1)), 0o600))
	require.Eventually(t, func() bool { return p.reloadAttempts() > before }, eventually, tick)
	require.Equal(t, "+OK\r\n", string(c.Do("SELECT", "7")))
	require.Equal(t, "+OK\r\n", string(c.Do("SET", "k", "v")))
}
