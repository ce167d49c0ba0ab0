package e2e

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/redistest"
)

// trackingDialogues are played through the proxy and directly. Each step is a command of the tracking client; "<" reads
// one message that is due, "! command" is another client's.
var trackingDialogues = []string{
	// What is refused, and how.
	"CLIENT TRACKINGINFO|CLIENT GETREDIR|CLIENT CACHING yes|CLIENT TRACKING|CLIENT TRACKING foo|CLIENT TRACKING ON foo|CLIENT TRACKING ON PREFIX",
	"CLIENT TRACKING ON REDIRECT|CLIENT TRACKING ON REDIRECT x|CLIENT TRACKING ON REDIRECT 0|CLIENT TRACKING ON REDIRECT 99999999 foo|CLIENT TRACKING OFF REDIRECT 99999999",
	"CLIENT TRACKING ON PREFIX a|CLIENT TRACKING ON BCAST OPTIN|CLIENT TRACKING ON BCAST OPTOUT|CLIENT TRACKING ON OPTIN OPTOUT|CLIENT TRACKINGINFO",
	"CLIENT TRACKING ON BCAST PREFIX cc PREFIX ccc|CLIENT TRACKING ON BCAST PREFIX b PREFIX a|CLIENT TRACKINGINFO|CLIENT TRACKING ON BCAST PREFIX ab|CLIENT TRACKING ON BCAST PREFIX c|CLIENT TRACKINGINFO|CLIENT TRACKING ON|CLIENT TRACKING ON BCAST|CLIENT TRACKINGINFO",
	"CLIENT TRACKING ON OPTIN|CLIENT CACHING no|CLIENT CACHING foo|CLIENT TRACKING ON OPTOUT|CLIENT TRACKING ON BCAST|CLIENT TRACKING ON|CLIENT TRACKINGINFO|CLIENT TRACKING ON OPTOUT|CLIENT CACHING yes|CLIENT TRACKINGINFO",
	"CLIENT TRACKING OFF|CLIENT TRACKING on NoLoop|CLIENT TRACKINGINFO|CLIENT GETREDIR|CLIENT TRACKING off|CLIENT TRACKINGINFO|CLIENT GETREDIR",
	// The default mode.
	"CLIENT TRACKING ON|GET k|! SET k 1|<|! SET k 2|GET k|! DEL k|<|PING",
	"CLIENT TRACKING ON|MGET a b c|! MSET a 1 c 3|<|<|! SET b 1|<",
	"CLIENT TRACKING ON|GET k|SET k 1|<|GET k|CLIENT TRACKING OFF|! SET k 2|GET k",
	"CLIENT TRACKING ON|GET k|! FLUSHALL|<|GET k|! FLUSHDB|<",
	"CLIENT TRACKING ON|SELECT 1|GET k|! SET k 1|<|SELECT 0|GET k|! SET k 2|<",
	"CLIENT TRACKING ON|GET k|RESET|! SET k 1|GET k|CLIENT TRACKINGINFO",
	"GET k|CLIENT TRACKING ON|! SET k 1|GET other|! SET other 1|<",
	// OPTIN and OPTOUT.
	"CLIENT TRACKING ON OPTIN|GET a|CLIENT CACHING yes|CLIENT TRACKINGINFO|GET b|CLIENT TRACKINGINFO|GET c|! MSET a 1 b 2 c 3|<|PING",
	"CLIENT TRACKING ON OPTIN|CLIENT CACHING yes|PING|GET a|! SET a 1|CLIENT TRACKINGINFO",
	"CLIENT TRACKING ON OPTIN|CLIENT CACHING yes|CLIENT ID|MGET a b|! MSET a 1 b 1|<|<",
	"CLIENT TRACKING ON OPTIN|CLIENT CACHING yes|nonsense|GET a|! SET a 1|GET a",
	"CLIENT TRACKING ON OPTIN|CLIENT CACHING yes|MULTI|GET a|GET b|EXEC|GET c|! MSET a 1 b 1 c 1|<|<|PING",
	"CLIENT TRACKING ON OPTIN|MULTI|GET a|CLIENT CACHING yes|GET b|EXEC|! MSET a 1 b 1|<|PING",
	"CLIENT TRACKING ON OPTIN|CLIENT CACHING yes|MULTI|DISCARD|GET a|! SET a 1|PING",
	"CLIENT TRACKING ON OPTOUT|GET a|CLIENT CACHING no|CLIENT TRACKINGINFO|GET b|CLIENT TRACKINGINFO|GET c|! MSET b 1 c 1 a 1|<|<|PING",
	"CLIENT TRACKING ON OPTIN|CLIENT CACHING yes|PUBLISH nobody x|CLIENT CACHING yes|MULTI|PUBLISH nobody x|GET a|EXEC|! SET a 1|<",
	// NOLOOP.
	"CLIENT TRACKING ON NOLOOP|GET a|SET a 1|GET a|! SET a 2|<|PING",
	"CLIENT TRACKING ON BCAST NOLOOP|SET a 1|! SET a 2|<|MULTI|SET a 3|EXEC|PING",
	// BCAST.
	"CLIENT TRACKING ON BCAST|! SET a 1|<|! SET b 1|<|SET c 1|<|CLIENT TRACKING OFF|! SET a 2|PING",
	"CLIENT TRACKING ON BCAST PREFIX user: PREFIX item:|! MSET other 1 x:user: 1|! SET user:1 1|<|! SET item:1 1|<|CLIENT TRACKING ON BCAST PREFIX n|! SET news 1|<|! SET user:1 2|<|PING",
	"CLIENT TRACKING ON BCAST|! FLUSHALL|<|MULTI|SET a 1|SET b 1|EXEC|<",
	// Transactions, blocking commands and subscriptions of a tracking client.
	"CLIENT TRACKING ON|WATCH k|! SET k 1|MULTI|GET k|EXEC|GET k|! SET k 2|<|PING",
	"CLIENT TRACKING ON|WATCH k|MULTI|GET k|SET j 1|EXEC|! SET k 2|<|WATCH k|UNWATCH|! SET k 3|MULTI|PING|EXEC",
	"CLIENT TRACKING ON|GET k|WATCH k|MULTI|GET k|DISCARD|! SET k 1|<|MULTI|GET k|EXEC",
	"CLIENT TRACKING ON|WATCH k|SELECT 1|GET k|MULTI|SET k 1|EXEC|<|SET j 1|SELECT 0|GET j|MULTI|SELECT 1|GET j|EXEC|GET j|SELECT 0|PING",
	"CLIENT TRACKING ON|! RPUSH l a b c|BLPOP l 0|LRANGE l 0 -1|BLPOP l 0|<|! RPUSH l d|BRPOP l none 0",
	"CLIENT TRACKING ON|GET k|SUBSCRIBE news|! SET k 1|<|! PUBLISH news hello|<",
	// CLIENT REPLY silences replies, not messages.
	"CLIENT TRACKING ON|GET k|@CLIENT REPLY OFF|! SET k 1|<|CLIENT REPLY ON",
	"CLIENT TRACKING ON BCAST|HELLO 2|! SET k 1|GET k|HELLO 3|! SET k 2|<",
}

