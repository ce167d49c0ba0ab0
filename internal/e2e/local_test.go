package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/redistest"
)

// dialogues reads testdata/local.txt.
func dialogues(t *testing.T) (all [][]example) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("testdata", "local.txt"))
	require.NoError(t, err)
	for block := range strings.SplitSeq(string(content), "\n\n") {
		path := filepath.Join(t.TempDir(), "dialogue")
		require.NoError(t, os.WriteFile(path, []byte(block), 0o600))
		all = append(all, readExamples(t, path))
	}
	return all
}

func TestLocalCommandsAnswerAsServer(t *testing.T) {
	t.Parallel()
	p := startPair(t)
	for i, dialogue := range dialogues(t) {
		for _, protocol := range []int{2, 3} {
			t.Run(fmt.Sprintf("%d-%s/RESP%d", i, dialogue[0].args[0], protocol), func(t *testing.T) {
				p.flush(t)
				through, direct := p.dial(t, protocol)
				for i := range dialogue {
					e := &dialogue[i]
					e.requireSame(t, direct.Do(e.args...), through.Do(e.args...))
				}
			})
		}
	}
}

// TestLocalCommandsAnswerInOrder sends each dialogue in one write, with forwarded commands between its lines: what the
// proxy answers by itself must not overtake what a node answers.
func TestLocalCommandsAnswerInOrder(t *testing.T) {
	t.Parallel()
	p := startPair(t)
	for _, dialogue := range dialogues(t) {
		p.flush(t)
		through, direct := p.dial(t, 2)
		var batch strings.Builder
		for i := range dialogue {
			batch.WriteString(redistest.Command("INCR", "counter"))
			batch.WriteString(redistest.Command(dialogue[i].args...))
		}
		through.Send(batch.String())
		direct.Send(batch.String())
		counter := example{text: "INCR counter"}
		for i := range dialogue {
			counter.requireSame(t, direct.ReadReply(), through.ReadReply())
			dialogue[i].requireSame(t, direct.ReadReply(), through.ReadReply())
		}
	}
}

func TestHelloTellsWhatClientsReadFromIt(t *testing.T) {
	t.Parallel()
	p := startPair(t)
	id := regexp.MustCompile(`(\$2\r\nid\r\n):\d+\r\n`)
	for _, version := range []string{"2", "3"} {
		through, direct := p.dial(t, 2)
		want := id.ReplaceAllString(string(direct.Do("HELLO", version)), "$1:1\r\n")
		got := id.ReplaceAllString(string(through.Do("HELLO", version)), "$1:1\r\n")
		require.Equal(t, want, got)
	}
}

func TestQuitClosesAndDropsWhatFollows(t *testing.T) {
	t.Parallel()
	p := startPair(t)
	through, direct := p.dial(t, 2)
	for _, c := range []*redistest.Conn{through, direct} {
		c.Send("SET q 1\r\nQUIT ignored\r\nSET q 2\r\n")
		c.RequireReply("+OK\r\n")
		c.RequireReply("+OK\r\n")
		c.RequireClosed()
	}
	require.Equal(t, "$1\r\n1\r\n", string(p.backend.Do("GET", "q")))
	require.Equal(t, "$1\r\n1\r\n", string(p.direct.Do("GET", "q")))
}

func TestTimeIsTheTime(t *testing.T) {
	t.Parallel()
	p := startPair(t)
	through, _ := p.dial(t, 2)
	var seconds, micros int64
	var a, b int
	_, err := fmt.Sscanf(string(through.Do("TIME")), "*2\r\n$%d\r\n%d\r\n$%d\r\n%d\r\n", &a, &seconds, &b, &micros)
	require.NoError(t, err)
	require.WithinDuration(t, time.Now(), time.Unix(seconds, micros*1000), time.Minute)
}

func TestInfoHasWhatFrameworksLookFor(t *testing.T) {
	t.Parallel()
	p := startPair(t)
	through, direct := p.dial(t, 2)
	version := regexp.MustCompile(`redis_version:(\S+)\r\n`)
	want := version.FindString(string(direct.Do("INFO", "server")))
	through.Do("SET", "k", "v")
	all := string(through.Do("INFO"))
	require.Contains(t, all, want)
	require.Contains(t, all, "\r\nrole:master\r\n")
	require.Contains(t, all, "\r\nredis_mode:standalone\r\n")
	require.Contains(t, all, "\r\ntenant:acme\r\n")
	require.Contains(t, all, "\r\ncommands_string:1\r\n")
	require.Contains(t, all, "\r\nconnected_clients:1\r\n")

	section := string(through.Do("INFO", "replication"))
	require.Contains(t, section, "role:master\r\n")
	require.NotContains(t, section, "redis_version")
	require.Equal(t, "$0\r\n\r\n", string(through.Do("INFO", "nosuchsection")))
	through.Do("HELLO", "3")
	require.Regexp(t, `^=\d+\r\ntxt:# Server\r\nredis_version:`, string(through.Do("INFO", "SERVER")))
}

