// Package facade is the cluster that clients see of a tenant that is served as one: the advertised endpoints of the
// proxies are its nodes, all primaries, and share the slots evenly. Every proxy serves every slot, so the shares only
// spread clients; no proxy ever answers MOVED. Proxies with the same list of endpoints tell the same cluster.
package facade

import (
	"crypto/sha256"
	"encoding/hex"
	"net"
	"strconv"

	"github.com/sluiceproxy/sluice/internal/topology"
)

// Endpoint is where clients connect to one proxy: a host name or an IP address without brackets, and a port.
type Endpoint struct {
	Host string
	Port int
}

// ParseEndpoint reads host:port.
func ParseEndpoint(text string) (e Endpoint, ok bool) {
	host, port, err := net.SplitHostPort(text)
	if err != nil || host == "" {
		return Endpoint{}, false
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return Endpoint{}, false
	}
	return Endpoint{Host: host, Port: int(n)}, true
}

// concrete says that a client can connect to the endpoint: it is not the address that means all of a machine.
func (e Endpoint) concrete() bool {
	ip := net.ParseIP(e.Host)
	return ip == nil || !ip.IsUnspecified()
}

// named says that the host is a name and not an IP address.
func (e Endpoint) named() bool { return net.ParseIP(e.Host) == nil }

// Fleet is what one listener tells clients of. It is immutable.
type Fleet struct {
	// Endpoints are those of all proxies, in the same order at each; empty: the address that a client connected to.
	Endpoints []Endpoint
	// Self is this proxy's own; the zero Endpoint: the one that a client connected to, else the first.
	Self Endpoint
	// TLS says that clients connect with TLS.
	TLS bool
}

// View is the cluster as one client of one tenant sees it. There is at least one node.
type View struct {
	Nodes []Node
	// Self is the index of the node that answers.
	Self int
	TLS  bool
}

// Node is an endpoint with its share of the slots.
type Node struct {
	Endpoint
	// ID and ShardID are 40 hexadecimal digits, the same at every proxy and after a restart.
	ID, ShardID string
	Slots       topology.Range
}

// View is the cluster for a client of the tenant that connected to this address of the machine. It is false when there
// is no address to tell: nothing is advertised and the client came by a unix socket.
func (f Fleet) View(tenant, connectedTo string) (v View, ok bool) {
	local, isLocal := ParseEndpoint(connectedTo)
	endpoints := f.Endpoints
	if len(endpoints) == 0 {
		if !isLocal || !local.concrete() {
			return View{}, false
		}
		endpoints = []Endpoint{local}
	}
	own := f.Self
	if own == (Endpoint{}) {
		own = local
	}
	v = View{Nodes: make([]Node, len(endpoints)), TLS: f.TLS}
	for i, e := range endpoints {
		if e == own {
			v.Self = i
		}
		v.Nodes[i] = Node{Endpoint: e, ID: identity("node", tenant, e), ShardID: identity("shard", tenant, e), Slots: share(i, len(endpoints))}
	}
	return v, true
}

// Knows reports whether a node has the id.
func (v View) Knows(id string) bool {
	for i := range v.Nodes {
		if v.Nodes[i].ID == id {
			return true
		}
	}
	return false
}

// Myself is the node that answers.
func (v View) Myself() *Node { return &v.Nodes[v.Self] }

// identity makes an id such as Redis draws at random: from what it names, so that all proxies agree without talking.
func identity(kind, tenant string, e Endpoint) string {
	sum := sha256.Sum256([]byte(kind + "\x00" + tenant + "\x00" + net.JoinHostPort(e.Host, strconv.Itoa(e.Port))))
	return hex.EncodeToString(sum[:20])
}

// share is the part of the slots that the i-th of n nodes has, as redis-cli --cluster create would give it.
func share(i, n int) topology.Range {
	return topology.Range{First: uint16(i * topology.SlotCount / n), Last: uint16((i+1)*topology.SlotCount/n - 1)}
}
