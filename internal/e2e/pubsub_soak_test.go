package e2e

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/session"
)

// feedsAt is how many connections of the server are subscribed to something.
func feedsAt(server *redistest.Server) int {
	return strings.Count(string(server.Do("CLIENT", "LIST", "TYPE", "pubsub")), "id=")
}

// TestSubscribeCyclesLeaveNothingBehind: thousands of clients subscribe to thousands of channels and unsubscribe, or go.
func TestSubscribeCyclesLeaveNothingBehind(t *testing.T) {
	redistest.LeakCheck(t)
	server := redistest.Standalone(t)
	p := startProxy(t, standaloneYAML(server.Addr(), "loops: 2"))
	p.awaitReady(t)
	subscribeCycles(t, p, 500) // fills the free lists
	settle := func() {
		awaitNoClients(t, p)
		await(t, func() bool { return p.metric(t, "sluice_subscription_connections") == 0 && feedsAt(server) == 0 })
	}
	settle()
	goroutines, heap, connections := runtime.NumGoroutine(), heapInUse(), connectedClients(server)

	subscribeCycles(t, p, 10_000)
	settle()
	require.Equal(t, "*0\r\n", string(server.Do("PUBSUB", "CHANNELS")))
	require.InDelta(t, 0, p.metric(t, "sluice_subscriptions"), 0)
	require.InDelta(t, 0, p.metric(t, "sluice_subscription_connections_lost_total"), 0)
	await(t, func() bool { return connectedClients(server) <= connections })
	await(t, func() bool { return runtime.NumGoroutine() <= goroutines+5 })
	await(t, func() bool { return heapInUse() < heap+8<<20 })
}

// subscribeCycles runs clients that subscribe and unsubscribe; every 20th leaves without unsubscribing.
func subscribeCycles(t *testing.T, p *proxy, cycles int) {
	t.Helper()
	const workers = 8
	crowd := newCrowd(t)
	for w := range workers {
		crowd.join(func() {
			var c *redistest.Conn
			for i := range cycles / workers {
				if c == nil {
					c = hello(t, p.Addr, 2+i/20%2)
				}
				kind := []string{"", "P", "S"}[i%3]
				name := fmt.Sprintf("channel:%d:%d", w%4, i) // two workers at a time have the same
				reply, err := c.TryDo(kind+"SUBSCRIBE", name)
				if err != nil || !bytes.HasSuffix(reply, []byte(":1\r\n")) {
					crowd.wrong("subscribe: %q %v", reply, err)
					return
				}
				if i%20 == 19 {
					c.Close()
					c = nil
					continue
				}
				reply, err = c.TryDo(kind + "UNSUBSCRIBE")
				if err != nil || !bytes.HasSuffix(reply, []byte(":0\r\n")) || !bytes.Contains(reply, []byte(name)) {
					crowd.wrong("unsubscribe: %q %v", reply, err)
					return
				}
			}
			if c != nil {
				c.Close()
			}
		})
	}
	crowd.wg.Wait()
	crowd.requireRight()
}

const subscribedToNews = "*3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n"

// TestThousandsOfSubscribersShareAConnection: they cost the server one connection for each loop, get every message in
// order and are counted.
func TestThousandsOfSubscribersShareAConnection(t *testing.T) {
	const subscribers = 2000
	server := redistest.Standalone(t)
	p := startProxy(t, standaloneYAML(server.Addr(), "loops: 2"))
	p.awaitReady(t)
	conns := dialMany(t, p.Addr, subscribers)
	moveHalf(p)
	for _, c := range conns {
		require.Equal(t, subscribedToNews, string(c.Do("SUBSCRIBE", "news")))
	}
	require.Equal(t, 2, feedsAt(server), "one for each loop")
	publishNews(t, redistest.Dial(t, p.Addr), conns)
	require.Equal(t, 2, feedsAt(server))
	for _, c := range conns {
		c.Close()
	}
	await(t, func() bool { return feedsAt(server) == 0 })
}

// tenThousandSubscribers is the same in a process of its own, whose limit of open files lets it have as many.
func tenThousandSubscribers(t *testing.T, binary string) {
	const subscribers = 10_000
	needFiles(t, subscribers+500)
	server := redistest.Standalone(t)
	p := startProcess(t, binary, []string{"SLUICE_LOOPS=2", fmt.Sprint("SLUICE_CLIENTS_MAX=", subscribers+100)},
		"serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--backend", server.Addr())
	addr, admin := p.clientAddr(), p.adminURL()
	idle := connectedClients(server)
	conns := dialMany(t, addr, subscribers)
	before := residentAt(t, admin)
	for _, c := range conns {
		c.SendCommand("SUBSCRIBE", "news")
	}
	for _, c := range conns {
		c.RequireReply(subscribedToNews)
	}
	t.Logf("%.0f bytes of memory for each subscription", (residentAt(t, admin)-before)/subscribers)
	publishNews(t, redistest.Dial(t, addr), conns)
	require.LessOrEqual(t, feedsAt(server), 2, "one for each loop")
	require.LessOrEqual(t, connectedClients(server), idle+4, "and one for commands")
	for _, c := range conns {
		c.Close()
	}
	await(t, func() bool { return feedsAt(server) == 0 })
}

