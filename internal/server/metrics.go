package server

import "github.com/prometheus/client_golang/prometheus"

var rejectedDesc = prometheus.NewDesc("sluice_clients_rejected_total", //nolint:gochecknoglobals // constant
	"Connections that were not let in.", []string{"reason"}, nil)

// Why a connection was not let in.
const (
	rejectFull = iota
	rejectHandshake
	rejectAccept
	rejectDrained
	rejectReasons
)

var rejectNames = [rejectReasons]string{"max_clients", "tls_handshake", "accept", "drained"} //nolint:gochecknoglobals // constant

// Describe implements prometheus.Collector.
func (s *Server) Describe(ch chan<- *prometheus.Desc) { ch <- rejectedDesc }

// Collect implements prometheus.Collector.
func (s *Server) Collect(ch chan<- prometheus.Metric) {
	for reason := range s.rejected {
		ch <- prometheus.MustNewConstMetric(rejectedDesc, prometheus.CounterValue, float64(s.rejected[reason].Load()), rejectNames[reason])
	}
}
