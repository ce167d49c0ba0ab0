package e2e

import (
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/redistest"
)

// mixedBatch holds a command of every form that a client can send.
const mixedBatch = "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5\r\nv\r\n12\r\n" +
	"*0\r\n" +
	"GET k\r\n" +
	"\r\n" +
	"*-1\r\n" +
	"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n" +
	"PING \"quoted \\x41\"\n" +
	"   \r\n" +
	"*2\r\n$4\r\nECHO\r\n$0\r\n\r\n" +
	"INCR counter\r\n" +
	"*2\r\n$4\r\nINCR\r\n$7\r\ncounter\r\n"

func mixedReplies() []string {
	return []string{"+OK\r\n", "$5\r\nv\r\n12\r\n", "$5\r\nv\r\n12\r\n", "$8\r\nquoted A\r\n", "$0\r\n\r\n", ":1\r\n", ":2\r\n"}
}

func TestMixedBatchIsWhatServerAccepts(t *testing.T) {
	t.Parallel()
	c := redistest.Standalone(t).Dial()
	c.Send(mixedBatch)
	for _, want := range mixedReplies() {
		c.RequireReply(want)
	}
}

// TestBatchSplitAtEveryByte sends the batch in two writes for every place to cut it. The second part is sent when the
// replies to the first have come or, where there are none, together with the proxy's answer to another client: so the
// first part has been read alone.
func TestBatchSplitAtEveryByte(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	p := startProxy(t, standaloneYAML(server.Addr(), "loops: 1"))
	p.awaitReady(t)
	other := redistest.Dial(t, p.Addr)
	for cut := 1; cut < len(mixedBatch); cut++ {
		server.Do("DEL", "counter")
		c := redistest.Dial(t, p.Addr)
		c.Send(mixedBatch[:cut])
		require.Equal(t, "+PONG\r\n", string(other.Do("PING")))
		require.Equal(t, "+PONG\r\n", string(other.Do("PING")))
		c.Send(mixedBatch[cut:])
		for i, want := range mixedReplies() {
			require.Equal(t, want, string(c.ReadReply()), "cut at %d, reply %d", cut, i)
		}
		c.Close()
	}
}

func TestBatchInOneByteWrites(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	p := startProxy(t, standaloneYAML(server.Addr()))
	p.awaitReady(t)
	c := redistest.Dial(t, p.Addr)
	require.NoError(t, c.NetConn().(*net.TCPConn).SetNoDelay(true))
	for i := range mixedBatch {
		c.Send(mixedBatch[i : i+1])
	}
	for _, want := range mixedReplies() {
		c.RequireReply(want)
	}
}

func TestManyCommandsInOneWriteKeepTheirOrder(t *testing.T) {
	t.Parallel()
	p := startPair(t)
	through, direct := p.dial(t, 2)
	const rounds = 5000
	one := "INCR n\r\n*1\r\n$4\r\nPING\r\n*2\r\n$3\r\nGET\r\n$1\r\nn\r\nECHO x\r\n*3\r\n$6\r\nAPPEND\r\n$1\r\na\r\n$1\r\nb\r\n\r\nNOSUCH\r\n"
	const replies = 6
	for _, c := range []*redistest.Conn{through, direct} {
		go func() { _ = c.TrySend(strings.Repeat(one, rounds)) }() // ends with the connection
	}
	for range rounds * replies {
		require.Equal(t, string(direct.ReadReply()), string(through.ReadReply()))
	}
}

