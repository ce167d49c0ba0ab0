// Package upstream is everything on the far side of the proxy: clusters of nodes, the connectors that dial them through
// go-redis, the pipes of each loop, redirects, and the refreshing of topologies. What is shared by loops is a Cluster;
// what one loop owns of it is a Local.
package upstream

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"github.com/sluiceproxy/sluice/internal/loop"
	"github.com/sluiceproxy/sluice/internal/topology"
)

const (
	// Dials per cluster are limited so that a restarted node is not met by all connections at once. A thousand clients that
	// begin to block at the same moment need a connection each: they wait for it, rather than fail.
	dialRate  = 200
	dialBurst = 64
)

// Cluster is one cluster as all loops share it. Its topology is immutable and swapped; everything else that changes is
// touched off the loops only.
type Cluster struct {
	cfg    Config
	log    *zap.Logger
	locals []*Local // by loop
	topo   atomic.Pointer[topology.Map]
	// successor is the version of the cluster that has taken its place; nil: it is in force.
	successor atomic.Pointer[Cluster]

	dialer Dialer
	dials  *rate.Limiter

	connectors struct {
		sync.Mutex
		byKey   map[connectorKey]*connector
		control map[string]*redis.Client // for topology and health, by address
		closed  bool
	}

	refresh  refresher
	scripts  *Scripts
	facts    facts
	stats    sharedStats
	audience audience                   // of channels
	server   atomic.Pointer[ServerName] // nil: no node has said it
	stop     context.CancelFunc
	stopping context.Context //nolint:containedctx // the life of the cluster's goroutines
	running  sync.WaitGroup
	dialing  sync.WaitGroup // dials and questions of loops; each posts its result
}

var errClosed = errors.New("the cluster is closed")

type connectorKey struct {
	addr   string
	target Target
	// renewed is the later version of the cluster whose password is used; nil: the cluster's own.
	renewed *Cluster
}

// sharedStats are counted off the loops.
type sharedStats struct {
	refreshOK, refreshFail atomic.Uint64
}

// NewCluster makes a cluster for the given loops. Start dials.
func NewCluster(cfg Config, loops []*loop.Loop, log *zap.Logger) *Cluster {
	cfg.setDefaults()
	muteClients()
	c := &Cluster{cfg: cfg, log: log.With(zap.String("cluster", cfg.Name)), dials: rate.NewLimiter(dialRate, dialBurst), scripts: cfg.Scripts}
	if c.scripts == nil {
		c.scripts = &Scripts{}
	}
	c.connectors.byKey = make(map[connectorKey]*connector)
	c.connectors.control = make(map[string]*redis.Client)
	c.stopping, c.stop = context.WithCancel(context.Background())
	if c.dialer = cfg.Dialer; c.dialer == nil {
		c.dialer = poolDialer{c}
	}
	if cfg.Kind == Standalone {
		c.topo.Store(topology.Standalone(cfg.Addresses[0]))
	}
	for _, l := range loops {
		c.locals = append(c.locals, newLocal(c, l))
	}
	c.refresh.init()
	c.facts.init()
	return c
}

// Start begins to watch the topology and the health of the cluster.
func (c *Cluster) Start() { c.running.Go(c.watch) }

// Name is the cluster's name.
func (c *Cluster) Name() string { return c.cfg.Name }

// Kind is how the nodes divide the keyspace.
func (c *Cluster) Kind() Kind { return c.cfg.Kind }

// StreamThreshold is the length in bytes above which a command or reply walks beside the shared pipes.
func (c *Cluster) StreamThreshold() int64 { return c.cfg.StreamThreshold }

// Topology is the map in force; nil while none is known.
func (c *Cluster) Topology() *topology.Map { return c.topo.Load() }

// Local is what the loop with this number owns of the cluster. To be used on that loop.
func (c *Cluster) Local(loopID int) *Local { return c.locals[loopID] }

