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
	"github.com/sluiceproxy/sluice/internal/upstream"
)

const (
	// settleTime is how long a changed file must be left alone before it is read: editors write in several steps.
	settleTime = 200 * time.Millisecond
	// readyWait is how long a new cluster may take to connect before tenants are sent to it all the same.
	readyWait = 3 * time.Second
	// goneWait is how long sessions may take to leave a cluster that is no longer in force, beyond clients.move_timeout.
	goneWait = 30 * time.Second
)

// watch waits for the end of ctx, and reloads or reconciles when there is reason to. Whatever changes what is served goes
// through here, one after the other.
func (d *Daemon) watch(ctx context.Context) {
	changes, stop := d.watchFile()
	defer stop()
	var settled <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.options.Reload:
			d.reopenAudit()
			d.reload(nil)
			d.step(ctx)
		case request := <-d.asked:
			d.reload(request)
			d.step(ctx)
		case <-changes:
			settled = time.After(settleTime)
		case <-settled:
			settled = nil
			d.reload(nil)
			d.step(ctx)
		case <-d.control.Changed():
			d.step(ctx)
		case <-d.desired.wake:
			d.step(ctx)
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

// reloading is a reload that is not wholly in force yet: new clusters are being dialled.
type reloading struct {
	change   config.Change
	requests []reloadRequest
}

// reloadRequest gets what came of a reload; nil: nobody asks.
type reloadRequest chan<- error

func (r reloadRequest) answer(err error) {
	if r != nil {
		r <- err
	}
}

// reload reads the configuration again. It is validated whole before anything of it is used; on an error the last good
// one keeps serving. What it declares is put in force by the next step.
func (d *Daemon) reload(request reloadRequest) {
	cfg, err := d.options.Load()
	if err == nil {
		err = Check(cfg)
	}
	if err != nil {
		d.reloadFailed(err)
		request.answer(err)
		return
	}
	change := config.Diff(d.config, cfg)
	if change.None() {
		d.reloads.succeeded(time.Now())
		d.log.Info("configuration reloaded; nothing changed")
		request.answer(nil)
		return
	}
	if len(change.Restart) > 0 {
		d.log.Warn("these keys changed and take effect with a restart only", zap.Strings("keys", change.Restart))
	}
	d.applyLive(cfg, d.openListeners(cfg, &change))
	d.renewAdminTLS(cfg)
	d.renewConsoleTLS(cfg, &change)
	d.control.SetFile(fileOf(d.config))
	if d.reloading == nil {
		d.reloading = &reloading{}
	}
	d.reloading.change = change
	if request != nil {
		d.reloading.requests = append(d.reloading.requests, request)
	}
}

func (d *Daemon) reloadFailed(err error) {
	d.reloads.failed()
	d.log.Error("configuration not reloaded; the last good one keeps serving", zap.Error(err))
}

// step reconciles, and tells of a reload when all of it is in force.
func (d *Daemon) step(ctx context.Context) {
	err := d.reconcile(ctx)
	r := d.reloading
	if r == nil || err == nil && len(d.desired.dialling) > 0 {
		return
	}
	d.reloading = nil
	if err != nil {
		d.reloadFailed(err)
	} else {
		d.reloads.succeeded(time.Now())
		d.log.Info("configuration reloaded", changeFields(&r.change)...)
	}
	for _, request := range r.requests {
		request.answer(err)
	}
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

// applyLive takes over what can change without a restart.
func (d *Daemon) applyLive(cfg *config.Config, listeners []config.Listener) {
	_ = d.log.setLevel(cfg.Log.Level)
	kept := *d.config
	kept.Clusters, kept.Tenants, kept.DrainTimeout = cfg.Clusters, cfg.Tenants, cfg.DrainTimeout
	kept.Log.Level, kept.Listeners, kept.Admin.Tokens = cfg.Log.Level, listeners, cfg.Admin.Tokens
	d.config = &kept
}

// retire closes a cluster when no session sends to it any more.
func (d *Daemon) retire(c *upstream.Cluster) {
	for deadline := time.Now().Add(d.shared.Settings.MoveTimeout + goneWait); time.Now().Before(deadline) && !d.server.Draining(); {
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
