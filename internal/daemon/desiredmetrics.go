package daemon

import "github.com/prometheus/client_golang/prometheus"

// desiredCollector tells how the store is, and how far what it says is in force.
type desiredCollector struct{ daemon *Daemon }

var (
	storeAvailable = prometheus.NewDesc("sluice_store_available", //nolint:gochecknoglobals // constant
		"Whether the store of what operators register can be used. While it cannot, its last state stays in force.", []string{"kind"}, nil)
	storeSeen = prometheus.NewDesc("sluice_store_revision", //nolint:gochecknoglobals // constant
		"Latest revision of the store that was seen.", nil, nil)
	storeApplied = prometheus.NewDesc("sluice_store_revision_applied", //nolint:gochecknoglobals // constant
		"Revision of the store that is wholly in force.", nil, nil)
	desiredProblems = prometheus.NewDesc("sluice_desired_state_problems", //nolint:gochecknoglobals // constant
		"Parts of the desired state that are not in force because something is wrong with them.", nil, nil)
)

// Describe implements prometheus.Collector.
func (desiredCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- storeAvailable
	ch <- storeSeen
	ch <- storeApplied
	ch <- desiredProblems
}

// Collect implements prometheus.Collector.
func (c desiredCollector) Collect(ch chan<- prometheus.Metric) {
	status, now := c.daemon.control.Status(), c.daemon.applied()
	available := 0.0
	if status.Available {
		available = 1
	}
	problems := len(now.problems)
	if now.failure != nil {
		problems++
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	gauge(storeAvailable, available, status.Kind)
	gauge(storeSeen, float64(max(status.Revision, now.seen)))
	gauge(storeApplied, float64(now.revision))
	gauge(desiredProblems, float64(problems))
}
