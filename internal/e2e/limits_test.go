package e2e

import (
	"bytes"
	"io"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/redistest"
)

func TestMaxClients(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	p := startProxy(t, standaloneYAML(server.Addr(), "clients: {max: 3}"))
	p.awaitReady(t)
	var conns []*redistest.Conn
	for range 3 {
		c := redistest.Dial(t, p.Addr)
		require.Equal(t, "+PONG\r\n", string(c.Do("PING")))
		conns = append(conns, c)
	}
	for range 5 {
		c := redistest.Dial(t, p.Addr)
		c.RequireReply("-ERR max number of clients reached\r\n")
		c.RequireClosed()
	}
	require.Equal(t, "+PONG\r\n", string(conns[0].Do("PING")))
	require.InDelta(t, 5, p.metric(t, "sluice_clients_rejected_total", `reason="max_clients"`), 0)
	conns[1].Close()
	require.Eventually(t, func() bool {
		c := redistest.Dial(t, p.Addr)
		defer c.Close()
		reply, _ := c.TryDo("PING")
		return string(reply) == "+PONG\r\n"
	}, eventually, tick)
}

func TestIdleClientsAreClosed(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	p := startProxy(t, standaloneYAML(server.Addr(), "clients: {idle_timeout: 1s}"))
	p.awaitReady(t)
	silent, busy, waiting := redistest.Dial(t, p.Addr), redistest.Dial(t, p.Addr), redistest.Dial(t, p.Addr)
	used := redistest.Dial(t, p.Addr)
	require.Equal(t, "+OK\r\n", string(used.Do("SET", "k", "v")))
	require.Equal(t, "$1\r\nv\r\n", string(waiting.Do("GET", "k")))
	uploading := redistest.Dial(t, p.Addr)
	uploading.Send("*3\r\n$3\r\nSET\r\n$1\r\nx\r\n$100000000\r\nbegun")
	server.Stop()
	waiting.SendCommand("GET", "k")
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		_, _ = silent.TryRead()
		_, _ = used.TryRead()
		for err := error(nil); err == nil; { // it may be told before that its node does not answer
			_, err = uploading.TryRead()
		}
	}()
	for open := true; open; {
		select {
		case <-closed:
			open = false
		case <-time.After(50 * time.Millisecond):
			require.Equal(t, "+PONG\r\n", string(busy.Do("PING")))
		}
	}
	silent.RequireClosed()
	used.RequireClosed()
	uploading.RequireClosed()
	server.Continue()
	waiting.RequireReply("$1\r\nv\r\n") // who waits for a reply is not idle
	require.InDelta(t, 3, p.metric(t, "sluice_clients_disconnected_total", `reason="idle"`), 0)
}

func TestClientReplyModesAnswerAsServer(t *testing.T) {
	t.Parallel()
	p := startPair(t)
	for _, dialogue := range []string{
		"CLIENT REPLY SKIP|SET a 1|GET a|PING",
		"CLIENT REPLY SKIP|PING|PING|GET a",
		"GET a|CLIENT REPLY SKIP|GET a|PING|CLIENT REPLY SKIP|NOSUCH|ECHO x",
		"CLIENT REPLY SKIP|CLIENT REPLY SKIP|PING|PING",
		"CLIENT REPLY OFF|SET a 1|GET a|PING|NOSUCH|SET|CLIENT ID|CLIENT REPLY ON|PING|GET a",
		"CLIENT REPLY OFF|CLIENT REPLY SKIP|PING|CLIENT REPLY ON|PING",
		"CLIENT REPLY OFF|CLIENT LIST|INFO|CLIENT REPLY what|CLIENT REPLY ON|PING",
		"CLIENT REPLY OFF|RESET|PING",
		"CLIENT REPLY SKIP|RESET|PING|PING",
		"CLIENT REPLY ON|PING",
		"CLIENT REPLY SKIP|MGET a b c|MGET a b c",
		"CLIENT REPLY SKIP|CLIENT LIST ID 1000000|PING",
	} {
		for _, pipelined := range []bool{true, false} {
			through, direct := p.dial(t, 2)
			for text := range strings.SplitSeq(dialogue, "|") {
				if !pipelined {
					// A command without a reply cannot be waited for; the other client's answer comes from a later tick.
					through.Send(text + "\r\n")
					direct.Send(text + "\r\n")
					require.NotEmpty(t, p.backend.Do("PING"))
				}
			}
			if pipelined {
				batch := strings.ReplaceAll(dialogue, "|", "\r\n") + "\r\n"
				through.Send(batch)
				direct.Send(batch)
			}
			want, got := readAfterEnd(t, direct), readAfterEnd(t, through)
			require.Equal(t, want, got, dialogue)
		}
	}
}

