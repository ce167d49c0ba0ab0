package main

import (
	"fmt"
	"strings"
)

// This file is what no server tells: how the proxy serves each command, and commands of newer servers. It is reviewed by
// hand; keep it small. A name that the server does not know is an error, so that nothing here goes stale unseen.

// kinds names every command that is not simply forwarded. A container's entry holds for its subcommands without one.
var kinds = map[string]string{
	// The proxy answers.
	"asking": "Local", "auth": "Local", "command": "Local", "echo": "Local", "hello": "Local", "info": "Local",
	"ping": "Local", "quit": "Local", "readonly": "Local", "readwrite": "Local", "reset": "Local", "select": "Local",
	"time":    "Local",
	"latency": "Local", // of the proxy, which does not sample it
	"role":    "Local", // a node's answer would tell addresses
	"client":  "Local", // the rest of it below
	// The cluster is that of the proxies, if any; what would change it is refused there.
	"cluster":    "Local",
	"config|get": "Local", "config|help": "Local", // what of it the proxy shows
	"acl|cat": "Local", "acl|genpass": "Local", "acl|help": "Local", "acl|whoami": "Local",
	"monitor": "Local", "slowlog": "Local", // the tenant's own

	// Split by slot and merged.
	"del": "Split", "exists": "Split", "mget": "Split", "mset": "Split", "touch": "Split", "unlink": "Split",

	// Asked of every shard.
	"dbsize": "FanOut", "flushall": "FanOut", "flushdb": "FanOut", "keys": "FanOut", "lastsave": "FanOut",
	"randomkey": "FanOut", "scan": "FanOut",
	"memory|doctor": "FanOut", "memory|stats": "FanOut", // where they would tell of other tenants, the proxy answers
	"script|exists": "FanOut", "script|flush": "FanOut", "script|kill": "FanOut", "script|load": "FanOut",
	"script|show":     "FanOut",
	"function|delete": "FanOut", "function|dump": "FanOut", "function|flush": "FanOut", "function|kill": "FanOut",
	"function|list": "FanOut", "function|load": "FanOut", "function|restore": "FanOut", "function|stats": "FanOut",

	"pubsub|channels": "FanOut", "pubsub|numpat": "FanOut", "pubsub|numsub": "FanOut",
	"pubsub|shardchannels": "FanOut", "pubsub|shardnumsub": "FanOut",

	// The answer counts clients, of whom the node sees the proxy only.
	"publish": "Publish", "spublish": "Publish",

	// A connection of its own: transactions, blocking, subscriptions, streams of another kind, client-side caching.
	"discard": "Dedicated", "exec": "Dedicated", "multi": "Dedicated", "unwatch": "Dedicated", "watch": "Dedicated",
	"blmove": "Dedicated", "blmpop": "Dedicated", "blpop": "Dedicated", "brpop": "Dedicated",
	"brpoplpush": "Dedicated", "bzmpop": "Dedicated", "bzpopmax": "Dedicated", "bzpopmin": "Dedicated",
	"psubscribe": "Dedicated", "punsubscribe": "Dedicated", "ssubscribe": "Dedicated", "subscribe": "Dedicated",
	"sunsubscribe": "Dedicated", "unsubscribe": "Dedicated",
	"client|caching": "Dedicated", "client|getredir": "Dedicated", "client|tracking": "Dedicated",
	"client|trackinginfo": "Dedicated",
	// These wait for the writes of their own connection and let nothing pass meanwhile.
	"wait": "Dedicated", "waitaof": "Dedicated",

	// The backend's operation: refused.
	"acl": "Admin", "bgrewriteaof": "Admin", "bgsave": "Admin", "config": "Admin",
	"debug": "Admin", "failover": "Admin", "module": "Admin", "pfdebug": "Admin",
	"psync": "Admin", "sync": "Admin", // would make the connection a replica's
	"pfselftest": "Admin", "replconf": "Admin", "replicaof": "Admin", "restore-asking": "Admin", "save": "Admin",
	"shutdown": "Admin", "slaveof": "Admin", "swapdb": "Admin",
	"memory|malloc-stats": "Admin", "memory|purge": "Admin",
	"script|debug": "Admin", // turns a shared connection into a debugger's
}

