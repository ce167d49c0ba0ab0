package e2e

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/redistest"
)

// monitorTime is the head of what a monitor is shown.
var monitorTime = regexp.MustCompile(`\+\d+\.\d+ \[\d [^\]]+\]`)

// resetStates are lines that bring a connection into a state. The replies of all are compared too, whatever their number.
var resetStates = []struct{ name, lines string }{ //nolint:gochecknoglobals // constant
	{"normal", "PING"},
	{"transaction", "MULTI|SET k queued|CLIENT SETNAME queued|SUBSCRIBE queued"},
	{"transaction with an error", "MULTI|NOSUCH|SET k queued"},
	{"watching", "WATCH k"},
	{"watching a changed key", "WATCH k|SET k changed"},
	{"watching, in a transaction", "WATCH k|MULTI|SELECT 1|SET k queued"},
	{"watching in another database and protocol", "WATCH k|SELECT 1|HELLO 3|SET k elsewhere"},
	{"subscribed", "SUBSCRIBE ch other|PSUBSCRIBE c*|SSUBSCRIBE sch"},
	{"tracking", "HELLO 3|CLIENT TRACKING ON|GET k"},
	{"tracking broadcasts", "HELLO 3|CLIENT TRACKING ON BCAST PREFIX k"},
	{"tracking by choice", "HELLO 3|CLIENT TRACKING ON OPTIN|CLIENT CACHING YES"},
	{"monitoring", "MONITOR"},
	{"silent", "CLIENT REPLY OFF|SET k silent"},
	{"silent for one", "CLIENT REPLY SKIP|PING"},
	{"silent in a transaction", "CLIENT REPLY OFF|MULTI|SET k silent"},
	{"blocked", "BLPOP nolist 0.05"},
	{"selected", "SELECT 1|SET k one"},
	{"named", "CLIENT SETNAME somebody|CLIENT NO-EVICT on"},
	{"RESP3", "HELLO 3 SETNAME somebody|SELECT 2"},
}

// stateAfter asks for all that RESET is to undo.
var stateAfter = []string{ //nolint:gochecknoglobals // constant
	"CLIENT GETNAME", "GET k", "GET nokey", "CLIENT TRACKINGINFO", "CLIENT GETREDIR", "EXEC", "HELLO",
	"SET k mine", "MULTI", "GET k", "CLIENT GETNAME", "EXEC", "PUBSUB NUMSUB ch other", "PUBSUB NUMPAT", "PUBLISH ch x", "SPUBLISH sch x",
	"SUBSCRIBE last", "UNSUBSCRIBE last", "ACL WHOAMI",
}

// TestResetFromEveryState: RESET gives the same bytes, and leaves the same state, as with a server.
func TestResetFromEveryState(t *testing.T) {
	redistest.LeakCheck(t)
	p := startPair(t)
	for _, state := range resetStates {
		for _, protocol := range []int{2, 3} {
			t.Run(fmt.Sprint(state.name, ", RESP", protocol), func(t *testing.T) {
				for _, s := range []*redistest.Server{p.backend, p.direct} {
					require.Equal(t, "+OK\r\n", string(s.Do("FLUSHALL")))
					require.Equal(t, "+OK\r\n", string(s.Do("SET", "k", "0")))
				}
				through, direct := p.dial(t, protocol)
				lines := append(append(strings.Split(state.lines, "|"), "RESET"), stateAfter...)
				want := monitorTime.ReplaceAllString(playAtOnce(t, direct, lines), "at some time")
				require.Equal(t, want, monitorTime.ReplaceAllString(playAtOnce(t, through, lines), "at some time"))
				p.proxy.awaitNoPins(t)
				through.SendCommand("SET", "k", "after")
				through.RequireReply("+OK\r\n")
				others, _ := p.dial(t, 2)
				require.Equal(t, "+OK\r\n", string(others.Do("SET", "k", "for nobody")))
				require.Equal(t, ":0\r\n", string(others.Do("PUBLISH", "ch", "for nobody")))
				require.Equal(t, "+PONG\r\n", string(through.Do("PING")), "no message of an earlier state")
			})
		}
	}
}

// awaitNoPins waits until no session has a connection of its own.
func (p *proxy) awaitNoPins(t *testing.T) {
	t.Helper()
	for _, reason := range []string{"watch", "blocked", "tracking"} {
		require.Eventually(t, func() bool { return p.metric(t, "sluice_pinned_sessions", `reason="`+reason+`"`) == 0 }, eventually, tick, reason)
	}
}
