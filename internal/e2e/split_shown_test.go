package e2e

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/redistest"
)

// splitCommands go to several nodes in parts.
var splitCommands = []string{
	"MSET a 1 b 2 c 3", "MGET c a b", "EXISTS a b c", "TOUCH a b c", "DEL a b c nosuch", "UNLINK a b c",
	"DBSIZE", "KEYS *", "SCRIPT LOAD \"return 1\"", "SCRIPT EXISTS a b", "FLUSHALL", "PUBLISH a b", "RANDOMKEY", "SCAN 0",
}

// TestSplitCommandsAreShownOnce: the slow log and monitors tell of what the client sent, not of its parts.
func TestSplitCommandsAreShownOnce(t *testing.T) {
	t.Parallel()
	servers := redistest.Cluster(t, 3, 0)
	p := clusterProxy(t, servers, "", "slowlog: {threshold: 0s}")
	c, monitor := redistest.Dial(t, p.Addr), redistest.Dial(t, p.Addr)
	require.Equal(t, "+OK\r\n", string(monitor.Do("MONITOR")))
	for _, line := range splitCommands {
		args := words(t, line)
		require.NotEqual(t, byte('-'), c.Do("SLOWLOG", "RESET")[0])
		require.NotEqual(t, byte('-'), c.Do(args...)[0], line)
		log := string(c.Do("SLOWLOG", "GET"))
		require.True(t, strings.HasPrefix(log, "*1\r\n"), "%s: %q", line, log)
		require.Contains(t, log, redistest.Command(args...), line)
		shown := readUntil(t, monitor, `"`+args[0]+`"`)
		quoted := `"` + strings.Join(args, `" "`) + `"`
		require.Contains(t, shown, quoted)
	}
	c.Do("PING")
	rest := readUntil(t, monitor, `"PING"`)
	for _, line := range splitCommands {
		require.NotContains(t, rest, `"`+words(t, line)[0]+`"`, "shown twice")
	}
}

// TestSplitCommandsLastAsLongAsTheirSlowestPart: one shard is stopped meanwhile.
func TestSplitCommandsLastAsLongAsTheirSlowestPart(t *testing.T) {
	t.Parallel()
	servers := redistest.Cluster(t, 3, 0)
	p := clusterProxy(t, servers, "", "slowlog: {threshold: 0s}")
	c := redistest.Dial(t, p.Addr)
	keys := []string{"MGET", keyOfShard(0, "k"), keyOfShard(1, "k"), keyOfShard(2, "k")}
	c.Do(keys...)
	c.Do("SLOWLOG", "RESET")
	servers.Primaries[1].Stop()
	c.SendCommand(keys...)
	require.Eventually(t, func() bool { return p.metric(t, "sluice_inflight_calls") > 0 }, eventually, tick)
	begun := time.Now() // after the command was read
	require.Eventually(t, func() bool { return time.Since(begun) > 50*time.Millisecond }, eventually, tick)
	servers.Primaries[1].Continue()
	require.Equal(t, "*3\r\n$-1\r\n$-1\r\n$-1\r\n", string(c.ReadReply()))
	found := regexp.MustCompile(`^\*\d+\r\n\*6\r\n:\d+\r\n:\d+\r\n:(\d+)\r\n`).FindStringSubmatch(string(c.Do("SLOWLOG", "GET", "1")))
	require.Len(t, found, 2)
	micros, err := strconv.Atoi(found[1])
	require.NoError(t, err)
	require.GreaterOrEqual(t, micros, 50_000)
}
