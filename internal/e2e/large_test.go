package e2e

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/redistest"
)

// content gives n bytes that compress badly and repeat nowhere, always the same for the same seed.
func content(seed uint64, n int) io.Reader {
	return io.LimitReader(rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)}), int64(n))
}

func checksum(r io.Reader) string {
	h := sha256.New()
	_, _ = io.Copy(h, r)
	return hex.EncodeToString(h.Sum(nil))
}

// largeConn writes and reads values without holding them.
type largeConn struct {
	t  *testing.T
	nc net.Conn
	in *bufio.Reader
}

func dialLarge(t *testing.T, addr string) *largeConn {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = nc.Close() })
	require.NoError(t, nc.SetDeadline(time.Now().Add(time.Minute)))
	return &largeConn{t: t, nc: nc, in: bufio.NewReaderSize(nc, 64<<10)}
}

// set writes SET key with n bytes of content; what the reply is, is for the caller.
func (c *largeConn) set(key string, seed uint64, n int) error {
	w := bufio.NewWriterSize(c.nc, 64<<10)
	fmt.Fprintf(w, "*3\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$%d\r\n", len(key), key, n)
	if _, err := io.Copy(w, content(seed, n)); err != nil {
		return err
	}
	_, _ = w.WriteString("\r\n")
	return w.Flush()
}

func (c *largeConn) requireLine(want string) {
	c.t.Helper()
	line, err := c.in.ReadString('\n')
	require.NoError(c.t, err)
	require.Equal(c.t, want+"\r\n", line)
}

// requireBulk reads a bulk reply and compares its checksum.
func (c *largeConn) requireBulk(seed uint64, n int) {
	c.t.Helper()
	c.requireLine(fmt.Sprintf("$%d", n))
	require.Equal(c.t, checksum(content(seed, n)), checksum(io.LimitReader(c.in, int64(n))))
	c.requireLine("")
}

func TestLargeValuesAreIntact(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	for _, threshold := range []int{64 << 10, 1 << 20} {
		t.Run(fmt.Sprint(threshold), func(t *testing.T) {
			p := startProxy(t, standaloneYAML(server.Addr(), fmt.Sprintf("stream_threshold: %dB", threshold)))
			p.awaitReady(t)
			c := dialLarge(t, p.Addr)
			direct := dialLarge(t, server.Addr())
			for i, size := range []int{1, threshold - 1, threshold, threshold + 1, 128<<10 - 1, 128 << 10, 1<<20 - 1, 1 << 20, 1<<20 + 1, 8 << 20} {
				seed := uint64(i)
				require.NoError(t, c.set("big", seed, size))
				c.requireLine("+OK")
				fmt.Fprint(direct.nc, "GET big\r\n")
				direct.requireBulk(seed, size)
				fmt.Fprint(c.nc, "GET big\r\n")
				c.requireBulk(seed, size)
				fmt.Fprint(c.nc, "STRLEN big\r\nPING\r\n")
				c.requireLine(fmt.Sprintf(":%d", size))
				c.requireLine("+PONG")
			}
		})
	}
}

// TestLargeValuesAmongSmallCommands pipelines everything in one stream of bytes: replies keep their order.
func TestLargeValuesAmongSmallCommands(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	p := startProxy(t, standaloneYAML(server.Addr(), "stream_threshold: 1MiB"))
	p.awaitReady(t)
	c := dialLarge(t, p.Addr)
	sizes := []int{3 << 20, 100, 1<<20 + 1, 1 << 20, 5 << 20, 2 << 20}
	sent := make(chan error, 1)
	go func() {
		for i, size := range sizes {
			fmt.Fprint(c.nc, "INCR n\r\nPING\r\n")
			if err := c.set(fmt.Sprint("k", i), uint64(i), size); err != nil {
				sent <- err
				return
			}
			fmt.Fprintf(c.nc, "INCR n\r\nGET k%d\r\nECHO between\r\nGET k%d\r\nINCR n\r\nHELLO 2 SETNAME x\r\nCLIENT GETNAME\r\n", i, i)
		}
		sent <- nil
	}()
	n := 0
	counter := func() {
		n++
		c.requireLine(fmt.Sprintf(":%d", n))
	}
	for i, size := range sizes {
		counter()
		c.requireLine("+PONG")
		c.requireLine("+OK")
		counter()
		c.requireBulk(uint64(i), size)
		c.requireLine("$7")
		c.requireLine("between")
		c.requireBulk(uint64(i), size)
		counter()
		for range 26 { // HELLO's reply: 7 pairs, one of which is an integer and one an empty array
			line, err := c.in.ReadString('\n')
			require.NoError(t, err)
			if line == "*0\r\n" {
				break
			}
		}
		c.requireLine("$1")
		c.requireLine("x")
	}
	require.NoError(t, <-sent)
}

