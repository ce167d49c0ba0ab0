package upstream

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// ServerName is what the nodes of a cluster are: "redis" or "valkey", say, and the version.
type ServerName struct{ Product, Version string }

// longestServerName bounds what is passed on to clients.
const longestServerName = 100

// Server is what the node says it is that was looked at last over a new connection. False: no node has said it.
func (c *Cluster) Server() (ServerName, bool) {
	s := c.server.Load()
	if s == nil {
		return ServerName{}, false
	}
	return *s, true
}

// meet notes what a node says of itself on a new connection of those that look at topology and health. A server before
// Redis 6 says nothing.
func (c *Cluster) meet(ctx context.Context, conn *redis.Conn) error {
	greeting, err := conn.Hello(ctx, 2, "", "", "").Result()
	if err != nil {
		return nil //nolint:nilerr // the look itself tells what is wrong
	}
	product, _ := greeting["server"].(string)
	version, _ := greeting["version"].(string)
	if product != "" && version != "" && len(product)+len(version) < longestServerName {
		c.server.Store(&ServerName{Product: product, Version: version})
	}
	return nil
}
