package daemon

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/sluiceproxy/sluice/internal/config"
	"github.com/sluiceproxy/sluice/internal/control"
	"github.com/sluiceproxy/sluice/internal/facade"
	"github.com/sluiceproxy/sluice/internal/route"
	"github.com/sluiceproxy/sluice/internal/tenant"
	"github.com/sluiceproxy/sluice/internal/upstream"
)

// settleWait is how long the answer to a change waits for the change to be in force.
const settleWait = time.Second

// liveCluster is a cluster with what it was made of.
type liveCluster struct {
	config  config.Cluster
	cluster *upstream.Cluster
	// since is when its dialling began; used before it is in force.
	since time.Time
	stop  context.CancelFunc // ends the wait for it
}

func (c *liveCluster) ready() bool {
	ready, _ := c.cluster.Ready()
	return ready || time.Since(c.since) >= readyWait
}

// reconciler makes the desired state come true. All of it belongs to the goroutine of watch, once the daemon has started.
type reconciler struct {
	inForce  map[string]*liveCluster // by name
	dialling map[string]*liveCluster // new clusters and new versions of clusters, which no tenant uses yet
	tenants  map[string]*config.Tenant
	fleets   []facade.Fleet
	wake     chan struct{}
}

// applied is what is in force, for those who ask.
type applied struct {
	config   *config.Config // with the clusters and tenants of file and store
	revision int64          // of the store, that is wholly in force
	seen     int64          // that was looked at last
	problems []string
	failure  error // that keeps the last good state in force
	waits    []string
}

// draft is a table in the making.
type draft struct {
	clusters map[string]*liveCluster
	tenants  []config.Tenant
	problems []string
	waits    []string // names of clusters that are being dialled
}

// reconcile puts the desired state in force, as far as its clusters can be used by now. Clusters and tenants that did not
// change keep their connections. What cannot be built leaves the last good state in force.
func (d *Daemon) reconcile(ctx context.Context) error {
	state, problems := d.control.State()
	next := d.draft(ctx, &state, problems)
	err := d.apply(next)
	d.note(&state, next, err)
	return err
}

// draft decides which clusters and tenants there are to be.
func (d *Daemon) draft(ctx context.Context, state *control.State, problems []string) *draft {
	r := &d.desired
	next := &draft{clusters: make(map[string]*liveCluster, len(state.Clusters)), problems: problems}
	wanted := make(map[string]bool, len(state.Clusters))
	for i := range state.Clusters {
		wanted[state.Clusters[i].Name] = true
		d.draftCluster(ctx, next, &state.Clusters[i])
	}
	for name, c := range r.dialling {
		if !wanted[name] {
			d.abandon(name, c)
		}
	}
	for i := range state.Tenants {
		d.draftTenant(next, &state.Tenants[i])
	}
	slices.Sort(next.waits)
	return next
}

// draftCluster finds or makes the cluster. A new one, and a new version of one, is dialled first.
func (d *Daemon) draftCluster(ctx context.Context, next *draft, want *config.Cluster) {
	r := &d.desired
	old, fresh := r.inForce[want.Name], r.dialling[want.Name]
	if fresh != nil && !reflect.DeepEqual(fresh.config, *want) {
		d.abandon(want.Name, fresh)
		fresh = nil
	}
	if old != nil && reflect.DeepEqual(old.config, *want) {
		if fresh != nil {
			d.abandon(want.Name, fresh)
		}
		next.clusters[want.Name] = old
		return
	}
	if old != nil {
		next.clusters[want.Name] = old // until the new one can be used
	}
	if fresh == nil {
		var err error
		if fresh, err = d.dial(ctx, want); err != nil {
			next.problems = append(next.problems, err.Error())
			return
		}
	}
	if fresh.ready() {
		next.clusters[want.Name] = fresh
		return
	}
	next.waits = append(next.waits, want.Name)
}

