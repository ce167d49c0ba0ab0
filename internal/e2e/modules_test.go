package e2e

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/redistest"
)

// buildModule compiles testdata/module.c, whose commands the proxy's table does not have.
func buildModule(t *testing.T) (path string) {
	t.Helper()
	compiler, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("no C compiler in PATH")
	}
	path = filepath.Join(t.TempDir(), "module.so")
	out, err := exec.Command(compiler, "-shared", "-fPIC", "-o", path, filepath.Join("testdata", "module.c")).CombinedOutput()
	require.NoError(t, err, string(out))
	return path
}

// modulePair is a pair of servers that have the module.
func modulePair(t *testing.T, tenant string) *pair {
	t.Helper()
	load := redistest.WithConfig("loadmodule " + buildModule(t))
	p := &pair{backend: redistest.Standalone(t, load), direct: redistest.Standalone(t, load)}
	p.proxy = startProxy(t, tenantYAML("standalone", []string{p.backend.Addr()}, tenant))
	p.proxy.awaitReady(t)
	return p
}

func TestModuleCommandsAreThoseOfTheBackend(t *testing.T) {
	t.Parallel()
	p := modulePair(t, "")
	for _, protocol := range []int{2, 3} {
		through, direct := p.dial(t, protocol)
		for _, line := range []string{
			"TST.SET k v", "GET k", "tst.set k w", "Tst.Echo k", "TST.SET", "TST.SET k", "TST.PAIRS a 1 b 2", "TST.KEYLESS", "TST.KEYLESS x", "TST.AT x k",
			"TST.NOSUCH a b", "TST.NOSUCH", "tst.nosuch " + strings.Repeat("y", 200), "nosuch|get x", "OBJECT NOSUCH k", "OBJECT|FREQ k", "XINFO what", "CONFIG WHAT", "NO\x01SUCH x",
			"MULTI", "TST.SET k m", "TST.ECHO k", "EXEC", "GET k",
			"MULTI", "TST.SET k x", "TST.NOSUCH", "EXEC", "GET k",
		} {
			e := example{text: line}
			args := strings.Fields(line)
			e.requireSame(t, direct.Do(args...), through.Do(args...))
		}
		for _, c := range []*redistest.Conn{direct, through} {
			c.Send("SET p 1\r\nTST.SET p 2\r\nGET p\r\nTST.UNKNOWN a\r\nTST.ECHO p\r\nINCR p\r\nPING\r\n")
		}
		for range 7 {
			require.Equal(t, string(direct.ReadReply()), string(through.ReadReply()))
		}
	}
}

func TestAdminCommandsOfModulesAreOffByDefault(t *testing.T) {
	t.Parallel()
	const refused = "-NOPERM 'tst.admin' concerns the operation of the backend and is not available through this proxy\r\n"
	for tenant, want := range map[string]string{"": refused, "admin_modules: true": "$1\r\nx\r\n", "trusted: true": "$1\r\nx\r\n"} {
		p := modulePair(t, tenant)
		c := redistest.Dial(t, p.proxy.Addr)
		require.Equal(t, want, string(c.Do("TST.ADMIN", "x")), tenant)
		require.Equal(t, "+OK\r\n", string(c.Do("MULTI")))
		if want == refused {
			require.Equal(t, refused, string(c.Do("TST.ADMIN", "x")))
			require.Regexp(t, "^-EXECABORT", string(c.Do("EXEC")))
		} else {
			require.Equal(t, "+QUEUED\r\n", string(c.Do("TST.ADMIN", "x")))
			require.Equal(t, "*1\r\n"+want, string(c.Do("EXEC")))
		}
	}
}

func TestModuleCommandsOnACluster(t *testing.T) {
	t.Parallel()
	servers := redistest.Cluster(t, 3, 0, redistest.WithConfig("loadmodule "+buildModule(t)))
	p := clusterProxy(t, servers, "")
	c := redistest.Dial(t, p.Addr)
	for i := range 3 {
		for n := range 20 {
			key := keyOfShard(i, fmt.Sprintf("m%d", n))
			require.Equal(t, "+OK\r\n", string(c.Do("TST.SET", key, key)))
			require.Equal(t, fmt.Sprintf("$%d\r\n%s\r\n", len(key), key), string(c.Do("GET", key)))
		}
	}
	one, other := keyOfShard(0, "a"), keyOfShard(1, "b")
	require.Equal(t, "-CROSSSLOT Keys in request don't hash to the same slot\r\n", string(c.Do("TST.PAIRS", one, "1", other, "2")))
	require.Equal(t, "$1\r\n2\r\n", string(c.Do("TST.PAIRS", "{t}a", "1", "{t}b", "2")))
	require.Equal(t, "-ERR 'tst.at' has keys whose places the backend does not tell, so the node is not known; it is not supported on a cluster\r\n",
		string(c.Do("TST.AT", "x", "k")))
	require.Equal(t, "$1\r\nx\r\n", string(c.Do("TST.KEYLESS", "x")))
	require.Regexp(t, "^-ERR unknown command 'TST.NOSUCH'", string(c.Do("TST.NOSUCH", one)))

	require.Equal(t, "+OK\r\n", string(c.Do("MULTI")))
	require.Equal(t, "+QUEUED\r\n", string(c.Do("TST.SET", one, "in")))
	require.Equal(t, "-CROSSSLOT Keys in request don't hash to the same slot\r\n", string(c.Do("TST.SET", other, "in")))
	require.Regexp(t, "^-EXECABORT", string(c.Do("EXEC")))
}

