package daemon

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net"
	"reflect"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/sluiceproxy/sluice/internal/admin"
	"github.com/sluiceproxy/sluice/internal/config"
	"github.com/sluiceproxy/sluice/internal/route"
	"github.com/sluiceproxy/sluice/internal/session"
	"github.com/sluiceproxy/sluice/internal/topology"
	"github.com/sluiceproxy/sluice/internal/upstream"
	"github.com/sluiceproxy/sluice/pkg/api"
)

var _ admin.Runtime = (*Daemon)(nil)

// Status implements admin.Runtime.
func (d *Daemon) Status() api.Status {
	now, table := d.applied(), d.table()
	status := api.Status{
		Version: d.options.Version, StartedAt: d.startedAt, NotReady: []string{}, Draining: d.drained.Load() || d.server.Draining(),
		Clients: d.shared.Clients(), Loops: len(d.loops), Tenants: len(table.Registry.All()), Clusters: len(table.Clusters()),
		Paused: d.halted(), Store: d.storeStatus(now), Listeners: []string{},
	}
	for _, missing := range d.notReady() {
		status.NotReady = append(status.NotReady, strings.TrimPrefix(missing.Cluster+": ", ": ")+missing.Reason)
	}
	status.Ready = len(status.NotReady) == 0
	for _, address := range d.Addresses() {
		status.Listeners = append(status.Listeners, address.String())
	}
	return status
}

func (d *Daemon) storeStatus(now *applied) api.StoreStatus {
	kept := d.control.Status()
	status := api.StoreStatus{
		Kind: kept.Kind, Available: kept.Available, Since: kept.Since.UTC(), Reason: kept.Reason, Revision: max(kept.Revision, now.seen), Applied: now.revision,
	}
	var also []string
	if now.failure != nil {
		also = append(also, "the last change cannot be put in force: "+now.failure.Error())
	}
	also = append(also, now.problems...)
	if len(now.waits) > 0 {
		also = append(also, "clusters are being dialled: "+strings.Join(now.waits, ", "))
	}
	if kept.Kind == string(config.StoreMemory) {
		also = append(also, "what is registered is kept in memory only and is gone when the daemon stops")
	}
	status.Reason = strings.Join(slices.DeleteFunc(append([]string{status.Reason}, also...), func(s string) bool { return s == "" }), "; ")
	return status
}

// each runs fn for every loop's sessions, on the loop, one loop after the other.
func (d *Daemon) each(fn func(w *session.Worker)) {
	for _, w := range d.shared.Workers {
		w.Loop.Call(func() { fn(w) })
	}
}

func (d *Daemon) halted() []string {
	names := make(map[string]bool)
	d.each(func(w *session.Worker) {
		for _, name := range w.Halted() {
			names[name] = true
		}
	})
	return append([]string{}, slices.Sorted(maps.Keys(names))...)
}

