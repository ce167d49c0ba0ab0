package sim

import (
	"slices"
	"strconv"
	"strings"

	"github.com/sluiceproxy/sluice/pkg/resp"
)

// watching is a WATCH of a client.
type watching struct {
	by   *command
	keys []*register
}

// transaction is what a client has sent since MULTI, or what an EXEC has to execute.
type transaction struct {
	name     string // what the ECHO in it says, by which nodes tell it from any other
	exec     *command
	subs     []*command
	watches  []watching
	broken   bool // the proxy refused a command
	database int  // that is selected when it has been executed
	executed int
	watched  []*register // on the link where it was executed
}

// beginTransaction plans a group of commands around MULTI and EXEC.
func (c *client) beginTransaction() {
	w := c.world
	own := c.registersNow()
	t := own[w.random.IntN(len(own))].tag
	if chance(w.random, 60) {
		c.then(func() { c.watch(t) })
	}
	for range w.random.IntN(3) {
		c.then(c.issueData)
	}
	if chance(w.random, 15) {
		c.then(func() { c.watch(t) })
	}
	if chance(w.random, 10) {
		c.then(c.unwatch)
	}
	if len(w.profile.databases) > 1 && chance(w.random, 15) {
		c.then(c.selectWatching)
	}
	c.then(func() {
		c.local(replyOK, "MULTI")
		c.queueing = &transaction{name: "tx" + strconv.Itoa(c.id) + "." + strconv.Itoa(c.seq), database: c.database}
		w.transactions[c.queueing.name] = c.queueing
		c.enqueue(c.subOf("ECHO", c.queueing.name))
	})
	for range between(w.random, 0, 4) {
		c.then(func() { c.issueQueued(t) })
	}
	switch w.random.IntN(20) {
	case 0, 1:
		c.then(c.discard)
	case 2:
		c.then(func() {
			c.dropTransaction()
			c.reset()
		})
	default:
		c.then(c.exec)
	}
}

func (c *client) then(step func()) { c.plan = append(c.plan, step) }

// dropTransaction forgets what is queued and watched.
func (c *client) dropTransaction() {
	if c.queueing != nil {
		for _, sub := range c.queueing.subs {
			sub.outcome = notExecuted
		}
	}
	c.queueing, c.watched, c.outdated = nil, nil, false
}

func (c *client) watch(t *tag) {
	own := slices.DeleteFunc(c.registersNow(), func(r *register) bool { return c.world.profile.sharded && r.tag != t })
	if len(own) == 0 {
		return
	}
	c.world.random.Shuffle(len(own), func(i, j int) { own[i], own[j] = own[j], own[i] })
	own = own[:between(c.world.random, 1, len(own))]
	args := []string{"WATCH"}
	for _, r := range own {
		args = append(args, r.key)
	}
	cmd := c.next()
	cmd.args, cmd.keys = args, own
	cmd.judge = func(reply string) {
		cmd.outcome = notExecuted
		if reply == replyOK {
			cmd.outcome = answered
		} else {
			c.world.failed(cmd, reply)
		}
	}
	c.watched = append(c.watched, watching{cmd, own})
	c.send(cmd)
}

func (c *client) unwatch() {
	c.local(replyOK, "UNWATCH")
	c.watched, c.outdated = nil, false
}

// selectWatching selects another database; when the client watches keys, the node may be asked, and fail.
func (c *client) selectWatching() {
	cmd := c.next()
	database := pick(c.world.random, c.world.profile.databases...)
	cmd.args = []string{"SELECT", strconv.Itoa(database)}
	c.hold = cmd
	cmd.judge = func(reply string) {
		if reply == replyOK {
			c.database = database
		} else {
			c.world.failed(cmd, reply)
		}
	}
	c.send(cmd)
}

