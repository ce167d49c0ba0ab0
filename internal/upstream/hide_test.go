package upstream

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHideAddress(t *testing.T) {
	refused := &net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(10, 1, 2, 3), Port: 6379}, Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	lookup := &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: "redis-0.internal", Server: "10.0.0.2:53", IsNotFound: true}}
	for want, err := range map[string]error{
		"dial: connect: connection refused":                                             fmt.Errorf("redis: connection pool: failed to dial after 1 attempts: %w", refused),
		"the host name cannot be resolved":                                              fmt.Errorf("redis: %w", lookup),
		"the address is not valid":                                                      &net.OpError{Op: "dial", Err: &net.AddrError{Err: "missing port in address", Addr: "redis-0"}},
		"no answer within connect_timeout":                                              fmt.Errorf("ping: %w", context.DeadlineExceeded),
		"WRONGPASS invalid username-password pair":                                      errors.New("WRONGPASS invalid username-password pair"),
		"ERR go to (address) or (address), not to me":                                   errors.New("ERR go to 10.1.2.3:6379 or [fe80::1:2]:6379, not to me"),
		"the certificate is for another name; set tls.server_name to one that it holds": x509.HostnameError{Certificate: &x509.Certificate{DNSNames: []string{"redis-0.internal"}}, Host: "10.1.2.3"},
		"the certificate is signed by an unknown authority; set tls.ca":                 fmt.Errorf("tls: %w", x509.UnknownAuthorityError{}),
	} {
		require.EqualError(t, hideAddress("cannot connect", err), "cannot connect: "+want)
	}
}