// dial makes a cluster and begins to connect it. watch is told when it can be used.
func (d *Daemon) dial(ctx context.Context, want *config.Cluster) (*liveCluster, error) {
	c, err := d.cluster(d.config, want, d.desired.inForce[want.Name])
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	fresh := &liveCluster{config: *want, cluster: c, since: time.Now(), stop: cancel}
	d.desired.dialling[want.Name] = fresh
	c.Start()
	d.background.Go(func() { // ends with the wait, or with ctx
		awaitReady(ctx, []*upstream.Cluster{c}, readyWait)
		select {
		case d.desired.wake <- struct{}{}:
		default:
		}
	})
	return fresh, nil
}

// abandon closes a cluster that was being dialled and is not wanted any more.
func (d *Daemon) abandon(name string, c *liveCluster) {
	c.stop()
	delete(d.desired.dialling, name)
	d.closing.Go(c.cluster.Close)
}

// draftTenant takes a tenant whose cluster can be used. While it cannot, a tenant that is served stays as it is, but for
// its users: who may come in is never a matter of connections. Another is not served yet.
func (d *Daemon) draftTenant(next *draft, want *config.Tenant) {
	if next.clusters[want.Cluster] != nil {
		next.tenants = append(next.tenants, *want)
		return
	}
	served := d.desired.tenants[want.Name]
	if served == nil {
		return
	}
	kept := *served
	kept.Users, kept.Closed = want.Users, want.Closed
	if next.clusters[kept.Cluster] == nil {
		old := d.desired.inForce[kept.Cluster]
		if old == nil {
			return
		}
		next.clusters[kept.Cluster] = old
	}
	next.tenants = append(next.tenants, kept)
}

// apply builds the table and swaps it in.
func (d *Daemon) apply(next *draft) error {
	r := &d.desired
	before := d.table()
	registry, err := registryOf(next.tenants, tenant.Adopt(before.Registry))
	if err != nil {
		return err
	}
	clusters := make(map[string]*upstream.Cluster, len(next.clusters))
	for name, c := range next.clusters {
		clusters[name] = c.cluster
	}
	fleets := fleetsOf(d.config.ClientListeners())
	table, err := route.NewTable(registry, clusters, fleets...)
	if err != nil {
		return err
	}
	if !sameTenants(before.Registry, registry) || !maps.Equal(before.Clusters(), clusters) || !reflect.DeepEqual(r.fleets, fleets) {
		r.succeed(next)
		d.publish(table)
	}
	for name, c := range next.clusters {
		if r.dialling[name] == c {
			c.stop()
			delete(r.dialling, name)
		}
	}
	for name, c := range r.inForce {
		if next.clusters[name] != c {
			d.closing.Go(func() { d.retire(c.cluster) })
		}
	}
	r.keep(next, fleets)
	return nil
}

// succeed tells clusters that another version takes their place.
func (r *reconciler) succeed(next *draft) {
	for name, c := range r.inForce {
		if now := next.clusters[name]; now != nil && now != c {
			c.cluster.ReplacedBy(now.cluster)
		}
	}
}

// sameTenants reports whether two registries have the very same tenants.
func sameTenants(a, b *tenant.Registry) bool { return slices.Equal(a.All(), b.All()) }

func (r *reconciler) keep(next *draft, fleets []facade.Fleet) {
	r.inForce, r.fleets = next.clusters, fleets
	r.tenants = make(map[string]*config.Tenant, len(next.tenants))
	for i := range next.tenants {
		r.tenants[next.tenants[i].Name] = &next.tenants[i]
	}
}