func TestVeryLargeValueTakesNoMemory(t *testing.T) {
	server := redistest.Standalone(t)
	p := startProxy(t, standaloneYAML(server.Addr()))
	p.awaitReady(t)
	const size = 64 << 20
	before := heapInUse()
	peak := watchHeap(t)
	c := dialLarge(t, p.Addr)
	require.NoError(t, c.set("huge", 7, size))
	c.requireLine("+OK")
	fmt.Fprint(c.nc, "GET huge\r\nPING\r\n")
	c.requireBulk(7, size)
	c.requireLine("+PONG")
	require.Less(t, peak(), before+(32<<20))
}

// TestSlowReaderOfALargeValue: the value waits at the node, not in the proxy, for longer than a command may take, and
// others are served meanwhile.
func TestSlowReaderOfALargeValue(t *testing.T) {
	server := redistest.Standalone(t)
	p := startProxy(t, strings.Replace(standaloneYAML(server.Addr(), "loops: 1", "clients: {output_buffer: 2MiB}"), "databases:", "command_timeout: 1s, databases:", 1))
	p.awaitReady(t)
	const size = 64 << 20
	setter := dialLarge(t, server.Addr())
	require.NoError(t, setter.set("huge", 3, size))
	setter.requireLine("+OK")
	before := heapInUse()
	slow := dialLarge(t, p.Addr)
	fmt.Fprint(slow.nc, "GET huge\r\nGET huge\r\nINCR n\r\nPING\r\n")
	slow.requireLine(fmt.Sprintf("$%d", size)) // by now the shared pipe is another one
	other := redistest.Dial(t, p.Addr)
	for start := time.Now(); time.Since(start) < 1500*time.Millisecond; {
		require.Equal(t, "+OK\r\n", string(other.Do("SET", "k", "v")))
		require.Equal(t, "$1\r\nv\r\n", string(other.Do("GET", "k")))
	}
	require.Less(t, heapInUse(), before+(24<<20))
	require.Equal(t, checksum(content(3, size)), checksum(io.LimitReader(slow.in, size)))
	slow.requireLine("")
	require.Less(t, heapInUse(), before+(24<<20))
	slow.requireBulk(3, size)
	slow.requireLine(":1")
	slow.requireLine("+PONG")
}

// TestSlowReadersHoldUpNobodyForLong: commands that were sent behind a large reply, before it was known to be large, wait
// for its reader a moment; then the reader is given up.
func TestSlowReadersHoldUpNobodyForLong(t *testing.T) {
	server := redistest.Standalone(t)
	p := startProxy(t, standaloneYAML(server.Addr(), "loops: 1", "clients: {output_buffer: 2MiB}"))
	p.awaitReady(t)
	const size = 64 << 20
	setter := dialLarge(t, server.Addr())
	require.NoError(t, setter.set("huge", 3, size))
	setter.requireLine("+OK")
	before := heapInUse()
	server.Stop() // so that all commands are on one pipe before the first reply
	for range 4 {
		fmt.Fprint(dialLarge(t, p.Addr).nc, "GET huge\r\nGET huge\r\n")
	}
	others := make([]*redistest.Conn, 20)
	for i := range others {
		others[i] = redistest.Dial(t, p.Addr)
		require.Equal(t, "+PONG\r\n", string(others[i].Do("PING")))
		others[i].Send(fmt.Sprintf("SET k%d v\r\n", i))
	}
	require.Equal(t, "+PONG\r\n", string(redistest.Dial(t, p.Addr).Do("PING")))
	server.Continue()
	for _, c := range others {
		c.RequireReply("+OK\r\n")
	}
	require.Less(t, heapInUse(), before+(24<<20))
	require.Positive(t, p.metric(t, "sluice_clients_disconnected_total", `reason="output_buffer"`))
}

