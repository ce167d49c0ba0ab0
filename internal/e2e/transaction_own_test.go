package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/redistest"
)

// ownDialogues are about commands in a transaction that the proxy answers itself.
var ownDialogues = []string{ //nolint:gochecknoglobals // constant
	"MULTI|CLIENT SETNAME a|CLIENT GETNAME|SET k 1|CLIENT SETNAME b|CLIENT GETNAME|GET k|EXEC|CLIENT GETNAME",
	"MULTI|CLIENT SETNAME a|CLIENT GETNAME|EXEC|CLIENT GETNAME",
	"MULTI|CLIENT SETNAME a|DISCARD|CLIENT GETNAME",
	"MULTI|CLIENT SETNAME a|NOSUCH|EXEC|CLIENT GETNAME",
	"MULTI|CLIENT SETNAME a|GET|EXEC|CLIENT GETNAME",
	"MULTI|CLIENT SETNAME|EXEC|CLIENT GETNAME",
	"MULTI|CLIENT NOSUCH|EXEC|PING",
	"MULTI|CLIENT SETNAME \"a b\"|CLIENT GETNAME|EXEC|CLIENT GETNAME",
	"WATCH k|MULTI|CLIENT SETNAME a|EXEC|CLIENT GETNAME",
	"WATCH k|MULTI|CLIENT SETNAME a|SET k 2|CLIENT GETNAME|EXEC|CLIENT GETNAME|GET k",
	"WATCH k|SET k 5|MULTI|CLIENT SETNAME a|GET k|EXEC|CLIENT GETNAME",
	"WATCH k|SET k 5|MULTI|CLIENT SETNAME a|EXEC|CLIENT GETNAME",
	"WATCH k|MULTI|CLIENT SETNAME a|DISCARD|CLIENT GETNAME",
	"MULTI|SLOWLOG HELP|ACL WHOAMI|READONLY|READWRITE|ASKING|CLUSTER INFO|CLUSTER KEYSLOT x|LASTSAVE x|EXEC",
	"MULTI|SLOWLOG HELP|ACL WHOAMI|READONLY|READWRITE|ASKING|CLUSTER INFO|CLUSTER KEYSLOT x|EXEC",
	"MULTI|COMMAND COUNT x|EXEC",
	"MULTI|COMMAND GETKEYS SET a b|GET k|COMMAND INFO get|EXEC",
	"MULTI|CONFIG GET appendonly|SET k 3|CONFIG GET MaxMemory|GET k|EXEC",
	"MULTI|CONFIG GET|EXEC",
	"MULTI|ROLE|GET k|EXEC",
	"MULTI|LATENCY LATEST|LATENCY RESET|LATENCY GRAPH x|MEMORY USAGE nokey|OBJECT HELP|EXEC",
	"MULTI|SLOWLOG RESET|SLOWLOG LEN|SLOWLOG GET x|GET k|EXEC",
	"MULTI|CLIENT NO-EVICT on|CLIENT NO-EVICT x|CLIENT UNPAUSE|CLIENT UNBLOCK 0|CLIENT KILL ID 99999999|CLIENT KILL nobody:1|EXEC|PING",
	"MULTI|CLIENT GETREDIR|CLIENT TRACKINGINFO|GET k|CLIENT CACHING YES|EXEC",
	"MULTI|MONITOR|GET k|EXEC|PING",
	"MULTI|CLIENT REPLY ON|GET k|CLIENT REPLY x|EXEC|PING",
	"MULTI|AUTH x|GET k|AUTH a b c|AUTH nobody x|AUTH default x|GET k|EXEC|GET k",
	"MULTI|HELLO|GET k|EXEC|HGETALL k2",
	"MULTI|HELLO 3|HGETALL k2|GET nokey|EXEC|HGETALL k2|GET nokey",
	"MULTI|HELLO 2|HGETALL k2|GET nokey|EXEC|HGETALL k2|GET nokey",
	"MULTI|HELLO 2|GET nokey|HELLO 3 SETNAME me|GET nokey|CLIENT GETNAME|HELLO 2|GET nokey|CLIENT GETNAME|EXEC|GET nokey",
	"MULTI|HELLO 9|HELLO x|HELLO 3 NOSUCH|HELLO 3 SETNAME \"a b\"|HELLO 2 AUTH|HGETALL k2|EXEC|HGETALL k2",
	"MULTI|HELLO 3|DISCARD|HGETALL k2",
	"MULTI|HELLO 3|NOSUCH|EXEC|HGETALL k2",
	"MULTI|HELLO 3|EXEC|SET k 4|GET k|HELLO 2|GET nokey",
	"WATCH k|SET k 5|MULTI|HELLO 3|EXEC|HGETALL k2",
	"WATCH k|MULTI|HELLO 3|HGETALL k2|EXEC|HGETALL k2",
	"WATCH k|HELLO|MULTI|GET k|EXEC",
	"WATCH k|HELLO 3|MULTI|HGETALL k2|EXEC|HGETALL k2|GET nokey",
	"WATCH k|HELLO 3|SET k 1|MULTI|HGETALL k2|EXEC|HGETALL k2|GET nokey",
	"WATCH k|HELLO 2 SETNAME w|SET k 1|MULTI|GET k|EXEC|CLIENT GETNAME|GET nokey",
	"WATCH k|HELLO 9|HELLO 2 NOSUCH|MULTI|GET k|EXEC",
	"WATCH k|HELLO 3|UNWATCH|GET nokey|HGETALL k2",
	"WATCH k|HELLO 3|SELECT 1|SET k 1|MULTI|GET k|EXEC|GET k|DEL k|SELECT 0|GET k",
	"WATCH k|AUTH x|AUTH nobody x|AUTH default x|MULTI|SET k 7|EXEC|GET k",
	"WATCH k|AUTH default x|SET k 8|MULTI|SET k 7|EXEC|GET k",
	"WATCH k|HELLO 2|HELLO 2 AUTH default x|SET k 8|MULTI|SET k 7|EXEC|GET k",
	"MULTI|SELECT 1|SET k one|CLIENT SETNAME n|SELECT 0|GET k|SELECT 1|EXEC|GET k|DEL k|SELECT 0|GET k",
	"MULTI|SELECT 1|HELLO 3|HGETALL k2|EXEC|HGETALL k2|SET k one|SELECT 0|GET k|SELECT 1|DEL k",
	"MULTI|SELECT -1|SET k 1|EXEC|GET k",
	"MULTI|SET k a|INCR k|CLIENT SETNAME n|LPUSH k x|CLIENT GETNAME|EXEC",
	"MULTI|PUBSUB CHANNELS nothing*|PUBSUB NUMSUB a b|PUBSUB NUMPAT|PUBSUB SHARDNUMSUB|GET k|EXEC",
	"MULTI|WAIT 0 0|CLIENT SETNAME x|EXEC",
	"MULTI|CLIENT SETNAME a|RESET|CLIENT GETNAME|EXEC",
	"MULTI|CLIENT SETNAME a|MULTI|WATCH k|EXEC|CLIENT GETNAME",
	"MULTI|PUBLISH ch x|CLIENT SETNAME a|PUBLISH ch y|EXEC",
}

