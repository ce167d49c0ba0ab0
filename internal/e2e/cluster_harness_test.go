package e2e

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/pkg/slot"
)

// clusterProxy runs a daemon in front of a cluster and returns when it is ready. tenant holds more keys of the tenant,
// such as "command_timeout: 1s".
func clusterProxy(t *testing.T, servers *redistest.ClusterServers, tenant string, extra ...string) *proxy {
	t.Helper()
	p := startProxy(t, tenantYAML("cluster", servers.Addrs(), tenant, extra...))
	p.awaitReady(t)
	return p
}

// tenantYAML is one open tenant with more keys of its own. A cluster's key can be given in extra as "cluster: …".
func tenantYAML(kind string, addrs []string, tenant string, extra ...string) string {
	cluster := ""
	rest := make([]string, 0, len(extra))
	for _, line := range extra {
		if text, ok := strings.CutPrefix(line, "cluster: "); ok {
			cluster += ", " + text
		} else {
			rest = append(rest, line)
		}
	}
	if tenant != "" {
		tenant = ", " + tenant
	}
	return fmt.Sprintf(`
listeners: [{address: "127.0.0.1:0"}]
admin: {address: "127.0.0.1:0"}
clusters: [{name: main, kind: %s, addresses: ["%s"]%s}]
tenants: [{name: acme, cluster: main%s}]
%s`, kind, strings.Join(addrs, `", "`), cluster, tenant, strings.Join(rest, "\n"))
}

// keyOfShard is a key that the i-th of three primaries serves at the start, made unique by name.
func keyOfShard(i int, name string) string {
	for n := 0; ; n++ {
		key := name + ":" + strconv.Itoa(n)
		if shardAtStart(key) == i {
			return key
		}
	}
}

// shardAtStart is which of three primaries serves the key before any slot is moved.
func shardAtStart(key string) int {
	for i := range 2 {
		if int(slot.Of([]byte(key))) < (i+1)*slot.Count/3 {
			return i
		}
	}
	return 2
}

// hello dials and switches to the protocol version.
func hello(t testing.TB, addr string, protocol int) *redistest.Conn {
	t.Helper()
	c := redistest.Dial(t, addr)
	if protocol == 3 {
		require.Equal(t, byte('%'), c.Do("HELLO", "3")[0])
	}
	return c
}

// tellsAddress reports whether bytes that a client got name a place behind the proxy. No test stores such a text.
func tellsAddress(reply []byte) bool {
	return bytes.Contains(reply, []byte("127.0.0.1")) || bytes.Contains(reply, []byte("MOVED ")) || bytes.Contains(reply, []byte("ASK "))
}

// crowd is clients that run at once. What they find wrong is collected, because only the test's goroutine may end it.
type crowd struct {
	t    testing.TB
	stop chan struct{}
	wg   sync.WaitGroup
	mu   struct {
		sync.Mutex
		wrong  []string
		errors map[string]int
		served int
	}
}

func newCrowd(t testing.TB) *crowd {
	c := &crowd{t: t, stop: make(chan struct{})}
	c.mu.errors = make(map[string]int)
	t.Cleanup(c.end)
	return c
}

// join runs one client until it returns or the crowd ends.
func (c *crowd) join(client func()) { c.wg.Go(client) }

// ended reports whether the clients are to stop.
func (c *crowd) ended() bool {
	select {
	case <-c.stop:
		return true
	default:
		return false
	}
}

// end stops the clients and waits for them.
func (c *crowd) end() {
	c.mu.Lock()
	select {
	case <-c.stop:
	default:
		close(c.stop)
	}
	c.mu.Unlock()
	c.wg.Wait()
}

// wrong notes something that must never happen.
func (c *crowd) wrong(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.mu.wrong) < 10 {
		c.mu.wrong = append(c.mu.wrong, fmt.Sprintf(format, args...))
	}
}

// saw counts a reply; an error reply is counted by its text. It reports whether the reply is an error.
func (c *crowd) saw(reply []byte) (isError bool) {
	isError = len(reply) > 0 && reply[0] == '-'
	if tellsAddress(reply) {
		c.wrong("a reply tells an address or a redirect: %q", reply)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.served++
	if isError {
		c.mu.errors[strings.TrimSpace(string(reply))]++
	}
	return isError
}

// served is the number of replies so far.
func (c *crowd) served() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.served
}

// errors are the error replies so far, by text.
func (c *crowd) errors() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make(map[string]int, len(c.mu.errors))
	for text, n := range c.mu.errors {
		all[text] = n
	}
	return all
}

// requireRight ends the crowd and fails the test if anything was wrong.
func (c *crowd) requireRight() {
	c.t.Helper()
	c.end()
	c.mu.Lock()
	defer c.mu.Unlock()
	require.Empty(c.t, c.mu.wrong)
}

// awaitServed returns when more replies have come.
func (c *crowd) awaitServed(more int) {
	c.t.Helper()
	want := c.served() + more
	require.Eventually(c.t, func() bool { return c.served() >= want }, eventually, tick)
}

// within fails the test when fn takes longer than limit, and returns its result.
func within[T any](t testing.TB, limit time.Duration, fn func() T) T {
	t.Helper()
	start := time.Now()
	result := fn()
	require.Less(t, time.Since(start), limit)
	return result
}
