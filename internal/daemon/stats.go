package daemon

import (
	"sync"
	"time"

	"github.com/sluiceproxy/sluice/internal/command"
	"github.com/sluiceproxy/sluice/internal/session"
	"github.com/sluiceproxy/sluice/pkg/api"
)

// statsSpan is the time that the latencies of live statistics are about, at least.
const statsSpan = 5 * time.Second

// statsWindow keeps the numbers of a while ago, so that latencies are of what happened since and not of the process's life.
type statsWindow struct {
	mu         sync.Mutex
	old, young map[string]session.Histogram
	at         time.Time // of young
}

// Stats implements admin.Runtime.
func (d *Daemon) Stats() api.Stats {
	numbers, at := d.shared.Numbers(), time.Now()
	stats := api.Stats{At: at, Tenants: []api.TenantStats{}, Nodes: d.Nodes(), Commands: []api.CommandStats{}}
	before := d.window.advance(numbers, at)
	var classes [command.ClassCount]api.CommandStats
	for i := range numbers {
		n := &numbers[i]
		recent := n.Latency
		if since, known := before[n.Name]; known {
			recent = n.Latency.Since(&since)
		}
		stats.Tenants = append(stats.Tenants, api.TenantStats{
			Name: n.Name, Clients: n.Clients, Commands: n.Commands, Errors: n.Errors,
			P50: recent.Quantile(0.5).Seconds(), P99: recent.Quantile(0.99).Seconds(),
		})
		for class, c := range n.ByClass {
			classes[class].Commands += c.Commands
			classes[class].Seconds += float64(c.Nanos) / 1e9
		}
	}
	for class := range classes {
		c := &classes[class]
		if c.Commands > 0 {
			c.Class = command.Class(class).String()
			stats.Commands = append(stats.Commands, *c)
		}
	}
	return stats
}

// advance notes numbers and returns those of a while ago.
func (w *statsWindow) advance(numbers []session.TenantNumbers, at time.Time) map[string]session.Histogram {
	w.mu.Lock()
	defer w.mu.Unlock()
	if age := at.Sub(w.at); age >= statsSpan {
		if w.old = w.young; age > 3*statsSpan {
			w.old = nil // nobody has looked for long
		}
		w.young, w.at = make(map[string]session.Histogram, len(numbers)), at
		for i := range numbers {
			w.young[numbers[i].Name] = numbers[i].Latency
		}
	}
	return w.old
}
