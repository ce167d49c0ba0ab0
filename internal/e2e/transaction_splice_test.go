package e2e

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/redistest"
)

// TestOwnAnswersInLongExecReplies: what the proxy answers itself stands at its place of EXEC's reply however long that is,
// and what was published is counted right.
func TestOwnAnswersInLongExecReplies(t *testing.T) {
	redistest.LeakCheck(t)
	p := startPair(t)
	listeners := []*redistest.Conn{redistest.Dial(t, p.proxy.Addr), redistest.Dial(t, p.proxy.Addr), redistest.Dial(t, p.direct.Addr()), redistest.Dial(t, p.direct.Addr())}
	for _, c := range listeners {
		require.Equal(t, "*3\r\n$9\r\nsubscribe\r\n$2\r\nch\r\n:1\r\n", string(c.Do("SUBSCRIBE", "ch")))
	}
	for _, size := range []int{10, 33 << 10, 3 << 20} {
		for _, protocol := range []int{2, 3} {
			through, direct := p.dial(t, protocol)
			lines := [][]string{
				{"SET", "k", strings.Repeat("v", size)}, {"DEL", "l"}, {"RPUSH", "l", "a", strings.Repeat("b", size/2), "c"},
				{"MULTI"}, {"CLIENT", "SETNAME", "one"}, {"PUBLISH", "ch", "1"}, {"GET", "k"}, {"CLIENT", "GETNAME"}, {"PUBLISH", "ch", "2"},
				{"LRANGE", "l", "0", "-1"}, {"CONFIG", "GET", "appendonly"}, {"CLIENT", "SETNAME", "two"}, {"GET", "k"}, {"GET", "nokey"},
				{"CLIENT", "GETNAME"}, {"PUBLISH", "ch", "3"}, {"EXEC"}, {"CLIENT", "GETNAME"},
				{"MULTI"}, {"GET", "k"}, {"GET", "k"}, {"PUBLISH", "ch", "4"}, {"EXEC"}, {"GET", "k"}, // counted, and not waited for
				{"WATCH", "k"}, {"MULTI"}, {"GET", "k"}, {"CLIENT", "SETNAME", "three"}, {"GET", "k"}, {"SLOWLOG", "HELP"}, {"EXEC"}, {"CLIENT", "GETNAME"},
			}
			var batch strings.Builder
			for _, line := range lines {
				batch.WriteString(redistest.Command(line...))
			}
			through.Send(batch.String())
			direct.Send(batch.String())
			for _, line := range lines {
				want, got := string(direct.ReadReply()), string(through.ReadReply())
				require.True(t, want == got, "%d bytes, %s: %q, not %q", size, line[0], cut(got), cut(want))
			}
		}
	}
}

func cut(reply string) string { return reply[:min(len(reply), 300)] }

// TestManyOwnCommandsInOneTransaction: thousands of them are run in their order, for a client that reads late, too.
func TestManyOwnCommandsInOneTransaction(t *testing.T) {
	redistest.LeakCheck(t)
	p := startPair(t, "clients: {output_buffer: 256KiB}")
	through, direct := p.dial(t, 2)
	const many = 3000
	var batch strings.Builder
	batch.WriteString(redistest.Command("MULTI"))
	for i := range many {
		batch.WriteString(redistest.Command("CLIENT", "SETNAME", fmt.Sprint("name", i)))
		batch.WriteString(redistest.Command("INCR", "n"))
		batch.WriteString(redistest.Command("CLIENT", "GETNAME"))
		batch.WriteString(redistest.Command("ACL", "CAT")) // half a kilobyte
	}
	batch.WriteString(redistest.Command("EXEC") + redistest.Command("CLIENT", "GETNAME"))
	sent := make(chan error, 1)
	go func() { sent <- through.TrySend(batch.String()) }()
	direct.Send(batch.String())
	for i := range 4*many + 3 {
		want, got := string(direct.ReadReply()), string(through.ReadReply())
		require.True(t, want == got, "reply %d: %q, not %q", i, cut(got), cut(want))
	}
	require.NoError(t, <-sent)
}

