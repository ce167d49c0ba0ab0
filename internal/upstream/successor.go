package upstream

import (
	"context"
	"errors"
	"strings"
)

// ReplacedBy tells that the cluster's next version is in force. Sessions that are still here, until they have finished what
// they began, may need another connection when the old password is not valid any more: it is made with the new one then.
// For any goroutine.
func (c *Cluster) ReplacedBy(next *Cluster) {
	if next != c {
		c.successor.Store(next)
	}
}

// newest is the version of the cluster that is in force; nil: this one.
func (c *Cluster) newest() (next *Cluster) {
	for s := c.successor.Load(); s != nil; s = s.successor.Load() {
		next = s
	}
	return next
}

// dialRenewed makes a connection as the version in force would, unless what was wrong is not the password or this version
// is the one in force.
func (c *Cluster) dialRenewed(ctx context.Context, addr string, target Target, err error) (*lease, error) {
	next := c.newest()
	if next == nil || !isRefusal(err) || next.cfg.Username == c.cfg.Username && next.cfg.Password == c.cfg.Password {
		return nil, err
	}
	cfg := c.cfg
	cfg.Username, cfg.Password = next.cfg.Username, next.cfg.Password
	k, failure := c.connectorFor(connectorKey{addr, target, next}, &cfg)
	if failure != nil {
		return nil, errors.Join(err, failure)
	}
	return k.checkout(ctx, cfg.ConnectTimeout)
}

// isRefusal reports whether a node does not take the password.
func isRefusal(err error) bool {
	return strings.HasPrefix(err.Error(), "WRONGPASS ") || strings.HasPrefix(err.Error(), "NOAUTH ")
}