func TestClientHintsAreAccepted(t *testing.T) {
	t.Parallel()
	p := startPair(t)
	through, _ := p.dial(t, 2)
	require.Equal(t, "+OK\r\n", string(through.Do("CLIENT", "SETINFO", "LIB-NAME", "test")))
	require.Equal(t, "+OK\r\n", string(through.Do("CLIENT", "SETINFO", "lib-ver", "1.2.3")))
	require.Equal(t, "+OK\r\n", string(through.Do("CLIENT", "NO-TOUCH", "on")))
	require.Contains(t, string(through.Do("CLIENT", "INFO")), " lib-name=test lib-ver=1.2.3\n")
	require.Equal(t, "-ERR Unrecognized option 'what'\r\n", string(through.Do("CLIENT", "SETINFO", "what", "x")))
	require.Equal(t, "-ERR lib-name cannot contain spaces, newlines or special characters.\r\n",
		string(through.Do("CLIENT", "SETINFO", "lib-name", "a b")))
}

func TestClientListShowsTheTenantsClients(t *testing.T) {
	t.Parallel()
	p := startPair(t)
	through, _ := p.dial(t, 2)
	other, _ := p.dial(t, 3)
	require.Equal(t, "+OK\r\n", string(through.Do("CLIENT", "SETNAME", "one")))
	require.Equal(t, "+OK\r\n", string(other.Do("CLIENT", "SETNAME", "two")))
	require.Equal(t, "+OK\r\n", string(other.Do("SELECT", "1")))
	list := string(through.Do("CLIENT", "LIST"))
	require.Regexp(t, `id=\d+ addr=127\.0\.0\.1:\d+ laddr=127\.0\.0\.1:\d+ fd=-?\d+ name=one age=\d+ idle=0 flags=N db=0 .*cmd=client\|list user=default .*resp=2`, list)
	require.Regexp(t, `name=two .* db=1 .*cmd=select user=default .*resp=3`, list)

	var id int
	_, err := fmt.Sscanf(string(other.Do("CLIENT", "ID")), ":%d\r\n", &id)
	require.NoError(t, err)
	one := string(through.Do("CLIENT", "LIST", "ID", fmt.Sprint(id)))
	require.Contains(t, one, "name=two")
	require.NotContains(t, one, "name=one")
	require.Contains(t, string(other.Do("CLIENT", "INFO")), fmt.Sprintf("id=%d ", id))
}

func TestCommandsThatAreNotServedLeaveTheConnection(t *testing.T) {
	t.Parallel()
	p := startPair(t)
	through, _ := p.dial(t, 2)
	for _, line := range []string{
		"CONFIG SET maxmemory 1", "CONFIG RESETSTAT", "CONFIG REWRITE", "DEBUG SLEEP 0", "SHUTDOWN NOSAVE", "REPLICAOF NO ONE", "ACL LIST",
		"ACL SETUSER eve", "ACL DRYRUN default PING", "FAILOVER", "SLAVEOF NO ONE", "SAVE", "SYNC", "PSYNC ? -1",
		"BGSAVE", "MODULE LIST", "SCRIPT DEBUG YES", "SWAPDB 0 1",
	} {
		require.Regexp(t, `^-NOPERM '[a-z|]+' concerns the operation of the backend and is not available through this proxy\r\n$`, string(through.Do(words(t, line)...)), line)
	}
	require.Equal(t, "+PONG\r\n", string(through.Do("PING")))
}

// TestScriptsLeaveNothingBehind: what a script does to its connection must not reach the next command on it.
func TestScriptsLeaveNothingBehind(t *testing.T) {
	t.Parallel()
	p := startPair(t)
	for _, line := range []string{
		"EVAL \"redis.call('SELECT', 2) return redis.call('SET', 'x', 'in-2')\" 0", "GET x", "EVAL \"redis.setresp(3) return 1\" 0", "HGETALL nosuch",
		"EVAL \"return redis.call('GET', 'x')\" 0", "EVAL \"return redis.call('CLIENT', 'SETNAME', 'x')\" 0", "EVAL \"return redis.call('HELLO', '3')\" 0",
		"EVAL \"return redis.call('MULTI')\" 0", "EVAL \"return redis.call('SUBSCRIBE', 'c')\" 0", "EVAL \"return redis.call('AUTH', 'x')\" 0",
		"EVAL \"return redis.call('BLPOP', 'nosuch', 0)\" 0", "EVAL \"return redis.call('RESET')\" 0", "GET x",
	} {
		through, direct := p.dial(t, 2)
		e := example{text: line}
		e.requireSame(t, direct.Do(words(t, line)...), through.Do(words(t, line)...))
		e.requireSame(t, direct.Do("GET", "x"), through.Do("GET", "x"))
	}
}
