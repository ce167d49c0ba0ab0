package upstream

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"os"
	"regexp"
	"sync"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
)

// hideAddress makes a text of err that names no place behind the proxy, since it reaches logs and /readyz: neither an
// address, nor a host's name, nor the name server that was asked for it.
func hideAddress(what string, err error) error {
	return errors.New(what + ": " + withoutAddress(err))
}

func withoutAddress(err error) string {
	var (
		lookup      *net.DNSError
		op          *net.OpError
		address     *net.AddrError
		name        x509.HostnameError
		authority   x509.UnknownAuthorityError
		certificate *tls.CertificateVerificationError
	)
	switch {
	case errors.As(err, &lookup):
		return "the host name cannot be resolved"
	case errors.As(err, &address):
		return "the address is not valid"
	case errors.As(err, &name):
		return "the certificate is for another name; set tls.server_name to one that it holds"
	case errors.As(err, &authority):
		return "the certificate is signed by an unknown authority; set tls.ca"
	case errors.As(err, &certificate):
		return "the certificate cannot be verified: " + scrub(certificate.Err.Error())
	case errors.As(err, &op):
		return op.Op + ": " + scrub(op.Err.Error())
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return "no answer within connect_timeout"
	}
	return scrub(err.Error())
}

// scrub takes out what looks like an IP address. Nodes may answer with any text.
func scrub(text string) string { return addressLike().ReplaceAllString(text, "(address)") }

var addressLike = sync.OnceValue(func() *regexp.Regexp { //nolint:gochecknoglobals // constant
	return regexp.MustCompile(`\[?(?:\d{1,3}(?:\.\d{1,3}){3}|[0-9a-fA-F]{0,4}(?::[0-9a-fA-F]{0,4}){2,7})\]?(?::\d{1,5})?`)
})

// muteClients keeps go-redis from writing to standard error, with addresses: what it would say, the errors that it
// returns say too. Its logger is one for the whole process.
var muteClients = sync.OnceFunc(func() { redis.SetLogger(&logging.VoidLogger{}) }) //nolint:gochecknoglobals // see above
