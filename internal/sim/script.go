package sim

import (
	"slices"
	"strconv"
	"strings"

	"github.com/sluiceproxy/sluice/internal/tenant"
)

const (
	replyNoAuth    = "-NOAUTH Authentication required.\r\n"
	replyCrossSlot = "-CROSSSLOT Keys in request don't hash to the same slot\r\n"
	babbled        = "*1\r\n!6\r\nbabble\r\n"
)

// issueBatch makes the next commands of the client.
func (c *client) issueBatch() {
	w := c.world
	for range between(w.random, 1, pick(w.random, 1, 4, 20)) {
		if c.hold != nil {
			return
		}
		if len(c.plan) > 0 {
			step := c.plan[0]
			c.plan = c.plan[1:]
			step()
			continue
		}
		if c.budget == 0 {
			return
		}
		c.budget--
		switch {
		case c.budget == 0 && c.skip == 0 && c.ending == quits:
			c.local(replyOK, "QUIT")
			c.last = true
		case c.budget == 0 && c.skip == 0 && c.ending == babble:
			before := len(c.out)
			c.last = true
			c.local("-ERR Protocol error: expected '$', got '!'\r\n", "babble")
			c.out = append(c.out[:before], babbled...)
		case c.budget == 0 && (c.ending == quits || c.ending == babble):
			c.budget++
			c.local("+PONG\r\n", "PING")
		case !c.known:
			c.introduce()
		case c.listening != nil:
			if !c.listening.begun && chance(w.random, 50) {
				c.hello(3)
			}
			c.listening.begun = true
			c.issueSubscription()
		case w.profile.transactions && !c.muted && c.skip == 0 && chance(w.random, 25):
			c.beginTransaction()
		case w.profile.blocking && !c.muted && c.skip == 0 && chance(w.random, 12):
			c.pop()
		case chance(w.random, 80):
			c.issueData()
		default:
			c.issueOther()
		}
	}
}

// introduce is what a client does that has not authenticated.
func (c *client) introduce() {
	switch c.world.random.IntN(4) {
	case 0:
		c.local(replyNoAuth, "GET", c.registers[0].key)
	case 1:
		c.local("-WRONGPASS invalid username-password pair or user is disabled.\r\n", "AUTH", "wrong")
	default:
		c.local(replyOK, "AUTH", password)
		c.known = true
		c.database = c.world.profile.databases[0]
	}
}

// issueData makes a command about the client's keys.
func (c *client) issueData() {
	cmd := c.dataOf(c.registersNow())
	c.expect(cmd)
	c.send(cmd)
}

// dataOf makes a command about some of the keys.
func (c *client) dataOf(own []*register) *command {
	w := c.world
	r := own[w.random.IntN(len(own))]
	cmd := c.next()
	kind := w.random.IntN(10)
	if !w.profile.singleKey && chance(w.random, 30) {
		kind = 10 + w.random.IntN(4)
	}
	switch kind {
	case 0, 1, 2:
		cmd.on(true, []*register{r}, "SET", r.key, c.value(cmd))
	case 3, 4, 5:
		cmd.on(false, []*register{r}, "GET", r.key)
	case 6:
		cmd.on(true, []*register{r}, "APPEND", r.key, c.value(cmd))
	case 7:
		cmd.on(true, []*register{r}, "INCRBY", r.key, strconv.Itoa(cmd.seq))
	case 8:
		cmd.on(true, []*register{r}, "SET", r.key, strconv.Itoa(cmd.seq))
	case 9:
		cmd.on(false, []*register{r}, "STRLEN", r.key)
	default:
		w.random.Shuffle(len(own), func(i, j int) { own[i], own[j] = own[j], own[i] })
		cmd.onSeveral(kind, own[:between(w.random, 1, len(own))])
	}
	return cmd
}

// on fills in what the command is.
func (cmd *command) on(writes bool, keys []*register, args ...string) {
	if chance(cmd.client.world.random, 20) {
		args[0] = strings.ToLower(args[0])
	}
	cmd.writes, cmd.keys, cmd.args = writes, keys, args
	cmd.executed = make([]int, len(keys))
}

func (cmd *command) onSeveral(kind int, keys []*register) {
	c := cmd.client
	var args []string
	for _, r := range keys {
		args = append(args, r.key)
	}
	switch kind {
	case 10:
		cmd.on(false, keys, append([]string{"MGET"}, args...)...)
	case 11:
		cmd.on(false, keys, append([]string{"EXISTS"}, args...)...)
	case 12:
		args = []string{"MSET"}
		for _, r := range keys {
			args = append(args, r.key, cmd.id()+":"+strings.Repeat("m", c.world.random.IntN(30)))
		}
		cmd.on(true, keys, args...)
	default:
		cmd.on(true, keys, append([]string{"DEL"}, append(args, cmd.markers(keys)...)...)...)
	}
}

// markers are keys for DEL that never exist, one for each slot.
func (cmd *command) markers(keys []*register) (markers []string) {
	for i, r := range keys {
		if !slices.ContainsFunc(keys[:i], func(earlier *register) bool { return earlier.tag == r.tag }) {
			markers = append(markers, markerKey(r.tag.text, cmd))
		}
	}
	return markers
}

