package upstream

import (
	"net"
	"strings"
)

// Overlaps reports whether two clusters have a server in common, as far as their addresses tell: those that are configured
// and those of the topology in force. For any goroutine.
func (c *Cluster) Overlaps(other *Cluster) bool {
	mine := c.servers()
	for address := range other.servers() {
		if mine[address] {
			return true
		}
	}
	return false
}

// servers are the addresses that are known of the cluster's nodes.
func (c *Cluster) servers() map[string]bool {
	all := make(map[string]bool, len(c.cfg.Addresses))
	for _, address := range c.cfg.Addresses {
		all[plainAddress(address)] = true
	}
	if m := c.topo.Load(); m != nil {
		for i := range m.Nodes {
			all[plainAddress(m.Nodes[i].Addr)] = true
		}
	}
	return all
}

// plainAddress writes the same address in the same way: names in lower case, and this machine as its loopback address.
func plainAddress(address string) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return address // of a socket
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if host == "localhost" {
		host = "127.0.0.1"
	}
	if ip := net.ParseIP(host); ip != nil {
		host = ip.String()
	}
	return net.JoinHostPort(host, port)
}
