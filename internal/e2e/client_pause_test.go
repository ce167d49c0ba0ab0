package e2e

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/redistest"
)

// pausedCommands are command lines with whether a server holds them while writes are paused. The commands in front of the
// last bar come before the pause.
var pausedCommands = map[string]bool{ //nolint:gochecknoglobals // a table
	"PING": false, "GET k": false, "SET k v": true, "CLIENT LIST": false, "CLIENT KILL 1:1": false, "CLIENT REPLY ON": false, "PUBLISH a b": true, "SPUBLISH a b": true,
	`EVAL "return 1" 0`: true, `EVAL_RO "return 1" 0`: false, "EVAL \"#!lua flags=no-writes\\nreturn 1\" 0": false, "EVALSHA x 0": true, "FCALL f 0": true,
	"PFCOUNT h": true, "SUBSCRIBE c": false, "BLPOP nosuch 0.01": true, "MULTI": false, "RESET": false, "QUIT": false, "INFO server": false, "HELLO 3": false, "SELECT 1": false,
	"WAIT 0 0": false, "GETEX k": true, "EXPIRE k 100": true, "FLUSHALL": true, "XADD x * a b": true, "CLIENT ID": false, "CLIENT PAUSE 1 WRITE": false,
	"MULTI|GET k|EXEC": false, "MULTI|SET k v|EXEC": true, "MULTI|PUBLISH a b|EXEC": true, "MULTI|GET k": false, "MULTI|SET k v": true, "MULTI|SET k v|DISCARD": false,
	"MGET a b c": false, "MSET a 1 b 2": true, "SORT k": true, "BITFIELD k GET u8 0": true,
}

// TestClientPauseHoldsWhatAServerHolds compares with a real server, which also checks the table.
func TestClientPauseHoldsWhatAServerHolds(t *testing.T) {
	t.Parallel()
	p := startPair(t)
	holdsAll := []string{"PING", "GET k", "CLIENT ID", "MULTI|GET k|EXEC", "QUIT", "RESET", "BLPOP nosuch 0.01"}
	for text, write := range pausedCommands {
		for _, mode := range []string{"WRITE", "ALL"} {
			if mode == "ALL" && !slices.Contains(holdsAll, text) {
				continue
			}
			lines := strings.Split(text, "|")
			for side, addr := range map[string]string{"through": p.proxy.Addr, "direct": p.direct.Addr()} {
				pauser, c := redistest.Dial(t, addr), redistest.Dial(t, addr)
				for _, line := range lines[:len(lines)-1] {
					c.Do(words(t, line)...)
				}
				hold := mode == "ALL" || write
				length := "60000"
				if hold && mode == "ALL" {
					length = "150" // nothing else ends it
				}
				require.Equal(t, "+OK\r\n", string(pauser.Do("CLIENT", "PAUSE", length, mode)))
				c.SendCommand(words(t, lines[len(lines)-1])...)
				if hold {
					requireSilent(t, c, text+" "+mode+" "+side)
				}
				if mode == "WRITE" && hold {
					require.Equal(t, "+OK\r\n", string(pauser.Do("CLIENT", "UNPAUSE")))
				}
				require.NotEmpty(t, c.ReadReply(), text)
				if mode == "WRITE" {
					require.Equal(t, "+OK\r\n", string(pauser.Do("CLIENT", "UNPAUSE")))
				}
			}
		}
	}
}

// requireSilent fails the test when something comes within a moment.
func requireSilent(t *testing.T, c *redistest.Conn, what string) {
	t.Helper()
	require.NoError(t, c.NetConn().SetReadDeadline(time.Now().Add(30*time.Millisecond)))
	var b [64]byte
	n, err := c.NetConn().Read(b[:])
	require.ErrorIs(t, err, errDeadline, "%s: got %q", what, b[:n])
	require.NoError(t, c.NetConn().SetReadDeadline(time.Time{}))
}

func TestClientPauseIsTheTenantsOwn(t *testing.T) {
	t.Parallel()
	p := twoTenants(t)
	ann, bob, third, eve := login(t, p, "ann", 2), login(t, p, "bob", 3), login(t, p, "bob", 2), login(t, p, "eve", 2)
	spread(t, p, ann, bob, third)
	require.Equal(t, "+OK\r\n", string(ann.Do("CLIENT", "PAUSE", "60000", "WRITE")))
	bob.Send("SET k 1\r\nGET k\r\n")
	third.Send("SET k2 1\r\n")
	requireSilent(t, bob, "bob")
	requireSilent(t, third, "bob")
	require.Contains(t, lineOf(ann, clientID(t, ann)), " flags=N ")
	require.Equal(t, 2, strings.Count(string(ann.Do("CLIENT", "LIST")), " flags=b "))
	require.Equal(t, "+OK\r\n", string(eve.Do("SET", "k", "2")), "another tenant")
	require.Equal(t, "+OK\r\n", string(eve.Do("CLIENT", "UNPAUSE")))
	requireSilent(t, bob, "another tenant's UNPAUSE")

	require.Equal(t, "+OK\r\n", string(ann.Do("CLIENT", "PAUSE", "1", "WRITE")))
	requireSilent(t, bob, "a shorter pause")
	later := login(t, p, "bob", 2)
	later.Send("SET k3 1\r\n")
	requireSilent(t, later, "a client that came later")

	require.Equal(t, "+OK\r\n", string(ann.Do("CLIENT", "UNPAUSE")))
	for _, c := range []*redistest.Conn{bob, third, later} {
		c.RequireReply("+OK\r\n")
	}
	bob.RequireReply("$1\r\n1\r\n")

	require.Equal(t, "+OK\r\n", string(ann.Do("CLIENT", "PAUSE", "100")))
	bob.Send("PING\r\n")
	requireSilent(t, bob, "everything is paused")
	bob.RequireReply("+PONG\r\n")
}

// TestClientPauseEnds also for clients that leave meanwhile, for values that stream and when the daemon stops.
func TestClientPauseEnds(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	p := startProxy(t, standaloneYAML(server.Addr(), "loops: 2"))
	p.awaitReady(t)
	pauser, gone, large, last := redistest.Dial(t, p.Addr), redistest.Dial(t, p.Addr), redistest.Dial(t, p.Addr), redistest.Dial(t, p.Addr)
	require.Equal(t, "+OK\r\n", string(pauser.Do("CLIENT", "PAUSE", "3600000", "WRITE")))
	gone.Send("INCR gone\r\n")
	requireSilent(t, gone, "a client that leaves")
	require.NoError(t, gone.NetConn().Close())
	value := strings.Repeat("x", 500_000)
	sent := make(chan error, 1)
	go func() { sent <- large.TrySend(redistest.Command("SET", "large", value)) }()
	requireSilent(t, large, "a large value")
	require.Equal(t, ":0\r\n", string(server.Do("DBSIZE")))
	require.Equal(t, "+OK\r\n", string(pauser.Do("CLIENT", "UNPAUSE")))
	require.NoError(t, <-sent)
	large.RequireReply("+OK\r\n")
	require.Equal(t, ":500000\r\n", string(pauser.Do("STRLEN", "large")))

	require.Equal(t, "+OK\r\n", string(pauser.Do("CLIENT", "PAUSE", "3600000")))
	last.Send("INCR last\r\n")
	requireSilent(t, last, "until the daemon stops")
	require.NoError(t, p.stop())
	last.RequireReply(":1\r\n")
	last.RequireClosed()
}
