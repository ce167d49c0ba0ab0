package upstream

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluiceproxy/sluice/internal/pipe"
)

// Describe implements prometheus.Collector: which series there are depends on the nodes.
func (c *Cluster) Describe(chan<- *prometheus.Desc) {}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("sluice_"+name, help, append([]string{"cluster"}, labels...), nil)
}

// nodeNumbers are the numbers of one node, summed over the loops.
type nodeNumbers struct {
	connecting, up, beside, lent, spare int
	waiting                             int // sessions
	in, out                             uint64
	inflight                            int
	queueDelay                          float64
}

// numbers are what the loops' parts of a cluster counted.
type numbers struct {
	local  LocalStats
	feeds  int
	subs   [ChannelKinds]int // channels that loops have subscribed to
	nodes  map[string]*nodeNumbers
	counts map[string]*nodeCounts
}

// nodeCounts are what has been counted by a node's alias; they outlive the node.
type nodeCounts struct {
	errors [pipe.Reasons]uint64 // by reason
	dials  [2]uint64            // by dialResult
}

func (n *nodeCounts) add(other *nodeCounts) {
	for i, v := range other.errors {
		n.errors[i] += v
	}
	for i, v := range other.dials {
		n.dials[i] += v
	}
}

// dialResult is the index of a dial's count.
func dialResult(err error) int {
	if err != nil {
		return 1
	}
	return 0
}

func (lc *Local) countsOf(alias string) *nodeCounts { return countsOf(lc.counts, alias) }

func (n *numbers) countsOf(alias string) *nodeCounts { return countsOf(n.counts, alias) }

func countsOf(counts map[string]*nodeCounts, alias string) *nodeCounts {
	n := counts[alias]
	if n == nil {
		n = &nodeCounts{}
		counts[alias] = n
	}
	return n
}

// Collect implements prometheus.Collector. Each loop is asked for its own numbers, which no other goroutine may read.
func (c *Cluster) Collect(ch chan<- prometheus.Metric) {
	sum := numbers{nodes: make(map[string]*nodeNumbers), counts: make(map[string]*nodeCounts)}
	for _, lc := range c.locals {
		lc.loop.Call(func() { lc.addTo(&sum) })
	}
	count := func(d *prometheus.Desc, v uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), append([]string{c.cfg.Name}, labels...)...)
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, append([]string{c.cfg.Name}, labels...)...)
	}
	c.collectCluster(count, gauge, &sum)
	for alias, n := range sum.nodes {
		pipes := desc("pipes", "Shared upstream connections by state.", "node", "state")
		gauge(pipes, float64(n.connecting), alias, "connecting")
		gauge(pipes, float64(n.up), alias, "up")
		gauge(pipes, float64(n.beside), alias, "draining")
		gauge(desc("upstream_connections", "Upstream connections, shared and dedicated.", "node"),
			float64(n.up+n.beside+n.lent+n.spare), alias)
		gauge(desc("dedicated_connections", "Upstream connections lent to one session.", "node"), float64(n.lent), alias)
		gauge(desc("dedicated_idle_connections", "Upstream connections kept for the next session that needs one of its own.", "node"), float64(n.spare), alias)
		gauge(desc("dedicated_waiting_sessions", "Sessions that wait for a connection of their own because all are lent.", "node"), float64(n.waiting), alias)
		gauge(desc("upstream_inflight_calls", "Commands sent and not answered.", "node"), float64(n.inflight), alias)
		gauge(desc("pipe_queue_delay_seconds", "Time that commands wait in the proxy before the connection takes them, smoothed; the worst pipe.", "node"),
			n.queueDelay, alias)
		traffic := desc("upstream_bytes_total", "Bytes exchanged with a node over open connections.", "node", "direction")
		count(traffic, n.in, alias, "in")
		count(traffic, n.out, alias, "out")
	}
}

