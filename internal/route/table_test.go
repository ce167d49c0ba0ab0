package route

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/sluiceproxy/sluice/internal/tenant"
	"github.com/sluiceproxy/sluice/internal/upstream"
)

func TestTableNeedsEveryTenantsCluster(t *testing.T) {
	registry, err := tenant.NewRegistry([]*tenant.Tenant{{Name: "acme", Cluster: "main", Databases: []int{0}}})
	require.NoError(t, err)
	_, err = NewTable(registry, nil)
	require.EqualError(t, err, `cannot route tenant "acme": there is no cluster "main"`)
	main := &upstream.Cluster{}
	table, err := NewTable(registry, map[string]*upstream.Cluster{"main": main})
	require.NoError(t, err)
	require.Same(t, main, table.Cluster(registry.Tenant("acme")))
}

// TestSharedServers: two clusters with an address in common are the same servers, whatever they are called.
func TestSharedServers(t *testing.T) {
	registry, err := tenant.NewRegistry([]*tenant.Tenant{
		{Name: "acme", Cluster: "one"}, {Name: "globex", Cluster: "other"}, {Name: "initech", Cluster: "alone"}, {Name: "umbrella", Cluster: "twice"}, {Name: "hooli", Cluster: "twice"},
	})
	require.NoError(t, err)
	clusters := make(map[string]*upstream.Cluster)
	for name, addresses := range map[string][]string{
		"one": {"127.0.0.1:7001"}, "other": {"localhost:7001"}, "alone": {"127.0.0.1:7002"}, "twice": {"Redis.internal:7001"}, "unused": {"127.0.0.1:7002"},
	} {
		clusters[name] = upstream.NewCluster(upstream.Config{Name: name, Addresses: addresses}, nil, zap.NewNop())
	}
	table, err := NewTable(registry, clusters)
	require.NoError(t, err)
	for name, shared := range map[string]bool{"acme": true, "globex": true, "initech": false, "umbrella": true, "hooli": true} {
		require.Equal(t, shared, table.Shared(registry.Tenant(name)), name)
	}
}
