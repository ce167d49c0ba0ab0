package e2e

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/redistest"
)

// TestTransactionsAsRedis plays dialogues about transactions through the proxy and directly and compares every byte.
func TestTransactionsAsRedis(t *testing.T) {
	t.Parallel()
	dialogues := []string{
		"MULTI|SET k 1|INCR k|GET k|EXEC|GET k",
		"MULTI|EXEC",
		"MULTI|DISCARD|GET k",
		"EXEC|DISCARD|PING",
		"MULTI|MULTI|SET k 2|EXEC",
		"MULTI|NOSUCH x|SET k 3|EXEC|GET k",
		"MULTI|GET|EXEC",
		"MULTI|SET k a|INCR k|GET k|EXEC",
		"MULTI|LPUSH l a|INCR l|LRANGE l 0 -1|EXEC",
		"MULTI|PING|ECHO x|EXEC",
		"WATCH k|MULTI|SET k 5|EXEC",
		"WATCH k|SET k 6|MULTI|SET k 7|EXEC|GET k",
		"WATCH k|UNWATCH|SET k 8|MULTI|GET k|EXEC",
		"WATCH k|MULTI|WATCH j|EXEC",
		"WATCH k|MULTI|DISCARD|SET k 9|MULTI|GET k|EXEC",
		"WATCH a b c|MULTI|EXEC",
		"WATCH k|SET k 1|MULTI|EXEC",
		"UNWATCH|MULTI|UNWATCH|SET k 1|EXEC",
		"MULTI|BLPOP nolist 0|EXEC",
		"MULTI|PUBLISH ch x|EXEC",
		"MULTI|EVAL return(redis.call('GET',KEYS[1])) 1 k|EXEC",
		"MULTI|SET k x|RESET|GET k",
		"MULTI|EVALSHA abc 0|EXEC",
		"SET k 0|MULTI|SELECT 1|SET k 1|EXEC|GET k|SELECT 0|GET k|SELECT 1|DEL k",
		"MULTI|SELECT 1|SELECT 2|SET k 2|DISCARD|CLIENT GETNAME|GET k",
		"MULTI|SELECT 1|SET k 1|NOSUCH|EXEC|GET k",
		"MULTI|SELECT x|SELECT -1|SET k 1|EXEC|GET k",
		"MULTI|SELECT 1|PUBLISH ch x|SELECT x|EXEC|SET k 1|DEL k|SELECT 0|GET k",
		"SELECT 1|SET k 1|MULTI|SELECT 0|GET k|EXEC|SELECT 1|GET k|DEL k",
		"WATCH k|SELECT 1|SET k 1|MULTI|GET k|EXEC|GET k|DEL k|SELECT 0|GET k",
		"WATCH k|SET k 7|SELECT 1|MULTI|GET k|EXEC|SELECT 0|GET k",
		"WATCH k|SELECT 1|WATCH k|SET k 1|MULTI|GET k|EXEC|DEL k",
		"WATCH k|MULTI|SELECT 2|SET k 2|EXEC|GET k|DEL k|MULTI|SELECT 0|GET k|EXEC",
		"WATCH k|SELECT 1|UNWATCH|SET k 1|SELECT 0|GET k|SELECT 1|GET k|DEL k",
		"MULTI|SELECT|EXEC",
	}
	direct, backend := redistest.Standalone(t), redistest.Standalone(t)
	p := startProxy(t, standaloneYAML(backend.Addr()))
	for _, hello := range []string{"HELLO 2", "HELLO 3"} {
		for _, dialogue := range dialogues {
			t.Run(hello+" "+dialogue, func(t *testing.T) {
				through, straight := redistest.Dial(t, p.Addr), redistest.Dial(t, direct.Addr())
				through.Do(strings.Fields(hello)...)
				straight.Do(strings.Fields(hello)...)
				through.Do("DEL", "k", "l")
				straight.Do("DEL", "k", "l")
				for _, line := range strings.Split(dialogue, "|") {
					args := words(t, line)
					require.Equal(t, string(straight.Do(args...)), string(through.Do(args...)), line)
				}
				through.Close()
				straight.Close()
			})
		}
	}
}
