package e2e

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/redistest"
)

const (
	soakTime    = 8 * time.Second
	soakClients = 200
)

// TestNoForeignReply lets hundreds of clients send nonces of their own through a node whose answers come late, in bits, or
// not at all, whose connections are cut anywhere, and which is restarted. A client may get errors and may lose its
// connection in the middle of a large reply. One byte of another client's fails the test.
func TestNoForeignReply(t *testing.T) {
	redistest.LeakCheck(t)
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("SLUICE_SOAK_SEED"); text != "" {
		var err error
		seed, err = strconv.ParseUint(text, 10, 64)
		require.NoError(t, err)
	}
	t.Logf("SLUICE_SOAK_SEED=%d chooses the same faults again", seed)
	server := redistest.Standalone(t)
	relay := redistest.NewFaultyProxy(t, server.Addr())
	p := startProxy(t, tenantYAML("standalone", []string{relay.Addr()}, "command_timeout: 150ms", "cluster: connect_timeout: 500ms"))
	p.awaitReady(t)

	clients := newCrowd(t)
	all := make([]*nonceClient, soakClients)
	for i := range all {
		all[i] = &nonceClient{crowd: clients, addr: p.Addr, name: fmt.Sprintf("c%d/", i), protocol: 2 + i%2, random: rand.New(rand.NewPCG(seed, uint64(i)))}
		clients.join(all[i].run)
	}
	faults := rand.New(rand.NewPCG(seed, 1<<32))
	for end := time.Now().Add(soakTime); time.Now().Before(end); {
		breakSomething(faults, relay, server)
	}
	relay.Heal()
	// Everybody is served again, over whatever connections are left.
	marks := make([]int64, len(all))
	for i, c := range all {
		marks[i] = c.served.Load()
	}
	for i, c := range all {
		require.Eventually(t, func() bool { return c.served.Load() > marks[i] || clients.ended() }, eventually, tick, "client %d is not served any more", i)
	}
	clients.requireRight()
	for text := range clients.errors() {
		require.Regexp(t, `^-(ERR upstream (timeout|connection lost|unavailable)|LOADING)`, text)
	}
	require.Positive(t, p.metric(t, "sluice_upstream_late_replies_total"), "no reply was late")
	require.Positive(t, p.metric(t, "sluice_upstream_errors_total", "connection_lost"), "no connection was lost")
	t.Logf("%d replies", clients.served())
}

// breakSomething chooses a fault and takes its time over it.
func breakSomething(r *rand.Rand, relay *redistest.FaultyProxy, server *redistest.Server) {
	pause := func(atMost time.Duration) { time.Sleep(upTo(r, atMost)) }
	switch r.IntN(8) {
	case 0, 1: // replies come after the command timeout, but come
		relay.ToClient(redistest.Faults{Delay: 160*time.Millisecond + upTo(r, 100*time.Millisecond)})
		pause(500 * time.Millisecond)
	case 2:
		relay.Cut()
	case 3: // cut at any byte of a reply
		relay.ToClient(redistest.Faults{CutAfter: 1 + r.IntN(200_000)})
		pause(200 * time.Millisecond)
	case 4: // cut at any byte of a command
		relay.ToServer(redistest.Faults{CutAfter: 1 + r.IntN(100_000)})
		pause(200 * time.Millisecond)
	case 5:
		relay.Both(redistest.Faults{BlackHole: true})
		pause(500 * time.Millisecond)
	case 6:
		relay.ToClient(redistest.Faults{MaxWrite: 1 + r.IntN(50), Delay: upTo(r, 20*time.Millisecond)})
		pause(300 * time.Millisecond)
	case 7:
		if r.IntN(2) == 0 {
			server.Restart()
		}
	}
	relay.Heal()
	pause(250 * time.Millisecond)
}

func upTo(r *rand.Rand, most time.Duration) time.Duration {
	return time.Duration(r.Int64N(int64(most)))
}

// nonceClient sends values that begin with its name and checks that whatever comes back does.
type nonceClient struct {
	crowd    *crowd
	addr     string
	name     string
	protocol int
	random   *rand.Rand
	conn     *redistest.Conn
	rounds   int
	served   atomic.Int64 // replies to echoes
}

func (n *nonceClient) run() {
	defer func() {
		if n.conn != nil {
			n.conn.Close()
		}
	}()
	for !n.crowd.ended() {
		if n.conn == nil && !n.connect() {
			return
		}
		n.round()
		time.Sleep(upTo(n.random, 30*time.Millisecond)) // otherwise the clients alone would take the machine
	}
}

func (n *nonceClient) connect() bool {
	conn, err := redistest.TryDial(n.crowd.t, n.addr)
	if err != nil {
		n.crowd.wrong("cannot connect to the proxy: %v", err)
		return false
	}
	n.conn = conn
	if n.protocol == 3 {
		if reply, err := conn.TryDo("HELLO", "3"); err != nil || reply[0] != '%' {
			n.crowd.wrong("HELLO: %q, %v", reply, err)
			return false
		}
	}
	return true
}

// round sends a pipeline and checks its replies.
func (n *nonceClient) round() {
	n.rounds++
	nonce := n.name + strconv.Itoa(n.rounds) + ";"
	key := "key:" + n.name
	value := strings.Repeat(nonce, 1+n.random.IntN(20))
	if n.random.IntN(10) == 0 {
		value = strings.Repeat(nonce, 8000) // longer than a reply that is held until it is whole
	}
	checks := []struct {
		command string
		right   func(reply []byte) bool
	}{
		{redistest.Command("SET", key, value), func(r []byte) bool { return string(r) == "+OK\r\n" }},
		{redistest.Command("EVAL", "return ARGV[1]", "1", key, nonce), func(r []byte) bool { n.served.Add(1); return string(r) == bulk(nonce) }},
		{redistest.Command("GET", key), n.isOwn},
		{redistest.Command("ECHO", nonce), func(r []byte) bool { return string(r) == bulk(nonce) }},
		{redistest.Command("MGET", key, key), n.isOwn},
		{redistest.Command("EVAL", "return {ARGV[1],KEYS[1]}", "1", key, nonce), func(r []byte) bool { return string(r) == "*2\r\n"+bulk(nonce)+bulk(key) }},
	}
	var packet strings.Builder
	for _, c := range checks {
		packet.WriteString(c.command)
	}
	if err := n.conn.TrySend(packet.String()); err != nil {
		n.reconnect()
		return
	}
	for i, c := range checks {
		reply, err := n.conn.TryRead()
		if err != nil {
			if !n.isOwn(reply) {
				n.crowd.wrong("%s: a reply that was cut off is %.200q", nonce, reply)
			}
			n.reconnect()
			return
		}
		if !n.crowd.saw(reply) && !c.right(reply) {
			n.crowd.wrong("%s: reply %d is %.200q", nonce, i, reply)
			return
		}
	}
}

func (n *nonceClient) reconnect() {
	n.conn.Close()
	n.conn = nil
}

// isOwn reports whether a reply, or the beginning of one, holds nothing but values of this client or nothing.
func (n *nonceClient) isOwn(reply []byte) bool {
	for line := range bytes.Lines(reply) {
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 || bytes.ContainsAny(line[:1], "*$_") {
			continue
		}
		if bytes.HasPrefix(line, []byte("key:")) {
			line = bytes.TrimPrefix(line, []byte("key:"))
		}
		for part := range bytes.SplitSeq(line, []byte(";")) {
			if !bytes.HasPrefix(part, []byte(n.name)) && !bytes.HasPrefix([]byte(n.name), part) {
				return false
			}
		}
	}
	return true
}
