package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/redistest"
)

// TestTrackingOnACluster has a client that knows of no cluster track keys of every shard, in each mode.
func TestTrackingOnACluster(t *testing.T) {
	t.Parallel()
	servers := redistest.Cluster(t, 3, 0)
	p := clusterProxy(t, servers, "", "loops: 2")
	writer := redistest.Dial(t, p.Addr)
	keys := []string{keyOfShard(0, "k"), keyOfShard(1, "k"), keyOfShard(2, "k")}
	read := append([]string{"MGET"}, keys...)
	write := []string{"MSET"}
	for _, key := range keys {
		write = append(write, key, "1")
	}
	all := map[string]bool{}
	for _, key := range keys {
		all[invalidation(key)] = true
	}
	hears := func(c *redistest.Conn) {
		t.Helper()
		heard := map[string]bool{}
		for range keys {
			heard[string(c.ReadReply())] = true
		}
		require.Equal(t, all, heard)
		require.Equal(t, "+PONG\r\n", string(c.Do("PING")))
	}
	before := 0
	count := func() (sum int) {
		for _, s := range servers.Servers() {
			sum += connectedClients(s)
		}
		return sum
	}
	for range 8 { // on both loops
		redistest.Dial(t, p.Addr).Do(read...)
	}
	before = count()

	c := hello(t, p.Addr, 3)
	require.Equal(t, "+OK\r\n", string(c.Do("CLIENT", "TRACKING", "ON")))
	c.Do(read...)
	writer.Do(write...)
	hears(c)
	for _, key := range keys { // NOLOOP is off, and each has been told once
		c.Do("GET", key)
		writer.Do("SET", key, "2")
		require.Equal(t, invalidation(key), string(c.ReadReply()))
	}
	c.Do("CLIENT", "TRACKING", "OFF")
	require.Equal(t, "+OK\r\n", string(c.Do("CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", "k")))
	writer.Do(write...)
	hears(c)
	c.Do("CLIENT", "TRACKING", "OFF")
	require.Equal(t, "+OK\r\n", string(c.Do("CLIENT", "TRACKING", "ON", "OPTIN", "NOLOOP")))
	c.Do(read...)
	require.Equal(t, "+OK\r\n", string(c.Do("CLIENT", "CACHING", "YES")))
	c.Do(read...)
	c.Do("GET", "k")
	writer.Do("SET", "k", "1")
	writer.Do(write...)
	hears(c)
	c.Do(write...)
	require.Equal(t, "+PONG\r\n", string(c.Do("PING")))

	// Transactions and blocking commands go over the connection to their own shard.
	key := keys[1]
	require.Equal(t, "+OK\r\n", string(c.Do("WATCH", key)))
	c.Do("MULTI")
	c.Do("SET", key, "3")
	require.Equal(t, "*1\r\n+OK\r\n", string(c.Do("EXEC")))
	c.Do("WATCH", key)
	writer.Do("SET", key, "4")
	c.Do("MULTI")
	c.Do("SET", key, "5")
	require.Equal(t, "_\r\n", string(c.Do("EXEC")))
	writer.Do("RPUSH", keyOfShard(2, "list"), "x")
	require.Contains(t, string(c.Do("BLPOP", keyOfShard(2, "list"), "0")), "$1\r\nx\r\n")

	target := redistest.Dial(t, p.Addr)
	id := strings.TrimSpace(string(target.Do("CLIENT", "ID")[1:]))
	target.Do("SUBSCRIBE", "__redis__:invalidate")
	plain := redistest.Dial(t, p.Addr)
	require.Equal(t, "+OK\r\n", string(plain.Do("CLIENT", "TRACKING", "ON", "REDIRECT", id)))
	plain.Do(read...)
	writer.Do(write...)
	heard := ""
	for range keys {
		heard += string(target.ReadReply())
	}
	for _, key := range keys {
		require.Contains(t, heard, key)
	}
	c.Close()
	plain.Close()
	target.Close()
	await(t, func() bool { return count() <= before })
}

// TestTrackingWhileASlotMoves reads a key, and one that does not exist, of a slot that goes to another shard.
func TestTrackingWhileASlotMoves(t *testing.T) {
	t.Parallel()
	servers := redistest.Cluster(t, 3, 0)
	p := clusterProxy(t, servers, "")
	c, writer := hello(t, p.Addr, 3), redistest.Dial(t, p.Addr)
	key, missing := "{moves}there", "{moves}missing"
	writer.Do("SET", key, "1")
	c.Do("CLIENT", "TRACKING", "ON")
	c.Do("MGET", key, missing)
	from := servers.NodeFor(key)
	to := servers.Servers()[0]
	if to == from {
		to = servers.Servers()[1]
	}
	servers.MoveSlot(servers.Slot(key), from, to)
	require.Equal(t, invalidation(key), string(c.ReadReply()), "the node tells of the key that it gives away")
	require.Equal(t, "$1\r\n1\r\n", string(writer.Do("GET", key))) // by which the proxy learns of the move
	heard := map[string]bool{}
	c.SendCommand("MGET", key, missing)
	for range 2 {
		heard[string(c.ReadReply())] = true
	}
	require.Equal(t, map[string]bool{invalidateAll: true, "*2\r\n$1\r\n1\r\n_\r\n": true}, heard)
	for _, name := range []string{key, missing} {
		writer.Do("SET", name, "2")
		require.Equal(t, invalidation(name), string(c.ReadReply()))
	}
}

// TestTrackingThroughAFailover loses a primary: the client is told to forget, and hears of its successor's keys.
func TestTrackingThroughAFailover(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"", "BCAST"} {
		t.Run(mode, func(t *testing.T) {
			servers := redistest.Cluster(t, 3, 3)
			p := clusterProxy(t, servers, "")
			c, writer := hello(t, p.Addr, 3), redistest.Dial(t, p.Addr)
			key := keyOfShard(1, "k")
			c.Do(strings.Fields("CLIENT TRACKING ON " + mode)...)
			c.Do("GET", key)
			servers.Failover(servers.NodeFor(key))
			await(t, func() bool { return string(writer.Do("SET", key, "1")) == "+OK\r\n" }) // by which the proxy learns of it
			heard := string(c.ReadReply())
			for heard != invalidateAll { // the old primary may tell of the key first, as a replica
				heard = string(c.ReadReply())
			}
			i := 1
			await(t, func() bool { // what it hears at last is of the successor
				c.SendCommand("GET", key)
				reply := c.ReadReply()
				for reply[0] == '>' {
					reply = c.ReadReply()
				}
				if reply[0] == '-' {
					return false
				}
				i++
				require.Equal(t, "+OK\r\n", string(writer.Do("SET", key, fmt.Sprint(i))))
				for string(reply) != invalidation(key) {
					reply = c.ReadReply()
				}
				return true
			})
		})
	}
}