// readAfterEnd sends an end marker, ends the output and reads all replies.
func readAfterEnd(t *testing.T, c *redistest.Conn) string {
	t.Helper()
	c.Send("ECHO end\r\nQUIT\r\n")
	require.NoError(t, c.NetConn().SetReadDeadline(time.Now().Add(redistest.ConnTimeout)))
	all, err := io.ReadAll(c.NetConn())
	if err != nil {
		require.NotErrorIs(t, err, errDeadline, "got %q", all)
	}
	return string(all)
}

// TestHalfClose is `printf '…' | nc`: the client ends its output at once and still gets every reply.
func TestHalfClose(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	p := startProxy(t, standaloneYAML(server.Addr()))
	p.awaitReady(t)
	server.Do("SET", "k", "v")
	pings := strings.Repeat("PING\r\nGET k\r\n", 1000)
	for raw, want := range map[string]string{
		"":                                         "",
		"PING\r\n":                                 "+PONG\r\n",
		"GET k\r\n":                                "$1\r\nv\r\n",
		"GET k\r\nSELECT 1\r\nGET k\r\n":           "$1\r\nv\r\n+OK\r\n$-1\r\n",
		"GET k\r\nSELECT 1\r\n":                    "$1\r\nv\r\n+OK\r\n",
		"GET k\r\nCLIENT LIST ID 99999\r\nPI":      "$1\r\nv\r\n$0\r\n\r\n",
		"CLIENT LIST ID 99999\r\nSELECT 0\r\n":     "$0\r\n\r\n+OK\r\n",
		"PING\r\n*2\r\n$3\r\nGET\r\n":              "+PONG\r\n",
		"*2\r\n$3\r\nGET\r\n$1\r\n":                "",
		"GET k\r\nQUIT\r\nGET k\r\n":               "$1\r\nv\r\n+OK\r\n",
		"GET k\r\nHELLO 2 SETNAME x y\r\nPING\r\n": "$1\r\nv\r\n-ERR Syntax error in HELLO option 'y'\r\n+PONG\r\n",
		"GET k\r\nGET k\r\n*x\r\nPING\r\n":         "$1\r\nv\r\n$1\r\nv\r\n-ERR Protocol error: invalid multibulk length\r\n",
		pings:                                      strings.Repeat("+PONG\r\n$1\r\nv\r\n", 1000),
		"SET k v\r\nRESET\r\n" + pings + "SELECT 1\r\nGET k\r\n":   "+OK\r\n+RESET\r\n" + strings.Repeat("+PONG\r\n$1\r\nv\r\n", 1000) + "+OK\r\n$-1\r\n",
		"*3\r\n$3\r\nSET\r\n$1\r\nx\r\n$2000000\r\nonly the start": "",
	} {
		c := redistest.Dial(t, p.Addr)
		c.Send(raw)
		require.NoError(t, c.NetConn().(*net.TCPConn).CloseWrite())
		require.NoError(t, c.NetConn().SetReadDeadline(time.Now().Add(redistest.ConnTimeout)))
		got, err := io.ReadAll(c.NetConn())
		require.NoError(t, err, "%.80q: got %.80q", raw, got)
		require.Equal(t, want, string(got), "%.80q", raw)
	}
	require.Eventually(t, func() bool { return p.Clients() == 0 }, eventually, tick)
}

