package e2e

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/redistest"
)

// monitorHead is what differs between lines of two servers.
var monitorHead = regexp.MustCompile(`(?m)^\+\d+\.\d{6} \[(\d+) 127\.0\.0\.1:\d+\]`) //nolint:gochecknoglobals // constant

// readUntil reads until a line has the text, and leaves out what differs between two servers.
func readUntil(t *testing.T, c *redistest.Conn, text string) string {
	t.Helper()
	var all strings.Builder
	for !strings.Contains(all.String(), text) {
		all.Write(c.ReadReply())
	}
	return monitorHead.ReplaceAllString(all.String(), "+[$1]")
}

func TestMonitorShowsWhatAServerShows(t *testing.T) {
	t.Parallel()
	p := startPair(t)
	for _, protocol := range []int{2, 3} {
		through, direct := p.dial(t, protocol)
		busy, busyDirect := p.dial(t, protocol)
		require.Equal(t, "+OK\r\n", string(through.Do("MONITOR")))
		require.Equal(t, "+OK\r\n", string(direct.Do("MONITOR")))
		for _, text := range []string{
			`SET k "v\x00\x01\"\\\n\r\t\a\b \xc3\xa9~'"`, "GET k", "auth secret", "AUTH nosuch secret", "HELLO 3 AUTH nosuch secret SETNAME x", "get k", "CLIENT LIST", "NOSUCH a", "GET",
			"MULTI", "SET k 1", "INCR k", "EXEC", "MULTI", "GET", "EXEC", "MULTI", "GET k", "DISCARD", "MULTI", "EXEC", "EXEC",
			"SELECT 1", "GET k", "BLPOP nosuch 0.01", "WATCH k", "UNWATCH", "MGET a b c", "MSET a 1 b 2", "EVAL \"return 1\" 0", "EVALSHA x 0", "PING", "ECHO \"\"", "CLIENT SETNAME x", "CLIENT KILL ID 99999",
			"SLOWLOG LEN", "TIME", "COMMAND COUNT", "PUBLISH a b", "SET", "SELECT 0", "RESET", "CLIENT GETNAME",
		} {
			args := words(t, text)
			_, _ = busy.Do(args...), busyDirect.Do(args...)
		}
		for _, c := range []*redistest.Conn{busy, busyDirect} {
			c.Send("PING\r\nSET a 1\r\nGET a\r\nECHO end\r\n")
		}
		require.Equal(t, readUntil(t, direct, `"ECHO" "end"`), readUntil(t, through, `"ECHO" "end"`))
		busy.Close()
		busyDirect.Close()
		for _, text := range []string{"PING", "GET k", "SET k 1", "MULTI;GET k;EXEC", "ECHO x", "SELECT 1", "PUBLISH a b", "EVAL \"return 1\" 0"} {
			for _, c := range []*redistest.Conn{through, direct} {
				c.Send(strings.ReplaceAll(text, ";", "\r\n") + "\r\nECHO next\r\n")
			}
			require.Equal(t, readUntil(t, direct, `"ECHO" "next"`), readUntil(t, through, `"ECHO" "next"`), text)
		}
		for _, c := range []*redistest.Conn{through, direct} {
			c.Send("MONITOR\r\nRESET\r\nPING\r\n")
			c.RequireReply("+RESET\r\n")
			c.RequireReply("+PONG\r\n")
		}
	}
}

