package daemon

import (
	"context"
	"fmt"
	"net"
	"slices"

	"go.uber.org/zap"

	"github.com/sluiceproxy/sluice/internal/admin"
	"github.com/sluiceproxy/sluice/internal/config"
	"github.com/sluiceproxy/sluice/internal/server"
)

// openConsoles opens the listeners for operators, all or none.
func openConsoles(ctx context.Context, cfg *config.Config) (opened []admin.Console, err error) {
	wanted, err := listenersOf(cfg.AdminListeners())
	if err != nil {
		return nil, err
	}
	for _, l := range wanted {
		ln, err := server.Open(ctx, l)
		if err != nil {
			closeConsoles(opened)
			return nil, fmt.Errorf("for operators: %w", err)
		}
		opened = append(opened, admin.Console{Listener: ln, TLS: l.TLS})
	}
	return opened, nil
}

func closeConsoles(opened []admin.Console) {
	for _, c := range opened {
		_ = c.Listener.Close()
	}
}

// Consoles are where operators can connect with redis-cli.
func (d *Daemon) Consoles() []net.Addr {
	if d.admin == nil {
		return nil
	}
	return d.admin.Consoles()
}

// renewConsoleTLS gives the consoles the certificates that a reload found. Which consoles there are, and which of them speak
// TLS, is decided when the daemon starts.
func (d *Daemon) renewConsoleTLS(cfg *config.Config, change *config.Change) {
	if d.admin == nil || slices.Contains(change.Restart, "listeners") {
		return
	}
	for i, l := range cfg.AdminListeners() {
		if l.TLS == nil {
			continue
		}
		secure, err := listenerTLS(l.TLS)
		if err != nil {
			d.log.Error("a listener for operators keeps its certificate", zap.String("listener", l.Address), zap.Error(err))
			continue
		}
		d.admin.SetConsoleTLS(i, secure)
	}
}
