package load

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// maxLatency is the highest latency that the histograms tell apart; longer ones count as this.
const maxLatency = time.Minute

// recorder collects the latencies of one thread within the measured window.
type recorder struct {
	from, to  time.Duration
	histogram *hdrhistogram.Histogram
}

func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, int64(maxLatency), 3)
}

func newRecorder(w Workload) *recorder {
	return &recorder{from: w.Warmup, to: w.Warmup + w.Duration, histogram: newHistogram()}
}

func (r *recorder) covers(now time.Duration) bool { return now >= r.from && now < r.to }

func (r *recorder) record(latency time.Duration) {
	latency = min(max(latency, 1), maxLatency)
	// The value is within the histogram's range, the only thing that RecordValue refuses.
	_ = r.histogram.RecordValue(int64(latency))
}

// Result is what one run measured.
type Result struct {
	Commands     uint64 // answered within the measured window
	Elapsed      time.Duration
	OpsPerSecond float64
	Mean         time.Duration
	P50          time.Duration
	P99          time.Duration
	P999         time.Duration
	Max          time.Duration
	Misses       uint64 // replies that say the key is not there
	Errors       uint64 // error replies, and connections lost
	FirstError   string
}

// summarize fills in what follows from the merged histograms of the threads.
func (r *Result) summarize(elapsed time.Duration, histograms ...*hdrhistogram.Histogram) {
	merged := newHistogram()
	for _, h := range histograms {
		merged.Merge(h)
	}
	r.Elapsed = elapsed
	r.Commands = uint64(merged.TotalCount())
	if elapsed > 0 {
		r.OpsPerSecond = float64(r.Commands) / elapsed.Seconds()
	}
	r.Mean = time.Duration(merged.Mean())
	r.P50 = time.Duration(merged.ValueAtPercentile(50))
	r.P99 = time.Duration(merged.ValueAtPercentile(99))
	r.P999 = time.Duration(merged.ValueAtPercentile(99.9))
	r.Max = time.Duration(merged.Max())
}