func (c *Cluster) collectCluster(count func(*prometheus.Desc, uint64, ...string), gauge func(*prometheus.Desc, float64, ...string), sum *numbers) {
	redirects := desc("redirects_total", "Answers of nodes that sent a command elsewhere or later.", "kind")
	count(redirects, sum.local.Moved, "moved")
	count(redirects, sum.local.Ask, "ask")
	count(redirects, sum.local.TryAgain, "tryagain")
	count(redirects, sum.local.ClusterDown, "clusterdown")
	count(desc("upstream_resent_total", "Commands sent again after a redirect or a lost connection."), sum.local.Retried)
	count(desc("upstream_late_replies_total", "Replies that came after their command had timed out and were dropped."), sum.local.Late)
	count(desc("dedicated_exhausted_total", "Commands refused because no connection of the session's own was free in time."), sum.local.Exhausted)
	gauge(desc("subscription_connections", "Upstream connections that bring messages of channels."), float64(sum.feeds))
	count(desc("subscription_connections_lost_total", "Such connections that were lost: what was published until the next one was subscribed did not reach the clients."),
		sum.local.FeedsLost)
	for kind, n := range sum.subs {
		gauge(desc("subscriptions", "Channels that loops have subscribed to, each for all of its clients.", "kind"), float64(n), channelKindNames[kind])
	}
	count(desc("scripts_provided_total", "Scripts that a node was given ahead of a command which runs them."), sum.local.ScriptsProvided)
	gauge(desc("script_memory_bytes", "Scripts that are remembered in order to give them to nodes."), float64(c.scripts.Bytes()))
	errs := desc("upstream_errors_total", "Commands that failed on the way to or at a node.", "node", "reason")
	dials := desc("upstream_dials_total", "Attempts to connect to a node.", "node", "result")
	for alias, n := range sum.counts {
		for reason := pipe.Lost; reason < pipe.Reasons; reason++ {
			count(errs, n.errors[reason], alias, reason.String())
		}
		count(dials, n.dials[0], alias, "ok")
		count(dials, n.dials[1], alias, "error")
	}
	refreshes := desc("topology_refreshes_total", "Looks at the cluster's topology and health.", "result")
	count(refreshes, c.stats.refreshOK.Load(), "ok")
	count(refreshes, c.stats.refreshFail.Load(), "error")
	covered := 0
	if m := c.topo.Load(); m != nil {
		covered = m.Covered()
	}
	gauge(desc("cluster_slots_covered", "Hash slots that have a primary."), float64(covered))
	ready := 0.0
	if ok, _ := c.Ready(); ok {
		ready = 1
	}
	gauge(desc("cluster_ready", "Whether the cluster has a usable topology and answers."), ready)
}

func (lc *Local) addTo(sum *numbers) {
	s := &lc.Stats
	sum.local.Moved += s.Moved
	sum.local.Ask += s.Ask
	sum.local.TryAgain += s.TryAgain
	sum.local.ClusterDown += s.ClusterDown
	sum.local.Retried += s.Retried
	sum.local.Late += s.Late
	sum.local.Exhausted += s.Exhausted
	sum.local.FeedsLost += s.FeedsLost
	if lc.hub != nil {
		sum.feeds += len(lc.hub.feeds)
		for kind := range lc.hub.channels {
			sum.subs[kind] += len(lc.hub.channels[kind])
		}
	}
	sum.local.ScriptsProvided += s.ScriptsProvided
	for alias, n := range lc.counts {
		sum.countsOf(alias).add(n)
	}
	for _, n := range lc.known {
		sum.countsOf(n.alias)
		numbers := sum.nodes[n.alias]
		if numbers == nil {
			numbers = &nodeNumbers{}
			sum.nodes[n.alias] = numbers
		}
		numbers.waiting += len(n.waiting)
		for _, t := range n.targets {
			t.addTo(numbers)
		}
		numbers.lent += n.tracked
	}
}

func (t *target) addTo(n *nodeNumbers) {
	add := func(p *pipe.Pipe) {
		n.inflight += p.Inflight()
		n.queueDelay = max(n.queueDelay, p.QueueDelay().Seconds())
	}
	n.in += t.traffic.In
	n.out += t.traffic.Out
	for _, p := range t.lanes {
		switch {
		case p == nil:
			continue
		case p.Conn().Attached():
			n.up++
		default:
			n.connecting++
		}
		add(p)
	}
	for _, p := range t.beside {
		n.beside++
		add(p)
	}
	for _, d := range t.lent {
		n.lent++
		add(d.pipe)
	}
	n.spare += len(t.spares)
}
