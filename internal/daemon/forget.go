package daemon

import (
	"context"
	"time"
)

// forgetInterval is how often tenants are looked for that are not served any more.
const forgetInterval = time.Second

// forgetTenants has the loops let go of removed tenants' counters, until ctx ends.
func (d *Daemon) forgetTenants(ctx context.Context) {
	ticker := time.NewTicker(forgetInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			d.shared.ForgetTenants()
		}
	}
}

// reopenAudit lets a program that rotates logs take the audit file away.
func (d *Daemon) reopenAudit() {
	if d.admin == nil {
		return
	}
	if err := d.admin.ReopenAudit(); err != nil {
		d.log.Error("the audit log goes on in the file that was open: " + err.Error())
	}
}