// oddDialogues are those in which the number of replies is not that of the commands.
var oddDialogues = []string{ //nolint:gochecknoglobals // constant
	"MULTI|SUBSCRIBE a b|GET k|EXEC",
	"MULTI|SUBSCRIBE a b|GET k|EXEC|UNSUBSCRIBE a b|GET k",
	"MULTI|SUBSCRIBE a|PSUBSCRIBE b*|SSUBSCRIBE c|CLIENT SETNAME x|SUNSUBSCRIBE c|PUNSUBSCRIBE|UNSUBSCRIBE|EXEC|GET k",
	"MULTI|UNSUBSCRIBE|PUNSUBSCRIBE x y|GET k|EXEC|GET k",
	"MULTI|SUBSCRIBE a|DISCARD|GET k",
	"MULTI|SUBSCRIBE|EXEC|GET k",
	"WATCH k|SET k 1|MULTI|SUBSCRIBE a|EXEC|GET k",
	"MULTI|CLIENT REPLY OFF|GET k|EXEC|GET k|CLIENT REPLY ON|GET k",
	"MULTI|GET k|CLIENT REPLY SKIP|GET k|EXEC|PING|PING 2",
	"MULTI|CLIENT REPLY SKIP|EXEC|PING|PING 2",
	"MULTI|CONFIG GET appendonly|CLIENT REPLY SKIP|EXEC|PING|PING 2",
	"MULTI|CLIENT REPLY OFF|CLIENT GETNAME|CLIENT REPLY ON|CLIENT GETNAME|EXEC|PING",
	"CLIENT REPLY OFF|MULTI|GET k|CLIENT REPLY ON|GET k|EXEC|PING",
	"CLIENT REPLY SKIP|MULTI|GET k|CLIENT REPLY SKIP|EXEC|PING|PING 2",
	"MULTI|GET k|CLIENT GETNAME|CLIENT REPLY SKIP|EXEC|CLIENT REPLY ON|PING 2",
	"CLIENT REPLY OFF|MULTI|CLIENT SETNAME q|EXEC|CLIENT REPLY ON|CLIENT GETNAME",
	"MULTI|CLIENT SETNAME q|QUIT|GET k",
}