// issueQueued makes a command that is part of the transaction.
func (c *client) issueQueued(t *tag) {
	w, tx := c.world, c.queueing
	own := slices.DeleteFunc(slices.Clone(c.registers), func(r *register) bool { return r.database != tx.database || w.profile.sharded && r.tag != t })
	switch kind := w.random.IntN(24); {
	case kind == 0:
		tx.broken = true
		c.begins("-ERR unknown command", "NONSENSE", "x")
	case kind == 1:
		c.local("-ERR MULTI calls can not be nested\r\n", "MULTI")
	case kind == 2:
		c.local("-ERR WATCH inside MULTI is not allowed\r\n", "WATCH", c.registers[0].key)
	case kind == 3 && w.profile.sharded && c.othersOf(t) != nil && len(own) > 0:
		tx.broken = true
		c.local(replyCrossSlot, "MGET", c.othersOf(t).key, own[0].key)
	case kind == 4 && len(w.profile.databases) > 1:
		tx.database = pick(w.random, w.profile.databases...)
		c.enqueue(c.subOf("SELECT", strconv.Itoa(tx.database)))
	case kind < 7 || len(own) == 0:
		c.enqueue(c.subOf("PING"))
	default:
		c.enqueue(c.dataOf(own))
	}
}

func (c *client) othersOf(t *tag) *register {
	for _, r := range c.registersNow() {
		if r.tag != t {
			return r
		}
	}
	return nil
}

func (c *client) subOf(args ...string) *command {
	cmd := c.next()
	cmd.args, cmd.database = args, c.queueing.database
	return cmd
}

// enqueue sends a command that the proxy is to queue.
func (c *client) enqueue(sub *command) {
	sub.database = c.queueing.database
	c.queueing.subs = append(c.queueing.subs, sub)
	c.local(replyQueued, sub.args...)
}

func (c *client) discard() {
	c.local(replyOK, "DISCARD")
	c.dropTransaction()
}

func (c *client) exec() {
	w, tx := c.world, c.queueing
	cmd := c.next()
	cmd.args = []string{"EXEC"}
	tx.exec, tx.watches = cmd, c.watched
	switch {
	case tx.broken:
		cmd.want = replyAbort
		c.dropTransaction()
	default:
		if w.profile.certain() {
			c.foresee(tx)
		}
		if tx.database != c.database {
			c.hold = cmd
		}
		cmd.judge = func(reply string) { w.judgeExec(c, tx, reply) }
		cmd.whole = tx
	}
	c.queueing, c.watched, c.outdated = nil, nil, false
	c.send(cmd)
}

// foresee finds out what EXEC must be answered.
func (c *client) foresee(tx *transaction) {
	if c.outdated {
		tx.exec.want = nullArray(c.protocol)
		return
	}
	var b strings.Builder
	b.WriteString("*" + strconv.Itoa(len(tx.subs)) + "\r\n")
	for _, sub := range tx.subs {
		if len(sub.keys) > 0 {
			sub.want = c.model[sub.database].apply(sub.args, c.protocol)
		}
		b.WriteString(sub.expected())
	}
	tx.exec.want = b.String()
}

// expected is what a queued command must be answered; empty: that is not certain.
func (cmd *command) expected() string {
	switch cmd.name() {
	case "echo":
		return bulk(cmd.args[1])
	case "select":
		return replyOK
	case "ping":
		return "+PONG\r\n"
	}
	return cmd.want
}

// executesTransaction is called by a node that is about to execute a transaction.
func (w *world) executesTransaction(l *link, q *queue, watches map[*register]int) {
	tx := (*transaction)(nil)
	if len(q.commands) > 0 && strings.EqualFold(q.commands[0][0], "echo") {
		tx = w.transactions[q.commands[0][1]]
	}
	if tx == nil || tx.exec == nil {
		w.failf("link %d executes a transaction that no client sent: %q", l.id, q.commands)
	}
	same := func(args []string, sub *command) bool { return slices.Equal(args, sub.args) }
	if !slices.EqualFunc(q.commands, tx.subs, same) {
		w.failf("link %d executes %q instead of %v", l.id, q.commands, tx.subs)
	}
	if l.database != tx.exec.database {
		w.failf("link %d executes %v in database %d", l.id, tx.exec, l.database)
	}
	for r := range watches {
		if r.client != tx.exec.client {
			w.failf("link %d, on which client %d watches keys, executes %v", l.id, r.client.id, tx.exec)
		}
		tx.watched = append(tx.watched, r)
	}
	tx.executed++
	if tx.executed > 1 || tx.exec.outcome == notExecuted {
		w.failf("%v was executed %d times; its outcome is %d", tx.exec, tx.executed, tx.exec.outcome)
	}
}

