package admin

import (
	"context"
	"time"

	"github.com/sluiceproxy/sluice/pkg/api"
)

// SessionFilter chooses sessions; empty fields choose all.
type SessionFilter struct {
	Tenants []string // the only ones that may be seen; nil: all
	ID      uint64
	Tenant  string
	User    string
	Address string // prefix of the client's
	Command string // the last one, in lower case
	Cluster string // that its tenant's data is on
}

// Pause says what becomes of a tenant's commands while it is paused.
type Pause struct {
	// Refuse answers commands with an error; else they wait, as with CLIENT PAUSE.
	Refuse bool
	// Until ends the pause; the zero time means when it is resumed.
	Until time.Time
}

// Runtime is the running proxy as the admin port sees it. All methods may be used from any goroutine.
type Runtime interface {
	Status() api.Status
	Stats() api.Stats
	Sessions(f SessionFilter) []api.Session
	// Kill disconnects sessions and returns how many.
	Kill(f SessionFilter) int
	Nodes() []api.Node
	// Topology is nil when there is no such cluster.
	Topology(cluster string) *api.Topology
	// Explain tells how a command would be handled; the error says that there is no such tenant.
	Explain(tenant string, args []string) (*api.Explanation, error)
	// Config is the effective configuration as JSON would have it, without secrets.
	Config() map[string]any
	// Test dials a cluster that need not be registered and tells what it found.
	Test(ctx context.Context, c api.Cluster) api.TestResult
	// RefreshTopology asks for a look at a cluster's topology; false: there is no such cluster.
	RefreshTopology(cluster string) bool
	// Drain makes the proxy not ready and lets clients go as their commands end; Undrain takes clients again.
	Drain()
	Undrain()
	// Pause and Resume report whether there is such a tenant.
	Pause(tenant string, p Pause) bool
	Resume(tenant string) bool
	// Reload reads the configuration file again.
	Reload(ctx context.Context) error
}
