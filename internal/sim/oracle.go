package sim

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// register is one key of one client: what was done to it, in the order in which nodes did it. Each key belongs to one
// client, so what its commands may see is known.
type register struct {
	client   *client
	key      string
	tag      *tag
	database int
	history  []change
	version  int // changes when the value does, and when somebody else touches the key
}

// change is the execution of one write.
type change struct {
	by     *command
	value  string
	exists bool
	// late: executed after the proxy had closed the connection, as what is in a node's receive buffer may be.
	late bool
}

// freely reports whether the write may be executed out of turn: its client was told that the outcome is unknown because
// the node did not answer in time, or nobody was left to be told.
func (ch *change) freely() bool {
	return ch.late || ch.by.outcome == timedOut || ch.by.outcome == unknown
}

type registerKey struct {
	database int
	key      string
}

// execute is called by a node for a command that it takes. It judges whether this execution may be, and returns the reply.
func (w *world) execute(n *node, l *link, args []string) string {
	database, protocol := l.database, l.target.Protocol()
	data := n.data[database]
	if isRead(args[0]) {
		return data.apply(args, protocol)
	}
	c := w.writer(database, args)
	w.checkBytes(c, args)
	reply := data.apply(args, protocol)
	if c.name() == "del" {
		n, _ := strconv.Atoi(strings.Trim(reply, ":\r\n"))
		c.merged += n
	} else {
		c.reply = reply
	}
	step := 1
	if c.name() == "mset" {
		step = 2
	}
	last := 2
	if c.name() == "del" || c.name() == "mset" {
		last = len(args)
	}
	for i := 1; i < last; i += step {
		if !isMarker(args[i]) {
			w.changed(c, database, args[i], data, l.late)
		}
	}
	return reply
}

func isRead(name string) bool {
	switch strings.ToLower(name) {
	case "get", "mget", "exists", "strlen":
		return true
	}
	return false
}

// changed notes one write to one key.
func (w *world) changed(c *command, database int, key string, data keyspace, late bool) {
	r := w.registers[registerKey{database, key}]
	i := slices.Index(c.keys, r)
	if i < 0 {
		w.failf("%v was executed on key %q, which is not its own", c, key)
	}
	c.executed[i]++
	if c.executed[i] > 1 {
		w.failf("%v was executed %d times", c, c.executed[i])
	}
	if c.outcome == notExecuted {
		w.failf("%v was executed after its client had been told that it was not", c)
	}
	value, exists := data[key]
	before := change{}
	if len(r.history) > 0 {
		before = r.history[len(r.history)-1]
	}
	if before.exists != exists || before.value != value {
		r.version++
	}
	r.history = append(r.history, change{c, value, exists, late})
}

// writer finds the command that a node is executing, by the mark that every write carries.
func (w *world) writer(database int, args []string) *command {
	id := ""
	r := w.registers[registerKey{database, args[1]}]
	switch name := strings.ToLower(args[0]); {
	case name == "del":
		for _, key := range args[1:] {
			if _, mark, ok := strings.Cut(key, "#"); ok {
				id = mark
			}
		}
	case len(args) < 3:
	case strings.Contains(args[2], ":"):
		id, _, _ = strings.Cut(args[2], ":")
	case r != nil:
		id = "c" + strconv.Itoa(r.client.id) + "." + args[2]
	}
	c := w.byID[id]
	if c == nil || !c.writes || c.database != database {
		w.failf("a node received %q in database %d, which no client sent", args, database)
	}
	return c
}

// checkBytes asserts that what a node received is what the client sent, or a part of it.
func (w *world) checkBytes(c *command, args []string) {
	if len(args) == len(c.args) {
		if !slices.Equal(args, c.args) {
			w.failf("a node received %q instead of %v", args, c)
		}
		return
	}
	step := 1
	if c.name() == "mset" {
		step = 2
	}
	for i := 1; i+step <= len(args); i += step {
		at := slices.Index(c.args, args[i])
		if at < 1 || !slices.Equal(args[i:i+step], c.args[at:at+step]) {
			w.failf("a node received %q as a part of %v", args, c)
		}
	}
}

// classify says what a reply tells its client.
func classify(reply string) outcome {
	switch {
	case reply[0] != '-':
		return answered
	case strings.Contains(reply, "outcome is unknown") && strings.Contains(reply, "timeout"):
		return timedOut
	case strings.Contains(reply, "outcome is unknown"):
		return inDoubt
	case strings.Contains(reply, "was not executed"), strings.HasPrefix(reply, "-TRYAGAIN "), strings.HasPrefix(reply, "-CLUSTERDOWN "),
		strings.HasPrefix(reply, "-LOADING "), strings.HasPrefix(reply, "-EXECABORT "), strings.HasPrefix(reply, "-ERR too many connections to this node"), strings.HasPrefix(reply, "-ERR upstream overloaded"):
		return notExecuted
	default:
		return answered
	}
}

