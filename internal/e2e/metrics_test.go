package e2e

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protodelim"

	"github.com/sluiceproxy/sluice/internal/redistest"
)

var update = flag.Bool("update", false, "rewrite golden files")

// golden compares text with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(got), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), got, "run the test with -update if this is meant")
}

// TestMetricsOfAFreshDaemon pins the names, types, labels and help texts: dashboards and alerts are made of them.
func TestMetricsOfAFreshDaemon(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	p := startProxy(t, standaloneYAML(server.Addr(), "loops: 1"))
	p.awaitReady(t)
	c := redistest.Dial(t, p.Addr)
	require.Equal(t, "+OK\r\n", string(c.Do("SET", "k", "v"))) // so that the tenant and the node have series
	_, body, _ := p.get(t, "/metrics")
	golden(t, "metrics.golden", describeMetrics(t, body))
}

// family is what /metrics says of one name.
type family struct {
	kind, help string
	labels     map[string]bool
}

var (
	metaLine   = regexp.MustCompile(`^# (HELP|TYPE) (\S+) (.*)$`)
	sampleLine = regexp.MustCompile(`^([a-z_]+?)(?:_bucket|_sum|_count)?(?:\{(.*)\})? \S+$`)
	labelName  = regexp.MustCompile(`([a-z_]+)="`)
)

// describeMetrics lists the families of our own with their label names, without values.
func describeMetrics(t *testing.T, body string) string {
	t.Helper()
	families := map[string]*family{}
	for line := range strings.Lines(body) {
		line = strings.TrimSuffix(line, "\n")
		if meta := metaLine.FindStringSubmatch(line); meta != nil {
			f := families[meta[2]]
			if f == nil {
				f = &family{labels: map[string]bool{}}
				families[meta[2]] = f
			}
			if meta[1] == "HELP" {
				f.help = meta[3]
			} else {
				f.kind = meta[3]
			}
			continue
		}
		sample := sampleLine.FindStringSubmatch(line)
		if len(sample) == 0 || families[sample[1]] == nil {
			continue
		}
		for _, label := range labelName.FindAllStringSubmatch(sample[2], -1) {
			families[sample[1]].labels[label[1]] = true
		}
	}
	var all strings.Builder
	for _, name := range slices.Sorted(maps.Keys(families)) {
		if f := families[name]; strings.HasPrefix(name, "sluice_") {
			labels := strings.Join(slices.Sorted(maps.Keys(f.labels)), ",")
			fmt.Fprintf(&all, "%s %s{%s} %s\n", f.kind, name, labels, f.help)
			require.Equal(t, f.kind == "counter", strings.HasSuffix(name, "_total"), name)
		}
	}
	return all.String()
}

func TestMetricsCountWhatHappens(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	p := startProxy(t, standaloneYAML(server.Addr()))
	p.awaitReady(t)
	c, idle := redistest.Dial(t, p.Addr), redistest.Dial(t, p.Addr)
	require.Equal(t, "+PONG\r\n", string(idle.Do("PING")))
	for range 10 {
		c.Do("SET", "k", "v")
		c.Do("HGET", "h", "f")
	}
	c.Do("NOSUCH")
	require.InDelta(t, 10, p.metric(t, "sluice_commands_total", `tenant="acme"`, `class="string"`), 0)
	require.InDelta(t, 10, p.metric(t, "sluice_commands_total", `tenant="acme"`, `class="hash"`), 0)
	require.InDelta(t, 10, p.metric(t, "sluice_command_duration_seconds_count", `class="hash"`), 0)
	require.InDelta(t, 10, p.metric(t, "sluice_command_duration_seconds_bucket", `class="hash"`, `le="+Inf"`), 0)
	require.Positive(t, p.metric(t, "sluice_command_duration_seconds_sum", `class="hash"`))
	require.InDelta(t, 1, p.metric(t, "sluice_command_errors_total", `reason="refused"`), 0)
	require.InDelta(t, 2, p.metric(t, "sluice_clients", `tenant="acme"`), 0)
	require.InDelta(t, 2, p.metric(t, "sluice_clients_accepted_total"), 0)
	require.Greater(t, p.metric(t, "sluice_client_bytes_total", `direction="in"`), 500.0)
	require.Greater(t, p.metric(t, "sluice_client_bytes_total", `direction="out"`), 90.0)
	require.InDelta(t, 1, p.metric(t, "sluice_build_info"), 0)
	_, body, _ := p.get(t, "/metrics")
	require.NotContains(t, body, server.Addr(), "no backend address in a label")
	require.Contains(t, body, "go_goroutines")
	require.Contains(t, body, "process_resident_memory_bytes")
}