var helloID = regexp.MustCompile(`\$2\r\nid\r\n:\d+`)

// playAtOnce sends the lines in one piece and reads up to the answer to a last one, or to the end.
func playAtOnce(t *testing.T, c *redistest.Conn, lines []string) string {
	t.Helper()
	const marker = "that is all"
	var batch strings.Builder
	for _, line := range lines {
		batch.WriteString(redistest.Command(words(t, line)...))
	}
	c.Send(batch.String() + redistest.Command("PING", marker))
	var all []byte
	room := make([]byte, 64<<10)
	require.NoError(t, c.NetConn().SetReadDeadline(time.Now().Add(redistest.ConnTimeout)))
	for !bytes.HasSuffix(all, []byte(marker+"\r\n")) {
		n, err := c.NetConn().Read(room)
		all = append(all, room[:n]...)
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err, "%q", all)
	}
	return helloID.ReplaceAllString(string(all), "the id")
}

// TestTransactionsOfOwnCommandsAsRedis: what the proxy answers itself is queued and executed as all else is.
func TestTransactionsOfOwnCommandsAsRedis(t *testing.T) {
	redistest.LeakCheck(t)
	p := startPair(t)
	for _, protocol := range []int{2, 3} {
		for _, dialogue := range append(ownDialogues, oddDialogues...) {
			t.Run(fmt.Sprint(protocol, " ", dialogue), func(t *testing.T) {
				lines := strings.Split(dialogue, "|")
				prepare := func() {
					for _, s := range []*redistest.Server{p.backend, p.direct} {
						s.Do("DEL", "k", "k2")
						s.Do("HSET", "k2", "f", "v")
						s.Do("SET", "k", "0")
					}
				}
				prepare()
				through, direct := p.dial(t, protocol)
				require.Equal(t, playAtOnce(t, direct, lines), playAtOnce(t, through, lines), "in one piece")
				if strings.Contains(strings.Join(oddDialogues, "\n"), dialogue) {
					return
				}
				prepare()
				through, direct = p.dial(t, protocol)
				for _, line := range lines {
					args := words(t, line)
					want, got := string(direct.Do(args...)), string(through.Do(args...))
					require.Equal(t, helloID.ReplaceAllString(want, "the id"), helloID.ReplaceAllString(got, "the id"), line)
				}
			})
		}
	}
}
