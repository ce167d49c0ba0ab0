package daemon

import (
	"fmt"
	"net"
	"path/filepath"

	"go.uber.org/zap"

	"github.com/sluiceproxy/sluice/internal/config"
)

// announce tells a person at the terminal what was started and what to try.
func (d *Daemon) announce() {
	out, now := d.options.Out, d.applied()
	addresses := d.Addresses()
	d.log.Info("serving", zap.Stringers("listeners", addresses), zap.String("admin", d.AdminAddress()), zap.Int("loops", len(d.loops)),
		zap.String("configuration", d.config.Source))
	if out == nil {
		return
	}
	p := func(format string, args ...any) { _, _ = fmt.Fprintf(out, format+"\n", args...) }
	p("sluiced %s is serving %d tenant(s) from %d cluster(s); configuration: %s", d.options.Version, len(now.config.Tenants), len(now.config.Clusters), d.config.Source)
	for i := range now.config.Clusters {
		c := &now.config.Clusters[i]
		if c.Kind == config.EmbeddedKind {
			p("  cluster %q is embedded: its data is in memory only and is gone when sluiced stops", c.Name)
		}
	}
	for _, a := range addresses {
		p("  clients:  %s", a)
	}
	if d.AdminAddress() != "" {
		p("  admin:    http://%s  (/healthz /readyz /metrics)", d.AdminAddress())
	}
	for _, a := range d.Consoles() {
		p("  console:  %s  (redis-cli, AUTH with a token, PROXY HELP)", a)
	}
	if d.firstToken != "" {
		p("  token:    %s  (name %q, role admin; it is not shown again)", d.firstToken, firstToken)
		if d.config.DataDir != "" {
			p("            also in %s", filepath.Join(d.config.DataDir, tokenFile))
		}
	}
	if len(addresses) > 0 && d.table().Registry.ForListener("") != nil {
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
