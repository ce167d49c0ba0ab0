package scenario

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"

	"github.com/sluiceproxy/sluice/bench/load"
	"github.com/sluiceproxy/sluice/bench/measure"
	"github.com/sluiceproxy/sluice/bench/report"
	"github.com/sluiceproxy/sluice/bench/rig"
)

const (
	manyTenants  = 1000
	manyClusters = 20

	tenantsStartFact  = "start with 1,000 tenants on 20 clusters"
	tenantsMemoryFact = "resident memory per tenant without traffic"

	// Targets of scenario tenants, where all traffic is for one cluster.
	oneTenant   = "1 tenant"
	oneOfMany   = "1 of 1,000 tenants"
	fiftyOfMany = "50 of 1,000 tenants"
	// Targets of scenario tenants spread, where it is for all clusters: there are more connections to write to, so it
	// costs more than one cluster, but not more the more tenants there are.
	spreadFew  = "20 tenants on 20 clusters"
	spreadMany = "200 of 1,000 tenants on 20 clusters"
)

// tenants compares a daemon that serves many tenants with one that serves few, under the same load.
func tenants(ctx context.Context, l *Lab) error {
	if l.Subject != "sluiced" {
		return errors.New("only sluiced has tenants")
	}
	servers, err := l.twoServers(ctx)
	if err != nil {
		return err
	}
	var daemons []*rig.Process
	var resident []int64
	for _, size := range []struct{ tenants, clusters int }{{1, 1}, {manyClusters, manyClusters}, {manyTenants, manyClusters}} {
		p, err := l.rig.SluicedWith(ctx, tenantsFile(size.tenants, size.clusters, servers), l.Sluiced)
		if err != nil {
			return err
		}
		if err := wait(ctx, l.IdleSettle); err != nil {
			return err
		}
		bytes, err := measure.DefaultProc.Resident(p.PID())
		if err != nil {
			return err
		}
		daemons, resident = append(daemons, p), append(resident, bytes)
	}
	l.fact("tenants", l.Subject, tenantsStartFact, "s", daemons[2].Start.Seconds())
	l.fact("tenants", l.Subject, tenantsMemoryFact, "KiB", float64(resident[2]-resident[1])/(manyTenants-manyClusters)/1024)

	at := func(name string, p *rig.Process, backends []*rig.Process, first, step, count int) target {
		return target{name: name, addr: p.Addr, proxy: p, backends: backends, login: logins(first, step, count)}
	}
	many := l.inManyRounds()
	get, set := many.workload(load.Get, 1), many.workload(load.Set, 1)
	err = many.rounds(ctx, "tenants", l.Own, []target{
		at(oneTenant, daemons[0], servers[:1], 0, 1, 1),
		at(oneOfMany, daemons[2], servers[:1], 0, 1, 1),
		at(fiftyOfMany, daemons[2], servers[:1], 0, manyClusters, manyTenants/manyClusters),
	}, get, set)
	if err != nil {
		return err
	}
	return many.rounds(ctx, "tenants spread", l.Own, []target{
		at(spreadFew, daemons[1], servers, 0, 1, manyClusters),
		at(spreadMany, daemons[2], servers, 0, 1, 200),
	}, get, set)
}

// twoServers are what all clusters of the tenants stand for.
func (l *Lab) twoServers(ctx context.Context) ([]*rig.Process, error) {
	servers := make([]*rig.Process, 2)
	for i := range servers {
		backend, err := l.standalone(ctx)
		if err != nil {
			return nil, err
		}
		servers[i] = backend.Nodes[0]
	}
	return servers, nil
}

func tenantUser(i int) (user, password string) {
	return fmt.Sprint("user-", i), fmt.Sprint("password-", i)
}

// tenantsFile configures tenants with a user each, spread over clusters, which are spread over servers.
func tenantsFile(tenants, clusters int, servers []*rig.Process) func(clients, admin string) string {
	return func(clients, admin string) string {
		var b strings.Builder
		fmt.Fprintf(&b, "listeners: [{address: %q}]\nadmin: {address: %q}\nclusters:\n", clients, admin)
		for i := range clusters {
			fmt.Fprintf(&b, "  - {name: cluster-%d, addresses: [%q]}\n", i, servers[i%len(servers)].Addr)
		}
		b.WriteString("tenants:\n")
		for i := range tenants {
			user, password := tenantUser(i)
			fmt.Fprintf(&b, "  - {name: tenant-%d, cluster: cluster-%d, users: [{name: %s, sha256: %x}]}\n",
				i, i%clusters, user, sha256.Sum256([]byte(password)))
		}
		return b.String()
	}
}

// logins are the AUTH commands of count tenants.
func logins(first, step, count int) [][]byte {
	all := make([][]byte, count)
	for i := range all {
		user, password := tenantUser(first + i*step)
		all[i] = load.AppendCommand(nil, []byte("AUTH"), []byte(user), []byte(password))
	}
	return all
}

func judgeTenants(l *Lab) {
	for _, operation := range []string{"GET", "SET"} {
		judgeAgainst(l, "tenants", operation, oneOfMany, oneTenant, 1.03)
		judgeAgainst(l, "tenants", operation, fiftyOfMany, oneTenant, 1.03)
		judgeAgainst(l, "tenants spread", operation, spreadMany, spreadFew, 1.03)
	}
	value, err := l.factOf("tenants", tenantsStartFact)
	l.Report.Judge(report.AtMost("tenants", tenantsStartFact, 3, "s", value, err))
	value, err = l.factOf("tenants", tenantsMemoryFact)
	l.Report.Judge(report.AtMost("tenants", tenantsMemoryFact, 50, "KiB", value, err))
}
