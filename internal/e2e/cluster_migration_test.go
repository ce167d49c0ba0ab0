package e2e

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/pkg/slot"
)

// TestSlotsMoveUnderLoad moves slots back and forth, key by key, while clients write to them in pipelines. Not one of
// their replies may be an error, out of order, or tell of a write that was lost or done twice.
func TestSlotsMoveUnderLoad(t *testing.T) {
	redistest.LeakCheck(t)
	servers := redistest.Cluster(t, 3, 0)
	p := clusterProxy(t, servers, "")
	tags := []string{"a", "b", "c", "d"}
	clients := newCrowd(t)
	const each = 6
	writers := make([][]*writer, len(tags))
	for i, tag := range tags {
		for n := range each {
			w := &writer{crowd: clients, conn: hello(t, p.Addr, 2+n%2), tag: tag, name: strconv.Itoa(n)}
			writers[i] = append(writers[i], w)
			clients.join(w.run)
		}
	}
	clients.join(func() { pairs(clients, hello(t, p.Addr, 2), tags[0]) })
	clients.join(func() { pairs(clients, hello(t, p.Addr, 3), tags[1]) })
	clients.join(func() { splits(clients, hello(t, p.Addr, 3), tags) })
	kinds := []string{"ask", "moved", "tryagain"}
	led := func() bool { // to every kind of redirect
		return !slices.ContainsFunc(kinds, func(kind string) bool { return p.metric(t, "sluice_redirects_total", kind) == 0 })
	}
	for _, tag := range tags[:2] {
		require.Eventually(t, func() bool { return string(servers.NodeFor(tag).Do("EXISTS", pairOf(tag)[0])) == ":1\r\n" }, eventually, tick)
	}
	for round := 0; round < 3 || round < 30 && !led(); round++ {
		for i, tag := range tags {
			moveKeyByKey(t, servers, tag, clients, func(m *redistest.SlotMigration) {
				if round > 0 || i > 1 {
					return
				}
				before := p.metric(t, "sluice_redirects_total", "tryagain")
				m.MoveKey(pairOf(tag)[0]) // until the other one has moved too, who asks for both is told to try again
				require.Eventually(t, func() bool { return p.metric(t, "sluice_redirects_total", "tryagain") > before }, eventually, tick)
			})
		}
	}
	clients.requireRight()
	require.Empty(t, clients.errors())
	for i, tag := range tags {
		total := 0
		for _, w := range writers[i] {
			total += w.rounds
			w.requireStored(t, servers)
		}
		shared := "{" + tag + "}shared"
		require.Equal(t, bulk(strconv.Itoa(total)), string(servers.NodeFor(shared).Do("GET", shared)), "increments of %s by all", shared)
	}
	require.True(t, led(), "the test has not led to every kind of redirect")
	requireNoAddressInLogs(t, p, servers.Addrs()...)
}

func bulk(text string) string { return "$" + strconv.Itoa(len(text)) + "\r\n" + text + "\r\n" }

// pairOf is the keys that pairs writes with one command.
func pairOf(tag string) [2]string { return [2]string{"{" + tag + "}pair1", "{" + tag + "}pair2"} }

// moveKeyByKey moves the tag's slot to the next primary. Between its steps the clients go on; begun is called when the slot
// is on the move and none of its keys has moved.
func moveKeyByKey(t *testing.T, servers *redistest.ClusterServers, tag string, clients *crowd, begun func(m *redistest.SlotMigration)) {
	t.Helper()
	number := int(slot.Of([]byte(tag)))
	from := servers.NodeForSlot(number)
	to := servers.Primaries[0]
	for i, s := range servers.Primaries {
		if s == from {
			to = servers.Primaries[(i+1)%len(servers.Primaries)]
		}
	}
	m := servers.StartMigration(number, from, to)
	begun(m)
	clients.awaitServed(100)
	for range 4 {
		m.MoveKeys(2)
		clients.awaitServed(100)
	}
	m.Finish()
	clients.awaitServed(100)
}