func TestTelnetStyle(t *testing.T) {
	t.Parallel()
	p := startPair(t)
	for _, line := range []string{
		"set tk tv\n", "GET tk\r\n", "  get   tk  \r\n", "get\ttk\r\n", "set 'single quoted' \"double \\\"quoted\\\"\"\r\n", "get \"single quoted\"\r\n",
		"set esc \"\\x00\\n\\r\\t\\b\\a\\\\\"\r\n", "get esc\r\n", "set q 'it\\'s'\r\n", "get q\r\n", "set empty \"\"\r\n", "get empty\r\n", "\n\n\r\nping\r\n", "$3\r\n",
		"PING\r\r\n", "get tk\x00hidden\n\r\nping\r\n", "\"get\" tk\r\n", "nosuch command 'with quotes'\r\n", "set k\r\n",
	} {
		through, direct := p.dial(t, 2)
		through.Send(line)
		direct.Send(line)
		if strings.Contains(line, "\x00") {
			continue // Redis waits for ever: the line has no end for it
		}
		require.Equal(t, string(direct.ReadReply()), string(through.ReadReply()), "%q", line)
	}
}

// hostile are bytes that no client library sends. Redis answers each with an error, or not at all, and closes.
func hostile() []string {
	return []string{
		"*1\r\n$9223372036854775807\r\n",
		"*9000000000000000000\r\n",
		"*99999999999999999999999\r\n",
		"*2147483648\r\n",
		"*x\r\n",
		"*\r\n",
		"*1 \r\n",
		"*+1\r\n",
		"*01\r\n",
		"*1\r\nx\r\n",
		"*1\r\n\r\n",
		"*1\r\n:1\r\n",
		"*1\r\n$\r\n",
		"*1\r\n$-1\r\n",
		"*1\r\n$x\r\n",
		"*1\r\n$536870913\r\n",
		"*1\r\n$4294967297\r\n",
		"*1\r\n$1 \r\n",
		"*1\r\n*1\r\n$4\r\nPING\r\n",
		"*2\r\n$3\r\nGET\r\n*1\r\n$1\r\nk\r\n",
		"*2\r\n$3\r\nGET\r\n%1\r\n",
		"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$-5\r\nx\r\n",
		"set k \"unbalanced\r\n",
		"set k 'unbalanced\r\n",
		"set k \"a\"b\r\n",
		"set k 'a''b'\r\n",
		"PING\r\n*1\r\n$-1\r\n",
		strings.Repeat("*1\r\n", 100000),
		"*1" + strings.Repeat("1", 70000),
		"*1\r\n$1" + strings.Repeat("1", 70000),
		"*1\r\n" + strings.Repeat("x", 70000),
		strings.Repeat("x", 70000),
		"*" + strings.Repeat("\x00", 70000),
	}
}

// conversation sends raw bytes and returns all that comes until the peer closes.
func conversation(t *testing.T, addr, raw string) string {
	t.Helper()
	c := redistest.Dial(t, addr)
	defer c.Close()
	written := make(chan struct{})
	go func() { // ends with the connection
		_ = c.TrySend(raw)
		close(written)
	}()
	var got []byte
	buf := make([]byte, 4096)
	for {
		require.NoError(t, c.NetConn().SetReadDeadline(time.Now().Add(redistest.ConnTimeout)))
		n, err := c.NetConn().Read(buf)
		got = append(got, buf[:n]...)
		if err != nil {
			require.NotErrorIs(t, err, os.ErrDeadlineExceeded, "still open after %.60q; got %q", raw, got)
			break
		}
	}
	c.Close()
	<-written
	return string(got)
}

func TestMalformedInputIsAnsweredAsServerDoes(t *testing.T) {
	t.Parallel()
	p := startPair(t)
	for _, raw := range hostile() {
		want := conversation(t, p.direct.Addr(), raw)
		got := conversation(t, p.proxy.Addr, raw)
		// The kernel drops what Redis answered when it closes with unread input, so an answer may be missing there.
		if want != "" || len(raw) < 1000 {
			require.Equal(t, want, got, "%.100q", raw)
		}
		require.NotEmpty(t, got, "%.100q", raw)
	}
	require.Positive(t, p.proxy.metric(t, "sluice_protocol_errors_total", `side="client"`))
	through, _ := p.dial(t, 2)
	require.Equal(t, "+PONG\r\n", string(through.Do("PING")))
}

