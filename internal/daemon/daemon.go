// Package daemon builds everything from the configuration, runs it, reloads it and stops it. It is the one place where
// configuration becomes domain values.
package daemon

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.uber.org/zap"

	"github.com/sluiceproxy/sluice/internal/admin"
	"github.com/sluiceproxy/sluice/internal/command"
	"github.com/sluiceproxy/sluice/internal/config"
	"github.com/sluiceproxy/sluice/internal/control"
	"github.com/sluiceproxy/sluice/internal/loop"
	"github.com/sluiceproxy/sluice/internal/route"
	"github.com/sluiceproxy/sluice/internal/server"
	"github.com/sluiceproxy/sluice/internal/session"
	"github.com/sluiceproxy/sluice/internal/store"
)

// Options are what the command line decides.
type Options struct {
	// Load reads the configuration, at start and for each reload.
	Load func() (*config.Config, error)
	// WatchFile, when set, is the configuration file: a change of it reloads.
	WatchFile string
	Version   string
	// Reload asks for a reload with each value, as SIGHUP does. May be nil.
	Reload <-chan struct{}
	// Out gets what a person at a terminal wants to know at start. May be nil.
	Out io.Writer
	// Log overrides the logger that the configuration asks for.
	Log *zap.Logger
	// Started, when set, is called once clients can connect.
	Started func(*Daemon)
}

// Daemon is a running proxy.
type Daemon struct {
	options  Options
	config   *config.Config // of the file, in force; touched by run only
	log      *logger
	loops    []*loop.Loop
	shared   *session.Shared
	server   *server.Server
	admin    *admin.Server
	registry *prometheus.Registry
	embedded *embedded
	reloads  reloadMetrics
	closing  sync.WaitGroup // clusters on their way out

	store      store.Store
	control    *control.Control
	desired    reconciler
	firstToken string // that this start has made; empty: none
	reloading  *reloading
	asked      chan reloadRequest
	stopped    chan struct{} // closed when nothing is reconciled any more
	startedAt  time.Time
	drained    atomic.Bool // by an operator
	window     statsWindow

	background sync.WaitGroup // goroutines that end with Run's ctx

	mu struct {
		sync.Mutex
		table   *route.Table // in force, for /readyz and metrics
		applied *applied
		news    chan struct{} // closed when applied is another
	}
}

// Run runs a daemon until ctx ends, then drains it. The error tells why it could not start, or that clients were cut off.
func Run(ctx context.Context, o Options) error {
	cfg, err := o.Load()
	if err != nil {
		return err
	}
	d := &Daemon{options: o, config: cfg, asked: make(chan reloadRequest), stopped: make(chan struct{}), startedAt: time.Now()}
	if d.log, err = newLogger(cfg.Log, o.Log); err != nil {
		return err
	}
	defer d.log.sync()
	if err := d.start(ctx); err != nil {
		d.abort() //nolint:contextcheck // ctx has ended, or the start it was for has failed
		return err
	}
	d.background.Go(func() { returnMemory(ctx) })
	d.background.Go(func() { d.server.Balance(ctx) })
	d.background.Go(func() { d.forgetTenants(ctx) })
	d.background.Go(func() { d.control.Follow(ctx) })
	d.announce()
	if o.Started != nil {
		o.Started(d)
	}
	d.watch(ctx)
	close(d.stopped)
	return d.stop() //nolint:contextcheck // ctx has ended: draining has a time of its own
}

// start builds everything. Nothing accepts clients unless all of it is there.
func (d *Daemon) start(ctx context.Context) error {
	cfg := d.config
	for _, warning := range cfg.Warnings {
		d.log.Warn(warning)
	}
	for i := range loopCount(cfg.Loops) {
		l, err := loop.New(i)
		if err != nil {
			return err
		}
		d.loops = append(d.loops, l)
	}
	if err := d.openDesired(ctx); err != nil {
		return err
	}
	table, err := d.firstTable()
	if err != nil {
		return err
	}
	d.control.SetSettle(d.settled)
	d.control.SetImpact(d.impact)
	d.startSessions(table)
	d.server = server.New(server.Options{MaxClients: cfg.Clients.Max, TCPKeepalive: cfg.Clients.TCPKeepalive}, d.shared, d.log.Logger)
	listeners, err := listenersOf(cfg.ClientListeners())
	if err != nil {
		return err
	}
	if err := d.server.Listen(ctx, listeners); err != nil {
		return err
	}
	d.registerMetrics()
	if cfg.Operated() {
		if err := d.startAdmin(ctx); err != nil {
			return err
		}
	}
	return d.server.Serve() //nolint:contextcheck // clients outlive the start
}

// loopCount is how many loops there are: as many as the machine runs at once unless the configuration says otherwise.
// They are used one after the other, as load asks for them.
func loopCount(configured int) int {
	if configured > 0 {
		return configured
	}
	return runtime.GOMAXPROCS(0)
}

// Control is the desired state.
func (d *Daemon) Control() *control.Control { return d.control }

// Shared has the clients of all loops, for tests that put them on certain loops.
func (d *Daemon) Shared() *session.Shared { return d.shared }

func (d *Daemon) startSessions(table *route.Table) {
	cfg := d.config
	d.shared = session.NewShared(session.Settings{
		MaxInflight:     cfg.Clients.MaxInflight,
		OutputBuffer:    int(cfg.Clients.OutputBuffer),
		GatherBuffer:    int64(cfg.Clients.GatherBuffer),
		OutputGrace:     outputGrace,
		IdleTimeout:     cfg.Clients.IdleTimeout,
		RedisVersion:    command.ServerVersion,
		Version:         d.options.Version,
		StreamThreshold: int64(cfg.StreamThreshold),

		SlowlogThreshold: cfg.Slowlog.Threshold,
		SlowlogLength:    cfg.Slowlog.MaxLen,
		MonitorRate:      cfg.Clients.MonitorRate,
		MoveTimeout:      cfg.Clients.MoveTimeout,
	}, runID())
	d.publish(table)
	for _, l := range d.loops {
		d.shared.Workers = append(d.shared.Workers, session.NewWorker(l, d.shared))
	}
	for i, l := range d.loops {
		l.Start()
		l.Call(d.shared.Workers[i].Begin)
	}
	for _, c := range table.Clusters() {
		c.Start()
	}
}