func TestClientLeavesInTheMiddleOfALargeValue(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	p := startProxy(t, standaloneYAML(server.Addr(), "stream_threshold: 256KiB"))
	p.awaitReady(t)
	setter := redistest.Dial(t, p.Addr)
	require.Equal(t, "+OK\r\n", string(setter.Do("SET", "big", strings.Repeat("x", 8<<20))))
	for i := range 20 {
		uploading, err := net.Dial("tcp", p.Addr)
		require.NoError(t, err)
		fmt.Fprintf(uploading, "PING\r\n*3\r\n$3\r\nSET\r\n$4\r\npart\r\n$8388608\r\n%s", strings.Repeat("y", 100000*(i+1)))
		downloading, err := net.Dial("tcp", p.Addr)
		require.NoError(t, err)
		fmt.Fprint(downloading, "GET big\r\n")
		_, err = io.ReadFull(downloading, make([]byte, 300000))
		require.NoError(t, err)
		if i%2 == 0 {
			require.NoError(t, uploading.(*net.TCPConn).SetLinger(0))
			require.NoError(t, downloading.(*net.TCPConn).SetLinger(0))
		}
		_ = uploading.Close()
		_ = downloading.Close()
		require.Equal(t, "$-1\r\n", string(setter.Do("GET", "part")))
		require.Equal(t, ":8388608\r\n", string(setter.Do("STRLEN", "big")))
	}
	require.Eventually(t, func() bool { return p.Clients() == 1 }, eventually, tick)
	require.Eventually(t, func() bool { return p.metric(t, "sluice_dedicated_connections") == 0 }, eventually, tick)
	require.Equal(t, "+OK\r\n", string(setter.Do("SET", "big", strings.Repeat("z", 8<<20))))
	require.Equal(t, "$-1\r\n", string(server.Do("GET", "part")))
}

func TestBackendDiesInTheMiddleOfALargeValue(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	p := startProxy(t, standaloneYAML(server.Addr(), "stream_threshold: 256KiB"))
	p.awaitReady(t)
	setter := dialLarge(t, p.Addr)
	require.NoError(t, setter.set("big", 1, 32<<20))
	setter.requireLine("+OK")
	uploading, downloading := dialLarge(t, p.Addr), dialLarge(t, p.Addr)
	fmt.Fprint(downloading.nc, "GET big\r\nPING\r\n")
	downloading.requireLine(fmt.Sprintf("$%d", 32<<20))
	fmt.Fprintf(uploading.nc, "*3\r\n$3\r\nSET\r\n$4\r\npart\r\n$8388608\r\n%s", strings.Repeat("y", 1<<20))
	fmt.Fprint(setter.nc, "PING\r\n")
	setter.requireLine("+PONG")
	server.Kill()
	// What was sent of a reply cannot be taken back: the client's connection ends.
	_, err := io.Copy(io.Discard, downloading.in)
	if err != nil {
		require.NotContains(t, err.Error(), "timeout")
	}
	// The upload is answered at its end, or at once, with an error; the connection stays.
	fmt.Fprint(uploading.nc, strings.Repeat("y", 8388608-(1<<20))+"\r\nPING\r\n")
	line, err := uploading.in.ReadString('\n')
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(line, "-ERR upstream "), line)
	uploading.requireLine("+PONG")
	server.Restart()
	require.Eventually(t, func() bool {
		require.NoError(t, uploading.set("big", 2, 4<<20))
		line, err := uploading.in.ReadString('\n')
		require.NoError(t, err)
		return line == "+OK\r\n"
	}, eventually, tick)
	fmt.Fprint(uploading.nc, "GET big\r\n")
	uploading.requireBulk(2, 4<<20)
}

func TestLargeCommandsThatAreRefused(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	p := startProxy(t, standaloneYAML(server.Addr(), "stream_threshold: 64KiB"))
	p.awaitReady(t)
	c := redistest.Dial(t, p.Addr)
	big := strings.Repeat("b", 200000)
	for _, e := range []struct {
		args []string
		want string
	}{
		{[]string{"NOSUCH", big}, "-ERR unknown command 'NOSUCH', with args beginning with: "},
		{[]string{"GET", "k", big}, "-ERR wrong number of arguments for 'get' command"},
		{[]string{big}, "-ERR unknown command"},
		{[]string{"CONFIG", "SET", big, "x"}, "-NOPERM 'config|set' "},
		{[]string{"CONFIG", "WHAT", big}, "-ERR unknown subcommand 'WHAT'. Try CONFIG HELP."},
		{[]string{"CLIENT", "SETNAME", big}, "-ERR "},
		{[]string{"LPUSH", "list", "a", big, big}, ":3"},
		{[]string{"LPUSH", "list", big, "x", "y"}, ":6"},
		{[]string{"HGET", "list", big}, "-WRONGTYPE"},
		{[]string{"EVAL", "return #ARGV[1]", "0", big}, ":200000"},
		{[]string{"GET", big}, "$-1"},
		{[]string{"XREAD", "BLOCK", "1", "STREAMS", big, "$"}, "*-1"},
		{[]string{"ECHO", big}, "$200000"},
		{[]string{"COPY", "k", big, "DB", "9"}, "-NOPERM this tenant may not use database 9"}, // which would go by the tenant's databases
	} {
		c.Send(redistest.Command(e.args...) + redistest.Command("PING"))
		got := string(c.ReadReply())
		require.True(t, strings.HasPrefix(got, e.want), "%.40q: got %.200q", e.args, got)
		c.RequireReply("+PONG\r\n")
	}
	var batch strings.Builder
	for range 20 {
		batch.WriteString("CLIENT REPLY SKIP\r\n" + redistest.Command("SET", "skipped", big) + redistest.Command("STRLEN", "skipped"))
	}
	c.Send(batch.String())
	for range 20 {
		c.RequireReply(":200000\r\n")
	}
}

