package sim

import (
	"slices"
	"strconv"
	"strings"
)

// topic is a channel, a pattern or a shard channel.
type topic struct {
	kind string // of its messages
	name string
}

const (
	channel      = "message"
	pattern      = "pmessage"
	shardChannel = "smessage"
)

// subscribing are the commands by the kind of messages.
var subscribing = map[string]string{channel: "subscribe", pattern: "psubscribe", shardChannel: "ssubscribe"} //nolint:gochecknoglobals // constant

// channels are all there are; patterns match some of them.
func (w *world) topics() []topic {
	all := []topic{{channel, "ch0"}, {channel, "ch1"}, {pattern, "ch*"}}
	for _, t := range w.tags {
		all = append(all, topic{shardChannel, t.text + "s"})
	}
	return all
}

// listening is what a client that only listens knows of its subscriptions.
type listening struct {
	begun bool
	to    map[topic]bool  // confirmed
	last  map[topic]int   // the newest message
	due   map[topic][]int // messages that must come
}

// issueSubscription makes the next command of a client that only listens.
func (c *client) issueSubscription() {
	w := c.world
	all := w.topics()
	first := pick(w.random, all...)
	topics := []topic{first}
	for range w.random.IntN(3) {
		if more := pick(w.random, all...); more.kind == first.kind && first.kind != shardChannel && !slices.Contains(topics, more) {
			topics = append(topics, more)
		}
	}
	name := subscribing[first.kind]
	switch kind := w.random.IntN(10); {
	case kind < 3:
		cmd := c.next()
		cmd.args = []string{"PING"}
		cmd.judge = func(reply string) {
			want := "+PONG\r\n"
			if c.protocol == 2 && len(c.listening.to) > 0 {
				want = "*2\r\n$4\r\npong\r\n$0\r\n\r\n"
			}
			if reply != want {
				w.failf("%v was answered %q; want %q", cmd, reply, want)
			}
		}
		c.send(cmd)
		return
	case kind < 6:
		name = strings.Replace(name, "subscribe", "unsubscribe", 1)
		for _, t := range topics {
			delete(c.listening.due, t) // what is on its way may be dropped
		}
	}
	cmd := c.next()
	cmd.args = []string{name}
	for _, t := range topics {
		cmd.args = append(cmd.args, t.name)
	}
	cmd.topics = topics
	c.send(cmd)
}

// confirmed takes an answer to a command about subscriptions; false: more are to come.
func (c *client) confirmed(cmd *command, reply string) (whole bool) {
	w, name := c.world, strings.ToLower(cmd.args[0])
	if reply[0] == '-' {
		if cmd.outcome = classify(reply); cmd.outcome != notExecuted || len(cmd.topics) != len(cmd.args)-1 {
			w.failf("%v was answered %q", cmd, reply)
		}
		w.failed(cmd, reply)
		return true
	}
	t := cmd.topics[0]
	cmd.topics = cmd.topics[1:]
	if strings.Contains(name, "unsub") {
		delete(c.listening.to, t)
	} else {
		c.listening.to[t] = true
	}
	n := 0
	for other := range c.listening.to {
		if (other.kind == shardChannel) == (t.kind == shardChannel) {
			n++
		}
	}
	if want := "*3\r\n" + bulk(name) + bulk(t.name) + integer(n); reply != want {
		w.failf("%v was answered %q; want %q", cmd, reply, want)
	}
	return len(cmd.topics) == 0
}

// heard takes a message; false: it is none.
func (c *client) heard(reply string) bool {
	parts := strings.Split(reply, "\r\n")
	if c.listening == nil || len(parts) < 7 {
		return false
	}
	t, text := topic{parts[2], parts[4]}, parts[len(parts)-2]
	if subscribing[t.kind] == "" {
		return false
	}
	number, err := strconv.Atoi(strings.TrimPrefix(text, "m"))
	switch {
	case err != nil || t.kind == pattern && len(parts) != 10 || t.kind != pattern && len(parts) != 8:
		c.world.failf("client %d received %q", c.id, reply)
	case !c.listening.to[t]:
		c.world.failf("client %d received %q, to which it has not subscribed", c.id, reply)
	case number <= c.listening.last[t]:
		c.world.failf("client %d received %q after message %d", c.id, reply, c.listening.last[t])
	}
	c.listening.last[t] = number
	if i := slices.Index(c.listening.due[t], number); i > 0 {
		c.world.failf("client %d received %q, but missed message %d", c.id, reply, c.listening.due[t][0])
	} else if i == 0 {
		c.listening.due[t] = c.listening.due[t][1:]
	}
	c.world.stats.Messages++
	return true
}