func TestTrackingAsRedis(t *testing.T) {
	t.Parallel()
	p := startPair(t)
	for _, dialogue := range trackingDialogues {
		t.Run(dialogue, func(t *testing.T) {
			p.flush(t)
			want := playTracking(t, p.direct.Addr(), p.direct.Addr(), 3, dialogue)
			require.Equal(t, want, playTracking(t, p.proxy.Addr, p.backend.Addr(), 3, dialogue))
		})
	}
	for _, dialogue := range trackingDialogues {
		if strings.Contains(dialogue, "<") {
			continue
		}
		t.Run("RESP2 "+dialogue, func(t *testing.T) {
			p.flush(t)
			want := playTracking(t, p.direct.Addr(), p.direct.Addr(), 2, dialogue)
			require.Equal(t, want, playTracking(t, p.proxy.Addr, p.backend.Addr(), 2, dialogue))
		})
	}
}

// playTracking returns what the tracking client hears.
func playTracking(t *testing.T, addr, writers string, protocol int, dialogue string) string {
	t.Helper()
	c, other := hello(t, addr, protocol), redistest.Dial(t, writers)
	defer c.Close()
	defer other.Close()
	var heard strings.Builder
	for _, step := range strings.Split(dialogue, "|") {
		switch {
		case step == "<":
			heard.Write(c.ReadReply())
		case strings.HasPrefix(step, "! "):
			other.Do(strings.Fields(step)[1:]...)
		case strings.HasPrefix(step, "@"):
			c.SendCommand(strings.Fields(step[1:])...)
		case strings.HasPrefix(step, "CLIENT ID"), strings.HasPrefix(step, "HELLO"):
			heard.WriteByte(c.Do(strings.Fields(step)...)[0])
		default:
			heard.Write(c.Do(strings.Fields(step)...))
		}
		heard.WriteString(" | ")
	}
	return heard.String()
}

