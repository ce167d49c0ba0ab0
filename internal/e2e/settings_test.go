package e2e

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/redistest"
)

// TestConfigGetTellsTheBackendsValues: what frameworks look at is what the backend goes by, in the same bytes.
func TestConfigGetTellsTheBackendsValues(t *testing.T) {
	t.Parallel()
	set := redistest.WithConfig("maxmemory 123mb", "maxmemory-policy allkeys-lfu", "notify-keyspace-events Egx", "appendonly yes", `save 900 1`)
	p := &pair{backend: redistest.Standalone(t, set), direct: redistest.Standalone(t, set)}
	p.proxy = startProxy(t, standaloneYAML(p.backend.Addr()))
	p.proxy.awaitReady(t)
	for _, protocol := range []int{2, 3} {
		through, direct := p.dial(t, protocol)
		for _, e := range []example{
			{text: "CONFIG GET maxmemory-policy"}, {text: "config get MaxMemory-Policy maxmemory-policy"}, {text: "CONFIG GET notify-keyspace-events"},
			{text: "CONFIG GET save"}, {text: "CONFIG GET appendonly"}, {text: "CONFIG GET maxmemory"}, {text: "CONFIG GET nosuch"}, {text: "CONFIG GET"},
			{text: "CONFIG GET timeout"}, {text: "CONFIG GET client-query-buffer-limit"},
			{text: "CONFIG GET maxmemory-[p-s]*", as: unordered}, {text: "CONFIG GET hash-max-* HASH-MAX-LISTPACK-VALUE notify-*", as: unordered},
			{text: "CONFIG GET *-max-*-entries list-*", as: unordered}, {text: "CONFIG GET appendonly save maxmemory nosuch", as: unordered},
		} {
			args := strings.Fields(e.text)
			e.requireSame(t, direct.Do(args...), through.Do(args...))
		}
		require.Equal(t, strings.ReplaceAll(map[int]string{2: "*2", 3: "%1"}[protocol]+"|$9|databases|$1|3|", "|", "\r\n"), string(through.Do("CONFIG", "GET", "DATABASE?")))
		all := string(through.Do("CONFIG", "GET", "*"))
		for _, hidden := range []string{"requirepass", "masterauth", "dir\r\n", "logfile", "bind", "port\r\n", "aclfile", "tls-", p.backend.Dir(), fmt.Sprint(p.backend.Port())} {
			require.NotContains(t, all, hidden)
		}
	}
	c := redistest.Dial(t, p.proxy.Addr)
	require.Equal(t, "-NOPERM 'config|set' concerns the operation of the backend and is not available through this proxy\r\n",
		string(c.Do("CONFIG", "SET", "notify-keyspace-events", "Egx")))
	require.True(t, bytes.HasPrefix(c.Do("CONFIG", "HELP"), []byte("*")))

	// A change at the backend is seen, and commands of one packet keep their order.
	require.Equal(t, "+OK\r\n", string(p.backend.Do("CONFIG", "SET", "maxmemory-policy", "noeviction")))
	require.Eventually(t, func() bool {
		return strings.HasSuffix(string(c.Do("CONFIG", "GET", "maxmemory-policy")), "\r\nnoeviction\r\n")
	}, 3*eventually, 10*tick)
	c = redistest.Dial(t, p.proxy.Addr)
	c.Send("SET k 1\r\nCONFIG GET save\r\nINCR k\r\n")
	c.RequireReply("+OK\r\n")
	c.RequireReply("*2\r\n$4\r\nsave\r\n$5\r\n900 1\r\n")
	c.RequireReply(":2\r\n")
}

// TestConfigGetWhereTheBackendRefuses: managed services take no CONFIG; INFO may tell.
func TestConfigGetWhereTheBackendRefuses(t *testing.T) {
	t.Parallel()
	for rules, want := range map[string]string{"~* &* +@all -config": "volatile-ttl", "~* &* +@all -config -info": "noeviction"} {
		server := redistest.Standalone(t, redistest.WithUser("app", "secret", rules), redistest.WithConfig("maxmemory-policy volatile-ttl"))
		p := startProxy(t, tenantYAML("standalone", []string{server.Addr()}, "databases: [0, 5]", `cluster: auth: {username: app, password: secret}`))
		p.awaitReady(t)
		c := redistest.Dial(t, p.Addr)
		require.Equal(t, fmt.Sprintf("*2\r\n$16\r\nmaxmemory-policy\r\n$%d\r\n%s\r\n", len(want), want), string(c.Do("CONFIG", "GET", "maxmemory-policy")))
		require.Equal(t, "*2\r\n$22\r\nnotify-keyspace-events\r\n$0\r\n\r\n", string(c.Do("CONFIG", "GET", "notify-keyspace-events")))
		require.Equal(t, "*2\r\n$9\r\ndatabases\r\n$1\r\n6\r\n", string(c.Do("CONFIG", "GET", "databases")))
	}
}

func TestConfigGetOnACluster(t *testing.T) {
	t.Parallel()
	servers := redistest.Cluster(t, 3, 0, redistest.WithConfig("maxmemory-policy allkeys-lru"))
	c := redistest.Dial(t, clusterProxy(t, servers, "").Addr)
	require.Equal(t, "*2\r\n$16\r\nmaxmemory-policy\r\n$11\r\nallkeys-lru\r\n", string(c.Do("CONFIG", "GET", "maxmemory-policy")))
	require.Equal(t, "*2\r\n$9\r\ndatabases\r\n$1\r\n1\r\n", string(c.Do("CONFIG", "GET", "databases")))
}

func TestACLOfTheSession(t *testing.T) {
	t.Parallel()
	p := startPair(t)
	for _, protocol := range []int{2, 3} {
		through, direct := p.dial(t, protocol)
		for _, e := range []example{
			{text: "ACL WHOAMI"}, {text: "ACL WHOAMI x"}, {text: "ACL CAT"}, {text: "ACL CAT nosuch"}, {text: "ACL CAT a b"}, {text: "ACL GENPASS 0"}, {text: "ACL GENPASS x"},
			{text: "ACL GENPASS 1 2"}, {text: "ACL GENPASS 4097"}, {text: "ACL GENPASS", as: shape}, {text: "ACL GENPASS 9", as: shape}, {text: "ACL NOSUCH"},
			{text: "ACL CAT hyperloglog", as: unordered}, {text: "ACL CAT GEO", as: unordered}, {text: "ACL CAT transaction", as: unordered}, {text: "ACL CAT pubsub", as: unordered},
		} {
			args := strings.Fields(e.text)
			e.requireSame(t, direct.Do(args...), through.Do(args...))
		}
		require.Len(t, through.Do("ACL", "GENPASS", "9"), len("$3\r\nabc\r\n"))
		require.NotEqual(t, through.Do("ACL", "GENPASS"), through.Do("ACL", "GENPASS"))
		require.True(t, bytes.HasPrefix(through.Do("ACL", "HELP"), []byte("*")))
	}
	named := startProxy(t, usersYAML(p.backend.Addr(), fmt.Sprintf("[{name: ann, sha256: %s}]", sha256Hex("pw"))))
	named.awaitReady(t)
	c := redistest.Dial(t, named.Addr)
	require.Regexp(t, "^-NOAUTH", string(c.Do("ACL", "WHOAMI")))
	require.Regexp(t, "^-NOAUTH", string(c.Do("CONFIG", "GET", "save")))
	require.Equal(t, "+OK\r\n", string(c.Do("AUTH", "ann", "pw")))
	require.Equal(t, "$3\r\nann\r\n", string(c.Do("ACL", "WHOAMI")))
}
