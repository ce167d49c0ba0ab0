package upstream

import (
	"crypto/tls"
	"time"
)

// Kind is how the nodes of a cluster divide the keyspace.
type Kind uint8

// The kinds.
const (
	Standalone Kind = iota // one node has every key
	Sharded                // Redis Cluster: the topology says which node has which slot
)

// Config describes one cluster. It is plain data; the daemon makes it.
type Config struct {
	Name string
	Kind Kind
	// Addresses are host:port (or unix:///path for a standalone node on this machine). Of a Redis Cluster they are where
	// the topology is asked for first.
	Addresses []string
	Username  string
	Password  string
	// TLS, when set, is used for every connection; an empty ServerName means the host that is dialled.
	TLS *tls.Config
	// ConnectTimeout bounds dialling, TLS and the handshake together.
	ConnectTimeout time.Duration
	// RefreshInterval is the time between two looks at the topology when nothing calls for one.
	RefreshInterval time.Duration
	Pipes           PipesConfig
	// StreamThreshold is the length in bytes above which a command or a reply walks beside the shared pipes.
	StreamThreshold int64
	Dedicated       DedicatedConfig
	// Scripts are what is remembered of the scripts that went to the cluster, when it is another version of one that is in
	// use: a client that relies on an earlier SCRIPT LOAD does not notice that the nodes are others. nil: nothing.
	Scripts *Scripts
	// Dialer makes the connections to the nodes; nil: go-redis does.
	Dialer Dialer
	// Seed makes the spreading of the loops' attempts to reconnect repeatable; 0: it is not.
	Seed uint64
}

// PipesConfig bounds the shared connections of one loop to one node.
type PipesConfig struct {
	Max int
	// GrowDelay is the queueing delay above which one more pipe is opened.
	GrowDelay time.Duration
	// IdleTimeout is how long the last pipe added must be unneeded before it is closed.
	IdleTimeout time.Duration
	// MaxInflight bounds the calls on one pipe; above it a command is refused.
	MaxInflight int
	// Window, when set, is how long commands are collected before they are written; Limit is the number of commands that
	// ends the window early.
	Window time.Duration
	Limit  int
}

// DedicatedConfig bounds the connections of one loop to one node that are lent to single sessions.
type DedicatedConfig struct {
	// Min is how many idle ones are kept for the next session, however long none wants one.
	Min int
	// Max bounds those lent at once.
	Max int
	// Wait is how long a session waits for one when all are lent.
	Wait time.Duration
	// IdleTimeout is how long idle ones above Min are kept.
	IdleTimeout time.Duration
}

func (c *Config) setDefaults() {
	setDefault(&c.ConnectTimeout, 2*time.Second)
	setDefault(&c.RefreshInterval, 30*time.Second)
	setDefault(&c.Pipes.Max, 4)
	setDefault(&c.Pipes.GrowDelay, time.Millisecond)
	setDefault(&c.Pipes.IdleTimeout, time.Minute)
	setDefault(&c.Pipes.MaxInflight, 16384)
	setDefault(&c.StreamThreshold, 256<<10)
	setDefault(&c.Dedicated.Max, 4096)
	setDefault(&c.Dedicated.Wait, time.Second)
	setDefault(&c.Dedicated.IdleTimeout, 10*time.Second)
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Target is what a connection to a node is made for: protocol version and database. A RESP2 and a RESP3 client each
// get exactly what the node sends, so the two never share a connection.
type Target uint32

// MakeTarget packs protocol (2 or 3) and database.
func MakeTarget(protocol, database int) Target { return Target(protocol)<<24 | Target(database) }

// own marks the target of a session that has connections of its own, see Tracker.
const own Target = 1 << 31

// Own is the target of calls that take the connections which their session has of its own, see Tracker.
func (t Target) Own() Target { return t | own }

// Shared is the target without Own's mark.
func (t Target) Shared() Target { return t &^ own }

// Protocol is 2 or 3.
func (t Target) Protocol() int { return int(t.Shared() >> 24) }

// Database is the number of the database that the connection has selected.
func (t Target) Database() int { return int(t & 0xffffff) }
