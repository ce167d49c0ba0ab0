package admin

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/sluiceproxy/sluice/internal/admin/console"
	"github.com/sluiceproxy/sluice/pkg/api"
)

// subcommand is one of PROXY.
type subcommand struct {
	name        string
	arguments   string   // as HELP shows them
	help        []string // lines of it
	least, most int      // arguments
	// operation is that of the API which a write is; reads name theirs when they run.
	operation string
	// whenMissing is added to the error that there is no such thing.
	whenMissing string
	run         func(*asked) (any, error)
}

// manyArgs is more than there can be.
const manyArgs = 1 << 20

func subcommandNamed(name string) *subcommand {
	for _, sub := range subcommands() {
		if strings.EqualFold(sub.name, name) {
			return &sub
		}
	}
	return nil
}

func subcommands() []subcommand {
	const tenants, clusters = "; PROXY TENANTS lists them", "; PROXY CLUSTERS lists them"
	return []subcommand{
		{name: "STATUS", help: []string{"The proxy at a glance."}, run: reads("get-status")},
		{name: "WHOAMI", help: []string{"Whose token was given and what it may do."}, run: reads("whoami")},
		{
			name: "TENANTS", arguments: "[FILTER <terms>] [LIMIT <n>] [PAGE <next>]", most: manyArgs, run: lists("list-tenants"),
			help: []string{"Tenants. Terms are as in the admin API: name, cluster=c1, meta.source!=file.", "A page has at most LIMIT items (100); PAGE asks for the one after."},
		},
		{
			name: "CLUSTERS", arguments: "[FILTER <terms>] [LIMIT <n>] [PAGE <next>]", most: manyArgs, run: lists("list-clusters"),
			help: []string{"Clusters; options are those of TENANTS."},
		},
		{
			name: "SESSIONS", arguments: "[TENANT <name>] [USER <name>] [ADDRESS <prefix>] [COMMAND <name>] [CLUSTER <name>] [LIMIT <n>] [PAGE <next>]",
			most: manyArgs, run: (*asked).sessions, help: []string{"Connected clients that match all that is given."},
		},
		{name: "NODES", help: []string{"Backend nodes as the proxy sees them."}, run: reads("list-nodes")},
		{
			name: "POOLS", arguments: "[<cluster>]", most: 1, run: (*asked).pools, whenMissing: clusters,
			help: []string{"Connections to the nodes, and the first 100 sessions that hold one of their own."},
		},
		{
			name: "TOPOLOGY", arguments: "<cluster>", least: 1, most: 1, whenMissing: clusters, help: []string{"The cluster's nodes and map of slots."},
			run: func(a *asked) (any, error) { return a.call("get-topology", &clusterInput{Cluster: a.args[0]}) },
		},
		{
			name: "EXPLAIN", arguments: "[<tenant>] <command> [<arg> ...]", least: 1, most: manyArgs, run: (*asked).explain,
			whenMissing: "; the tenant comes first, and PROXY TENANTS lists those that you may see",
			help:        []string{"How a command would be handled; it is not run. Who sees one tenant alone", "may leave it out."},
		},
		{
			name: "PAUSE", arguments: "<tenant> [HOLD|REFUSE] [<duration>]", least: 1, most: 3, operation: "pause-tenant", run: (*asked).pause, whenMissing: tenants,
			help: []string{"Let the tenant's commands wait (HOLD, the default) or refuse them, for a", "duration such as 30s or until RESUME."},
		},
		{
			name: "RESUME", arguments: "<tenant>", least: 1, most: 1, operation: "resume-tenant", whenMissing: tenants, help: []string{"End the tenant's pause."},
			run: func(a *asked) (any, error) { return a.call(a.sub.operation, &TenantInput{Name: a.args[0]}) },
		},
		{name: "DRAIN", operation: "drain", help: []string{"Be not ready, and let clients go as their commands end."}, run: acts},
		{name: "UNDRAIN", operation: "undrain", help: []string{"Take clients again."}, run: acts},
		{name: "HELP", help: []string{"Print this help."}, run: func(*asked) (any, error) { return proxyHelp(), nil }},
	}
}

// proxyHelp is in the form of Redis's HELP subcommands.
func proxyHelp() console.Help {
	lines := console.Help{"PROXY <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"}
	for _, sub := range subcommands() {
		lines = append(lines, strings.TrimSpace(sub.name+" "+sub.arguments))
		for _, line := range sub.help {
			lines = append(lines, "    "+line)
		}
	}
	return lines
}

// reads is an operation of the API without input.
func reads(id string) func(*asked) (any, error) {
	return func(a *asked) (any, error) { return a.call(id, &struct{}{}) }
}

func acts(a *asked) (any, error) { return a.call(a.sub.operation, &struct{}{}) }

func lists(id string) func(*asked) (any, error) {
	return func(a *asked) (any, error) {
		var in listInput
		err := a.options(&in.PageInput, map[string]*string{"FILTER": &in.Filter})
		if err != nil {
			return nil, err
		}
		return a.call(id, &in)
	}
}

func (a *asked) sessions() (any, error) {
	var in sessionsInput
	err := a.options(&in.PageInput, map[string]*string{
		"TENANT": &in.Tenant, "USER": &in.User, "ADDRESS": &in.Address, "COMMAND": &in.Command, "CLUSTER": &in.Cluster,
	})
	if err != nil {
		return nil, err
	}
	return a.call("list-sessions", &in)
}