// Close closes every connection and waits for the cluster's goroutines. The loops must still run.
func (c *Cluster) Close() {
	c.stop()
	c.onLoops((*Local).close)  // no dial begins after this
	c.onLoops(func(*Local) {}) // the tick of the closing is over: connections have been released
	c.dialing.Wait()
	c.onLoops(func(*Local) {}) // what the last dials brought has been dropped
	c.running.Wait()
	c.connectors.Lock()
	defer c.connectors.Unlock()
	c.connectors.closed = true
	for _, k := range c.connectors.byKey {
		_ = k.client.Close()
	}
	for _, client := range c.connectors.control {
		_ = client.Close()
	}
}

// onLoops runs fn on each loop in turn and waits for it.
func (c *Cluster) onLoops(fn func(*Local)) {
	for _, local := range c.locals {
		local.loop.Call(func() { fn(local) })
	}
}

// spawn runs fn off the loops; Close waits for it.
func (c *Cluster) spawn(fn func()) { c.running.Go(fn) }

func (c *Cluster) connector(addr string, target Target) (*connector, error) {
	return c.connectorFor(connectorKey{addr: addr, target: target}, &c.cfg)
}

func (c *Cluster) connectorFor(key connectorKey, cfg *Config) (*connector, error) {
	c.connectors.Lock()
	defer c.connectors.Unlock()
	if c.connectors.closed {
		return nil, errClosed
	}
	k := c.connectors.byKey[key]
	if k == nil {
		k = newConnector(cfg, key.addr, key.target)
		c.connectors.byKey[key] = k
	}
	return k, nil
}

// control returns the client for questions about a node's state.
func (c *Cluster) control(addr string) (*redis.Client, error) {
	c.connectors.Lock()
	defer c.connectors.Unlock()
	if c.connectors.closed {
		return nil, errClosed
	}
	client := c.connectors.control[addr]
	if client == nil {
		options := nodeOptions(&c.cfg, addr)
		options.Protocol = 2
		options.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			return dialNode(ctx, &c.cfg, network, addr)
		}
		options.OnConnect = c.meet
		client = redis.NewClient(options)
		c.connectors.control[addr] = client
	}
	return client, nil
}

// forget closes the connectors of nodes that the topology no longer has. Connections on loans are closed by their loops.
func (c *Cluster) forget(m *topology.Map) {
	known := make(map[string]bool, len(m.Nodes)+len(c.cfg.Addresses))
	for i := range m.Nodes {
		known[m.Nodes[i].Addr] = true
	}
	for _, addr := range c.cfg.Addresses {
		known[addr] = true
	}
	c.connectors.Lock()
	defer c.connectors.Unlock()
	for key, k := range c.connectors.byKey {
		if !known[key.addr] {
			_ = k.client.Close()
			delete(c.connectors.byKey, key)
		}
	}
	for addr, client := range c.connectors.control {
		if !known[addr] {
			_ = client.Close()
			delete(c.connectors.control, addr)
		}
	}
}

// dial makes one connection, within the cluster's dial rate and connect timeout.
func (c *Cluster) dial(ctx context.Context, addr string, target Target) (*lease, error) {
	k, err := c.connector(addr, target)
	if err != nil {
		return nil, err
	}
	if err := c.dials.Wait(ctx); err != nil {
		return nil, fmt.Errorf("cannot wait for a turn to dial: %w", err)
	}
	le, err := k.checkout(ctx, c.cfg.ConnectTimeout)
	if err != nil {
		le, err = c.dialRenewed(ctx, addr, target, err)
	}
	if err != nil {
		return nil, err
	}
	le.cluster = c
	return le, nil
}

// poolDialer is the Dialer of every daemon: it takes connections out of go-redis's pools, on goroutines of the cluster.
type poolDialer struct{ cluster *Cluster }

// Dial implements Dialer.
func (d poolDialer) Dial(l *loop.Loop, addr string, target Target, done func(Link, error)) {
	d.cluster.dialing.Go(func() {
		le, err := d.cluster.dial(d.cluster.stopping, addr, target)
		l.Post(func() {
			if err != nil {
				done(nil, err)
				return
			}
			done(le, nil)
		})
	})
}

// jittered returns d with up to a quarter more or less.
func jittered(d time.Duration) time.Duration { return spread(d, rand.Int64N) }

// spread returns d with up to a quarter more or less, as int64n chooses.
func spread(d time.Duration, int64n func(int64) int64) time.Duration {
	return d*3/4 + time.Duration(int64n(int64(d)/2+1))
}