// anyNode names the commands without keys that one node of a cluster answers rightly for all. HELP of every forwarded
// container is among them without being named.
var anyNode = []string{
	"eval", "eval_ro", "evalsha", "evalsha_ro", "fcall", "fcall_ro", // where they have no keys
	"lolwut", "publish",
}

// byHand names the finders for keys that the specs do not tell all about.
var byHand = map[string]string{
	"bitfield": "Bitfield", "georadius": "GeoRadius", "georadiusbymember": "GeoRadius", "migrate": "Migrate",
	"set": "Set", "sort": "Sort", "sort_ro": "SortRO",
}

// arities corrects arities that newer servers widened; an older one refuses the longer line by itself.
var arities = map[string]int{
	"zrank": -3, "zrevrank": -3, // WITHSCORE, 7.2
}

// added lists commands of newer servers, all with one key in front unless their specs are changed below.
var added = []*row{
	extra("7.2.0", "client|no-touch", 3, "connection", "noscript loading stale", "slow connection", "",
		"Controls whether commands sent by the client affect the LRU/LFU of accessed keys."),
	extra("7.2.0", "cluster|myshardid", 2, "cluster", "stale", "slow", "", "Returns the shard ID of a node."),
	extra("7.2.0", "client|setinfo", 4, "connection", "noscript loading stale", "slow connection", "",
		"Sets information specific to the client or connection."),
	extra("7.2.0", "waitaof", 4, "generic", "blocking", "slow blocking connection", "",
		"Blocks until all preceding writes of the connection are in the append-only file of the primary and replicas."),

	hashField("7.4.0", "hexpire", -6, "write denyoom fast", "RW update", "Sets the time to live of hash fields in seconds."),
	hashField("7.4.0", "hpexpire", -6, "write denyoom fast", "RW update", "Sets the time to live of hash fields in milliseconds."),
	hashField("7.4.0", "hexpireat", -6, "write denyoom fast", "RW update", "Sets the expiration of hash fields to a Unix time in seconds."),
	hashField("7.4.0", "hpexpireat", -6, "write denyoom fast", "RW update", "Sets the expiration of hash fields to a Unix time in milliseconds."),
	hashField("7.4.0", "hpersist", -5, "write fast", "RW update", "Removes the expiration of hash fields."),
	hashField("7.4.0", "httl", -5, "readonly fast", "RO access", "Returns the time to live of hash fields in seconds."),
	hashField("7.4.0", "hpttl", -5, "readonly fast", "RO access", "Returns the time to live of hash fields in milliseconds."),
	hashField("7.4.0", "hexpiretime", -5, "readonly fast", "RO access", "Returns the expiration of hash fields as a Unix time in seconds."),
	hashField("7.4.0", "hpexpiretime", -5, "readonly fast", "RO access", "Returns the expiration of hash fields as a Unix time in milliseconds."),
	hashField("8.0.0", "hgetdel", -5, "write fast", "RW access delete", "Returns and removes hash fields."),
	hashField("8.0.0", "hgetex", -5, "write fast", "RW access update", "Returns hash fields and sets their expiration."),
	// Redis and Valkey want six arguments or more, Dragonfly's older form has five.
	hashField("8.0.0", "hsetex", -5, "write denyoom fast", "RW update", "Sets hash fields and their expiration."),

	extra("8.0.0", "script|show", 3, "scripting", "noscript stale", "keyspace read slow scripting", "",
		"Shows a server-side Lua script in the script cache (Valkey)."),
	extra("8.2.0", "xackdel", -6, "stream", "write fast", "write stream fast", "RW update delete",
		"Acknowledges and removes messages of a stream's consumer group."),
	extra("8.2.0", "xdelex", -5, "stream", "write fast", "write stream fast", "RW delete",
		"Removes messages from a stream, minding its consumer groups."),
	extra("8.4.0", "delex", -2, "string", "write fast", "write string fast", "RW delete",
		"Removes a key if its value or digest compares as asked."),
	extra("8.4.0", "digest", 2, "string", "readonly fast", "read string fast", "RO access",
		"Returns the XXH3 hash of a string value."),
	counted(extra("8.4.0", "msetex", -4, "string", "write denyoom", "write string slow", "OW update",
		"Sets several strings with one shared expiration, all or none."), 2),
	extra("9.0.0", "delifeq", 3, "string", "write", "write string slow", "RM access delete",
		"Removes a key if its value is the one given (Valkey)."),

	extra("1.0.0", "cl.throttle", -5, "generic", "write denyoom fast", "write fast", "RW access update",
		"Limits a rate by the generic cell rate algorithm (Dragonfly)."),
	extra("1.0.0", "fieldttl", 3, "generic", "readonly fast", "keyspace read fast", "RO access",
		"Returns the time to live of a hash field or set member (Dragonfly)."),
	extra("1.0.0", "saddex", -4, "set", "write denyoom fast", "write set fast", "RW insert",
		"Adds members with a time to live to a set (Dragonfly)."),
}