// value makes a value that names its writer. It may hold what looks like protocol.
func (c *client) value(cmd *command) string {
	w := c.world
	v := cmd.id() + ":"
	switch {
	case w.profile.huge && chance(w.random, 30):
		return v + strings.Repeat("hugehuge", between(w.random, 50_000, 150_000))
	case w.profile.large && chance(w.random, 15):
		return v + strings.Repeat("large", between(w.random, 1000, 14000))
	case chance(w.random, 5):
		return v + strings.Repeat("x", w.random.IntN(5000))
	case chance(w.random, 10):
		return v + "\r\n-MOVED 1 a:1\r\n$3\r\n"
	default:
		return v + strings.Repeat("y", w.random.IntN(30))
	}
}

// expect finds out what the command must be answered, where that is certain.
func (c *client) expect(cmd *command) {
	p := &c.world.profile
	if p.sharded && p.crossSlot == tenant.Error && cmd.spread() {
		cmd.want, cmd.keys, cmd.writes = replyCrossSlot, nil, false
		return
	}
	if p.certain() {
		before := c.watchedState()
		cmd.want = c.model[c.database].apply(cmd.args, c.protocol)
		c.outdated = c.outdated || !slices.Equal(before, c.watchedState())
	}
}

// issueOther makes a command that the proxy answers itself.
func (c *client) issueOther() {
	w := c.world
	switch w.random.IntN(12) {
	case 0, 1:
		c.local("+PONG\r\n", "PING")
	case 2, 3, 4:
		nonce := "nonce" + strconv.Itoa(c.id) + "." + strconv.Itoa(c.seq)
		c.local(bulk(nonce), pick(w.random, "ECHO", "ping"), nonce)
	case 5, 6:
		c.hello(pick(w.random, 2, 3, 3))
	case 7:
		c.choose()
	case 8:
		c.begins("-ERR unknown command", "NONSENSE", "x")
	case 9:
		c.begins("-ERR wrong number of arguments", "GET")
	case 10:
		c.replyMode()
	case 11:
		c.reset()
	}
}

// watchedState is what the keys have that the client watches, when everything is executed in turn.
func (c *client) watchedState() (all []string) {
	for _, watch := range c.watched {
		for _, r := range watch.keys {
			all = append(all, c.model[r.database].bulk(r.key, 3))
		}
	}
	return all
}

func (c *client) hello(version int) {
	prefix := "*14\r\n$6\r\nserver\r\n"
	if version == 3 {
		prefix = "%7\r\n$6\r\nserver\r\n"
	}
	c.begins(prefix, "HELLO", strconv.Itoa(version))
	c.protocol = version
}

func (c *client) choose() {
	p := &c.world.profile
	database := c.world.random.IntN(4)
	switch {
	case p.sharded && database != 0:
		c.begins("-ERR SELECT is not allowed in cluster mode", "SELECT", strconv.Itoa(database))
	case !slices.Contains(p.databases, database):
		c.begins("-NOPERM", "SELECT", strconv.Itoa(database))
	default:
		c.local(replyOK, "SELECT", strconv.Itoa(database))
		c.database = database
	}
}

// replyMode switches replies off and on.
func (c *client) replyMode() {
	switch {
	case c.muted:
		c.local(replyOK, "CLIENT", "REPLY", "ON")
	case c.skip > 0:
		c.local("+PONG\r\n", "PING")
	case chance(c.world.random, 50):
		c.muted = true
		c.local("", "CLIENT", "REPLY", "OFF")
	default:
		c.skip = 2 // this one and the next
		c.local("", "CLIENT", "REPLY", "SKIP")
	}
}

func (c *client) reset() {
	if c.skip > 0 || c.muted {
		return
	}
	c.local("+RESET\r\n", "RESET")
	c.protocol, c.database, c.known = 2, c.world.profile.databases[0], !c.world.profile.password
}

func (c *client) local(want string, args ...string) {
	cmd := c.next()
	cmd.want, cmd.args = want, args
	c.send(cmd)
}

func (c *client) begins(prefix string, args ...string) {
	cmd := c.next()
	cmd.wantPrefix, cmd.args = prefix, args
	c.send(cmd)
}

func (c *client) next() *command {
	c.seq++
	cmd := &command{client: c, seq: c.seq, protocol: c.protocol, database: c.database, issued: c.world.loop.Now()}
	c.world.byID[cmd.id()] = cmd
	return cmd
}

// send puts the command behind what is on its way to the proxy.
func (c *client) send(cmd *command) {
	if len(cmd.args) == 3 && cmd.args[1] == "REPLY" && cmd.args[2] == "ON" {
		c.muted = false
	}
	cmd.silent = c.muted || c.skip > 0
	if c.skip > 0 {
		c.skip--
	}
	c.waiting = append(c.waiting, cmd)
	line := cmd.encode(cmd.plain() && chance(c.world.random, 15))
	c.out = append(c.out, line...)
	c.length += len(line)
	cmd.end = c.length
	c.world.tracef("client %d sends %v", c.id, cmd)
}
