package upstream

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/sluiceproxy/sluice/internal/topology"
)

const (
	// refreshGap is the least time between two refreshes: at most five a second per cluster, whatever calls for them.
	refreshGap = 200 * time.Millisecond
	// refreshUrgent is the time between refreshes while the cluster is not healthy.
	refreshUrgent = 500 * time.Millisecond
)

// refresher collapses all calls for a new topology into one look at a time.
type refresher struct {
	wanted chan struct{}
	mu     struct {
		sync.Mutex
		ready  bool
		reason string
	}
}

func (r *refresher) init() {
	r.wanted = make(chan struct{}, 1)
	r.mu.reason = "not connected yet"
}

// RequestRefresh asks for a look at the topology soon. For any goroutine; never blocks.
func (c *Cluster) RequestRefresh() {
	select {
	case c.refresh.wanted <- struct{}{}:
	default:
	}
}

// Ready reports whether the cluster has a usable map, and if not, why.
func (c *Cluster) Ready() (ready bool, reason string) {
	c.refresh.mu.Lock()
	defer c.refresh.mu.Unlock()
	return c.refresh.mu.ready, c.refresh.mu.reason
}

// setReady notes the state and logs when it changes.
func (c *Cluster) setReady(err error) {
	reason := ""
	if err != nil {
		reason = err.Error()
	}
	c.refresh.mu.Lock()
	was, wasReason := c.refresh.mu.ready, c.refresh.mu.reason
	c.refresh.mu.ready, c.refresh.mu.reason = err == nil, reason
	c.refresh.mu.Unlock()
	switch {
	case err == nil && !was:
		c.log.Info("cluster is ready")
	case err != nil && (was || wasReason != reason):
		c.log.Warn("cluster is not ready; trying on", zap.String("reason", reason))
	}
}

// watch looks at the cluster whenever it is called for, periodically, and more often while it is not healthy.
func (c *Cluster) watch() {
	wait := time.Duration(0)
	for {
		timer := time.NewTimer(wait)
		select {
		case <-c.stopping.Done():
			timer.Stop()
			return
		case <-c.refresh.wanted:
		case <-timer.C:
		}
		timer.Stop()
		err := c.look()
		if c.stopping.Err() != nil {
			return // what it found is that it was stopped
		}
		c.setReady(err)
		wait = jittered(c.cfg.RefreshInterval)
		if err != nil {
			wait = jittered(refreshUrgent)
		}
		select {
		case <-c.stopping.Done():
			return
		case <-time.After(refreshGap + rand.N(refreshGap/4)): //nolint:gosec // spreads load; not a secret
		}
	}
}

// look asks the cluster for its state once.
func (c *Cluster) look() error {
	ctx, cancel := context.WithTimeout(c.stopping, c.cfg.ConnectTimeout+time.Second)
	defer cancel()
	err := c.lookOnce(ctx)
	if err != nil {
		c.stats.refreshFail.Add(1)
		return err
	}
	c.stats.refreshOK.Add(1)
	return nil
}

func (c *Cluster) lookOnce(ctx context.Context) error {
	if c.cfg.Kind == Standalone {
		return c.ping(ctx, c.cfg.Addresses[0])
	}
	var first error
	refused := 0
	candidates := c.candidates()
	for _, addr := range candidates {
		m, err := c.askTopology(ctx, addr)
		if err == nil {
			// One node may be cut off and show an old map; what most nodes say is so.
			if old := c.topo.Load(); old == nil || m.Supersedes(old) || 2*(refused+1) > len(candidates) && !m.Minority {
				return c.Adopt(m)
			}
			refused++
			err = errOldMap
		}
		if first == nil {
			first = err
		}
		if ctx.Err() != nil {
			break
		}
	}
	return first
}

var errOldMap = errors.New("a node showed an older topology than the one in force")

// candidates are the nodes to ask, healthy known ones first in random order, then the configured addresses.
func (c *Cluster) candidates() []string {
	var list []string
	seen := make(map[string]bool)
	add := func(addr string) {
		if addr != "" && !seen[addr] {
			seen[addr] = true
			list = append(list, addr)
		}
	}
	if m := c.topo.Load(); m != nil {
		for _, i := range rand.Perm(len(m.Nodes)) { //nolint:gosec // spreads load; not a secret
			if m.Nodes[i].Healthy {
				add(m.Nodes[i].Addr)
			}
		}
	}
	for _, addr := range c.cfg.Addresses {
		add(addr)
	}
	return list
}

func (c *Cluster) ping(ctx context.Context, addr string) error {
	client, err := c.control(addr)
	if err != nil {
		return err
	}
	if err := client.Ping(ctx).Err(); err != nil {
		return hideAddress("cannot reach the node", err)
	}
	return nil
}

// askTopology asks one node for the slot map: CLUSTER SHARDS, or CLUSTER SLOTS of servers that do not know it.
func (c *Cluster) askTopology(ctx context.Context, addr string) (*topology.Map, error) {
	client, err := c.control(addr)
	if err != nil {
		return nil, err
	}
	from, ok := topology.EndpointAt(addr, c.cfg.TLS != nil)
	if !ok {
		return nil, fmt.Errorf("address %d of the cluster is not host:port", slices.Index(c.cfg.Addresses, addr)+1)
	}
	reply, err := client.Do(ctx, "CLUSTER", "SHARDS").Result()
	if err == nil {
		m, err := topology.ParseShards(reply, from)
		if err != nil {
			return nil, err
		}
		// SHARDS alone does not tell a node that most of the cluster has left behind.
		if text, err := client.ClusterInfo(ctx).Result(); err == nil {
			if info, ok := topology.ParseInfo(text); ok {
				m = m.WithInfo(info)
			}
		}
		return m, nil
	}
	reply, slotsErr := client.Do(ctx, "CLUSTER", "SLOTS").Result()
	if slotsErr != nil {
		return nil, hideAddress("cannot read the topology", err)
	}
	return topology.ParseSlots(reply, from)
}

// Adopt puts a map in force. The loops take it over before their next command. An error tells what it lacks; it is in
// force all the same. For any goroutine.
func (c *Cluster) Adopt(m *topology.Map) error {
	for {
		old := c.topo.Load()
		if old != nil {
			if m.Equal(old) {
				break
			}
			m = m.WithAliasesOf(old)
		}
		if c.topo.CompareAndSwap(old, m) {
			c.log.Info("topology adopted", zap.Int("shards", len(m.Shards)), zap.Int("nodes", len(m.Nodes)), zap.Int("slots", m.Covered()))
			c.forget(m)
			c.announce()
			break
		}
	}
	if m.Covered() < topology.SlotCount {
		return fmt.Errorf("%d of %d slots have no primary", topology.SlotCount-m.Covered(), topology.SlotCount)
	}
	return nil
}

// announce lets every loop take over a new map also when no command arrives.
func (c *Cluster) announce() {
	for _, local := range c.locals {
		local.loop.Post(local.Refresh)
	}
}

// moved notes a MOVED redirect: one slot is patched at once and the whole map is asked for.
func (c *Cluster) moved(slot uint16, addr string) {
	for {
		old := c.topo.Load()
		if old == nil {
			break
		}
		if c.topo.CompareAndSwap(old, old.WithSlotMoved(slot, addr)) {
			break
		}
	}
	c.RequestRefresh()
}
