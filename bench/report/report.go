// Package report holds what a benchmark measured, compares it with its bars and writes it down.
package report

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sluiceproxy/sluice/bench/measure"
)

// Sample is what one round measured. Times are in microseconds.
type Sample struct {
	OpsPerSecond float64 `json:"ops_per_second"`
	Mean         float64 `json:"mean_us"`
	P50          float64 `json:"p50_us"`
	P99          float64 `json:"p99_us"`
	P999         float64 `json:"p999_us"`
	ProxyCPU     float64 `json:"proxy_cpu_us_per_command,omitempty"`   // 0: no proxy
	BackendCPU   float64 `json:"backend_cpu_us_per_command,omitempty"` // 0: no backend
	LoadCPU      float64 `json:"load_cpu_us_per_command,omitempty"`    // 0: a generator that is not measured
	Errors       uint64  `json:"errors,omitempty"`
	FirstError   string  `json:"first_error,omitempty"`
}

// Series is the rounds of one workload against one target.
type Series struct {
	Scenario    string   `json:"scenario"`
	Target      string   `json:"target"`
	Operation   string   `json:"operation"`
	Connections int      `json:"connections"`
	Pipeline    int      `json:"pipeline"`
	ValueSize   int      `json:"value_size"`
	Rate        float64  `json:"rate,omitempty"` // of an open loop
	Samples     []Sample `json:"rounds"`
	Median      Sample   `json:"median"`
}

// Metric picks one number of a sample.
type Metric func(Sample) float64

// Throughput is the number of commands answered per second.
func Throughput(s Sample) float64 { return s.OpsPerSecond }

// P99 is the latency that one command in a hundred exceeds.
func P99(s Sample) float64 { return s.P99 }

// ProxyCPU is the CPU time of the proxy, or of the floor, per command.
func ProxyCPU(s Sample) float64 { return s.ProxyCPU }

// BackendCPU is the CPU time of all backends per command.
func BackendCPU(s Sample) float64 { return s.BackendCPU }

// Add appends the sample of one more round.
func (s *Series) Add(sample Sample) {
	s.Samples = append(s.Samples, sample)
	s.Median = s.median()
}

func (s *Series) median() Sample {
	of := func(m Metric) float64 {
		values := make([]float64, len(s.Samples))
		for i, sample := range s.Samples {
			values[i] = m(sample)
		}
		return Median(values)
	}
	result := Sample{
		OpsPerSecond: of(Throughput),
		Mean:         of(func(s Sample) float64 { return s.Mean }),
		P50:          of(func(s Sample) float64 { return s.P50 }),
		P99:          of(P99),
		P999:         of(func(s Sample) float64 { return s.P999 }),
		ProxyCPU:     of(ProxyCPU),
		BackendCPU:   of(BackendCPU),
		LoadCPU:      of(func(s Sample) float64 { return s.LoadCPU }),
	}
	for _, sample := range s.Samples {
		result.Errors += sample.Errors
		if result.FirstError == "" {
			result.FirstError = sample.FirstError
		}
	}
	return result
}

// Median is the middle value, or the mean of the two in the middle; 0 for none.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// Ratio compares two series: the median over the rounds of one's number by the other's number of the same round, so
// that what slows the whole machine for a while cancels out.
func Ratio(of, to *Series, m Metric) (float64, error) {
	if of == nil || to == nil {
		return 0, errors.New("it was not measured")
	}
	ratios := Ratios(of, to, m)
	if len(ratios) == 0 {
		return 0, errors.New("there is no round to compare")
	}
	if of.Median.Errors > 0 || to.Median.Errors > 0 {
		return 0, fmt.Errorf("there were errors (%s%s)", of.Median.FirstError, to.Median.FirstError)
	}
	return Median(ratios), nil
}

// Ratios are one series' numbers by the other's of the same round.
func Ratios(of, to *Series, m Metric) []float64 {
	if of == nil || to == nil {
		return nil
	}
	ratios := make([]float64, 0, len(of.Samples))
	for i := range min(len(of.Samples), len(to.Samples)) {
		if divisor := m(to.Samples[i]); divisor > 0 {
			ratios = append(ratios, m(of.Samples[i])/divisor)
		}
	}
	return ratios
}

// Quartiles are the values between which the middle half lies; there must be a value.
func Quartiles(values []float64) (low, high float64) {
	sorted := slices.Sorted(slices.Values(values))
	quarter := len(sorted) / 4
	return sorted[quarter], sorted[len(sorted)-1-quarter]
}

// Fact is a number that is not a workload's: memory, allocations.
type Fact struct {
	Scenario string  `json:"scenario"`
	Target   string  `json:"target"`
	Name     string  `json:"name"`
	Value    float64 `json:"value"`
	Unit     string  `json:"unit"`
}

// Bar is a number that must be reached.
type Bar struct {
	Scenario string  `json:"scenario"`
	What     string  `json:"what"`
	Value    float64 `json:"value"`
	Limit    float64 `json:"limit"`
	AtLeast  bool    `json:"at_least"` // else at most
	Unit     string  `json:"unit"`
	Missing  string  `json:"missing,omitempty"` // why there is no value
	Reached  bool    `json:"reached"`
}

// AtMost makes a bar for a value that must not exceed the limit.
func AtMost(scenario, what string, limit float64, unit string, value float64, err error) Bar {
	return newBar(Bar{Scenario: scenario, What: what, Limit: limit, Unit: unit, Value: value}, err)
}

// AtLeast makes a bar for a value that must not fall short of the limit.
func AtLeast(scenario, what string, limit float64, unit string, value float64, err error) Bar {
	return newBar(Bar{Scenario: scenario, What: what, Limit: limit, Unit: unit, Value: value, AtLeast: true}, err)
}

func newBar(b Bar, err error) Bar {
	if err != nil {
		b.Missing = err.Error()
		return b
	}
	b.Reached = b.Value <= b.Limit
	if b.AtLeast {
		b.Reached = b.Value >= b.Limit
	}
	return b
}

// Settings are those of the run.
type Settings struct {
	Subject string   `json:"subject"` // the proxy that the bars are for
	Peers   []string `json:"peers"`
	Rounds  int      `json:"rounds"`
	Seconds float64  `json:"seconds_per_round"`
	Quick   bool     `json:"quick"`
	Command string   `json:"command"`
}

// Report is everything about one run.
type Report struct {
	Date      time.Time       `json:"date"`
	Commit    string          `json:"commit"`
	Machine   measure.Machine `json:"machine"`
	Generator string          `json:"generator"`
	Settings  Settings        `json:"settings"`
	Series    []*Series       `json:"series"`
	Facts     []Fact          `json:"facts"`
	Bars      []Bar           `json:"bars"`
	Notes     []string        `json:"notes"`
}

// Find returns the series of a scenario, target and operation, or nil.
func (r *Report) Find(scenario, target, operation string) *Series {
	for _, s := range r.Series {
		if s.Scenario == scenario && s.Target == target && s.Operation == operation {
			return s
		}
	}
	return nil
}

// Note keeps a remark for the reader, once: what was left out and why.
func (r *Report) Note(format string, args ...any) {
	if note := fmt.Sprintf(format, args...); !slices.Contains(r.Notes, note) {
		r.Notes = append(r.Notes, note)
	}
}

// Judge appends bars.
func (r *Report) Judge(bars ...Bar) { r.Bars = append(r.Bars, bars...) }

// Missed is the number of bars that were not reached or not measured.
func (r *Report) Missed() (missed int) {
	for _, b := range r.Bars {
		if !b.Reached {
			missed++
		}
	}
	return missed
}
