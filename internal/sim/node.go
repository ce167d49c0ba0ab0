package sim

import (
	"strconv"
	"strings"

	"github.com/sluiceproxy/sluice/pkg/slot"
)

// tag is a hash tag, which stands for the slot that it hashes to.
type tag struct {
	text  string
	slot  uint16
	index int
	moved int64 // when its last move ended
	move  *move // under way
}

func newTag(index int) *tag {
	text := "{t" + strconv.Itoa(index) + "}"
	return &tag{text: text, slot: slot.Of([]byte(text)), index: index}
}

// node is one server: its data, the slots it believes to have, and how well it is.
type node struct {
	world *world
	name  string
	addr  string
	gone  bool // replaced by another for good
	up    bool
	data  map[int]keyspace
	// lists are what blocking pops take from, by database.
	lists   map[int]map[string][]string
	blocked []*link // that wait in a pop, in the order in which they came

	// By tag.
	owns      []bool
	migrating []*node
	importing []*node
	knows     []*node // whom it takes for the owner

	slowUntil    int64 // executes nothing
	loadingUntil int64
	downUntil    int64 // says that the cluster is down
}

func (w *world) newNode() *node {
	i := len(w.nodes)
	n := &node{world: w, name: "n" + strconv.Itoa(i), addr: "10.0.0.1:" + strconv.Itoa(7000+i), up: true, data: make(map[int]keyspace), lists: make(map[int]map[string][]string)}
	for _, database := range w.profile.databases {
		n.data[database] = make(keyspace)
	}
	n.owns, n.migrating = make([]bool, len(w.tags)), make([]*node, len(w.tags))
	n.importing, n.knows = make([]*node, len(w.tags)), make([]*node, len(w.tags))
	w.nodes = append(w.nodes, n)
	return n
}

// route is Redis's own decision whether the node takes a command; empty: it does.
func (n *node) route(l *link, t *tag, keys []string, asking bool) string {
	missing := 0
	for _, key := range keys {
		if _, exists := n.data[l.database][key]; !exists && len(n.lists[l.database][key]) == 0 {
			missing++
		}
	}
	switch {
	case n.owns[t.index] && n.migrating[t.index] != nil && missing > 0:
		if missing < len(keys) {
			return "-TRYAGAIN Multiple keys request during rehashing of slot\r\n"
		}
		return "-ASK " + t.toward(n.migrating[t.index])
	case n.owns[t.index]:
		return ""
	case n.importing[t.index] != nil && asking:
		if missing > 0 && len(keys) > 1 {
			return "-TRYAGAIN Multiple keys request during rehashing of slot\r\n"
		}
		return ""
	case n.knows[t.index] == nil || n.knows[t.index] == n:
		return "-CLUSTERDOWN Hash slot not served\r\n"
	default:
		return "-MOVED " + t.toward(n.knows[t.index])
	}
}

// toward is the rest of a redirect. All nodes are on one host, so it may be left out.
func (t *tag) toward(to *node) string {
	addr := to.addr
	if chance(to.world.random, 20) {
		addr = addr[strings.IndexByte(addr, ':'):]
	}
	return strconv.Itoa(int(t.slot)) + " " + addr + "\r\n"
}

// tagOfAll finds the slot of commands and the keys that may exist; nil: they have none.
func (w *world) tagOfAll(commands [][]string) (t *tag, keys []string) {
	for _, args := range commands {
		step, last := 1, 2
		switch strings.ToLower(args[0]) {
		case "mset":
			step, last = 2, len(args)
		case "mget", "del", "exists", "watch":
			last = len(args)
		case "blpop", "brpop":
			last = len(args) - 1
		case "ping", "echo", "select", "unwatch", "subscribe", "unsubscribe", "psubscribe", "punsubscribe", "sunsubscribe":
			continue
		}
		for i := 1; i < last; i += step {
			text := args[i][:strings.IndexByte(args[i], '}')+1]
			if t == nil {
				t = w.tagByText[text]
			}
			if t != w.tagByText[text] && w.profile.sharded {
				w.failf("a node received %q, whose keys are in several slots", commands)
			}
			if !isMarker(args[i]) {
				keys = append(keys, args[i])
			}
		}
	}
	return t, keys
}
