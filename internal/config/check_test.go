package config

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestBoundsOfTheFileHoldEverywhere: what is registered at a running proxy has the bounds that the file has.
func TestBoundsOfTheFileHoldEverywhere(t *testing.T) {
	cluster := Cluster{Name: "c1", Kind: Standalone, Addresses: []string{"127.0.0.1:7001"}, RefreshInterval: time.Millisecond, ConnectTimeout: 11 * time.Minute}
	problems := CheckCluster(&cluster)
	require.Len(t, problems, 2)
	require.Equal(t, "connect_timeout", problems[0].Key)
	require.Equal(t, "is too large; the most is 10m", problems[0].Wrong+"; "+problems[0].Mend)
	require.Equal(t, "refresh_interval", problems[1].Key)
	require.Equal(t, "the least is 100ms", problems[1].Mend)

	tenant := Tenant{Name: "acme", Cluster: "c1", Databases: []int{0}, CrossSlot: "split", Frontend: "standalone", CommandTimeout: -time.Second, ConnectTimeout: -1}
	problems = CheckTenant(&tenant, []Cluster{cluster}, nil)
	require.Len(t, problems, 2)
	require.Equal(t, "connect_timeout", problems[0].Key)
	require.Equal(t, "command_timeout", problems[1].Key)

	tenant = Tenant{Name: "acme", Cluster: "c1", Databases: []int{0}, CrossSlot: "maybe", Frontend: "clutser"}
	problems = CheckTenant(&tenant, []Cluster{cluster}, nil)
	require.Len(t, problems, 2)
	require.Equal(t, "cross_slot", problems[0].Key)
	require.Equal(t, "choose one of split, error", problems[0].Mend)
	require.Equal(t, "did you mean cluster? The choices are standalone, cluster", problems[1].Mend)
	tenant.CrossSlot, tenant.Frontend = "split", "cluster"
	require.Empty(t, CheckTenant(&tenant, []Cluster{cluster}, nil))

	tenant.ConnectTimeout, tenant.CommandTimeout = 0, 0
	require.Empty(t, CheckTenant(&tenant, []Cluster{cluster}, nil), "none is the default")
}
