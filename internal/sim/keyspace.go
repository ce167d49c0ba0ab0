package sim

import (
	"strconv"
	"strings"
)

// keyspace is one database: what commands do to keys. Nodes execute with it, and so does the sequential reference.
type keyspace map[string]string

const (
	replyOK         = "+OK\r\n"
	replyNotInteger = "-ERR value is not an integer or out of range\r\n"
)

// apply executes a command and returns its reply in a protocol version.
func (k keyspace) apply(args []string, protocol int) string {
	switch strings.ToLower(args[0]) {
	case "set":
		k[args[1]] = args[2]
		return replyOK
	case "get":
		return k.bulk(args[1], protocol)
	case "append":
		k[args[1]] += args[2]
		return integer(len(k[args[1]]))
	case "incrby":
		return k.increase(args[1], args[2])
	case "strlen":
		return integer(len(k[args[1]]))
	case "mset":
		for i := 1; i < len(args); i += 2 {
			k[args[i]] = args[i+1]
		}
		return replyOK
	case "mget":
		b := "*" + strconv.Itoa(len(args)-1) + "\r\n"
		for _, key := range args[1:] {
			b += k.bulk(key, protocol)
		}
		return b
	case "del":
		n := k.count(args[1:])
		for _, key := range args[1:] {
			delete(k, key)
		}
		return integer(n)
	case "exists":
		return integer(k.count(args[1:]))
	}
	return "-ERR unknown command\r\n"
}

func (k keyspace) increase(key, by string) string {
	old, exists := k[key]
	value := 0
	if exists {
		var err error
		if value, err = strconv.Atoi(old); err != nil {
			return replyNotInteger
		}
	}
	delta, _ := strconv.Atoi(by)
	k[key] = strconv.Itoa(value + delta)
	return integer(value + delta)
}

func (k keyspace) bulk(key string, protocol int) string {
	value, exists := k[key]
	if !exists {
		return null(protocol)
	}
	return bulk(value)
}

// count is how many of the keys exist.
func (k keyspace) count(keys []string) (n int) {
	for _, key := range keys {
		if _, exists := k[key]; exists {
			n++
		}
	}
	return n
}

func bulk(value string) string { return "$" + strconv.Itoa(len(value)) + "\r\n" + value + "\r\n" }

func integer(n int) string { return ":" + strconv.Itoa(n) + "\r\n" }

func null(protocol int) string {
	if protocol >= 3 {
		return "_\r\n"
	}
	return "$-1\r\n"
}