// judge asserts that a reply is one that the command may have.
func (w *world) judge(c *command, reply string) {
	switch {
	case c.judge != nil:
		c.judge(reply)
		return
	case c.wantPrefix != "":
		if !strings.HasPrefix(reply, c.wantPrefix) {
			w.failf("%v was answered %q; want %q…", c, brief(reply), brief(c.wantPrefix))
		}
		return
	case c.want != "":
		if reply != c.want {
			w.failf("%v was answered %q; want %q", c, brief(reply), brief(c.want))
		}
		if c.writes {
			w.judgeAnswer(c, reply)
		}
		return
	}
	if strings.HasPrefix(reply, "-MOVED") || strings.HasPrefix(reply, "-ASK") {
		w.failf("%v got a redirect: %q", c, reply)
	}
	c.outcome = classify(reply)
	if c.outcome == answered {
		w.judgeAnswer(c, reply)
		return
	}
	w.countError(reply)
	if w.profile.certain() {
		w.failf("%v was answered %q although nothing was in its way", c, reply)
	}
	if c.spread() && !strings.Contains(reply, "was not executed") {
		c.outcome = timedOut // what became of one part; of the others the client knows nothing
	}
	if c.outcome != notExecuted || !c.writes {
		return
	}
	for i, n := range c.executed {
		if n > 0 {
			w.failf("%v was answered %q, but %q has been written", c, reply, c.keys[i].key)
		}
	}
}

// countError counts an error, unless it only tells that many do the same in the end.
func (w *world) countError(reply string) {
	busy := strings.HasPrefix(reply, "-ERR upstream overloaded") || strings.HasPrefix(reply, "-ERR too many connections to this node")
	if !w.calm || !busy {
		w.stats.Errors++
	}
}

// spread reports whether the keys of the command are in several slots.
func (cmd *command) spread() bool {
	return slices.ContainsFunc(cmd.keys, func(r *register) bool { return r.tag != cmd.keys[0].tag })
}

func (w *world) judgeAnswer(c *command, reply string) {
	if !c.writes {
		w.judgeRead(c, reply)
		return
	}
	for i, n := range c.executed {
		if n != 1 {
			w.failf("%v was answered %q, but %q was written %d times", c, brief(reply), c.keys[i].key, n)
		}
	}
	want := c.reply
	if c.name() == "del" {
		want = integer(c.merged)
	}
	if reply != want {
		w.failf("%v was answered %q; the node said %q", c, brief(reply), brief(want))
	}
}

// judgeRead asserts that a read saw all that its client had written before and nothing that it wrote after.
func (w *world) judgeRead(c *command, reply string) {
	seen := make([][]change, len(c.keys))
	for i, r := range c.keys {
		seen[i] = r.visible(c.seq)
	}
	ok := false
	switch c.name() {
	case "get":
		ok = anyOf(seen[0], func(ch *change) bool { return reply == ch.bulk(c.protocol) })
	case "strlen":
		ok = anyOf(seen[0], func(ch *change) bool { return reply == integer(len(ch.value)) })
	case "exists":
		ok = countWithin(seen, reply)
	case "mget":
		ok = c.elementsWithin(seen, reply)
	}
	if !ok {
		w.failf("%v was answered %q; its keys were %s", c, brief(reply), describe(c, seen))
	}
}

// visible are the states of the key that a read may see whose place among the client's commands is seq.
func (r *register) visible(seq int) []change {
	states := append([]change{{}}, r.history...)
	low := 0
	for i := 1; i < len(states); i++ {
		if states[i].by.seq < seq && !states[i].freely() {
			low = i
		}
	}
	high := low + 1
	for high < len(states) && states[high].by.seq < seq {
		high++
	}
	return states[low:high]
}

func (ch *change) bulk(protocol int) string {
	if !ch.exists {
		return null(protocol)
	}
	return bulk(ch.value)
}

func anyOf(states []change, is func(*change) bool) bool {
	for i := range states {
		if is(&states[i]) {
			return true
		}
	}
	return false
}

func countWithin(seen [][]change, reply string) bool {
	low, high := 0, 0
	for _, states := range seen {
		if anyOf(states, func(ch *change) bool { return ch.exists }) {
			high++
		}
		if !anyOf(states, func(ch *change) bool { return !ch.exists }) {
			low++
		}
	}
	for n := low; n <= high; n++ {
		if reply == integer(n) {
			return true
		}
	}
	return false
}

func (cmd *command) elementsWithin(seen [][]change, reply string) bool {
	rest, ok := strings.CutPrefix(reply, "*"+strconv.Itoa(len(seen))+"\r\n")
	if !ok {
		return false
	}
	for _, states := range seen {
		found := anyOf(states, func(ch *change) bool {
			after, ok := strings.CutPrefix(rest, ch.bulk(cmd.protocol))
			if ok {
				rest = after
			}
			return ok
		})
		if !found {
			return false
		}
	}
	return rest == ""
}

// checkOrder asserts that every key was written in the order in which its client sent the commands.
func (w *world) checkOrder() {
	for _, c := range w.everyone {
		for _, r := range c.registers {
			last := 0
			for i := range r.history {
				ch := &r.history[i]
				if ch.freely() {
					continue
				}
				if ch.by.seq < last {
					w.failf("%v was executed after c%d.%d, which was sent after it, on key %q", ch.by, c.id, last, r.key)
				}
				last = ch.by.seq
			}
		}
	}
}

func describe(c *command, seen [][]change) string {
	var b strings.Builder
	for i, states := range seen {
		fmt.Fprintf(&b, " %q:", c.keys[i].key)
		for j := range states {
			fmt.Fprintf(&b, " %q", brief(states[j].bulk(c.protocol)))
		}
	}
	return b.String()
}

func itoa(n int) string { return strconv.Itoa(n) }

func brief(text string) string {
	if len(text) > 200 {
		return text[:200] + "…"
	}
	return text
}