// outputGrace is how long a client may stay over its output bound.
const outputGrace = 10 * time.Second

func runID() string {
	var b [20]byte
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// publish puts a table in force.
func (d *Daemon) publish(table *route.Table) {
	d.mu.Lock()
	d.mu.table = table
	d.mu.Unlock()
	d.shared.Table.Store(table)
	for name, c := range table.Clusters() {
		c.Scripts().Keep(func(tenant string) bool {
			t := table.Registry.Tenant(tenant)
			return t != nil && t.Cluster == name
		})
	}
}

func (d *Daemon) table() *route.Table {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.mu.table
}

func (d *Daemon) startAdmin(ctx context.Context) (err error) {
	o := admin.Options{
		PProf: d.config.Admin.PProf, Audit: d.config.Admin.Audit, Version: d.options.Version,
		Gatherer: d.registry, Ready: d.notReady, Log: d.log.Logger, Control: d.control, Runtime: d,
	}
	if !d.config.Admin.Off() {
		o.Address = d.config.Admin.Address
		if o.TLS, err = listenerTLS(d.config.Admin.TLS); err != nil {
			return fmt.Errorf("admin port: %w", err)
		}
	}
	if o.Consoles, err = openConsoles(ctx, d.config); err != nil {
		return err
	}
	if d.admin, err = admin.Listen(ctx, o); err != nil {
		closeConsoles(o.Consoles)
		return err
	}
	d.admin.Serve()
	return nil
}

// notReady lists the clusters without a usable map and the tenants that wait for them.
func (d *Daemon) notReady() (missing []admin.NotReady) {
	if d.server.Draining() || d.drained.Load() {
		return []admin.NotReady{{Reason: "draining"}}
	}
	if !d.control.Synced() {
		missing = append(missing, admin.NotReady{Reason: "the store has not been read yet"})
	}
	table := d.table()
	for name, c := range table.Clusters() {
		ready, reason := c.Ready()
		if ready {
			continue
		}
		item := admin.NotReady{Cluster: name, Reason: reason}
		for _, t := range table.Registry.All() {
			if t.Cluster == name {
				item.Tenants = append(item.Tenants, t.Name)
			}
		}
		missing = append(missing, item)
	}
	slices.SortFunc(missing, func(a, b admin.NotReady) int { return compare(a.Cluster, b.Cluster) })
	return missing
}

func compare(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func (d *Daemon) registerMetrics() {
	d.registry = prometheus.NewRegistry()
	build := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "sluice_build_info", Help: "Always 1; the labels tell the version.",
		ConstLabels: prometheus.Labels{"version": d.options.Version, "go": runtime.Version()},
	}, func() float64 { return 1 })
	d.registry.MustRegister(build, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		d.shared, d.server, clustersCollector{d}, &d.reloads, desiredCollector{d})
	d.reloads.succeeded(time.Now())
}

// clustersCollector collects from the clusters in force.
type clustersCollector struct{ daemon *Daemon }

// Describe implements prometheus.Collector.
func (c clustersCollector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c clustersCollector) Collect(ch chan<- prometheus.Metric) {
	for _, cluster := range c.daemon.table().Clusters() {
		cluster.Collect(ch)
	}
}

// Addresses are where clients can connect.
func (d *Daemon) Addresses() []net.Addr { return d.server.Addresses() }

// AdminAddress is where the admin port listens; empty when it is off.
func (d *Daemon) AdminAddress() string {
	if d.admin == nil {
		return ""
	}
	return d.admin.Address()
}

// Clients is the number of connected clients.
func (d *Daemon) Clients() int { return d.shared.Clients() }

// stop drains and ends everything.
func (d *Daemon) stop() error {
	d.log.Info("draining", zap.Int("clients", d.shared.Clients()), zap.Duration("timeout", d.config.DrainTimeout))
	ctx, cancel := context.WithTimeout(context.Background(), d.config.DrainTimeout)
	cut := d.server.Drain(ctx)
	cancel()
	d.closeUpstreams()
	err := d.closeAdmin()
	d.background.Wait()
	d.closeStore()
	if cut > 0 {
		err = errors.Join(err, fmt.Errorf("%d clients were not done within drain_timeout and were disconnected", cut))
	}
	d.log.Info("stopped", zap.Int("cut", cut))
	return err
}

func (d *Daemon) closeUpstreams() {
	for _, c := range d.table().Clusters() {
		c.Close()
	}
	for _, c := range d.desired.dialling {
		c.cluster.Close()
	}
	d.closing.Wait()
	for _, l := range d.loops {
		l.Stop()
		l.Wait()
	}
	d.shared.Wait()
	d.embedded.close()
}

func (d *Daemon) closeAdmin() error {
	if d.admin == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	return d.admin.Close(ctx)
}

// abort ends what a failed start has begun.
func (d *Daemon) abort() {
	if d.server != nil {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		d.server.Drain(ctx)
	}
	if d.mu.table != nil {
		for _, c := range d.mu.table.Clusters() {
			c.Close()
		}
	}
	for _, l := range d.loops {
		l.Stop()
		l.Wait()
	}
	d.embedded.close()
	_ = d.closeAdmin()
	d.closeStore()
}