// TestHalfCloseInTheMiddleOfALargeCommand: what was owed before it is still sent.
func TestHalfCloseInTheMiddleOfALargeCommand(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	p := startProxy(t, standaloneYAML(server.Addr()))
	p.awaitReady(t)
	const size = 16 << 20
	setter := dialLarge(t, server.Addr())
	require.NoError(t, setter.set("big", 5, size))
	setter.requireLine("+OK")
	c := dialLarge(t, p.Addr)
	fmt.Fprint(c.nc, "GET big\r\n*3\r\n$3\r\nSET\r\n$1\r\nx\r\n$8000000\r\nonly the start")
	require.NoError(t, c.nc.(*net.TCPConn).CloseWrite())
	c.requireBulk(5, size)
	_, err := c.in.ReadByte()
	require.ErrorIs(t, err, io.EOF)
	require.Equal(t, "$-1\r\n", string(server.Do("GET", "x")))
}

// TestLargeAggregates: replies of many small elements, which no single length announces as large.
func TestLargeAggregates(t *testing.T) {
	t.Parallel()
	p := startPair(t)
	fill := "for i=1,ARGV[1] do redis.call('RPUSH','l',i) redis.call('HSET','h',i,'v'..i) redis.call('ZADD','z',i,'m'..i) redis.call('XADD','x',i..'-1','f',i) end"
	for _, s := range []*redistest.Server{p.backend, p.direct} {
		require.Equal(t, "$-1\r\n", string(s.Do("EVAL", fill, "0", "30000")))
	}
	for _, protocol := range []int{2, 3} {
		through, direct := p.dial(t, protocol)
		var batch string
		lines := []string{
			"LRANGE l 0 -1", "ZRANGE z 0 -1 WITHSCORES", "XRANGE x - +", "XREAD STREAMS x 0", "EVAL \"return redis.call('LRANGE','l',0,-1)\" 0",
			"EVAL \"local t={} for i=1,5000 do t[i]={i,{tostring(i)}} end return t\" 0", "ZRANGE z 0 -1", "LRANGE l 0 10",
		}
		for _, line := range lines {
			batch += redistest.Command(words(t, line)...)
		}
		through.Send(batch)
		direct.Send(batch)
		for _, line := range lines {
			e := example{text: line}
			e.requireSame(t, direct.ReadReply(), through.ReadReply())
		}
		e := example{text: "HGETALL h", as: unordered}
		e.requireSame(t, direct.Do("HGETALL", "h"), through.Do("HGETALL", "h"))
	}
}

// TestSlowReaderOfALargeAggregate is TestSlowReaderOfALargeValue for a reply of many elements.
func TestSlowReaderOfALargeAggregate(t *testing.T) {
	server := redistest.Standalone(t)
	p := startProxy(t, strings.Replace(standaloneYAML(server.Addr(), "loops: 1", "clients: {output_buffer: 2MiB}"), "databases:", "command_timeout: 1s, databases:", 1))
	p.awaitReady(t)
	const elements = 64
	value := strings.Repeat("0123456789abcdef", 16<<10/16)
	for range elements {
		server.Do("EVAL", "for i=1,64 do redis.call('RPUSH','l',ARGV[1]) end", "0", value)
	}
	before := heapInUse()
	slow := dialLarge(t, p.Addr)
	fmt.Fprint(slow.nc, "LRANGE l 0 -1\r\nPING\r\n")
	slow.requireLine(fmt.Sprintf("*%d", elements*64))
	requireElements := func(n int) {
		for range n {
			slow.requireLine(fmt.Sprintf("$%d", len(value)))
			slow.requireLine(value)
		}
	}
	requireElements(32) // more than the stream threshold: the shared pipe is another one by now
	other := redistest.Dial(t, p.Addr)
	for start := time.Now(); time.Since(start) < 1500*time.Millisecond; {
		require.Equal(t, "+OK\r\n", string(other.Do("SET", "k", "v")))
	}
	require.Less(t, heapInUse(), before+(24<<20))
	requireElements(elements*64 - 32)
	slow.requireLine("+PONG")
}