// TestClientThatDoesNotReadIsHeldBack: replies of 100 KB that nobody reads stop the client's commands, not the others.
func TestClientThatDoesNotReadIsHeldBack(t *testing.T) {
	server := redistest.Standalone(t)
	p := startProxy(t, standaloneYAML(server.Addr(), "clients: {output_buffer: 1MiB}", "loops: 1"))
	p.awaitReady(t)
	value := strings.Repeat("0123456789", 10000)
	require.Equal(t, "+OK\r\n", string(server.Do("SET", "big", value)))
	const commands = 5000 // half a gigabyte of replies
	before := heapInUse()

	greedy := redistest.Dial(t, p.Addr)
	require.NoError(t, greedy.NetConn().(*net.TCPConn).SetReadBuffer(64<<10))
	var sent atomic.Int64
	finished := make(chan error, 1)
	go func() {
		request := redistest.Command("GET", "big") + redistest.Command("INCR", "served")
		for range commands {
			_ = greedy.NetConn().SetWriteDeadline(time.Now().Add(time.Minute))
			if _, err := io.WriteString(greedy.NetConn(), request); err != nil {
				finished <- err
				return
			}
			sent.Add(1)
		}
		finished <- nil
	}()
	// Served goes up until the client is held back; then it stands still while another client is served well.
	other := redistest.Dial(t, p.Addr)
	served := func() int {
		n, _ := strconv.Atoi(strings.TrimSpace(string(bytes.Trim(bytes.SplitN(server.Do("GET", "served"), []byte("\r\n"), 3)[1], "\r\n"))))
		return n
	}
	last, still := -1, 0
	require.Eventually(t, func() bool {
		require.Equal(t, "+OK\r\n", string(other.Do("SET", "k", "v")))
		if n := served(); n != last {
			last, still = n, 0
		} else {
			still++
		}
		return still > 10 && last > 0
	}, eventually, tick)
	require.Less(t, last, commands/2)
	require.Less(t, heapInUse(), before+(24<<20))

	for range commands {
		reply, err := greedy.TryRead()
		require.NoError(t, err)
		require.Len(t, reply, len(value)+len("$100000\r\n\r\n"))
		_, err = greedy.TryRead()
		require.NoError(t, err)
	}
	require.NoError(t, <-finished)
	require.Equal(t, commands, served())
	require.Less(t, heapInUse(), before+(16<<20))
}

// TestSmallRepliesAreHeldBackToo: the same with many small commands: neither their replies nor their records pile up.
func TestSmallRepliesAreHeldBackToo(t *testing.T) {
	server := redistest.Standalone(t)
	p := startProxy(t, standaloneYAML(server.Addr(), "clients: {output_buffer: 64KiB, max_inflight: 100}", "stream_threshold: 64KiB", "loops: 1"))
	p.awaitReady(t)
	before := heapInUse()
	greedy := redistest.Dial(t, p.Addr)
	const rounds = 1000
	one := strings.Repeat(redistest.Command("GET", "nosuch")+redistest.Command("PING", strings.Repeat("x", 2000))+redistest.Command("NOSUCH"), 20)
	finished := make(chan error, 1)
	go func() {
		for range rounds {
			_ = greedy.NetConn().SetWriteDeadline(time.Now().Add(time.Minute))
			if _, err := io.WriteString(greedy.NetConn(), one); err != nil {
				finished <- err
				return
			}
		}
		finished <- nil
	}()
	other := redistest.Dial(t, p.Addr)
	for range 50 {
		require.Equal(t, "$-1\r\n", string(other.Do("GET", "k")))
	}
	require.Less(t, heapInUse(), before+(16<<20))
	for range rounds * 20 {
		for _, first := range []byte("$$-") {
			reply, err := greedy.TryRead()
			require.NoError(t, err)
			require.Equal(t, first, reply[0])
		}
	}
	require.NoError(t, <-finished)
}
