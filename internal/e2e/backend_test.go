package e2e

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/redistest"
)

const unavailable = "-ERR upstream unavailable: the node of this key cannot be reached; the command was not executed\r\n"

func TestBackendAwayAtStart(t *testing.T) {
	t.Parallel()
	there, away := redistest.Standalone(t), redistest.Standalone(t)
	away.Kill()
	p := startProxy(t, fmt.Sprintf(`
listeners: [{address: "127.0.0.1:0", tenant: good}, {address: "127.0.0.1:0", tenant: bad}]
admin: {address: "127.0.0.1:0"}
clusters: [{name: there, kind: standalone, addresses: [%q]}, {name: away, kind: standalone, addresses: [%q]}]
tenants: [{name: good, cluster: there}, {name: bad, cluster: away}]
`, there.Addr(), away.Addr()))
	var body string
	require.Eventually(t, func() bool {
		var status int
		status, body, _ = p.get(t, "/readyz")
		return status == http.StatusServiceUnavailable && !strings.Contains(body, `"there"`) && strings.Contains(body, "cannot reach")
	}, eventually, tick)
	require.JSONEq(t, `{"status": "not ready", "not_ready": [{"cluster": "away", "tenants": ["bad"], "reason": "cannot reach the node: dial: connect: connection refused"}]}`, body)
	status, _, _ := p.get(t, "/healthz")
	require.Equal(t, http.StatusOK, status)

	good, bad := redistest.Dial(t, p.Addresses()[0].String()), redistest.Dial(t, p.Addresses()[1].String())
	require.Equal(t, "+OK\r\n", string(good.Do("SET", "k", "v")))
	start := time.Now()
	bad.Send(strings.Repeat("SET k v\r\nPING\r\n", 50))
	for range 50 {
		bad.RequireReply(unavailable)
		bad.RequireReply("+PONG\r\n")
	}
	require.Less(t, time.Since(start), time.Second, "commands fail at once")

	half := redistest.Dial(t, p.Addresses()[1].String())
	half.Send("GET a\r\nSELECT 0\r\nGET b\r\nSELECT 0\r\nMGET a b\r\n")
	require.NoError(t, half.NetConn().(*net.TCPConn).CloseWrite())
	for _, want := range []string{unavailable, "+OK\r\n", unavailable, "+OK\r\n", unavailable} {
		half.RequireReply(want)
	}
	half.RequireClosed()

	away.Restart()
	require.Eventually(t, func() bool { return string(bad.Do("SET", "k", "v")) == "+OK\r\n" }, eventually, tick)
	p.awaitReady(t)
}

// tally is what a closed loop of commands saw.
type tally struct {
	good, failed atomic.Int64
	unexpected   atomic.Pointer[string]
}

func (s *tally) note(reply string) {
	switch {
	case reply[0] == ':':
		s.good.Add(1)
	case strings.HasPrefix(reply, "-ERR upstream "):
		s.failed.Add(1)
	default:
		s.unexpected.CompareAndSwap(nil, &reply)
	}
}

func TestBackendKilledAndRestartedUnderLoad(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	p := startProxy(t, standaloneYAML(server.Addr()))
	p.awaitReady(t)
	var seen tally
	var running sync.WaitGroup
	stop := make(chan struct{})
	for i := range 8 {
		c := redistest.Dial(t, p.Addr)
		running.Go(func() {
			defer c.Close()
			for {
				select {
				case <-stop:
					return
				default:
				}
				if c.TrySend(strings.Repeat(redistest.Command("INCR", fmt.Sprint(i)), 4)) != nil {
					text := "the connection was closed"
					seen.unexpected.CompareAndSwap(nil, &text)
					return
				}
				for range 4 {
					reply, err := c.TryRead()
					if err != nil {
						reply = []byte(err.Error())
					}
					seen.note(string(reply))
				}
			}
		})
	}
	await := func(counter *atomic.Int64, more int64) {
		t.Helper()
		target := counter.Load() + more
		require.Eventually(t, func() bool { return counter.Load() >= target }, eventually, tick)
	}
	await(&seen.good, 500)
	server.Kill()
	await(&seen.failed, 50)
	require.Eventually(t, func() bool {
		status, _, _ := p.get(t, "/readyz")
		return status == http.StatusServiceUnavailable
	}, eventually, tick)
	server.Restart()
	await(&seen.good, 500)
	p.awaitReady(t)
	failed := seen.failed.Load()
	await(&seen.good, 500)
	require.Equal(t, failed, seen.failed.Load(), "no error any more")
	close(stop)
	running.Wait()
	if text := seen.unexpected.Load(); text != nil {
		t.Error(*text)
	}
	require.Positive(t, p.metric(t, "sluice_command_errors_total", `tenant="acme"`))
}

// TestBackendRestartedWhileIdle: connections that died unnoticed cost no command.
func TestBackendRestartedWhileIdle(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	p := startProxy(t, standaloneYAML(server.Addr()))
	p.awaitReady(t)
	c := redistest.Dial(t, p.Addr)
	for range 5 {
		require.Equal(t, "+OK\r\n", string(c.Do("SET", "k", "v")))
		server.Restart()
		require.Eventually(t, func() bool { return string(c.Do("SET", "k", "v")) == "+OK\r\n" }, eventually, tick)
	}
}

// TestOutcomeUnknown: a write that was sent and not answered is not sent again; a read is.
func TestOutcomeUnknown(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	p := startProxy(t, standaloneYAML(server.Addr()))
	p.awaitReady(t)
	reader, writer := redistest.Dial(t, p.Addr), redistest.Dial(t, p.Addr)
	require.Equal(t, "+OK\r\n", string(writer.Do("SET", "k", "v")))
	require.Equal(t, "$1\r\nv\r\n", string(reader.Do("GET", "k")))
	server.Stop()
	writer.Send("INCR n\r\n")
	reader.Send("GET k\r\n")
	other := redistest.Dial(t, p.Addr)
	for range 3 {
		require.Equal(t, "+PONG\r\n", string(other.Do("PING")))
	}
	server.Kill()
	writer.RequireReply("-ERR upstream connection lost; the command may have been executed, its outcome is unknown\r\n")
	got := string(reader.ReadReply())
	require.Contains(t, []string{unavailable, "$-1\r\n"}, got)
	server.Restart()
	require.Eventually(t, func() bool { return string(reader.Do("GET", "k")) == "$-1\r\n" }, eventually, tick)
}

func TestCommandTimeout(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	p := startProxy(t, strings.Replace(standaloneYAML(server.Addr()), "databases:", "command_timeout: 300ms, databases:", 1))
	p.awaitReady(t)
	c := redistest.Dial(t, p.Addr)
	require.Equal(t, "+OK\r\n", string(c.Do("SET", "k", "v")))
	server.Stop()
	start := time.Now()
	c.Send("INCR n\r\nPING\r\n")
	c.RequireReply("-ERR upstream timeout: no reply within 300ms; the command may have been executed, its outcome is unknown\r\n")
	c.RequireReply("+PONG\r\n")
	require.Less(t, time.Since(start), 3*time.Second)
	server.Continue()
	require.Eventually(t, func() bool { return string(c.Do("GET", "k")) == "$1\r\nv\r\n" }, eventually, tick)
	for i := range 100 {
		require.Equal(t, fmt.Sprintf("$%d\r\n%d\r\n", len(fmt.Sprint(i)), i), string(c.Do("ECHO", fmt.Sprint(i))))
		require.Equal(t, "$1\r\nv\r\n", string(c.Do("GET", "k")), "a late reply reaches nobody")
	}
}