var numbers = regexp.MustCompile(`:\d+`)

// TestRedirectedInvalidations has one client track and another one, which may be on another loop, hear of it.
func TestRedirectedInvalidations(t *testing.T) {
	t.Parallel()
	p := startPair(t, "loops: 3")
	for _, protocols := range [][2]int{{2, 2}, {2, 3}, {3, 3}} {
		for _, mode := range []string{"", "NOLOOP", "OPTIN", "BCAST PREFIX k", "BCAST NOLOOP"} {
			t.Run(fmt.Sprint(protocols, mode), func(t *testing.T) {
				p.flush(t)
				want := playRedirect(t, p.direct.Addr(), p.direct.Addr(), protocols, mode)
				require.Contains(t, want, "invalidate")
				require.Equal(t, want, playRedirect(t, p.proxy.Addr, p.backend.Addr(), protocols, mode))
			})
		}
	}
}

func playRedirect(t *testing.T, addr, writers string, protocols [2]int, mode string) string {
	t.Helper()
	c, other := hello(t, addr, protocols[0]), redistest.Dial(t, writers)
	defer c.Close()
	defer other.Close()
	var targets [6]*redistest.Conn // some of which are on another loop than c
	var heard strings.Builder
	for i := range targets {
		targets[i] = hello(t, addr, protocols[1])
		target := targets[i]
		id := strings.TrimSpace(string(target.Do("CLIENT", "ID")[1:]))
		if protocols[1] == 2 {
			target.Do("SUBSCRIBE", "__redis__:invalidate")
		}
		step := func(line string) { heard.Write(numbers.ReplaceAll(c.Do(strings.Fields(line)...), []byte(":n"))) }
		step("CLIENT TRACKING ON REDIRECT " + id + " " + mode)
		step("CLIENT TRACKINGINFO")
		require.Equal(t, ":"+id+"\r\n", string(c.Do("CLIENT", "GETREDIR")))
		if mode == "OPTIN" {
			step("CLIENT CACHING YES")
		}
		step("GET k")
		other.Do("SET", "k", "1")
		heard.Write(target.ReadReply())
		other.Do("FLUSHALL")
		heard.Write(target.ReadReply())
		step("CLIENT TRACKING OFF")
		other.Do("SET", "k", "2")
		step("GET k")
	}
	for _, target := range targets {
		target.Close()
	}
	return heard.String()
}

// TestRedirectToAClientThatIsGone compares what a tracking client is told.
func TestRedirectToAClientThatIsGone(t *testing.T) {
	t.Parallel()
	p := startPair(t, "loops: 2")
	play := func(addr string, writers *redistest.Server) string {
		c, target := hello(t, addr, 3), redistest.Dial(t, addr)
		id := strings.TrimSpace(string(target.Do("CLIENT", "ID")[1:]))
		require.Equal(t, "+OK\r\n", string(c.Do("CLIENT", "TRACKING", "ON", "REDIRECT", id)))
		c.Do("GET", "k")
		target.Close()
		asking := redistest.Dial(t, addr)
		await(t, func() bool { return !strings.Contains(string(asking.Do("CLIENT", "LIST")), "id="+id+" ") })
		writers.Do("SET", "k", "1")
		heard := string(c.ReadReply()) + string(c.Do("CLIENT", "TRACKINGINFO")) + string(c.Do("CLIENT", "TRACKING", "ON", "REDIRECT", id))
		return strings.ReplaceAll(heard, ":"+id+"\r\n", ":n\r\n")
	}
	want := play(p.direct.Addr(), p.direct)
	require.Contains(t, want, "tracking-redir-broken")
	require.Equal(t, want, play(p.proxy.Addr, p.backend))
}
