package session

import (
	"math"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/proto"

	"github.com/sluiceproxy/sluice/internal/command"
	"github.com/sluiceproxy/sluice/internal/pipe"
)

// Describe implements prometheus.Collector: which series there are depends on the tenants.
func (s *Shared) Describe(chan<- *prometheus.Desc) {}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("sluice_"+name, help, labels, nil)
}

// Collect implements prometheus.Collector. Each loop is asked for its own numbers, which no other goroutine may read.
func (s *Shared) Collect(ch chan<- prometheus.Metric) {
	sum := snapshot{tenants: make(map[string]*tenantStats)}
	for _, w := range s.Workers {
		of := loopNumbers{utilisation: w.Loop.Utilisation()}
		w.Loop.Call(func() { w.addTo(&sum, &of) })
		loopLabel := strconv.Itoa(w.Loop.ID())
		gauge(ch, desc("loop_utilisation_ratio", "Share of recent time that a loop was busy.", "loop"), of.utilisation, loopLabel)
		gauge(ch, desc("inflight_calls", "Commands without a reply.", "loop"), float64(of.inflight), loopLabel)
		gauge(ch, desc("buffer_free_bytes", "Bytes that a loop keeps in free buffers.", "loop"), float64(of.freeBytes), loopLabel)
		for name, n := range of.clients {
			gauge(ch, desc("clients", "Connected clients; the tenant is empty before authentication.", "loop", "tenant"), float64(n), loopLabel, name)
		}
	}
	sum.collect(ch)
}

// loopNumbers are the gauges of one loop.
type loopNumbers struct {
	utilisation float64
	inflight    int
	freeBytes   int
	clients     map[string]int
}

// snapshot is what all loops counted.
type snapshot struct {
	stats    Stats
	gathered int64
	tenants  map[string]*tenantStats
}

func (w *Worker) addTo(sum *snapshot, of *loopNumbers) {
	sum.stats.add(&w.Stats)
	sum.gathered += w.gathered.held
	of.clients = make(map[string]int)
	of.freeBytes = w.Loop.FreeBytes()
	unknown := w.sessions.n
	for name, t := range w.tenants {
		of.clients[name] = t.clients
		unknown -= t.clients
		total := sum.tenants[name]
		if total == nil {
			total = &tenantStats{}
			sum.tenants[name] = total
		}
		total.add(t)
	}
	of.clients[""] = unknown
	w.Each(func(s *Session) { of.inflight += s.inflight })
}

func (s *Stats) add(other *Stats) {
	s.Traffic.In += other.Traffic.In
	s.Traffic.Out += other.Traffic.Out
	s.Accepted += other.Accepted
	s.ProtocolErrors += other.ProtocolErrors
	s.OutputLimit += other.OutputLimit
	s.IdleClosed += other.IdleClosed
	s.AuthFailures += other.AuthFailures
	s.Moved += other.Moved
	s.LeftBehind += other.LeftBehind
	s.GatherRefused += other.GatherRefused
	for reason, n := range other.Pinned {
		s.Pinned[reason] += n
	}
}

func (t *tenantStats) add(other *tenantStats) {
	t.clients += other.clients
	t.refused += other.refused
	t.notSent += other.notSent
	for i, v := range other.failed {
		t.failed[i] += v
	}
	for class, h := range other.latency {
		if h == nil {
			continue
		}
		if t.latency[class] == nil {
			t.latency[class] = &Histogram{}
		}
		t.latency[class].add(h)
	}
}

func counter(ch chan<- prometheus.Metric, d *prometheus.Desc, v uint64, labels ...string) {
	ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
}

func gauge(ch chan<- prometheus.Metric, d *prometheus.Desc, v float64, labels ...string) {
	ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}

func (s *snapshot) collect(ch chan<- prometheus.Metric) {
	counter(ch, desc("clients_accepted_total", "Clients that were let in."), s.stats.Accepted)
	closed := desc("clients_disconnected_total", "Clients that the proxy disconnected.", "reason")
	counter(ch, closed, s.stats.OutputLimit, "output_buffer")
	counter(ch, closed, s.stats.IdleClosed, "idle")
	counter(ch, closed, s.stats.LeftBehind, "left_behind")
	traffic := desc("client_bytes_total", "Bytes exchanged with clients.", "direction")
	counter(ch, traffic, s.stats.Traffic.In, "in")
	counter(ch, traffic, s.stats.Traffic.Out, "out")
	counter(ch, desc("protocol_errors_total", "Connections closed because of bytes that are not RESP.", "side"), s.stats.ProtocolErrors, "client")
	for reason, n := range s.stats.Pinned {
		gauge(ch, desc("pinned_sessions", "Clients that have an upstream connection of their own.", "reason"), float64(n), pinNames[reason])
	}
	counter(ch, desc("clients_moved_total", "Clients moved from a busy loop to another."), s.stats.Moved)
	counter(ch, desc("auth_failures_total", "Wrong user names and passwords."), s.stats.AuthFailures)
	gauge(ch, desc("gathered_reply_bytes", "Bytes of replies of several nodes that are held until the last has answered."), float64(s.gathered))
	counter(ch, desc("gathered_replies_refused_total", "Commands refused because clients.gather_buffer was full."), s.stats.GatherRefused)
	for name, t := range s.tenants {
		t.collect(ch, name)
	}
}

