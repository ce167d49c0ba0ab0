package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/redistest"
)

func trustedPair(t *testing.T) *pair {
	t.Helper()
	quiet := redistest.WithConfig("slowlog-log-slower-than -1") // what is slow depends on the machine
	p := &pair{backend: redistest.Standalone(t, quiet), direct: redistest.Standalone(t, quiet)}
	p.proxy = startProxy(t, tenantYAML("standalone", []string{p.backend.Addr()}, "trusted: true, databases: [0, 1]"))
	p.proxy.awaitReady(t)
	return p
}

// TestTrustedTenantOperatesItsBackend: what is about the backend is the backend's own answer.
func TestTrustedTenantOperatesItsBackend(t *testing.T) {
	redistest.LeakCheck(t)
	p := trustedPair(t)
	for _, protocol := range []int{2, 3} {
		through, direct := p.dial(t, protocol)
		for _, e := range []example{
			{text: "CONFIG SET notify-keyspace-events Egx"}, {text: "CONFIG GET notify-keyspace-events"}, {text: "CONFIG GET bind"}, {text: "CONFIG SET nosuch 1"},
			{text: "CONFIG RESETSTAT"}, {text: "CONFIG WHAT"}, {text: "CONFIG HELP"}, {text: "CONFIG"}, {text: "DEBUG SLEEP 0"}, {text: "DEBUG OBJECT nosuch"}, {text: "DEBUG JMAP"},
			{text: "SET k v"}, {text: "DEBUG DIGEST"}, {text: "ACL LIST", as: unordered}, {text: "ACL SETUSER eve on >x ~* +@all"}, {text: "ACL USERS", as: unordered}, {text: "ACL DELUSER eve"},
			{text: "ACL WHOAMI"}, {text: "ACL CAT", as: exact}, {text: "SLOWLOG RESET"}, {text: "SLOWLOG LEN"}, {text: "SLOWLOG GET 1"}, {text: "LATENCY RESET"}, {text: "LATENCY LATEST"}, {text: "LATENCY DOCTOR"},
			{text: "MODULE LIST"}, {text: "CLUSTER INFO"}, {text: "MEMORY DOCTOR", as: shape}, {text: "MEMORY STATS", as: shape}, {text: "MEMORY PURGE"}, {text: "REPLICAOF NO ONE"}, {text: "SAVE"}, {text: "SWAPDB 0 1"},
			{text: "SWAPDB 0 1"}, {text: "ROLE"}, {text: "CLIENT PAUSE 1 WRITE"}, {text: "CLIENT UNPAUSE"}, {text: "CLIENT KILL ID 9999999"},
			{text: "MULTI"}, {text: "CONFIG SET maxmemory-samples 7"}, {text: "CONFIG GET maxmemory-samples"}, {text: "DEBUG SLEEP 0"}, {text: "SLOWLOG LEN"}, {text: "EXEC"},
			{text: "MULTI"}, {text: "SHUTDOWN NOSAVE"}, {text: "EXEC"}, {text: "FAILOVER"}, {text: "PFSELFTEST"}, {text: "GET k"},
		} {
			args := strings.Fields(e.text)
			e.requireSame(t, direct.Do(args...), through.Do(args...))
		}
		require.Contains(t, string(through.Do("INFO", "server")), fmt.Sprintf("tcp_port:%d\r\n", p.backend.Port()))
		require.Contains(t, string(through.Do("CLIENT", "LIST")), "name=sluice ")
		require.Contains(t, string(through.Do("CLIENT", "INFO")), " addr="+through.NetConn().LocalAddr().String()+" ", "the session's own")
		for _, line := range []string{"SYNC", "PSYNC ? -1", "REPLCONF listening-port 1", "SCRIPT DEBUG YES"} {
			require.Regexp(t, `^-ERR '[a-z|]+' would make the connection another one than a client's`, string(through.Do(strings.Fields(line)...)), line)
		}
		require.Regexp(t, "^-NOPERM this tenant may not use database 2", string(through.Do("SELECT", "2")))
		require.Equal(t, "+PONG\r\n", string(through.Do("PING")))
	}
}

// TestTrustedCommandThatBlocksHasItsOwnConnection: DEBUG SLEEP outlasts the command timeout, and order is kept.
func TestTrustedCommandThatBlocksHasItsOwnConnection(t *testing.T) {
	redistest.LeakCheck(t)
	server := redistest.Standalone(t)
	p := startProxy(t, tenantYAML("standalone", []string{server.Addr()}, "trusted: true, command_timeout: 100ms"))
	p.awaitReady(t)
	c := redistest.Dial(t, p.Addr)
	c.Send("SET k 1\r\nDEBUG SLEEP 0.5\r\nINCR k\r\n")
	for _, want := range []string{"+OK\r\n", "+OK\r\n", ":2\r\n"} {
		c.RequireReply(want)
	}
}

func TestTrustedTenantShutsItsBackendDown(t *testing.T) {
	redistest.LeakCheck(t)
	server := redistest.Standalone(t)
	p := startProxy(t, tenantYAML("standalone", []string{server.Addr()}, "trusted: true"))
	p.awaitReady(t)
	c := redistest.Dial(t, p.Addr)
	require.Equal(t, "-ERR upstream connection lost; the command may have been executed, its outcome is unknown\r\n", string(c.Do("SHUTDOWN", "NOSAVE")))
	require.Eventually(t, func() bool { return !server.Running() }, eventually, tick)
	require.Regexp(t, "^-ERR upstream", string(c.Do("GET", "k")))
}

// TestTrustIsTakenAway by a reload: the sessions that are connected lose it.
func TestTrustIsTakenAway(t *testing.T) {
	redistest.LeakCheck(t)
	server := redistest.Standalone(t)
	p := startProxy(t, tenantYAML("standalone", []string{server.Addr()}, "trusted: true"))
	p.awaitReady(t)
	c := redistest.Dial(t, p.Addr)
	require.Equal(t, "+OK\r\n", string(c.Do("CONFIG", "SET", "maxmemory-samples", "6")))
	p.rewrite(t, tenantYAML("standalone", []string{server.Addr()}, ""))
	require.Eventually(t, func() bool {
		return strings.HasPrefix(string(c.Do("CONFIG", "SET", "maxmemory-samples", "6")), "-NOPERM 'config|set' ")
	}, eventually, tick)
}
