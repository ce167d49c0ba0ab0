package route

import (
	"testing"

	"github.com/stretchr/testify/require"

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
