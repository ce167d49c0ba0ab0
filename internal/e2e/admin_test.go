package e2e

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// get asks the admin port.
func (p *proxy) get(t *testing.T, path string, header ...string) (status int, body string, answer http.Header) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.AdminURL+path, nil)
	require.NoError(t, err)
	for i := 0; i+1 < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, string(content), response.Header
}

// awaitReady waits until every cluster has been reached.
func (p *proxy) awaitReady(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool {
		status, _, _ := p.get(t, "/readyz")
		return status == http.StatusOK
	}, eventually, tick)
}

// metric is the sum over the samples of a metric whose labels contain all the given ones.
func (p *proxy) metric(t *testing.T, name string, labels ...string) (sum float64) {
	t.Helper()
	_, body, _ := p.get(t, "/metrics")
	for line := range strings.Lines(body) {
		line = strings.TrimSpace(line)
		rest, found := strings.CutPrefix(line, name)
		if !found || rest == "" || rest[0] != '{' && rest[0] != ' ' {
			continue
		}
		at := strings.LastIndexByte(rest, ' ')
		if !containsAll(rest[:at], labels) {
			continue
		}
		value, err := strconv.ParseFloat(rest[at+1:], 64)
		require.NoError(t, err, line)
		sum += value
	}
	return sum
}

func containsAll(text string, parts []string) bool {
	for _, part := range parts {
		if !strings.Contains(text, part) {
			return false
		}
	}
	return true
}