// TestLongModuleCommandWaits: what streams past the pipes is asked about before its first byte is passed on.
func TestLongModuleCommandWaits(t *testing.T) {
	t.Parallel()
	p := modulePair(t, "")
	c := redistest.Dial(t, p.proxy.Addr)
	long := strings.Repeat("x", 3<<20)
	require.Equal(t, "+OK\r\n", string(c.Do("TST.SET", "k", long)))
	require.Equal(t, fmt.Sprintf(":%d\r\n", len(long)), string(c.Do("STRLEN", "k")))
	require.Regexp(t, "^-ERR unknown command 'TST.NOSUCH', with args beginning with: 'k'", string(c.Do("TST.NOSUCH", "k", long)))
	require.Regexp(t, "^-NOPERM 'tst.admin'", string(c.Do("TST.ADMIN", long)))
	require.Equal(t, "+PONG\r\n", string(c.Do("PING")))

	servers := redistest.Cluster(t, 3, 0, redistest.WithConfig("loadmodule "+buildModule(t)))
	c = redistest.Dial(t, clusterProxy(t, servers, "").Addr)
	key := keyOfShard(2, "long")
	require.Equal(t, "+OK\r\n", string(c.Do("TST.SET", key, long)))
	require.Equal(t, fmt.Sprintf(":%d\r\n", len(long)), string(c.Do("STRLEN", key)))
}

// TestModuleIsLoadedLater: that a command does not exist is not remembered for long, and what exists is asked once.
func TestModuleIsLoadedLater(t *testing.T) {
	t.Parallel()
	module := buildModule(t)
	server := redistest.Standalone(t, redistest.WithConfig("enable-module-command yes"))
	p := startProxy(t, standaloneYAML(server.Addr()))
	p.awaitReady(t)
	c := redistest.Dial(t, p.Addr)
	for range 20 {
		require.Regexp(t, "^-ERR unknown command 'TST.SET'", string(c.Do("TST.SET", "k", "v")))
	}
	require.Less(t, commandCalls(t, server, "command|info"), 5)
	require.Equal(t, "+OK\r\n", string(server.Do("MODULE", "LOAD", module)))
	require.Eventually(t, func() bool { return string(c.Do("TST.SET", "k", "v")) == "+OK\r\n" }, eventually, tick)
	asked := commandCalls(t, server, "command|info")
	for range 20 {
		require.Equal(t, "+OK\r\n", string(redistest.Dial(t, p.Addr).Do("TST.SET", "k", "v")))
	}
	require.Equal(t, asked, commandCalls(t, server, "command|info"), "every loop goes by what was learned")
}

// commandCalls is how often a server was sent a command.
func commandCalls(t *testing.T, server *redistest.Server, name string) (calls int) {
	t.Helper()
	for line := range strings.SplitSeq(string(server.Do("INFO", "commandstats")), "\r\n") {
		if rest, ok := strings.CutPrefix(line, "cmdstat_"+name+":calls="); ok {
			_, err := fmt.Sscanf(rest, "%d,", &calls)
			require.NoError(t, err)
		}
	}
	return calls
}

// TestUnknownNamesAreAskedForWithinBounds: a client that makes names up costs the backend little and others nothing.
func TestUnknownNamesAreAskedForWithinBounds(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	p := startProxy(t, standaloneYAML(server.Addr()))
	p.awaitReady(t)
	c := redistest.Dial(t, p.Addr)
	refused := 0
	for i := range 250 {
		reply := string(c.Do(fmt.Sprintf("NOSUCH%d", i)))
		if strings.HasPrefix(reply, "-ERR too many commands that are unknown") {
			refused++
			continue
		}
		require.Regexp(t, "^-ERR unknown command 'NOSUCH", reply)
	}
	require.LessOrEqual(t, commandCalls(t, server, "command|info"), 250-refused)
	require.Equal(t, "+PONG\r\n", string(c.Do("PING")))
}

// TestRenamedCommandsAreServedAsWhatTheyAre: a backend may have given a command of the table another name.
func TestRenamedCommandsAreServedAsWhatTheyAre(t *testing.T) {
	t.Parallel()
	renamed := redistest.WithConfig("rename-command INCR my.incr", "rename-command MGET my.mget", "rename-command BLPOP my.blpop",
		"rename-command DEBUG my.debug")
	p := &pair{backend: redistest.Standalone(t, renamed), direct: redistest.Standalone(t, renamed)}
	p.proxy = startProxy(t, standaloneYAML(p.backend.Addr()))
	p.proxy.awaitReady(t)
	through, direct := p.dial(t, 2)
	for _, line := range []string{"MY.INCR n", "my.incr n", "MY.INCR", "my.mget n n nosuch", "RPUSH l a", "MY.BLPOP l 0", "MY.BLPOP l 0.01"} {
		e := example{text: line}
		e.requireSame(t, direct.Do(strings.Fields(line)...), through.Do(strings.Fields(line)...))
	}
	require.Regexp(t, "^-NOPERM 'debug'", string(through.Do("MY.DEBUG", "SLEEP", "0")))
}