// Sessions implements admin.Runtime.
func (d *Daemon) Sessions(f admin.SessionFilter) []api.Session {
	all, fits, now := []api.Session{}, d.fitting(f), time.Now()
	d.each(func(w *session.Worker) {
		w.Each(func(s *session.Session) {
			if c := s.Describe(); fits(&c) {
				all = append(all, apiSession(&c, now))
			}
		})
	})
	slices.SortFunc(all, func(a, b api.Session) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

func apiSession(c *session.Client, now time.Time) api.Session {
	return api.Session{
		ID: c.ID, Tenant: c.Tenant, User: c.User, Address: c.Peer, Listener: c.Listener, Name: c.Name, Library: c.Library,
		Protocol: c.Protocol, Database: c.Database, Loop: c.Loop, Connected: now.Add(-c.Age), IdleSeconds: c.Idle.Seconds(),
		LastCommand: c.LastCommand, Pinned: c.Pinned, Inflight: c.Inflight, Unread: c.Unread,
	}
}

// fitting makes the filter a function.
func (d *Daemon) fitting(f admin.SessionFilter) func(*session.Client) bool {
	table := d.table()
	return func(c *session.Client) bool {
		switch {
		case f.Tenants != nil && !slices.Contains(f.Tenants, c.Tenant),
			f.ID != 0 && c.ID != f.ID,
			f.Tenant != "" && c.Tenant != f.Tenant,
			f.User != "" && c.User != f.User,
			!strings.HasPrefix(c.Peer, f.Address),
			f.Command != "" && c.LastCommand != f.Command,
			f.Cluster != "" && !onCluster(table, c.Tenant, f.Cluster):
			return false
		}
		return true
	}
}

func onCluster(table *route.Table, tenant, cluster string) bool {
	t := table.Registry.Tenant(tenant)
	return t != nil && t.Cluster == cluster
}

// Kill implements admin.Runtime.
func (d *Daemon) Kill(f admin.SessionFilter) (killed int) {
	fits := d.fitting(f)
	d.each(func(w *session.Worker) {
		w.Each(func(s *session.Session) {
			if c := s.Describe(); fits(&c) {
				s.Kill(nil)
				killed++
			}
		})
	})
	return killed
}

// Nodes implements admin.Runtime.
func (d *Daemon) Nodes() []api.Node {
	all := []api.Node{}
	clusters := d.table().Clusters()
	for _, name := range slices.Sorted(maps.Keys(clusters)) {
		all = append(all, nodesOf(clusters[name])...)
	}
	return all
}

func nodesOf(c *upstream.Cluster) []api.Node {
	nodes := []api.Node{}
	for _, n := range c.Nodes() {
		nodes = append(nodes, api.Node{
			Cluster: c.Name(), Alias: n.Alias, Address: n.Addr, Role: n.Role.String(), Healthy: n.Healthy, Slots: n.Slots,
			Pipes: n.Pipes, Dedicated: n.Lent, Idle: n.Spare, Waiting: n.Waiting, Inflight: n.Inflight, QueueDelay: n.QueueDelay, Errors: n.Errors,
		})
	}
	return nodes
}

// Topology implements admin.Runtime.
func (d *Daemon) Topology(cluster string) *api.Topology {
	c := d.table().Clusters()[cluster]
	if c == nil {
		return nil
	}
	t := &api.Topology{Cluster: cluster, Kind: string(config.Standalone), Nodes: nodesOf(c), Slots: []api.SlotRange{}}
	if c.Kind() == upstream.Sharded {
		t.Kind = string(config.RedisCluster)
	}
	t.Ready, t.Reason = c.Ready()
	m := c.Topology()
	if m == nil {
		return t
	}
	t.Covered, t.Epoch = m.Covered(), m.Epoch
	for i := range m.Shards {
		for _, r := range m.Shards[i].Slots {
			t.Slots = append(t.Slots, api.SlotRange{First: int(r.First), Last: int(r.Last), Shard: m.Shards[i].String()})
		}
	}
	slices.SortFunc(t.Slots, func(a, b api.SlotRange) int { return cmp.Compare(a.First, b.First) })
	return t
}

var errNoTenant = errors.New("there is no such tenant in force")

// Explain implements admin.Runtime.
func (d *Daemon) Explain(tenant string, args []string) (*api.Explanation, error) {
	table := d.table()
	t := table.Registry.Tenant(tenant)
	switch {
	case t == nil:
		return nil, errNoTenant
	case len(args) == 0:
		return nil, errors.New("there is no command")
	}
	line := make([][]byte, len(args))
	for i, arg := range args {
		line[i] = []byte(arg)
	}
	var e *session.Explanation
	w := d.shared.Workers[0]
	if !w.Loop.Call(func() { e = w.Explain(t, line) }) {
		return nil, errors.New("the proxy is stopping")
	}
	answer := &api.Explanation{
		Tenant: tenant, Command: strings.ToLower(args[0]), Served: e.Served, Keys: append([]string{}, e.Keys...), Slots: append([]int{}, e.Slots...),
		Nodes: []string{}, Flags: []string{}, Refused: e.Refused, Notes: append([]string{"cluster " + t.Cluster}, e.Notes...),
	}
	if e.Command != nil {
		answer.Command, answer.Class, answer.Flags = e.Command.Name, e.Command.Class.String(), e.Command.Flags.Names()
	}
	if e.Refused == "" {
		answer.Nodes = nodesFor(table.Cluster(t).Topology(), e)
	}
	return answer, nil
}

// nodesFor are the aliases of the nodes that a command goes to.
func nodesFor(m *topology.Map, e *session.Explanation) []string {
	aliases := []string{}
	add := func(alias string) {
		if !slices.Contains(aliases, alias) {
			aliases = append(aliases, alias)
		}
	}
	switch {
	case m == nil || e.Served == "local" || e.Served == "unknown":
	case e.AllNode:
		for i := range m.Shards {
			add(m.Shards[i].Primary.Alias)
		}
	case len(m.Shards) == 1:
		add(m.Shards[0].Primary.Alias)
	case len(e.Slots) > 0:
		for _, at := range e.Slots {
			if i := m.Primary(uint16(at)); i >= 0 {
				add(m.Nodes[i].Alias)
			}
		}
	}
	return aliases
}

// Config implements admin.Runtime.
func (d *Daemon) Config() map[string]any {
	effective := map[string]any{}
	b, err := json.Marshal(d.applied().config)
	if err == nil {
		err = json.Unmarshal(b, &effective)
	}
	if err != nil {
		d.log.Error("cannot render the configuration", zap.Error(err))
	}
	return effective
}

// probeTime bounds a test of a cluster.
const probeTime = 10 * time.Second

// Test implements admin.Runtime.
func (d *Daemon) Test(ctx context.Context, c api.Cluster) api.TestResult {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	began := time.Now()
	found, err := d.probe(ctx, &c)
	result := api.TestResult{
		OK: err == nil, Server: found.Server, Nodes: found.Nodes, Covered: found.Covered,
		Seconds: time.Since(began).Seconds(), Notes: append([]string{}, found.Notes...),
	}
	if err != nil {
		result.Error = err.Error()
	}
	return result
}

func (d *Daemon) probe(ctx context.Context, c *api.Cluster) (upstream.Probed, error) {
	cluster := config.Cluster{
		Name: cmp.Or(c.Name, "tested"), Kind: config.ClusterKind(cmp.Or(c.ClusterKind, string(config.Standalone))), Addresses: c.Addresses,
		ConnectTimeout: time.Duration(c.ConnectTimeout),
	}
	if c.TLS != nil {
		cluster.TLS = &config.ClusterTLS{
			Enabled: true, CA: c.TLS.CA, Cert: c.TLS.Cert, Key: c.TLS.Key, ServerName: c.TLS.ServerName, InsecureSkipVerify: c.TLS.InsecureSkipVerify,
		}
	}
	if c.Auth != nil {
		cluster.Auth = config.Auth{Username: c.Auth.Username, Password: config.NewSecret(c.Auth.Password)}
		if c.Auth.Password == "" {
			cluster.Auth.Password = d.keptPassword(&cluster)
		}
	}
	if problems := config.CheckCluster(&cluster); len(problems) > 0 {
		return upstream.Probed{}, problems[0]
	}
	made, err := upstreamConfig(&cluster)
	if err != nil {
		return upstream.Probed{}, err
	}
	return upstream.Probe(ctx, made)
}

// keptPassword is that of the registered cluster of this name, for a test that does not give it again. It goes only where
// it goes anyway: to the addresses that the cluster is registered with, and as it is.
func (d *Daemon) keptPassword(c *config.Cluster) config.Secret {
	state, _ := d.control.State()
	for i := range state.Clusters {
		kept := &state.Clusters[i]
		if kept.Name == c.Name && slices.Equal(kept.Addresses, c.Addresses) && reflect.DeepEqual(kept.TLS, c.TLS) {
			return kept.Auth.Password
		}
	}
	return config.Secret{}
}

// RefreshTopology implements admin.Runtime.
func (d *Daemon) RefreshTopology(cluster string) bool {
	c := d.table().Clusters()[cluster]
	if c != nil {
		c.RequestRefresh()
	}
	return c != nil
}

// Drain implements admin.Runtime: the proxy is not ready, new clients are turned away, and those that are connected go as
// their commands end.
func (d *Daemon) Drain() {
	if d.drained.Swap(true) {
		return
	}
	d.log.Info("drained by an operator", zap.Int("clients", d.shared.Clients()))
	d.server.TurnAway(true)
	d.server.AskToLeave()
}

// Undrain implements admin.Runtime.
func (d *Daemon) Undrain() {
	if d.drained.Swap(false) {
		d.server.TurnAway(false)
		d.log.Info("no longer drained")
	}
}

// Pause implements admin.Runtime.
func (d *Daemon) Pause(tenant string, p admin.Pause) bool {
	if d.table().Registry.Tenant(tenant) == nil {
		return false
	}
	limit := time.Duration(0)
	if !p.Until.IsZero() {
		limit = max(time.Until(p.Until), time.Millisecond)
	}
	d.each(func(w *session.Worker) { w.Halt(tenant, p.Refuse, limit) })
	d.log.Info("tenant paused by an operator", zap.String("tenant", tenant), zap.Bool("refuse", p.Refuse), zap.Duration("limit", limit))
	return true
}

// Resume implements admin.Runtime.
func (d *Daemon) Resume(tenant string) bool {
	known := d.table().Registry.Tenant(tenant) != nil
	d.each(func(w *session.Worker) { w.EndHalt(tenant) })
	return known
}

// Reload implements admin.Runtime.
func (d *Daemon) Reload(ctx context.Context) error {
	answer := make(chan error, 1)
	select {
	case d.asked <- answer:
	case <-ctx.Done():
		return ctx.Err()
	case <-d.stopped:
		return net.ErrClosed
	}
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-d.stopped:
		return net.ErrClosed
	}
}