func (t *tenantStats) collect(ch chan<- prometheus.Metric, name string) {
	errs := desc("command_errors_total", "Commands that the proxy answered with an error of its own.", "tenant", "reason")
	counter(ch, errs, t.refused, name, "refused")
	counter(ch, errs, t.notSent, name, "not_sent")
	for reason := pipe.Lost; reason < pipe.Reasons; reason++ {
		counter(ch, errs, t.failed[reason], name, reason.String())
	}
	for class, h := range t.latency {
		if h == nil {
			continue
		}
		label := command.Class(class).String()
		counter(ch, desc("commands_total", "Commands answered, by nodes or by the proxy.", "tenant", "class"), h.Count, name, label)
		ch <- &histogramMetric{histogram: h, labels: []*dto.LabelPair{
			{Name: proto.String("class"), Value: proto.String(label)}, {Name: proto.String("tenant"), Value: proto.String(name)},
		}}
	}
}

// histogramMetric shows a Histogram as a classic and as a native one, so that either kind of server finds what it reads.
type histogramMetric struct {
	histogram *Histogram
	labels    []*dto.LabelPair // sorted by name
}

var durationDesc = desc("command_duration_seconds", //nolint:gochecknoglobals // constant
	"Time from when a command was read until its reply was whole.", "tenant", "class")

// Desc implements prometheus.Metric.
func (m *histogramMetric) Desc() *prometheus.Desc { return durationDesc }

// classicOctaves are the classic buckets: from 2^13 ns (8 µs) to 2^34 ns (17 s), each four times the one before.
const (
	classicFirst = 13
	classicLast  = 35
	classicStep  = 2
)

// nativeSchema 3 divides each doubling into eight.
const nativeSchema = 3

// Write implements prometheus.Metric.
func (m *histogramMetric) Write(out *dto.Metric) error {
	h := m.histogram
	out.Label = m.labels
	out.Histogram = &dto.Histogram{
		SampleCount:   proto.Uint64(h.Count),
		SampleSum:     proto.Float64(float64(h.Nanos) / 1e9),
		Schema:        proto.Int32(nativeSchema),
		ZeroThreshold: proto.Float64(1e-9),
		ZeroCount:     proto.Uint64(0),
	}
	h.writeClassic(out.Histogram)
	h.writeNative(out.Histogram)
	return nil
}

func (h *Histogram) writeClassic(out *dto.Histogram) {
	var below uint64
	next := 0
	for octave := classicFirst; octave <= classicLast; octave += classicStep {
		for ; next <= octave*8; next++ {
			below += h.Buckets[next]
		}
		out.Bucket = append(out.Bucket, &dto.Bucket{
			CumulativeCount: proto.Uint64(below), UpperBound: proto.Float64(math.Ldexp(1e-9, octave)),
		})
	}
}

// writeNative shifts the buckets from nanoseconds to seconds. 2^(i/8) ns is not exactly a power of 2^(1/8) in seconds, so
// a bucket's count goes to the one that holds its upper bound: an error of less than one bucket (9 %).
func (h *Histogram) writeNative(out *dto.Histogram) {
	shift := int32(math.Ceil(math.Log2(1e-9) * 8))
	var last int32
	var lastCount int64
	for i, count := range &h.Buckets {
		if count == 0 {
			continue
		}
		at := int32(i) + shift
		if len(out.PositiveSpan) == 0 {
			out.PositiveSpan = append(out.PositiveSpan, &dto.BucketSpan{Offset: proto.Int32(at), Length: proto.Uint32(0)})
		} else if at != last+1 {
			out.PositiveSpan = append(out.PositiveSpan, &dto.BucketSpan{Offset: proto.Int32(at - last - 1), Length: proto.Uint32(0)})
		}
		span := out.PositiveSpan[len(out.PositiveSpan)-1]
		*span.Length++
		out.PositiveDelta = append(out.PositiveDelta, int64(count)-lastCount)
		last, lastCount = at, int64(count)
	}
}

func (h *Histogram) add(other *Histogram) {
	h.Count += other.Count
	h.Nanos += other.Nanos
	for i, v := range &other.Buckets {
		h.Buckets[i] += v
	}
}