// judgeExec asserts that the reply to EXEC is one that it may have.
func (w *world) judgeExec(c *client, tx *transaction, reply string) {
	exec := tx.exec
	if exec.want != "" && reply != exec.want {
		w.failf("%v was answered %q; want %q", exec, brief(reply), brief(exec.want))
	}
	if strings.HasPrefix(reply, "-MOVED") || strings.HasPrefix(reply, "-ASK") {
		w.failf("%v got a redirect: %q", exec, reply)
	}
	switch {
	case reply[0] == '*' && reply != nullArray(2):
		w.judgeExecuted(tx, reply)
		w.stats.Executed++
		exec.outcome = answered
		if tx.database != exec.database {
			c.database = tx.database
		}
	case reply == nullArray(exec.protocol):
		exec.outcome = notExecuted
		w.stats.Aborted++
		if len(tx.watches) == 0 {
			w.failf("%v was answered %q without a WATCH", exec, reply)
		}
	default:
		exec.outcome = classify(reply)
		w.failed(exec, reply)
		if exec.outcome == answered {
			w.failf("%v was answered %q", exec, reply)
		}
	}
	tx.settle(exec.outcome)
	if exec.outcome == notExecuted && tx.executed > 0 {
		w.failf("%v was answered %q, but it was executed", exec, reply)
	}
}

// settle gives the commands of the transaction the outcome of its EXEC.
func (tx *transaction) settle(o outcome) {
	for _, sub := range tx.subs {
		sub.outcome = o
	}
}

// judgeExecuted asserts that the transaction has been executed, with the keys watched that its client watched.
func (w *world) judgeExecuted(tx *transaction, reply string) {
	if tx.executed != 1 {
		w.failf("%v was answered %q and executed %d times", tx.exec, brief(reply), tx.executed)
	}
	for _, watch := range tx.watches {
		for _, r := range watch.keys {
			if watch.by.outcome == answered && !slices.Contains(tx.watched, r) {
				w.failf("%v was executed where %v had not been", tx.exec, watch.by)
			}
		}
	}
	rest, ok := strings.CutPrefix(reply, "*"+strconv.Itoa(len(tx.subs))+"\r\n")
	for _, sub := range tx.subs {
		n, err := resp.ReplyLen([]byte(rest))
		if !ok || err != nil || n == 0 {
			w.failf("%v was answered %q", tx.exec, brief(reply))
		}
		sub.outcome = answered
		w.judgeSub(sub, rest[:n])
		rest = rest[n:]
	}
	if rest != "" {
		w.failf("%v was answered %q", tx.exec, brief(reply))
	}
}

func (w *world) judgeSub(sub *command, reply string) {
	if want := sub.expected(); want != "" && reply != want {
		w.failf("%v was answered %q; want %q", sub, brief(reply), brief(want))
	}
	if len(sub.keys) > 0 {
		w.judgeAnswer(sub, reply)
	}
}

// failed notes that a command got an error, which nothing but a fault may be the reason of.
func (w *world) failed(c *command, reply string) {
	w.countError(reply)
	if w.profile.certain() {
		w.failf("%v was answered %q although nothing was in its way", c, reply)
	}
}

// touchKeys lets somebody who is no client of the proxy touch a key, so that those who watch it must not succeed.
func (w *world) touchKeys() {
	if c := w.clients[w.random.IntN(len(w.clients))]; len(c.registers) > 0 {
		r := c.registers[w.random.IntN(len(c.registers))]
		r.version++
		w.tracef("key %q is touched", r.key)
	}
}
