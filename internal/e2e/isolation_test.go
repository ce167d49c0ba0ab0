package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/redistest"
)

const migrateRefused = "-NOPERM 'migrate' would make servers that other tenants use too connect to any address, and is not available through this proxy\r\n"

// TestWhatTenantsOfOneServerMayNot: see docs/isolation.md.
func TestWhatTenantsOfOneServerMayNot(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	p := startProxy(t, fmt.Sprintf(`
listeners: [{address: "127.0.0.1:0", tenant: red}, {address: "127.0.0.1:0", tenant: blue}]
admin: {address: "127.0.0.1:0"}
clusters: [{name: main, kind: standalone, addresses: ["%s"]}]
tenants: [{name: red, cluster: main, no_scripts: true}, {name: blue, cluster: main, databases: [1]}]`, server.Addr()))
	p.awaitReady(t)
	red, blue := redistest.Dial(t, p.Addresses()[0].String()), redistest.Dial(t, p.Addresses()[1].String())
	long := strings.Repeat("l", longer)
	for _, c := range []*redistest.Conn{red, blue} {
		require.Equal(t, migrateRefused, string(c.Do("MIGRATE", "127.0.0.1", "1", "k", "0", "10")))
		require.Equal(t, migrateRefused, string(c.Do("MIGRATE", "127.0.0.1", "1", "", "0", "10", "KEYS", long)))
		require.Equal(t, "+OK\r\n", string(c.Do("MULTI")))
		require.Equal(t, migrateRefused, string(c.Do("MIGRATE", "127.0.0.1", "1", "k", "0", "10")))
		require.Contains(t, string(c.Do("EXEC")), "-EXECABORT")
	}
	for _, line := range [][]string{
		{"EVAL", "return 1", "0"}, {"EVALSHA", strings.Repeat("0", 40), "0"}, {"EVAL_RO", "return 1", "0"}, {"FCALL", "f", "0"}, {"FCALL_RO", "f", "0"},
		{"SCRIPT", "LOAD", "return 1"}, {"SCRIPT", "EXISTS", "x"}, {"FUNCTION", "LIST"}, {"EVAL", "return 1", "1", "k", long}, {"EVAL", "--" + long, "0"},
	} {
		refused := "is not available to this tenant, for which scripts and functions are turned off\r\n"
		require.Contains(t, string(red.Do(line...)), refused, line[0])
		red.Do("MULTI")
		require.Contains(t, string(red.Do(line...)), refused, line[0])
		require.Contains(t, string(red.Do("EXEC")), "-EXECABORT")
	}
	require.Equal(t, ":1\r\n", string(blue.Do("EVAL", "return 1", "0")))
}

// TestOwnUsersOfTheServerKeepScriptsApart plays what docs/isolation.md says to do for tenants with scripts.
func TestOwnUsersOfTheServerKeepScriptsApart(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	for _, name := range []string{"red", "blue"} {
		rules := []string{"on", ">secret", "~" + name + ":*", "&" + name + ":*", "+@all", "-@admin", "-@dangerous", "+info", "+keys"}
		require.Equal(t, "+OK\r\n", string(server.Do(append([]string{"ACL", "SETUSER", name}, rules...)...)))
	}
	p := startProxy(t, fmt.Sprintf(`
listeners: [{address: "127.0.0.1:0", tenant: red}, {address: "127.0.0.1:0", tenant: blue}]
admin: {address: "127.0.0.1:0"}
clusters:
  - {name: reds, kind: standalone, addresses: ["%[1]s"], auth: {username: red, password: secret}}
  - {name: blues, kind: standalone, addresses: ["%[1]s"], auth: {username: blue, password: secret}}
tenants: [{name: red, cluster: reds}, {name: blue, cluster: blues, databases: [1]}]`, server.Addr()))
	p.awaitReady(t)
	red, blue := redistest.Dial(t, p.Addresses()[0].String()), redistest.Dial(t, p.Addresses()[1].String())
	require.Equal(t, "+OK\r\n", string(blue.Do("SET", "blue:k", "secret")))
	require.Contains(t, string(red.Do("EVAL", "redis.call('SELECT', 1) return redis.call('GET', 'blue:k')", "0")), "can't access at least one of the keys")
	require.Contains(t, string(red.Do("EVAL", "return redis.call('FLUSHALL')", "0")), "-ERR The user executing the script can't run this command")
	require.Contains(t, string(red.Do("EVAL", "return redis.call('MIGRATE', '127.0.0.1', 1, 'red:k', 0, 10)", "0")), "-ERR The user executing the script can't run this command")
	require.Contains(t, string(red.Do("MIGRATE", "127.0.0.1", "1", "red:k", "0", "10")), "-NOPERM")
	for _, line := range []string{"SET red:k 1", "GET red:k", "EVAL \"return redis.call('INCR', KEYS[1])\" 1 red:k", "SCRIPT LOAD \"return 1\"", "KEYS red:*", "BLPOP red:l 0.01", "SUBSCRIBE red:news", "UNSUBSCRIBE red:news", "INFO", "CLIENT TRACKING OFF"} {
		require.NotEqual(t, byte('-'), red.Do(words(t, line)...)[0], line)
	}
}
