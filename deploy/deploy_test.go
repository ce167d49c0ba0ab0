// Package deploy_test checks what is shipped beside the program: configurations load, the
// dashboard and the alerts speak of metrics that the daemon has.
package deploy_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/viper"
	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/config"
)

func TestConfigurationsLoad(t *testing.T) {
	for _, path := range []string{"container/sluiced.yaml", "compose/sluiced.yaml"} {
		t.Run(path, func(t *testing.T) {
			loaded, err := config.Load(path, nil)
			require.NoError(t, err)
			require.Equal(t, "0.0.0.0:6380", loaded.Listeners[0].Address, "the port that is published")
			require.Equal(t, "0.0.0.0:8380", loaded.Admin.Address)
		})
	}
}

func TestKubernetesConfigurationLoads(t *testing.T) {
	var configMaps int
	for document := range strings.SplitSeq(read(t, "kubernetes/sluice.yaml"), "\n---\n") {
		resource := viper.NewWithOptions(viper.KeyDelimiter("::"))
		resource.SetConfigType("yaml")
		require.NoError(t, resource.ReadConfig(strings.NewReader(document)))
		require.NotEmpty(t, resource.GetString("kind"))
		if resource.GetString("kind") != "ConfigMap" {
			continue
		}
		configMaps++
		path := filepath.Join(t.TempDir(), "sluiced.yaml")
		require.NoError(t, os.WriteFile(path, []byte(resource.GetString("data::sluiced.yaml")), 0o600))
		t.Setenv("SHOP_PASSWORD", "a password")
		loaded, err := config.Load(path, nil)
		require.NoError(t, err)
		require.Equal(t, config.RedisCluster, loaded.Clusters[0].Kind)
		require.False(t, loaded.Tenants[0].Open())
	}
	require.Equal(t, 1, configMaps)
}

// dashboard is what the tests read of a Grafana dashboard.
type dashboard struct {
	UID         string
	Annotations struct{ List []target }
	Templating  struct {
		List []struct{ Name, Type, Definition string }
	}
	Panels []struct {
		ID         int
		Type       string
		Title      string
		Datasource struct{ UID string }
		Targets    []target
	}
}

type target struct{ Expr string }

func readDashboard(t *testing.T) dashboard {
	var d dashboard
	require.NoError(t, json.Unmarshal([]byte(read(t, "grafana/dashboards/sluice.json")), &d))
	return d
}

func TestDashboardPanelsAskTheChosenSource(t *testing.T) {
	d := readDashboard(t)
	require.Equal(t, "sluice", d.UID)
	seen := map[int]bool{}
	for _, panel := range d.Panels {
		require.False(t, seen[panel.ID], "panel %d is there twice", panel.ID)
		seen[panel.ID] = true
		if panel.Type == "row" {
			continue
		}
		require.Equal(t, "${datasource}", panel.Datasource.UID, panel.Title)
		require.NotEmpty(t, panel.Targets, panel.Title)
	}
}

// TestEveryMetricExists: a panel or an alert over a metric that the daemon does not have shows nothing and never fires, and
// nobody notices. The list of what it has is compared with a running daemon by a test of internal/e2e.
func TestEveryMetricExists(t *testing.T) {
	had := map[string]bool{}
	for line := range strings.Lines(read(t, "../internal/e2e/testdata/metrics.golden")) {
		_, rest, _ := strings.Cut(line, " ")
		name, _, _ := strings.Cut(rest, "{")
		had[name] = true
	}
	for _, name := range metricsUsed(t) {
		require.True(t, had[name], "%s is shown or alerted on, and the daemon does not have it", name)
	}
}

func metricsUsed(t *testing.T) []string {
	d := readDashboard(t)
	texts := []string{read(t, "prometheus/alerts.yml")}
	for _, panel := range d.Panels {
		for _, target := range panel.Targets {
			texts = append(texts, target.Expr)
		}
	}
	for _, variable := range d.Templating.List {
		texts = append(texts, variable.Definition)
	}
	for _, annotation := range d.Annotations.List {
		texts = append(texts, annotation.Expr)
	}
	names := regexp.MustCompile(`\bsluice_[a-z0-9_]+`).FindAllString(strings.Join(texts, "\n"), -1)
	require.NotEmpty(t, names)
	for i, name := range names {
		names[i] = regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(name, "")
	}
	return names
}

func TestYAMLIsRead(t *testing.T) {
	for _, path := range []string{
		"prometheus/prometheus.yml", "prometheus/alerts.yml", "prometheus/alerts_test.yml",
		"grafana/provisioning/datasources/prometheus.yml", "grafana/provisioning/dashboards/sluice.yml",
		"../docker-compose.yml",
	} {
		document := viper.New()
		document.SetConfigType("yaml")
		require.NoError(t, document.ReadConfig(strings.NewReader(read(t, path))), path)
		require.NotEmpty(t, document.AllKeys(), path)
	}
}

func read(t *testing.T, path string) string {
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(content)
}