// dialMany returns connections that have been served.
func dialMany(t *testing.T, addr string, count int) []*redistest.Conn {
	t.Helper()
	conns := make([]*redistest.Conn, count)
	for i := range conns {
		conns[i] = redistest.Dial(t, addr)
		require.Equal(t, "+PONG\r\n", string(conns[i].Do("PING")))
	}
	return conns
}

// publishNews publishes messages that every subscriber must get in order.
func publishNews(t *testing.T, publisher *redistest.Conn, subscribers []*redistest.Conn) {
	t.Helper()
	const messages = 5
	for i := range messages {
		require.Equal(t, fmt.Sprintf(":%d\r\n", len(subscribers)), string(publisher.Do("PUBLISH", "news", fmt.Sprintf("%06d", i))))
	}
	for _, c := range subscribers {
		for i := range messages {
			c.RequireReply(fmt.Sprintf("*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$6\r\n%06d\r\n", i))
		}
	}
}

// moveHalf lets every second client go to another loop when it sends its next command.
func moveHalf(p *proxy) {
	workers := p.Shared().Workers
	for i, w := range workers {
		w.Loop.Call(func() {
			n := 0
			w.Each(func(s *session.Session) {
				if n++; n%2 == 0 {
					s.Move(workers[(i+1)%len(workers)])
				}
			})
		})
	}
}

// needFiles raises the limit of open files, which processes that are started inherit, or skips the test where it may not.
func needFiles(t *testing.T, files uint64) {
	t.Helper()
	var limit syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
	if limit.Cur >= files {
		return
	}
	wanted := syscall.Rlimit{Cur: files, Max: max(limit.Max, files)}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &wanted); err != nil {
		t.Skipf("needs %d open files, may have %d (ulimit -n): %v", files, limit.Max, err)
	}
}

// residentAt is the memory of the process with that admin port.
func residentAt(t *testing.T, admin string) float64 {
	t.Helper()
	response, err := http.Get(admin + "/metrics")
	require.NoError(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	found := regexp.MustCompile(`(?m)^process_resident_memory_bytes (\S+)$`).FindSubmatch(body)
	require.NotNil(t, found)
	value, err := strconv.ParseFloat(string(found[1]), 64)
	require.NoError(t, err)
	return value
}

// TestASubscriberThatDoesNotReadIsDisconnected: it is counted, costs bounded memory, and others get every message.
func TestASubscriberThatDoesNotReadIsDisconnected(t *testing.T) {
	const messages, size, ahead = 1200, 64 << 10, 4
	server := redistest.Standalone(t)
	p := startProxy(t, standaloneYAML(server.Addr(), "loops: 1", "clients: {output_buffer: 2MiB}"))
	p.awaitReady(t)
	stuck := hello(t, p.Addr, 3)
	stuck.Do("SUBSCRIBE", "news")
	crowd := newCrowd(t)
	var readers sync.WaitGroup
	acks := make(chan struct{}, 2*ahead)
	payload := strings.Repeat("x", size-6)
	for range 2 {
		c := hello(t, p.Addr, 3)
		c.Do("SUBSCRIBE", "news")
		readers.Add(1)
		crowd.join(func() {
			defer readers.Done()
			for i := range messages {
				want := fmt.Sprintf(">3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$%d\r\n%06d%s\r\n", size, i, payload)
				if got, err := c.TryRead(); err != nil || string(got) != want {
					crowd.wrong("message %d: %d bytes, %v", i, len(got), err)
				}
				acks <- struct{}{}
			}
		})
	}
	peak, before := watchHeap(t), heapInUse()
	publisher := redistest.Dial(t, p.Addr)
	for i := range messages {
		if i >= ahead { // so that the readers, who are few bytes behind, are not taken for stuck
			<-acks
			<-acks
		}
		require.NotEqual(t, byte('-'), publisher.Do("PUBLISH", "news", fmt.Sprintf("%06d%s", i, payload))[0])
	}
	for range 2 * ahead {
		<-acks
	}
	readers.Wait()
	crowd.requireRight()
	require.InDelta(t, 1, p.metric(t, "sluice_clients_disconnected_total", `reason="output_buffer"`), 0)
	require.Less(t, peak(), before+64<<20, "more than the bound and what tests themselves need")
	require.Equal(t, ":2\r\n", string(publisher.Do("PUBLISH", "news", "x")))
}
