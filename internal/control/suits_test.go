package control

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/store"
	"github.com/sluiceproxy/sluice/pkg/api"
)

// TestChangedClusterSuitsItsTenants: a cluster does not become what its tenants cannot be on, nor the servers of a tenant
// that must have them alone.
func TestChangedClusterSuitsItsTenants(t *testing.T) {
	redistest.LeakCheck(t)
	c := start(t, store.NewMemory())
	for _, cluster := range []api.Cluster{single("many"), {Name: "own", Addresses: []string{"127.0.0.1:7002"}}} {
		_, err := c.Clusters().Create(t.Context(), write(), cluster)
		require.NoError(t, err)
	}
	for _, tenant := range []api.Tenant{{Name: "acme", Cluster: "many", Databases: []int{0, 3}}, {Name: "owner", Cluster: "own", Trusted: true}} {
		_, err := c.Tenants().Create(t.Context(), write(), tenant)
		require.NoError(t, err)
	}
	for patch, message := range map[string]string{
		`{"kind": "cluster"}`:               "does not suit tenant acme: databases[1] 3 cannot be: cluster many is of kind cluster, which has database 0 alone",
		`{"addresses": ["127.0.0.1:7002"]}`: "does not suit tenant owner: trusted true cannot be: tenant acme has the same backend",
	} {
		_, err := c.Clusters().Patch(t.Context(), write(), "many", []byte(patch))
		var invalid *InvalidError
		require.ErrorAs(t, err, &invalid, patch)
		require.Equal(t, []api.ProblemField{{Location: "body", Message: message}}, invalid.Fields)
	}
	_, err := c.Clusters().Patch(t.Context(), write(), "own", []byte(`{"kind": "cluster"}`))
	require.ErrorContains(t, err, "does not suit tenant owner")
	_, err = c.Clusters().Patch(t.Context(), write(), "many", []byte(`{"addresses": ["127.0.0.1:7003"]}`))
	require.NoError(t, err)
}