// writer is a client that knows what each of its replies must be.
type writer struct {
	crowd     *crowd
	conn      *redistest.Conn
	tag, name string
	rounds    int
	log       strings.Builder
}

func (w *writer) key(what string) string { return "{" + w.tag + "}" + what + w.name }

// run sends pipelines of increments, reads of them and appends until the crowd ends.
func (w *writer) run() {
	const batch = 4
	for !w.crowd.ended() {
		var packet strings.Builder
		var want []string
		first := w.rounds
		for range batch {
			w.rounds++
			entry := strconv.Itoa(w.rounds) + ","
			w.log.WriteString(entry)
			packet.WriteString(redistest.Command("INCR", w.key("n")) + redistest.Command("GET", w.key("n")) +
				redistest.Command("APPEND", w.key("log"), entry) + redistest.Command("ECHO", entry) +
				redistest.Command("INCR", "{"+w.tag+"}shared"))
			want = append(want, fmt.Sprintf(":%d\r\n", w.rounds), bulk(strconv.Itoa(w.rounds)), fmt.Sprintf(":%d\r\n", w.log.Len()), bulk(entry), "")
		}
		if !w.expect(packet.String(), want, first) {
			return
		}
	}
}

func (w *writer) expect(packet string, want []string, first int) bool {
	if err := w.conn.TrySend(packet); err != nil {
		w.crowd.wrong("cannot send: %v", err)
		return false
	}
	for i, text := range want {
		reply, err := w.conn.TryRead()
		if err != nil {
			w.crowd.wrong("no reply: %v", err)
			return false
		}
		if w.crowd.saw(reply) || text != "" && text != string(reply) {
			w.crowd.wrong("reply %d after round %d of %s is %q, want %q", i, first, w.key(""), reply, text)
			return false
		}
	}
	return true
}

// requireStored compares with what the cluster has.
func (w *writer) requireStored(t *testing.T, servers *redistest.ClusterServers) {
	t.Helper()
	owner := servers.NodeFor(w.tag)
	require.Equal(t, bulk(strconv.Itoa(w.rounds)), string(owner.Do("GET", w.key("n"))))
	require.Equal(t, bulk(w.log.String()), string(owner.Do("GET", w.key("log"))))
}

// pairs writes and reads two keys of one slot with one command. While only one of them has moved, the cluster asks to try
// again; the proxy does, since nothing is behind the command.
func pairs(c *crowd, conn *redistest.Conn, tag string) {
	one, two := pairOf(tag)[0], pairOf(tag)[1]
	for i := 0; !c.ended(); i++ {
		v := strconv.Itoa(i)
		for _, step := range []struct {
			args []string
			want string
		}{
			{[]string{"MSET", one, v, two, v}, "+OK\r\n"},
			{[]string{"MGET", one, two}, "*2\r\n" + bulk(v) + bulk(v)},
		} {
			reply, err := conn.TryDo(step.args...)
			if err != nil || c.saw(reply) || string(reply) != step.want {
				c.wrong("%v: %q, %v; want %q", step.args, reply, err, step.want)
				return
			}
		}
	}
}

// splits writes and reads one key of each tag with one command.
func splits(c *crowd, conn *redistest.Conn, tags []string) {
	for i := 0; !c.ended(); i++ {
		v := strconv.Itoa(i)
		mset, mget, want := []string{"MSET"}, []string{"MGET"}, fmt.Sprintf("*%d\r\n", len(tags))
		for _, tag := range tags {
			mset, mget, want = append(mset, "{"+tag+"}split", v), append(mget, "{"+tag+"}split"), want+bulk(v)
		}
		if reply, err := conn.TryDo(mset...); err != nil || c.saw(reply) || string(reply) != "+OK\r\n" {
			c.wrong("MSET: %q, %v", reply, err)
			return
		}
		if reply, err := conn.TryDo(mget...); err != nil || c.saw(reply) || string(reply) != want {
			c.wrong("MGET: %q, %v; want %q", reply, err, want)
			return
		}
	}
}