// note tells what came of a reconciliation: in the log, in the status and to those who wait for it.
func (d *Daemon) note(state *control.State, next *draft, err error) {
	effective := *d.config
	effective.Clusters, effective.Tenants = state.Clusters, state.Tenants
	now := &applied{config: &effective, revision: state.Revision, seen: state.Revision, problems: next.problems, failure: err, waits: next.waits}
	before := d.applied()
	if err != nil {
		now.config, now.revision = before.config, before.revision
	} else if len(next.waits) > 0 {
		now.revision = before.revision
	}
	d.mu.Lock()
	d.mu.applied = now
	close(d.mu.news)
	d.mu.news = make(chan struct{})
	d.mu.Unlock()
	d.logApplied(before, now)
}

func (d *Daemon) logApplied(before, now *applied) {
	if now.failure != nil {
		d.log.Error("the desired state cannot be put in force; the last good one keeps serving", zap.Error(now.failure), zap.Int64("revision", now.seen))
		return
	}
	if !slices.Equal(before.problems, now.problems) {
		for _, problem := range now.problems {
			d.log.Warn("a part of the desired state is not in force", zap.String("reason", problem))
		}
	}
	if now.seen == before.seen || before.config == nil {
		return
	}
	change := config.Diff(before.config, now.config)
	if change.Clusters.None() && change.Tenants.None() {
		return
	}
	d.log.Info("desired state read", append(changeFields(&change), zap.Int64("revision", now.seen), zap.Strings("dialling", now.waits))...)
}

func changeFields(change *config.Change) []zap.Field {
	return []zap.Field{
		zap.Strings("clusters_added", change.Clusters.Added), zap.Strings("clusters_changed", change.Clusters.Changed),
		zap.Strings("clusters_removed", change.Clusters.Removed), zap.Strings("tenants_added", change.Tenants.Added),
		zap.Strings("tenants_changed", change.Tenants.Changed), zap.Strings("tenants_removed", change.Tenants.Removed),
	}
}

// applied is what came of the last reconciliation. For any goroutine.
func (d *Daemon) applied() *applied {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.mu.applied
}

// settled waits until what the store had when it was called is in force, for a while: so who has changed something finds it
// changed. For any goroutine.
func (d *Daemon) settled() {
	revision := d.control.Revision()
	limit := time.NewTimer(settleWait)
	defer limit.Stop()
	for {
		d.mu.Lock()
		now, news := d.mu.applied, d.mu.news
		d.mu.Unlock()
		if now.revision >= revision || now.failure != nil && now.seen >= revision {
			return
		}
		select {
		case <-news:
		case <-limit.C:
			return
		case <-d.stopped:
			return
		}
	}
}

// firstTable is the table of a start: nobody is served yet, so nothing has to be dialled first.
func (d *Daemon) firstTable() (*route.Table, error) {
	if err := Check(d.config); err != nil {
		return nil, err
	}
	r := &d.desired
	*r = reconciler{
		dialling: make(map[string]*liveCluster), wake: make(chan struct{}, 1), fleets: fleetsOf(d.config.ClientListeners()),
	}
	state, problems := d.control.State()
	next := &draft{clusters: make(map[string]*liveCluster, len(state.Clusters)), problems: problems}
	for i := range state.Clusters {
		want := &state.Clusters[i]
		c, err := d.cluster(d.config, want, nil)
		if err != nil {
			next.problems = append(next.problems, err.Error())
			continue
		}
		next.clusters[want.Name] = &liveCluster{config: *want, cluster: c}
	}
	for i := range state.Tenants {
		d.draftTenant(next, &state.Tenants[i])
	}
	registry, err := registryOf(next.tenants)
	if err != nil {
		return nil, err
	}
	clusters := make(map[string]*upstream.Cluster, len(next.clusters))
	for name, c := range next.clusters {
		clusters[name] = c.cluster
	}
	table, err := route.NewTable(registry, clusters, r.fleets...)
	if err != nil {
		return nil, fmt.Errorf("cannot route: %w", err)
	}
	r.keep(next, r.fleets)
	d.mu.news = make(chan struct{})
	d.mu.applied = &applied{}
	d.note(&state, next, nil)
	return table, nil
}