// TestHTTPRequestsAreNotServed: a web page can make a browser post commands to a port. As Redis does, the proxy closes at
// the first sign of it, without a reply to that.
func TestHTTPRequestsAreNotServed(t *testing.T) {
	t.Parallel()
	p := startPair(t)
	for raw, want := range map[string]string{
		"POST / HTTP/1.1\r\nSET http 1\r\n":                       "",
		"post x\r\nSET http 1\r\n":                                "",
		"*2\r\n$5\r\nHOST:\r\n$1\r\nx\r\nSET http 1\r\n":          "",
		"*1\r\n$4\r\nPOST\r\nSET http 1\r\n":                      "",
		"GET / HTTP/1.1\r\nHost: localhost\r\n\r\nSET http 1\r\n": "-ERR wrong number of arguments for 'get' command\r\n",
		"SET http 0\r\nHost: localhost\r\n\r\nSET http 1\r\n":     "+OK\r\n",
	} {
		require.Equal(t, want, conversation(t, p.proxy.Addr, raw), "%q", raw)
		conversation(t, p.direct.Addr(), raw) // closes too; whether the earlier reply still leaves is a matter of time there
		require.Equal(t, string(p.direct.Do("GET", "http")), string(p.backend.Do("GET", "http")), "%q", raw)
		p.flush(t)
	}
}

func TestTighterLimitsBeforeAuthentication(t *testing.T) {
	t.Parallel()
	backend, direct := redistest.Standalone(t), redistest.Standalone(t, redistest.WithPassword("secret"))
	p := startProxy(t, usersYAML(backend.Addr(), `[{name: default, sha256: "`+sha256Hex("secret")+`"}]`))
	p.awaitReady(t)
	for _, raw := range []string{
		"*11\r\n",
		"*10\r\n" + strings.Repeat("$1\r\na\r\n", 10) + "QUIT\r\n",
		"*2\r\n$4\r\nAUTH\r\n$16385\r\n",
		"*1\r\n$536870913\r\n",
		"*2147483648\r\n",
		"*-1\r\n*0\r\nPING\r\nGET k\r\nNOSUCH\r\nGET\r\nCONFIG WHAT\r\nSUBSCRIBE x\r\nHELLO\r\nHELLO 3\r\nHELLO 4\r\nCOMMAND\r\nCLIENT ID\r\nSELECT 0\r\nQUIT\r\n",
		"*2\r\n$4\r\nAUTH\r\n$6\r\nsecret\r\n*11\r\n$3\r\nDEL\r\n" + strings.Repeat("$1\r\na\r\n", 10) + "QUIT\r\n",
	} {
		want := conversation(t, direct.Addr(), raw)
		require.Equal(t, want, conversation(t, p.Addr, raw), "%.100q", raw)
	}
}

// TestHostileInputTakesNoMemory opens connections that announce much and send little.
func TestHostileInputTakesNoMemory(t *testing.T) {
	server := redistest.Standalone(t)
	p := startProxy(t, standaloneYAML(server.Addr()))
	p.awaitReady(t)
	before := heapInUse()
	var conns []*redistest.Conn
	for range 200 {
		for _, raw := range []string{
			"*1048576\r\n$536870912\r\nx", "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$536870912\r\nbegun", "*1048576\r\n", "*2\r\n$3\r\nGET\r\n$1048576\r\nbegun",
		} {
			c := redistest.Dial(t, p.Addr)
			c.Send(raw)
			conns = append(conns, c)
		}
	}
	other := redistest.Dial(t, p.Addr)
	require.Equal(t, "+OK\r\n", string(other.Do("SET", "still", "served")))
	require.Eventually(t, func() bool { return p.Clients() == len(conns)+1 }, eventually, tick)
	require.Less(t, heapInUse(), before+(250<<20), "200 announcements of 1 MiB are held, not of 512 MiB")
	for _, c := range conns {
		c.Close()
	}
	require.Eventually(t, func() bool { return p.Clients() == 1 }, eventually, tick)
	require.Less(t, heapInUse(), before+(32<<20))
}
