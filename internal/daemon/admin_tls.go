package daemon

import (
	"go.uber.org/zap"

	"github.com/sluiceproxy/sluice/internal/config"
)

// renewAdminTLS gives the admin port the certificates that a reload found. Whether it speaks TLS at all is decided when the
// daemon starts.
func (d *Daemon) renewAdminTLS(cfg *config.Config) {
	if d.AdminAddress() == "" || d.config.Admin.TLS == nil || cfg.Admin.TLS == nil {
		return
	}
	secure, err := listenerTLS(cfg.Admin.TLS)
	if err != nil {
		d.log.Error("the admin port keeps its certificate", zap.Error(err))
		return
	}
	d.admin.SetTLS(secure)
}
