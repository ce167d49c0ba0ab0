package e2e

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/redistest"
)

// echoer sends nonces through a node and knows that nothing else may come back.
type echoer struct {
	crowd *crowd
	conn  *redistest.Conn
	key   string
	name  string
}

func (e *echoer) run() {
	for i := 0; !e.crowd.ended(); i++ {
		nonce := e.name + "/" + strconv.Itoa(i)
		reply, err := e.conn.TryDo("EVAL", "return ARGV[1]", "1", e.key, nonce)
		if err != nil {
			e.crowd.wrong("the proxy closed a client's connection: %v", err)
			return
		}
		if e.crowd.saw(reply) {
			time.Sleep(5 * time.Millisecond) // a client that is refused does not spin
		} else if string(reply) != bulk(nonce) {
			e.crowd.wrong("%s got %q", nonce, reply)
			return
		}
	}
}

// TestBlackHoledShard stops one of three primaries: its connections stay open and silent. Who needs it gets errors, soon
// without waiting; who needs another one notices nothing.
func TestBlackHoledShard(t *testing.T) {
	redistest.LeakCheck(t)
	const timeout = time.Second
	servers := redistest.Cluster(t, 3, 0, partialCoverage())
	p := clusterProxy(t, servers, "command_timeout: 1s", "cluster: connect_timeout: 1s")
	hurt, others := newCrowd(t), newCrowd(t)
	for i := range 12 {
		e := &echoer{crowd: hurt, conn: hello(t, p.Addr, 2+i%2), key: keyOfShard(0, "echo"), name: fmt.Sprint("client", i)}
		hurt.join(e.run)
	}
	healthy := append(startCounters(t, others, p.Addr, 1, 4), startCounters(t, others, p.Addr, 2, 4)...)
	hurt.awaitServed(200)
	c := hello(t, p.Addr, 2)
	key := keyOfShard(0, "probe")
	require.Equal(t, "+OK\r\n", string(c.Do("SET", key, "v")))

	servers.Primaries[0].Stop()
	reply := within(t, 2*timeout, func() string { return string(c.Do("SET", key, "w")) })
	require.Regexp(t, `^-ERR upstream (timeout|connection lost|unavailable).*may have been executed`, reply)
	// From now on the dead shard is refused at once: nobody waits a second time, not even for a connection.
	start := time.Now()
	for range 50 {
		require.Regexp(t, `^-(ERR upstream unavailable|CLUSTERDOWN).*`, string(c.Do("GET", key)))
	}
	require.Less(t, time.Since(start), timeout/2, "50 commands for a dead shard")
	require.Equal(t, "-ERR upstream unavailable: the node of this key cannot be reached; the command was not executed\r\n",
		string(c.Do("MGET", keyOfShard(1, "x"), key)), "a split command fails with its dead part")
	for i := range 6 {
		keyless := hello(t, p.Addr, 2)
		require.Eventually(t, func() bool { return string(keyless.Do("EVAL", "return 1", "0")) == ":1\r\n" }, 3*timeout, tick,
			"client %d: a command without a key needs no certain node", i)
	}
	awaitMore(t, healthy, 200)
	require.Empty(t, others.errors())

	servers.Primaries[0].Continue()
	require.Eventually(t, func() bool { return string(c.Do("SET", key, "y")) == "+OK\r\n" }, eventually, tick)
	require.Equal(t, bulk("y"), string(c.Do("GET", key)))
	hurt.awaitServed(200)
	hurt.requireRight()
	others.requireRight()
	require.Empty(t, others.errors())
	requireExact(t, servers, healthy)
	for _, h := range healthy {
		require.Less(t, time.Duration(h.slowest.Load()), timeout, "a healthy shard's client waited for the dead one")
	}
	for text := range hurt.errors() {
		require.Regexp(t, `^-(ERR upstream (timeout|connection lost|unavailable)|CLUSTERDOWN)`, text)
	}
}