// TestAnswersOfAllLoopsInTransactions: what takes more than the session's own loop is waited for, in its place.
func TestAnswersOfAllLoopsInTransactions(t *testing.T) {
	redistest.LeakCheck(t)
	p := startPair(t)
	for _, protocol := range []int{2, 3} {
		through, _ := p.dial(t, protocol)
		through.Send(redistest.Command("MULTI") + redistest.Command("SET", "k", "1") + redistest.Command("CLIENT", "SETNAME", "me") +
			redistest.Command("INFO", "keyspace") + redistest.Command("CLIENT", "LIST") + redistest.Command("GET", "k") + redistest.Command("CLIENT", "INFO") +
			redistest.Command("SLOWLOG", "GET") + redistest.Command("CLIENT", "PAUSE", "0") + redistest.Command("EXEC") + redistest.Command("PING"))
		for range 9 {
			through.ReadReply()
		}
		reply := string(through.ReadReply())
		require.Regexp(t, regexp.MustCompile(`(?s)^\*8\r\n\+OK\r\n\+OK\r\n.*db0:keys=1,.* name=me .*\r\n\$1\r\n1\r\n.* name=me .* flags=x .* multi=8 .*\r\n\*0\r\n\+OK\r\n$`), reply)
		require.Equal(t, "+PONG\r\n", string(through.ReadReply()))
	}
}

// TestForeignDatabaseInTransaction: SELECT of a database that is not the tenant's fails at EXEC, alone.
func TestForeignDatabaseInTransaction(t *testing.T) {
	redistest.LeakCheck(t)
	p := startPair(t)
	for _, watch := range []bool{false, true} {
		c := redistest.Dial(t, p.proxy.Addr)
		if watch {
			require.Equal(t, "+OK\r\n", string(c.Do("WATCH", "k")))
		}
		for _, line := range []string{"MULTI", "SET k 1", "SELECT 9", "GET k", "SELECT 1", "GET k", "SELECT 9"} {
			want := "+QUEUED\r\n"
			if line == "MULTI" {
				want = "+OK\r\n"
			}
			require.Equal(t, want, string(c.Do(strings.Fields(line)...)), line)
		}
		const refused = "-NOPERM this tenant may not use database 9\r\n"
		require.Equal(t, "*6\r\n+OK\r\n"+refused+"$1\r\n1\r\n+OK\r\n$-1\r\n"+refused, string(c.Do("EXEC")))
		require.Equal(t, "$-1\r\n", string(c.Do("GET", "k")), "in database 1")
		require.Equal(t, "+OK\r\n", string(c.Do("SELECT", "0")))
		require.Equal(t, "$1\r\n1\r\n", string(c.Do("GET", "k")))
		require.Equal(t, "+OK\r\n", string(c.Do("MULTI")))
		require.Equal(t, "+QUEUED\r\n", string(c.Do("SELECT", "9")))
		require.Equal(t, "*1\r\n"+refused, string(c.Do("EXEC")))
	}
}

// TestSubscribingTransactionHears: a client that subscribes and publishes in one transaction is counted and gets it.
func TestSubscribingTransactionHears(t *testing.T) {
	redistest.LeakCheck(t)
	p := startPair(t)
	c, _ := p.dial(t, 3)
	c.Send(redistest.Command("MULTI") + redistest.Command("PUBLISH", "ch", "early") + redistest.Command("SUBSCRIBE", "ch") + redistest.Command("SET", "k", "1") +
		redistest.Command("PUBLISH", "ch", "late") + redistest.Command("EXEC"))
	for range 5 {
		c.ReadReply()
	}
	require.Equal(t, "*4\r\n:0\r\n>3\r\n$9\r\nsubscribe\r\n$2\r\nch\r\n:1\r\n+OK\r\n:1\r\n", string(c.ReadReply()))
	require.Equal(t, ">3\r\n$7\r\nmessage\r\n$2\r\nch\r\n$4\r\nlate\r\n", string(c.ReadReply()))
}
