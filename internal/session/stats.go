package session

import (
	"math"
	"math/bits"

	"github.com/sluiceproxy/sluice/internal/command"
	"github.com/sluiceproxy/sluice/internal/pipe"
)

// tenantStats are what one loop counted for one tenant. They belong to the loop and are summed when scraped.
type tenantStats struct {
	clients int
	refused uint64 // commands that the proxy answered with an error
	notSent uint64 // commands that no node could take
	failed  [pipe.Reasons]uint64
	latency [command.ClassCount]*Histogram

	// attention tells that commands of the tenant may not simply run: a pause holds them, or somebody watches.
	attention bool
	pause     *pause
	halt      *halt // the operator's pause
	watchers  []*watcher
	slow      *slowlog
}

func (w *Worker) statsOf(name string) *tenantStats {
	t := w.tenants[name]
	if t == nil {
		t = &tenantStats{}
		w.tenants[name] = t
	}
	return t
}

// observe notes how long a command of a class took from when it was read until its reply was whole.
func (t *tenantStats) observe(class command.Class, nanos int64) {
	h := t.latency[class]
	if h == nil {
		h = &Histogram{}
		t.latency[class] = h
	}
	h.observe(nanos)
}

func (t *tenantStats) fail(reason pipe.Reason) { t.failed[reason]++ }

func (t *tenantStats) addTo(sum *tenantNumbers) {
	sum.clients += t.clients
	sum.failures += t.refused + t.notSent
	for _, v := range t.failed {
		sum.failures += v
	}
	for class, h := range t.latency {
		if h != nil {
			sum.commands += h.Count
			sum.byClass[class] += h.Count
		}
	}
}

// Histogram counts durations in exponential buckets: eight for each doubling, which is schema 3 of Prometheus's native
// histograms.
type Histogram struct {
	Count uint64
	Nanos uint64 // sum
	// Buckets[i] counts durations in (2^((i-1)/8), 2^(i/8)] nanoseconds.
	Buckets [histogramBuckets]uint64
}

// histogramBuckets reaches to 2^37 ns, above two minutes; longer ones are counted in the last.
const histogramBuckets = 37*8 + 1

// fractions are the boundaries within a doubling, as the top bits of a mantissa: 2^(j/8) for j = 1…8, scaled to 2^32.
var fractions = func() (f [8]uint64) { //nolint:gochecknoglobals // constant table
	for j := range f {
		f[j] = uint64(math.Ldexp(math.Pow(2, float64(j+1)/8), 31))
	}
	return f
}()

func (h *Histogram) observe(nanos int64) {
	h.Count++
	if nanos <= 1 {
		h.Buckets[0]++
		return
	}
	h.Nanos += uint64(nanos)
	exponent := bits.Len64(uint64(nanos)) - 1
	mantissa := uint64(nanos) << (63 - exponent) >> 32 // 1.0 is 2^31
	j := int((mantissa - 1<<31) >> 28)                 // linear guess; a logarithm is never below it
	for mantissa > fractions[j] {
		j++
	}
	i := exponent*8 + j + 1
	if mantissa == 1<<31 {
		i = exponent * 8
	}
	h.Buckets[min(i, histogramBuckets-1)]++
}

// upperBound is that of a bucket, in nanoseconds.
func upperBound(bucket int) float64 { return math.Exp2(float64(bucket) / 8) }