// extra describes a command of a newer server. keyFlags of "" mean that it has no key.
func extra(since, name string, arity int, group, flags, categories, keyFlags, summary string) *row {
	r := &row{
		name: name, arity: arity, flags: strings.Fields(flags), categories: strings.Fields(categories), added: true,
		documentation: map[string]any{"summary": summary, "since": since, "group": group},
	}
	if keyFlags != "" {
		r.first, r.last, r.step = 1, 1, 1
		r.keySpecs = []keySpec{{flags: strings.Fields(keyFlags), begin: "index", index: 1, find: "range", keyStep: 1}}
	}
	return r
}

func hashField(since, name string, arity int, flags, keyFlags, summary string) *row {
	categories := "read hash fast"
	if strings.Contains(flags, "write") {
		categories = "write hash fast"
	}
	return extra(since, name, arity, "hash", flags, categories, keyFlags, summary)
}

// counted makes the key of a command a counted list of keys, step arguments apart.
func counted(r *row, step int) *row {
	r.first, r.last, r.step = 0, 0, 0
	r.flags = append(r.flags, "movablekeys")
	spec := &r.keySpecs[0]
	spec.find, spec.firstKey, spec.keyStep = "keynum", 1, step
	return r
}

// applyOverlay adds to rows what this file says, and complains of what it says of commands that do not exist.
func applyOverlay(rows []*row) ([]*row, error) {
	byName := map[string]*row{}
	for _, r := range rows {
		byName[r.name] = r
	}
	for _, r := range added {
		if byName[r.name] == nil { // a newer server knows it better
			byName[r.name] = r
			rows = append(rows, r)
		}
	}
	for name, arity := range arities {
		if byName[name] == nil {
			return nil, unknown("arities", name)
		}
		byName[name].arity = arity
	}
	for name := range kinds {
		if byName[name] == nil {
			return nil, unknown("kinds", name)
		}
	}
	for _, name := range anyNode {
		if byName[name] == nil {
			return nil, unknown("anyNode", name)
		}
		byName[name].anyNode = true
	}
	for name := range byHand {
		if byName[name] == nil {
			return nil, unknown("byHand", name)
		}
	}
	for _, r := range rows {
		r.decide()
	}
	return rows, nil
}

func unknown(list, name string) error {
	return fmt.Errorf("overlay list %s names %q, which is no command", list, name)
}

// decide fills in what follows from the overlay's lists and from the server's words together.
func (r *row) decide() {
	container, own, isSub := strings.Cut(r.name, "|")
	r.class, _ = r.documentation["group"].(string)
	r.kind = kinds[r.name]
	if r.kind == "" && isSub {
		r.kind = kinds[container]
	}
	if r.kind == "" {
		r.kind = "Forward"
	}
	if r.kind == "Forward" && own == "help" {
		r.anyNode = true
	}
	r.byHand = byHand[r.name]
	for _, spec := range r.keySpecs {
		if r.byHand == "" && spec.find == "keynum" {
			r.byHand = "KeyCount"
		}
	}
}