func TestMonitorSeesOwnTenantOnAllLoops(t *testing.T) {
	t.Parallel()
	p := twoTenants(t)
	ann, bob, eve, third := login(t, p, "ann", 2), login(t, p, "bob", 3), login(t, p, "eve", 2), login(t, p, "bob", 2)
	spread(t, p, ann, bob, third)
	bob.Do("SELECT", "1")
	id := clientID(t, ann)
	require.Equal(t, "+OK\r\n", string(ann.Do("MONITOR")))
	require.Contains(t, lineOf(bob, id), " flags=O ")
	eve.Do("SET", "secret-of-globex", "1")
	third.Do("SET", "k", "3")
	var pipelined strings.Builder
	for i := range 100 {
		fmt.Fprintf(&pipelined, "SET n %d\r\n", i)
	}
	bob.Send(pipelined.String() + "HELLO 2 AUTH bob pw\r\nECHO end\r\n")
	all := readUntil(t, ann, `"ECHO" "end"`)
	require.Contains(t, all, `+[0] "SET" "k" "3"`)
	require.Contains(t, all, `+[1] "HELLO" "2" "AUTH" "(redacted)" "(redacted)"`)
	require.NotContains(t, all, "globex")
	numbers := regexp.MustCompile(`\[1\] "SET" "n" "(\d+)"`).FindAllStringSubmatch(all, -1)
	require.Len(t, numbers, 100)
	for i, n := range numbers {
		require.Equal(t, strconv.Itoa(i), n[1])
	}

	// Another tenant's commands are never seen, also not after a change of tenant.
	require.Equal(t, byte('*'), ann.Do("HELLO", "2", "AUTH", "eve", "pw")[0])
	bob.Do("SET", "secret-of-acme", "1")
	eve.Do("SET", "secret-of-globex", "1")
	ann.Send("ECHO last\r\n")
	ann.RequireReply("$4\r\nlast\r\n")
}

func TestMonitorRateIsCapped(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	p := startProxy(t, standaloneYAML(server.Addr(), "clients: {monitor_rate: 10}", "loops: 2"))
	p.awaitReady(t)
	for _, loop := range []int{0, 1} {
		monitor, busy := redistest.Dial(t, p.Addr), redistest.Dial(t, p.Addr)
		spread(t, p, monitor)
		if loop == 1 {
			spread(t, p, monitor, busy)
		}
		require.Equal(t, "+OK\r\n", string(monitor.Do("MONITOR")))
		busy.Send(strings.Repeat("ECHO x\r\n", 1000))
		shown, dropped := 0, 0
		require.NoError(t, monitor.NetConn().SetReadDeadline(time.Now().Add(redistest.ConnTimeout)))
		for shown+dropped < 1000 {
			line := string(monitor.ReadReply())
			if found := regexp.MustCompile(`^\+\d+\.\d{6} \[0 sluice\] "MONITOR" "dropped" "(\d+)"\r\n$`).FindStringSubmatch(line); found != nil {
				n, err := strconv.Atoi(found[1])
				require.NoError(t, err)
				dropped += n
			} else {
				require.Contains(t, line, `"ECHO" "x"`)
				shown++
			}
		}
		require.Equal(t, 1000, shown+dropped)
		require.Positive(t, dropped)
		require.GreaterOrEqual(t, shown, 10)
		monitor.Close()
	}
}

func TestMonitorThatDoesNotReadIsDropped(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	p := startProxy(t, standaloneYAML(server.Addr(), "clients: {output_buffer: 256KiB}"))
	p.awaitReady(t)
	monitor, busy := redistest.Dial(t, p.Addr), redistest.Dial(t, p.Addr)
	id := clientID(t, monitor)
	require.Equal(t, "+OK\r\n", string(monitor.Do("MONITOR")))
	long := strings.Repeat("x", 20_000)
	require.Eventually(t, func() bool {
		for range 100 {
			busy.Do("ECHO", long)
		}
		return lineOf(busy, id) == ""
	}, 2*eventually, tick)

	// A long argument is cut. Then nothing is left of the monitors.
	again := redistest.Dial(t, p.Addr)
	require.Equal(t, "+OK\r\n", string(again.Do("MONITOR")))
	busy.Do("ECHO", long)
	require.Contains(t, string(again.ReadReply()), `xxx... (3616 more bytes)"`)
	busy.Do("SET", "stream", strings.Repeat("x", 300_000))
	require.Contains(t, string(again.ReadReply()), `] "SET" "stream" "... (300000 bytes)"`)
}