// publish lets somebody who is no client of the proxy publish to a channel. With everything in order, those who have been
// told that they are subscribed get it.
func (w *world) publish(t topic, certainly bool) {
	w.published++
	text := "m" + strconv.Itoa(w.published)
	w.tracef("%s is published to %s", text, t.name)
	for _, n := range w.nodes {
		if n.up && (t.kind == channel || n == w.owner(w.tagByText[strings.TrimSuffix(t.name, "s")])) {
			n.publish(t, text)
		}
	}
	if !certainly {
		return
	}
	for _, c := range w.clients {
		if c.listening == nil || c.fake.Closed || c.drained || c.ended || c.last {
			continue
		}
		for to := range c.listening.to {
			if (to == t || to.kind == pattern && t.kind == channel) && !c.asksAbout(to) {
				c.listening.due[to] = append(c.listening.due[to], w.published)
			}
		}
	}
}

// asksAbout reports whether a command about a subscription is on its way.
func (c *client) asksAbout(t topic) bool {
	return slices.ContainsFunc(c.waiting, func(cmd *command) bool { return slices.Contains(cmd.topics, t) })
}

func (n *node) publish(t topic, text string) {
	for _, l := range n.world.links {
		if l.node != n || l.fake.Closed {
			continue
		}
		if l.topics[t] {
			l.out = append(l.out, "*3\r\n"+bulk(t.kind)+bulk(t.name)+bulk(text)...)
		}
		if t.kind == channel && l.topics[topic{pattern, "ch*"}] {
			l.out = append(l.out, "*4\r\n"+bulk(pattern)+bulk("ch*")+bulk(t.name)+bulk(text)...)
		}
	}
}

// subscription executes a command about subscriptions; empty: it is none.
func (n *node) subscription(l *link, args []string) string {
	name := strings.ToLower(args[0])
	for kind, subscribe := range subscribing {
		if name != subscribe && name != strings.Replace(subscribe, "subscribe", "unsubscribe", 1) {
			continue
		}
		t := topic{kind, args[1]}
		switch {
		case name != subscribe:
			delete(l.topics, t)
		case l.topics == nil:
			l.topics = map[topic]bool{t: true}
		default:
			l.topics[t] = true
		}
		return l.confirmation(name, t)
	}
	return ""
}

func (l *link) confirmation(name string, t topic) string {
	count := 0
	for other := range l.topics {
		if (other.kind == shardChannel) == (t.kind == shardChannel) {
			count++
		}
	}
	return "*3\r\n" + bulk(name) + bulk(t.name) + integer(count)
}

// endShardChannels tells those who listen to a slot's channels that it has gone.
func (n *node) endShardChannels(t *tag) {
	gone := topic{shardChannel, t.text + "s"}
	for _, l := range n.world.links {
		if l.node == n && l.topics[gone] {
			delete(l.topics, gone)
			l.out = append(l.out, l.confirmation("sunsubscribe", gone)...)
		}
	}
}

// playMessages lets messages come.
func (w *world) playMessages() {
	if !w.calm && chance(w.random, 20) {
		if t := pick(w.random, w.topics()...); t.kind != pattern {
			w.publish(t, !w.profile.faults && !w.profile.moves && !w.profile.gaps && !w.profile.large)
		}
	}
}

// checkMessages asserts that in the end messages reach all who listen.
func (w *world) checkMessages() {
	if !w.profile.pubsub {
		return
	}
	w.pause(settleFeeds)
	for _, t := range w.topics() {
		if t.kind != pattern {
			w.publish(t, true)
		}
	}
	w.until("every message has come", settleTime, func() bool {
		return !slices.ContainsFunc(w.clients, func(c *client) bool { return c.misses() })
	})
}

func (c *client) misses() bool {
	if c.listening == nil || c.fake.Closed || c.drained {
		return false
	}
	for _, due := range c.listening.due {
		if len(due) > 0 {
			return true
		}
	}
	return false
}
