package load

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func testWorkload() Workload {
	return Workload{
		Operation: Get, ValueSize: 8, KeySpace: 10, Threads: 2, Clients: 2, Pipeline: 4, Duration: time.Second,
	}
}

func TestRequestsAreTakenFromARing(t *testing.T) {
	w := testWorkload()
	w.Operation = Set
	r := newRequests(w)
	one := len(AppendCommand(nil, []byte("SET"), []byte(KeyName(0)), Value(8)))
	require.Equal(t, one, r.size)
	require.Len(t, r.bytes, (r.count+w.Pipeline)*one)

	last, next := r.take(r.count-1, 4)
	require.Len(t, last, 4*one)
	require.Equal(t, 3, next)
	first, _ := r.take(0, 3)
	require.Equal(t, string(first), string(last[one:]), "the first requests follow the last one")
}

func TestLargeRequestsStayWithinABound(t *testing.T) {
	w := testWorkload()
	w.Operation, w.ValueSize, w.Pipeline = Set, 17<<20, 1
	require.Equal(t, 1, newRequests(w).count)
}

func TestClosedLoopKeepsThePipelineFull(t *testing.T) {
	w := testWorkload()
	r := newRequests(w)
	f := newFlow(r, w, nil, 0)
	rec := newRecorder(w)
	require.Len(t, f.next(10), 4*r.size)
	require.Empty(t, f.next(11))
	require.True(t, f.arrived([]byte("+OK\r\n+OK\r\n"), 30, rec))
	require.Len(t, f.next(40), 2*r.size)
	require.True(t, f.arrived([]byte("+OK\r\n+OK\r\n+OK\r\n+OK\r\n"), 70, rec))
	require.Zero(t, f.inFlight())
	require.EqualValues(t, 6, rec.histogram.TotalCount())
	require.EqualValues(t, 20, rec.histogram.Min())
	require.EqualValues(t, 60, rec.histogram.Max())
}

func TestAReplyToNothingIsRefused(t *testing.T) {
	w := testWorkload()
	f := newFlow(newRequests(w), w, nil, 0)
	require.False(t, f.arrived([]byte("+OK\r\n"), 1, newRecorder(w)))
}

func TestOnlyTheWindowIsRecorded(t *testing.T) {
	w := testWorkload()
	w.Warmup = time.Second
	rec := newRecorder(w)
	require.False(t, rec.covers(time.Second-1))
	require.True(t, rec.covers(time.Second))
	require.False(t, rec.covers(2*time.Second))
}

func TestOpenLoopMeasuresFromTheIntendedTime(t *testing.T) {
	w := testWorkload()
	w.Rate, w.Pipeline = 1000, 1 // 4 connections: each sends every 4 ms
	s := newSchedule(w, 1)
	require.Equal(t, time.Millisecond, s.first)
	require.Equal(t, 4*time.Millisecond, s.interval)
	require.EqualValues(t, 0, s.dueAt(time.Millisecond-1))
	require.EqualValues(t, 1, s.dueAt(time.Millisecond))
	require.EqualValues(t, 3, s.dueAt(9*time.Millisecond))

	r := newRequests(w)
	f := newFlow(r, w, s, 0)
	rec := newRecorder(w)
	f.due = s.dueAt(9 * time.Millisecond)
	require.Len(t, f.next(9*time.Millisecond), r.size, "no more than the pipeline's depth")
	require.True(t, f.arrived([]byte("+OK\r\n"), 9*time.Millisecond, rec))
	// Due at 1 ms, answered at 9 ms: the server's stall counts although the command was sent late.
	require.InEpsilon(t, float64(8*time.Millisecond), float64(rec.histogram.Max()), 0.01)
}

func TestScheduleOfAllConnectionsMakesTheRate(t *testing.T) {
	w := testWorkload()
	w.Rate = 5000
	var due uint64
	for i := range w.Connections() {
		due += newSchedule(w, i).dueAt(time.Second - 1)
	}
	require.EqualValues(t, 5000, due)
}

func TestHistogramsOfThreadsAreMerged(t *testing.T) {
	w := testWorkload()
	a, b := newRecorder(w), newRecorder(w)
	for range 98 {
		a.record(100 * time.Microsecond)
	}
	b.record(10 * time.Millisecond)
	b.record(2 * time.Hour)
	var r Result
	r.summarize(2*time.Second, a.histogram, b.histogram)
	require.EqualValues(t, 100, r.Commands)
	require.InDelta(t, 50, r.OpsPerSecond, 0.001)
	require.InEpsilon(t, float64(100*time.Microsecond), float64(r.P50), 0.01)
	require.InEpsilon(t, float64(10*time.Millisecond), float64(r.P99), 0.01)
	require.InEpsilon(t, float64(time.Minute), float64(r.Max), 0.01, "latencies are cut at a minute")
}

func TestWorkloadTellsAllThatIsWrong(t *testing.T) {
	err := Workload{Operation: "DEL", Pipeline: 5000, Duration: 2 * time.Hour}.Validate()
	for _, text := range []string{"DEL", "key space", "threads", "clients", "pipeline", "duration"} {
		require.ErrorContains(t, err, text)
	}
	require.NoError(t, testWorkload().Validate())
}
