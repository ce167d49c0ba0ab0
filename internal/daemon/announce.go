package daemon

import (
	"fmt"
	"net"

	"go.uber.org/zap"

	"github.com/sluiceproxy/sluice/internal/config"
)

// announce tells a person at the terminal what was started and what to try.
func (d *Daemon) announce() {
	out := d.options.Out
	addresses := d.Addresses()
	d.log.Info("serving", zap.Stringers("listeners", addresses), zap.String("admin", d.AdminAddress()), zap.Int("loops", len(d.loops)),
		zap.String("configuration", d.config.Source))
	if out == nil {
		return
	}
	p := func(format string, args ...any) { _, _ = fmt.Fprintf(out, format+"\n", args...) }
	p("sluiced %s is serving %d tenant(s) from %d cluster(s); configuration: %s", d.options.Version, len(d.config.Tenants), len(d.config.Clusters), d.config.Source)
	for i := range d.config.Clusters {
		c := &d.config.Clusters[i]
		if c.Kind == config.EmbeddedKind {
			p("  cluster %q is embedded: its data is in memory only and is gone when sluiced stops", c.Name)
		}
	}
	for _, a := range addresses {
		p("  clients:  %s", a)
	}
	if d.admin != nil {
		p("  admin:    http://%s  (/healthz /readyz /metrics)", d.AdminAddress())
	}
	if len(addresses) > 0 {
		p("  try it:   %s", tryLine(addresses[0]))
	}
}

// tryLine is a redis-cli command for an address.
func tryLine(a net.Addr) string {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return "redis-cli -s " + a.String() + " SET greeting hello"
	}
	host := tcp.IP.String()
	if tcp.IP.IsUnspecified() {
		host = "127.0.0.1"
	}
	return fmt.Sprintf("redis-cli -h %s -p %d SET greeting hello", host, tcp.Port)
}
