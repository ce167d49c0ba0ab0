package topology

import (
	"math"
	"net"
	"strconv"
	"strings"
)

// maxHost is the length of the longest host name there can be.
const maxHost = 253

// Endpoint is the node that was asked, as we reached it. What it says of
// itself or of others may leave the host out; then this one is meant.
type Endpoint struct {
	Host string
	Port int
	// TLS selects the TLS port where a node names both.
	TLS bool
}

// EndpointAt is the endpoint of a host:port.
func EndpointAt(addr string, tls bool) (Endpoint, bool) {
	host, port, ok := splitAddr(addr)
	return Endpoint{Host: host, Port: port, TLS: tls}, ok && host != ""
}

// Addr is the endpoint's host:port.
func (e Endpoint) Addr() string { return join(e.Host, e.Port) }

// Resolve makes the address of a redirect that this node sent: an empty host
// is the node's own, an IPv6 host gets its brackets. It is false where the
// node knows no host ("?") or the port is none; only a refresh helps then.
func (e Endpoint) Resolve(addr []byte) (string, bool) {
	host, port, ok := splitAddr(string(addr))
	if !ok || host == unknownHost {
		return "", false
	}
	if host == "" {
		host = e.Host
	}
	if host == "" {
		return "", false
	}
	return join(host, port), true
}

// unknownHost is what nodes send for a host name that was wanted and not set.
const unknownHost = "?"

// splitAddr cuts at the last colon: Redis writes IPv6 addresses without brackets.
func splitAddr(addr string) (host string, port int, ok bool) {
	i := strings.LastIndexByte(addr, ':')
	if i < 0 {
		return "", 0, false
	}
	number, err := strconv.ParseUint(addr[i+1:], 10, 16)
	if err != nil || number == 0 {
		return "", 0, false
	}
	host, port = addr[:i], int(number)
	if n := len(host); n >= 2 && host[0] == '[' && host[n-1] == ']' {
		host = host[1 : n-1]
	}
	return host, port, isHost(host)
}

func isPort(n int) bool { return n > 0 && n <= math.MaxUint16 }

// isHost refuses what cannot be dialled and might do harm where it is printed;
// an empty host is for the caller to fill.
func isHost(host string) bool {
	if len(host) > maxHost {
		return false
	}
	for i := range len(host) {
		switch c := host[i]; {
		case c <= ' ', c >= 0x7f, c == '[', c == ']', c == '/', c == '@', c == ',':
			return false
		}
	}
	return true
}

func join(host string, port int) string {
	return net.JoinHostPort(host, strconv.Itoa(port))
}
