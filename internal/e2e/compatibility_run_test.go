package e2e

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/command"
	"github.com/sluiceproxy/sluice/internal/redistest"
)

// lineResult is what came of one line.
type lineResult struct {
	*exampleLine
	mark   mark
	served served
	as     string // name of the normalisation
	// says is an error of the proxy, or how the reply is another than the server's.
	says string
	// crossed is true when a server says that the keys are in several slots.
	crossed bool
}

// mark is the outcome of a comparison, the better the less.
type mark int

const (
	equal    mark = iota
	notKnown      // to the server that is compared with
	equalNormalised
	refusedByProxy
	different
)

// served is how a command is served, in the order of what tells most.
type served int

const (
	byProxy served = iota
	raw
	queued
	pinned
	subscription
	split
	fanOut
)

// run plays the example on both sides.
func (c *compatibilityTarget) run(t *testing.T, e *compatibilityExample, protocol int) []lineResult {
	t.Helper()
	c.clear(t)
	through, direct := &clients{t: t, addr: c.proxy.Addr, protocol: protocol}, &clients{t: t, addr: c.direct.Addr(), protocol: protocol}
	node := &clients{t: t, addr: c.backends[0].Addr(), protocol: protocol}
	defer through.close()
	defer direct.close()
	defer node.close()
	results := make([]lineResult, 0, len(e.lines))
	refused, calls := false, callsOf(e.cmd)
	for i := range e.lines {
		l := c.here(&e.lines[i])
		if refused && l.has(tagNext) {
			continue // it would not come
		}
		var before []int
		if l.own {
			before = c.calls(calls)
		}
		got := through.play(l)
		var want []byte
		switch {
		case refusedAlways(got):
		case l.has(tagCross) && c.sharded && !c.fronted:
			want = node.play(l)
		default:
			want = direct.play(l)
		}
		nodes := 0
		if l.own {
			nodes = c.touched(e.cmd, calls, before)
		}
		r := c.judge(e.cmd, l, got, want, nodes)
		refused = refused || r.mark == refusedByProxy
		if !refused || r.mark != different { // what differs after a refusal does so because of it
			results = append(results, r)
		}
	}
	return results
}

// refusedAlways reports whether the proxy says that it never does this. A server would do it.
func refusedAlways(reply []byte) bool {
	text := string(reply)
	return strings.HasSuffix(text, "' concerns the operation of the backend and is not available through this proxy\r\n") ||
		strings.Contains(text, "' would make the connection another one than a client's")
}

func (c *compatibilityTarget) judge(cmd *command.Command, l *exampleLine, got, want []byte, nodes int) lineResult {
	r := lineResult{exampleLine: l}
	r.served, r.crossed = c.observe(cmd, l, nodes), bytes.HasPrefix(want, []byte("-CROSSSLOT"))
	how, name := l.as()
	r.compare(got, want, how, name)
	if cmd.Added && l.own && r.mark == equal && bytes.HasPrefix(want, []byte("-ERR unknown ")) {
		r.mark, r.served = notKnown, raw // a server does not count calls of what it does not know
		if cmd.Kind == command.KindDedicated {
			r.served = pinned
		}
	}
	if r.mark == different && isError(got) && nodes == 0 && (want == nil || !isError(want) || cmd.Kind != command.KindLocal) {
		r.mark, r.says = refusedByProxy, strings.TrimSpace(string(got[1:]))
	}
	return r
}

func (r *lineResult) compare(got, want []byte, how comparison, name string) {
	same := bytes.Equal(got, want)
	if !same && len(got) > 0 && len(want) > 0 {
		same = how.render(got) == how.render(want)
	}
	switch {
	case !same:
		r.mark = different
		r.says = fmt.Sprintf("%s, the server says %s", shown(got), shown(want))
	case name != "":
		r.mark, r.as = equalNormalised, name
	}
}

// shown is a reply for a reader.
func shown(reply []byte) string {
	if reply == nil {
		return "nothing"
	}
	text := strings.ReplaceAll(strings.TrimSpace(string(reply)), "\r\n", " ")
	if len(text) > 90 {
		text = text[:90] + "…"
	}
	return "`" + text + "`"
}

// observe says how a line was served, from what the proxy decides by its table and from which backends have seen it.
func (c *compatibilityTarget) observe(cmd *command.Command, l *exampleLine, nodes int) served {
	kind := cmd.Kind
	if !l.has(tagNext) && l.own {
		kind = cmd.KindFor(asBytes(l.args))
	}
	switch {
	case kind == command.KindDedicated && cmd.Class == command.ClassPubSub:
		return subscription
	case kind == command.KindDedicated && cmd.Class == command.ClassTransactions && !strings.HasSuffix(cmd.Name, "watch"):
		return queued
	case cmd.Name == "unwatch":
		return pinned // the node gets it when its reply has already gone out
	case nodes == 0 || kind == command.KindLocal && !c.trusted:
		return byProxy
	case kind == command.KindDedicated:
		return pinned
	case c.sharded && kind == command.KindSplit && nodes > 1:
		return split
	case c.sharded && (kind == command.KindFanOut || nodes > 1):
		return fanOut
	}
	return raw
}

// clients are the connections of one example to one side.
type clients struct {
	t        *testing.T
	addr     string
	protocol int
	first    *redistest.Conn
	second   *redistest.Conn
	broken   bool
}

// play sends a line and returns its reply. When a side does not answer, it stays silent.
func (c *clients) play(l *exampleLine) []byte {
	if c.broken {
		return nil
	}
	conn := c.conn(l.has(tagOther))
	if !l.has(tagNext) {
		if err := conn.TrySend(redistest.Command(l.args...)); err != nil {
			return nil
		}
	}
	if l.has(tagSilent) || l.has(tagLater) {
		return nil
	}
	reply, err := conn.TryRead()
	if err != nil {
		c.broken = true
		return nil
	}
	if l.has(tagScan) {
		return c.walk(conn, l, reply)
	}
	return reply
}

func (c *clients) conn(second bool) *redistest.Conn {
	conn := &c.first
	if second {
		conn = &c.second
	}
	if *conn == nil {
		*conn = hello(c.t, c.addr, c.protocol)
	}
	return *conn
}

// walk follows the cursor and returns the reply that one step would give that finds everything.
func (c *clients) walk(conn *redistest.Conn, l *exampleLine, reply []byte) []byte {
	var found []string
	for range 1000 {
		_, parts := aggregate(reply)
		if len(parts) != 2 || parts[1][0] != '*' {
			return reply
		}
		_, elements := aggregate([]byte(parts[1]))
		found = append(found, elements...)
		cursor := strings.Fields(parts[0])[1]
		if cursor == "0" {
			return fmt.Appendf(nil, "*2\r\n$1\r\n0\r\n*%d\r\n%s", len(found), strings.Join(found, ""))
		}
		reply = conn.Do(append([]string{l.args[0], cursor}, l.args[2:]...)...)
	}
	return reply
}

func (c *clients) close() {
	for _, conn := range []*redistest.Conn{c.first, c.second} {
		if conn != nil {
			conn.Close()
		}
	}
}
