package daemon

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/sluiceproxy/sluice/internal/config"
	"github.com/sluiceproxy/sluice/internal/route"
	"github.com/sluiceproxy/sluice/internal/upstream"
)

const (
	// settleTime is how long a changed file must be left alone before it is read: editors write in several steps.
	settleTime = 200 * time.Millisecond
	// readyWait is how long a new cluster may take to connect before tenants are sent to it all the same.
	readyWait = 3 * time.Second
	// goneWait is how long sessions may take to leave a cluster that is no longer configured.
	goneWait = time.Minute
)

// watch waits for the end of ctx and reloads when asked to.
func (d *Daemon) watch(ctx context.Context) {
	changes, stop := d.watchFile()
	defer stop()
	var settled <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.options.Reload:
			d.reload(ctx)
		case <-changes:
			settled = time.After(settleTime)
		case <-settled:
			settled = nil
			d.reload(ctx)
		}
	}
}

// watchFile reports changes of the configuration file. The folder is watched, because editors and orchestrators replace
// files rather than write to them.
func (d *Daemon) watchFile() (changes <-chan struct{}, stop func()) {
	if d.options.WatchFile == "" {
		return nil, func() {}
	}
	watcher, err := fsnotify.NewWatcher()
	if err == nil {
		err = watcher.Add(filepath.Dir(d.options.WatchFile))
	}
	if err != nil {
		d.log.Warn("cannot watch the configuration file; SIGHUP still reloads", zap.Error(err))
		return nil, func() {}
	}
	found := make(chan struct{}, 1)
	var running sync.WaitGroup
	running.Go(func() {
		for event := range watcher.Events {
			name := filepath.Base(event.Name)
			if name != filepath.Base(d.options.WatchFile) && !strings.HasPrefix(name, "..") {
				continue
			}
			select {
			case found <- struct{}{}:
			default:
			}
		}
	})
	running.Go(func() {
		for err := range watcher.Errors {
			d.log.Warn("watching the configuration file", zap.Error(err))
		}
	})
	return found, func() {
		_ = watcher.Close()
		running.Wait()
	}
}

// reload reads the configuration again. It is validated whole before anything of it is used; on an error the last good
// one keeps serving.
func (d *Daemon) reload(ctx context.Context) {
	cfg, err := d.options.Load()
	if err != nil {
		d.reloads.failed()
		d.log.Error("configuration not reloaded; the last good one keeps serving", zap.Error(err))
		return
	}
	change := config.Diff(d.config, cfg)
	if change.None() {
		d.reloads.succeeded(time.Now())
		d.log.Info("configuration reloaded; nothing changed")
		return
	}
	if len(change.Restart) > 0 {
		d.log.Warn("these keys changed and take effect with a restart only", zap.Strings("keys", change.Restart))
	}
	old := &running{table: d.table(), changed: change.Clusters.Changed, listeners: d.openListeners(cfg, &change)}
	table, err := d.build(cfg, old)
	if err != nil {
		d.reloads.failed()
		d.log.Error("configuration not reloaded; the last good one keeps serving", zap.Error(err))
		return
	}
	d.swap(ctx, old.table, table)
	d.applyLive(cfg, old.listeners)
	d.renewAdminTLS(cfg)
	d.reloads.succeeded(time.Now())
	d.log.Info("configuration reloaded",
		zap.Strings("clusters_added", change.Clusters.Added), zap.Strings("clusters_changed", change.Clusters.Changed),
		zap.Strings("clusters_removed", change.Clusters.Removed), zap.Strings("tenants_added", change.Tenants.Added),
		zap.Strings("tenants_changed", change.Tenants.Changed), zap.Strings("tenants_removed", change.Tenants.Removed))
}

// openListeners is the listeners that are open, with what cfg has them advertise unless it is for others.
func (d *Daemon) openListeners(cfg *config.Config, change *config.Change) []config.Listener {
	open := slices.Clone(d.config.Listeners)
	if slices.Contains(change.Restart, "listeners") {
		return open
	}
	for i := range open {
		open[i].Advertise, open[i].AdvertiseSelf = cfg.Listeners[i].Advertise, cfg.Listeners[i].AdvertiseSelf
	}
	return open
}

// applyLive takes over what can change without a restart and is no part of the table.
func (d *Daemon) applyLive(cfg *config.Config, listeners []config.Listener) {
	_ = d.log.setLevel(cfg.Log.Level)
	kept := *d.config
	kept.Clusters, kept.Tenants, kept.DrainTimeout = cfg.Clusters, cfg.Tenants, cfg.DrainTimeout
	kept.Log.Level, kept.Listeners = cfg.Log.Level, listeners
	d.config = &kept
}

// swap puts a table in force: new clusters are connected first, and those that are no longer in use are closed when the
// last session has left them.
func (d *Daemon) swap(ctx context.Context, old, table *route.Table) {
	var fresh []*upstream.Cluster
	for name, c := range table.Clusters() {
		if old.Clusters()[name] != c {
			c.Start()
			fresh = append(fresh, c)
		}
	}
	awaitReady(ctx, fresh, readyWait)
	d.publish(table)
	for name, c := range old.Clusters() {
		if table.Clusters()[name] != c {
			d.closing.Go(func() { d.retire(c) })
		}
	}
}

// retire closes a cluster when no session sends to it any more.
func (d *Daemon) retire(c *upstream.Cluster) {
	for deadline := time.Now().Add(goneWait); time.Now().Before(deadline) && !d.server.Draining(); {
		users := 0
		for _, l := range d.loops {
			l.Call(func() { users += c.Local(l.ID()).Users })
		}
		if users == 0 {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	c.Close()
}

// reloadMetrics tell whether the configuration in force is the one on disk.
type reloadMetrics struct {
	mu struct {
		sync.Mutex
		ok   bool
		last time.Time
	}
}

var (
	reloadOK = prometheus.NewDesc("sluice_config_last_reload_successful", //nolint:gochecknoglobals // constant
		"Whether the last attempt to load the configuration succeeded.", nil, nil)
	reloadTime = prometheus.NewDesc("sluice_config_last_reload_success_timestamp_seconds", //nolint:gochecknoglobals // constant
		"When the configuration was last loaded with success.", nil, nil)
)

func (m *reloadMetrics) succeeded(at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.ok, m.mu.last = true, at
}

func (m *reloadMetrics) failed() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.ok = false
}

// Describe implements prometheus.Collector.
func (m *reloadMetrics) Describe(ch chan<- *prometheus.Desc) {
	ch <- reloadOK
	ch <- reloadTime
}

// Collect implements prometheus.Collector.
func (m *reloadMetrics) Collect(ch chan<- prometheus.Metric) {
	m.mu.Lock()
	defer m.mu.Unlock()
	ok := 0.0
	if m.mu.ok {
		ok = 1
	}
	ch <- prometheus.MustNewConstMetric(reloadOK, prometheus.GaugeValue, ok)
	ch <- prometheus.MustNewConstMetric(reloadTime, prometheus.GaugeValue, float64(m.mu.last.UnixMilli())/1e3)
}
