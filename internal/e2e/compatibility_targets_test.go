package e2e

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/command"
	"github.com/sluiceproxy/sluice/internal/redistest"
)

// compatibilityTarget is a proxy, what is behind it, and the server to compare with, which to clients of the proxy looks
// the same whatever is behind.
type compatibilityTarget struct {
	// name is the heading of the target's column, word what its tags and explanations in the examples begin with.
	name, word string
	proxy      *proxy
	backends   []*observed // primaries
	direct     *observed
	// sharded is true for a cluster, fronted when clients are told so, and trusted for the tenant that operates its server.
	sharded, fronted, trusted bool
	// configuration is what a proxy of a trusted tenant is started with again.
	configuration string
}

// compatibilityTargets are in the order of the columns. Two and two share servers, and therefore take turns: the first
// with the last, and the others.
func compatibilityTargets(t *testing.T) (one, cluster, fronted, trusted *compatibilityTarget) {
	t.Helper()
	server, direct := observe(redistest.Standalone(t)), observe(redistest.Standalone(t))
	one = &compatibilityTarget{name: "one server", backends: server, direct: direct[0]}
	one.proxy = startProxy(t, standaloneYAML(server[0].Addr()))
	trusted = &compatibilityTarget{name: "trusted", word: "trusted", backends: server, direct: direct[0], trusted: true}
	trusted.configuration = tenantYAML("standalone", []string{server[0].Addr()}, "trusted: true, databases: [0, 1, 2]")
	trusted.proxy = startProxy(t, trusted.configuration)

	servers, node := redistest.Cluster(t, 3, 0), redistest.Cluster(t, 1, 0)
	primaries := observe(servers.Primaries...)
	cluster = &compatibilityTarget{name: "cluster", word: "cluster", backends: primaries, direct: observe(redistest.Standalone(t))[0], sharded: true}
	cluster.proxy = clusterProxy(t, servers, "")
	fronted = &compatibilityTarget{name: "as a cluster", word: "fronted", backends: primaries, direct: observe(node.Primaries...)[0], sharded: true, fronted: true}
	fronted.proxy = startProxy(t, frontendYAML("cluster", servers.Addrs()[0], anyListener))
	for _, target := range []*compatibilityTarget{one, fronted, trusted} {
		target.proxy.awaitReady(t)
	}
	return one, cluster, fronted, trusted
}

// observed is a server with the connection over which it is emptied and asked what it has been given.
type observed struct {
	*redistest.Server
	conn *redistest.Conn
}

func observe(servers ...*redistest.Server) (all []*observed) {
	for _, s := range servers {
		all = append(all, &observed{Server: s, conn: s.Dial()})
	}
	return all
}

// restart brings back a server that an example has ended.
func (s *observed) restart() {
	s.conn.Close()
	s.Restart()
	s.conn = s.Dial()
}

// clear empties the server.
func (s *observed) clear(t *testing.T) {
	t.Helper()
	// The last is refused, which counts: so also an example's own CONFIG RESETSTAT leaves another count.
	lines := []string{"FLUSHALL", "SCRIPT FLUSH", "FUNCTION FLUSH", "CONFIG RESETSTAT", "CONFIG RESETSTAT x"}
	s.conn.Send(strings.Join(lines, "\r\n") + "\r\n")
	for i := range lines {
		reply := s.conn.ReadReply()
		require.Equal(t, i == len(lines)-1, isError(reply), "%q", reply)
	}
}

// undo takes back what examples of operation have changed of a server, and returns when it has nothing left to do.
func (s *observed) undo(t *testing.T) (restarted bool) {
	t.Helper()
	if _, err := s.conn.TryDo("PING"); err != nil {
		s.restart()
		restarted = true
	}
	s.conn.Do("REPLICAOF", "NO", "ONE")
	s.conn.Do("ACL", "DELUSER", "intruder")
	require.Eventually(t, func() bool {
		info := string(s.conn.Do("INFO", "persistence"))
		return strings.Contains(info, "rdb_bgsave_in_progress:0") && strings.Contains(info, "aof_rewrite_in_progress:0") && strings.Contains(info, "aof_rewrite_scheduled:0")
	}, eventually, tick)
	return restarted
}

// ended counts for a server that does not answer any more.
const ended = -1

// calls is how often the server has been given the command.
func (s *observed) calls(of *regexp.Regexp) int {
	reply, err := s.conn.TryDo("INFO", "commandstats")
	if err != nil {
		return ended
	}
	m := of.FindSubmatch(reply)
	if m == nil {
		return 0
	}
	calls, _ := strconv.Atoi(string(m[1]))
	rejected, _ := strconv.Atoi(string(m[2]))
	return calls + rejected
}

func callsOf(cmd *command.Command) *regexp.Regexp {
	return regexp.MustCompile(`cmdstat_` + regexp.QuoteMeta(cmd.Name) + `:calls=(\d+),.*rejected_calls=(\d+)`)
}

// calls is how often each backend has been given the command.
func (c *compatibilityTarget) calls(of *regexp.Regexp) []int {
	counts := make([]int, len(c.backends))
	for i, s := range c.backends {
		counts[i] = s.calls(of)
	}
	return counts
}

// touched is how many backends have been given the command since.
func (c *compatibilityTarget) touched(cmd *command.Command, of *regexp.Regexp, before []int) (nodes int) {
	for i, n := range c.calls(of) {
		if cmd.Name == "info" && n > 0 {
			n-- // that of calls itself
		}
		if n != before[i] {
			nodes++
		}
	}
	return nodes
}

// clear empties all servers, and what the proxy remembers of scripts.
func (c *compatibilityTarget) clear(t *testing.T) {
	t.Helper()
	if c.trusted {
		c.direct.undo(t)
		if c.backends[0].undo(t) {
			require.NoError(t, c.proxy.stop())
			c.proxy = startProxy(t, c.configuration) // the examples that follow are not about a server that comes back
			c.proxy.awaitReady(t)
		}
	}
	through := redistest.Dial(t, c.proxy.Addr)
	defer through.Close()
	for _, line := range []string{"SCRIPT FLUSH", "FUNCTION FLUSH"} {
		require.Equal(t, "+OK\r\n", string(through.Do(strings.Fields(line)...)))
	}
	for _, s := range append([]*observed{c.direct}, c.backends...) {
		s.clear(t)
	}
}

// here is the line as it is run on the target: a tag "trusted:clock" is "clock" on that target, and nothing on others.
func (c *compatibilityTarget) here(l *exampleLine) *exampleLine {
	own := *l
	own.tags = nil
	for _, tag := range l.tags {
		word, of, targeted := strings.Cut(tag, ":")
		switch {
		case !targeted:
			own.tags = append(own.tags, tag)
		case word == c.word:
			own.tags = append(own.tags, of)
		}
	}
	return &own
}

// becauseOn is why replies on the target are others than the server's.
func (e *compatibilityExample) becauseOn(word string) string {
	if text := e.because[word]; text != "" {
		return text
	}
	return e.because[""]
}

// takesTurns plays all examples on targets that share servers, in both protocol versions.
func takesTurns(t *testing.T, examples map[string]*compatibilityExample, outcomes *[4][2]map[string]outcome, targets []*compatibilityTarget, of ...int) {
	t.Helper()
	for _, i := range of {
		for j, protocol := range []int{2, 3} {
			outcomes[i][j] = targets[i].runAll(t, examples, protocol)
		}
	}
}

// targetWords are what tags and explanations may begin with.
var targetWords = []string{"cluster", "fronted", "trusted"}