// TestBothKindsOfHistogram: a scraper that asks for protobuf gets the native histogram along with the classic one.
func TestBothKindsOfHistogram(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	p := startProxy(t, standaloneYAML(server.Addr()))
	p.awaitReady(t)
	c := redistest.Dial(t, p.Addr)
	for range 20 {
		require.Equal(t, "+OK\r\n", string(c.Do("SET", "k", "v")))
	}
	const accept = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited"
	status, body, header := p.get(t, "/metrics", "Accept", accept)
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, header.Get("Content-Type"), "application/vnd.google.protobuf")
	var found *dto.Histogram
	for in := bufio.NewReader(strings.NewReader(body)); ; {
		var metrics dto.MetricFamily
		err := protodelim.UnmarshalFrom(in, &metrics)
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		if metrics.GetName() == "sluice_command_duration_seconds" {
			found = metrics.GetMetric()[0].GetHistogram()
		}
	}
	require.NotNil(t, found)
	require.Equal(t, uint64(20), found.GetSampleCount())
	require.Equal(t, int32(3), found.GetSchema())
	require.NotEmpty(t, found.GetBucket(), "classic buckets")
	require.NotEmpty(t, found.GetPositiveSpan(), "native buckets")
	var native, count int64
	for _, delta := range found.GetPositiveDelta() {
		count += delta
		native += count
	}
	require.Equal(t, int64(20), native)
	last := found.GetBucket()[len(found.GetBucket())-1]
	require.Equal(t, uint64(20), last.GetCumulativeCount())
	requireBucketsAgree(t, found)
}

// requireBucketsAgree: the classic bucket that holds the samples spans the native ones.
func requireBucketsAgree(t *testing.T, h *dto.Histogram) {
	t.Helper()
	mean := h.GetSampleSum() / float64(h.GetSampleCount())
	var below, above uint64
	for _, b := range h.GetBucket() {
		if b.GetUpperBound() < mean/100 {
			below = b.GetCumulativeCount()
		}
		if b.GetUpperBound() > mean*100 {
			above = b.GetCumulativeCount()
			break
		}
	}
	require.Zero(t, below)
	require.Equal(t, h.GetSampleCount(), above)
}

func TestHealthPaths(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	plain := startProxy(t, standaloneYAML(server.Addr()))
	plain.awaitReady(t)
	status, body, _ := plain.get(t, "/healthz")
	require.Equal(t, http.StatusOK, status)
	require.JSONEq(t, `{"status": "ok", "store": {"kind": "memory", "status": "ok"}}`, body)
	_, body, _ = plain.get(t, "/readyz")
	require.JSONEq(t, `{"status": "ready"}`, body)
	status, body, _ = plain.get(t, "/")
	require.Equal(t, http.StatusOK, status)
	require.NotContains(t, body, "pprof")
	for _, path := range []string{"/debug/pprof/", "/debug/pprof/heap", "/debug/pprof/cmdline", "/nosuch"} {
		status, _, _ = plain.get(t, path)
		require.Equal(t, http.StatusNotFound, status, path)
	}
	profiled := startProxy(t, strings.Replace(standaloneYAML(server.Addr()), `admin: {address: "127.0.0.1:0"}`, `admin: {address: "127.0.0.1:0", pprof: true}`, 1))
	status, body, _ = profiled.get(t, "/debug/pprof/goroutine?debug=1")
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, body, "goroutine profile")
}

func TestAdminPortCanBeOff(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	p := startProxy(t, strings.Replace(standaloneYAML(server.Addr()), `admin: {address: "127.0.0.1:0"}`, `admin: {address: "off"}`, 1))
	require.Empty(t, p.AdminAddress())
	require.Equal(t, "+PONG\r\n", string(redistest.Dial(t, p.Addr).Do("PING")))
}
