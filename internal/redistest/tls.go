package redistest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TLSFiles are the paths of a test authority and of what it signed, all PEM.
type TLSFiles struct {
	CA         string // the authority's certificate
	ServerCert string // for 127.0.0.1, ::1, localhost and redis.test
	ServerKey  string
	ClientCert string // common name "sluice-test-client"
	ClientKey  string
}

// NewTLSFiles creates an authority, a server and a client certificate in the
// test's temporary folder.
func NewTLSFiles(t testing.TB) *TLSFiles {
	t.Helper()
	dir := t.TempDir()
	files := &TLSFiles{
		CA:         filepath.Join(dir, "ca.pem"),
		ServerCert: filepath.Join(dir, "server.pem"),
		ServerKey:  filepath.Join(dir, "server.key"),
		ClientCert: filepath.Join(dir, "client.pem"),
		ClientKey:  filepath.Join(dir, "client.key"),
	}
	authority := newAuthority(t)
	writePEM(t, files.CA, "CERTIFICATE", authority.cert.Raw)
	authority.issue(t, serverTemplate(), files.ServerCert, files.ServerKey)
	authority.issue(t, clientTemplate(), files.ClientCert, files.ClientKey)
	return files
}

// ClientConfig trusts the test authority and presents the client certificate.
func (f *TLSFiles) ClientConfig(t testing.TB) *tls.Config {
	t.Helper()
	ca, err := os.ReadFile(f.CA)
	if err != nil {
		t.Fatalf("cannot read test authority: %v", err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	pair, err := tls.LoadX509KeyPair(f.ClientCert, f.ClientKey)
	if err != nil {
		t.Fatalf("cannot load test client certificate: %v", err)
	}
	return &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
}

// configLines are the redis.conf lines of a server that uses the files.
func (f *TLSFiles) configLines() []string {
	return []string{
		"tls-cert-file " + f.ServerCert,
		"tls-key-file " + f.ServerKey,
		"tls-ca-cert-file " + f.CA,
		"tls-auth-clients optional",
		"tls-replication yes",
	}
}

type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	template := certificateTemplate("sluice test authority")
	template.IsCA = true
	template.BasicConstraintsValid = true
	template.KeyUsage = x509.KeyUsageCertSign
	key := newKey(t)
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatalf("cannot create test authority: %v", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatalf("cannot parse test authority: %v", err)
	}
	return &authority{cert: cert, key: key}
}

func (a *authority) issue(t testing.TB, template *x509.Certificate, certPath, keyPath string) {
	t.Helper()
	key := newKey(t)
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		t.Fatalf("cannot issue test certificate: %v", err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatalf("cannot encode test key: %v", err)
	}
	writePEM(t, certPath, "CERTIFICATE", der)
	writePEM(t, keyPath, "PRIVATE KEY", keyDER)
}

// serverTemplate allows client use as well: a cluster node dials its peers
// with its server certificate.
func serverTemplate() *x509.Certificate {
	template := certificateTemplate("sluice-test-server")
	template.DNSNames = []string{"localhost", "redis.test"}
	template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	return template
}

func clientTemplate() *x509.Certificate {
	template := certificateTemplate("sluice-test-client")
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return template
}

func certificateTemplate(commonName string) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()),
		Subject:      pkix.Name{CommonName: commonName},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(24 * time.Hour),
		KeyUsage:     x509.KeyUsageDigitalSignature,
	}
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatalf("cannot generate test key: %v", err)
	}
	return key
}

func writePEM(t testing.TB, path, kind string, der []byte) {
	t.Helper()
	block := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
	if err := os.WriteFile(path, block, 0o600); err != nil {
		t.Fatalf("cannot write %s: %v", kind, err)
	}
}
