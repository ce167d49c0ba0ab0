package e2e

import (
	"crypto/sha1" //nolint:gosec // what Redis names scripts by
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/redistest"
)

// longer is more than the stream threshold of the configurations here.
const longer = 300_000

// TestLongCommandsThatAreGathered: what cannot be passed on while it is received is answered as a server answers it.
func TestLongCommandsThatAreGathered(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("g", longer)
	comment := "--" + long + "\n"
	library := "#!lua name=long\n" + comment + "redis.register_function('long', function(keys) return keys[1] end)"
	anywhere := [][]string{
		{"MULTI"},
		{"SET", "k", long},
		{"STRLEN", "k"},
		{"EVAL", comment + "return redis.call('STRLEN', KEYS[1])", "1", "k"},
		{"GET", "k"},
		{"EXEC"},
		{"MULTI"},
		{"SET", "k", long, "WRONG"},
		{"DISCARD"},
		{"STRLEN", "k"},
		{"MULTI"},
		{"APPEND", "k", long},
		{"NOSUCH", long[:100]},
		{"EXEC"},
		{"STRLEN", "k"},
		{"ECHO", long},
		{"BLPOP", long, "k2", "0.01"},
		{"SUBSCRIBE", long},
		{"PING"},
		{"UNSUBSCRIBE", long},
		{"WATCH", long},
		{"UNWATCH"},
	}
	keyless := [][]string{
		{"SCRIPT", "LOAD", comment + "return 7"},
		{"EVALSHA", sha1Hex(comment + "return 7"), "0"},
		{"EVAL", comment + "return KEYS[1]", "1", "k"},
		{"FUNCTION", "LOAD", library},
		{"FCALL", "long", "1", "a"},
		{"FCALL", "long", "1", "b"},
		{"FUNCTION", "LOAD", library},
		{"SCRIPT", "LOAD", "return (" + long},
		{"MSET", "a", long, "b", "2", "c", long},
		{"MGET", "a", "b", "c"},
		{"DEL", "a", "b", "c", long},
	}
	t.Run("standalone", func(t *testing.T) {
		t.Parallel()
		p := startPair(t, "stream_threshold: 64KiB")
		through, direct := p.dial(t, 2)
		playSame(t, through, direct, append(anywhere, keyless...))
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		servers := redistest.Cluster(t, 3, 0)
		p := clusterProxy(t, servers, "")
		direct := redistest.Standalone(t)
		playSame(t, hello(t, p.Addr, 3), hello(t, direct.Addr(), 3), append(anywhere[:16:16], keyless...))
		for _, s := range servers.Primaries {
			require.Equal(t, "*1\r\n:1\r\n", string(s.Do("SCRIPT", "EXISTS", sha1Hex(comment+"return 7"))))
		}
	})
}

// TestGatheredCommandsAreBounded: what is longer than the bound is dropped as it comes, and the client is told.
func TestGatheredCommandsAreBounded(t *testing.T) {
	t.Parallel()
	servers := redistest.Cluster(t, 3, 0)
	p := clusterProxy(t, servers, "")
	c := redistest.Dial(t, p.Addr)
	huge := strings.Repeat("h", 16<<20)
	for _, args := range [][]string{{"SCRIPT", "LOAD", huge}, {"EVAL", huge, "1", "k"}, {"ECHO", huge}} {
		require.Contains(t, string(c.Do(args...)), "-ERR this command is longer than 16 MiB, ", args[0])
	}
	require.Equal(t, "+OK\r\n", string(c.Do("MULTI")))
	require.Equal(t, "+QUEUED\r\n", string(c.Do("SET", "k", huge)))
	require.Equal(t, "-ERR the transaction is longer than 64 MiB\r\n", string(c.Do("SET", "k", strings.Repeat(huge, 4))))
	require.Equal(t, "-EXECABORT Transaction discarded because of previous errors.\r\n", string(c.Do("EXEC")))
	require.Equal(t, ":0\r\n", string(c.Do("EXISTS", "k")))
}

// playSame sends each line to both sides and requires the same reply.
func playSame(t *testing.T, through, direct *redistest.Conn, lines [][]string) {
	t.Helper()
	for i, args := range lines {
		want, got := string(direct.Do(args...)), string(through.Do(args...))
		if want != got {
			t.Errorf("line %d, %s\n  direct:  %s\n  through: %s", i, brief(fmt.Sprint(args)), brief(want), brief(got))
		}
	}
}

// brief shows a text that may be long.
func brief(text string) string {
	if len(text) > 200 {
		return fmt.Sprintf("%q... (%d bytes)", text[:200], len(text))
	}
	return fmt.Sprintf("%q", text)
}

func sha1Hex(body string) string {
	sum := sha1.Sum([]byte(body)) //nolint:gosec // what Redis names scripts by
	return hex.EncodeToString(sum[:])
}