// The bounds of pages that the API has, and of what is given to choose by.
const pageUsual, pageMost, optionMost = 100, 1000, 500

// options reads words and their values.
func (a *asked) options(page *PageInput, into map[string]*string) error {
	limit := ""
	into["LIMIT"], into["PAGE"] = &limit, &page.Page
	for i := 0; i < len(a.args); i += 2 {
		word := strings.ToUpper(a.args[i])
		value := into[word]
		switch {
		case value == nil:
			return usage(fmt.Sprintf("syntax error: '%.64s' is not an option of PROXY %s. Try PROXY HELP.", a.args[i], a.sub.name))
		case i+1 == len(a.args):
			return usage(fmt.Sprintf("syntax error: %s has no value. Try PROXY HELP.", word))
		case len(a.args[i+1]) > optionMost:
			return usage(fmt.Sprintf("%s is longer than %d bytes", word, optionMost))
		}
		*value = a.args[i+1]
	}
	page.Limit = pageUsual
	if limit == "" {
		return nil
	}
	n, err := strconv.Atoi(limit)
	if err != nil || n < 1 || n > pageMost {
		return usage(fmt.Sprintf("LIMIT %.64q is not a number from 1 to %d", limit, pageMost))
	}
	page.Limit = n
	return nil
}

type (
	// pool is the connections to a node.
	pool struct {
		Cluster    string  `json:"cluster"`
		Alias      string  `json:"alias"`
		Healthy    bool    `json:"healthy"`
		Pipes      int     `json:"pipes"`
		Inflight   int     `json:"inflight"`
		QueueDelay float64 `json:"queue_delay_seconds"`
		Dedicated  int     `json:"dedicated"`
		Idle       int     `json:"idle"`
		Waiting    int     `json:"waiting"`
	}
	// pinned is a session with a connection of its own.
	pinned struct {
		ID          uint64 `json:"id"`
		Tenant      string `json:"tenant"`
		Address     string `json:"address"`
		Pinned      string `json:"pinned"`
		LastCommand string `json:"last_command"`
	}
	pools struct {
		Pools       []pool   `json:"pools"`
		Pinned      []pinned `json:"pinned"`
		PinnedTotal int      `json:"pinned_total"`
	}
)

func (a *asked) pools() (any, error) {
	filter, shown := SessionFilter{Tenants: a.request.actor.Tenants}, pools{Pools: []pool{}, Pinned: []pinned{}}
	if len(a.args) == 1 {
		filter.Cluster = a.args[0]
		if !a.clustersOf(a.ctx, &a.request.actor)(filter.Cluster) || a.runtime.Topology(filter.Cluster) == nil {
			return nil, noCluster(filter.Cluster)
		}
	}
	for _, n := range a.nodesFor(a.ctx, &a.request.actor, a.runtime.Nodes()) {
		if filter.Cluster == "" || n.Cluster == filter.Cluster {
			shown.Pools = append(shown.Pools, pool{n.Cluster, n.Alias, n.Healthy, n.Pipes, n.Inflight, n.QueueDelay, n.Dedicated, n.Idle, n.Waiting})
		}
	}
	for _, x := range a.runtime.Sessions(filter) {
		if x.Pinned == "" {
			continue
		}
		if shown.PinnedTotal++; len(shown.Pinned) < pageUsual {
			shown.Pinned = append(shown.Pinned, pinned{x.ID, x.Tenant, x.Address, x.Pinned, x.LastCommand})
		}
	}
	return shown, nil
}

// explain takes the first argument for the tenant, unless only one tenant is seen and it is not that one's name.
func (a *asked) explain() (any, error) {
	tenants, err := a.control.Tenants().List(a.ctx, func(t *api.Tenant) bool { return a.request.actor.Sees(t.Name) })
	if err != nil {
		return nil, a.problem(err, false)
	}
	tenant, args := a.args[0], a.args[1:]
	named := slices.ContainsFunc(tenants, func(t api.Tenant) bool { return t.Name == tenant })
	switch {
	case !named && len(tenants) == 1:
		tenant, args = tenants[0].Name, a.args
	case !named:
		return nil, noTenant(tenant)
	case len(args) == 0:
		return nil, usage("there is no command to explain: PROXY EXPLAIN " + tenant + " GET key")
	}
	return a.call("explain", &explainInput{Body: explainBody{Tenant: tenant, Args: args}})
}

// pause reads HOLD or REFUSE and a duration, in any order.
func (a *asked) pause() (any, error) {
	if err := a.may(); err != nil {
		return nil, err
	}
	in := pauseInput{TenantInput: TenantInput{Name: a.args[0]}}
	for _, word := range a.args[1:] {
		switch lower := strings.ToLower(word); {
		case (lower == "hold" || lower == "refuse") && in.Body.Mode == "":
			in.Body.Mode = lower
		case in.Body.For == 0 && in.Body.For.UnmarshalText([]byte(lower)) == nil && in.Body.For > 0:
		default:
			return nil, usage(fmt.Sprintf("syntax error: '%.64s' is neither HOLD nor REFUSE nor a duration such as 30s. Try PROXY HELP.", word))
		}
	}
	return a.call(a.sub.operation, &in)
}
