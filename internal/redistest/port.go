package redistest

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
)

// Ports are taken below the range from which Linux and macOS take the local
// ports of outgoing connections. A port found by listening on :0 lies within
// that range, and a connection of some other test may hold it when a server
// is restarted on it.
const (
	lowestPort  = 20000
	highestPort = 31999
)

var errNoFreePort = errors.New("cannot find a free port on 127.0.0.1")

// portLease keeps a TCP port for one test. It holds the UDP port of the same
// number: test binaries that run side by side thus see each other's leases,
// and a lease ends with its process whatever happens to it.
type portLease struct {
	number int
	udp    net.PacketConn
}

func leasePort() (*portLease, error) {
	for range 2000 {
		number := lowestPort + rand.IntN(highestPort-lowestPort+1)
		if lease := tryLease(number); lease != nil {
			return lease, nil
		}
	}
	return nil, errNoFreePort
}

func tryLease(number int) *portLease {
	addr := loopback(number)
	udp, err := net.ListenPacket("udp4", addr)
	if err != nil {
		return nil
	}
	probe, err := net.Listen("tcp4", addr)
	if err != nil {
		_ = udp.Close()
		return nil
	}
	_ = probe.Close()
	return &portLease{number: number, udp: udp}
}

func (l *portLease) release() { _ = l.udp.Close() }

func loopback(port int) string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}
