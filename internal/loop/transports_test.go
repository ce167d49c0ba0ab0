package loop

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// transportKind is one way for a connection to reach its peer, which the test holds.
type transportKind struct {
	name string
	// attach connects c, on the loop, and returns the peer's side.
	pair   func(t testing.TB) (near, far net.Conn)
	stream bool
	// halves: each direction can end alone.
	halves bool
}

var transportKinds = []transportKind{ //nolint:gochecknoglobals // the table of the tests
	{name: "epoll tcp", pair: tcpPair, halves: true},
	{name: "epoll unix", pair: unixPair, halves: true},
	{name: "stream tcp", pair: tcpPair, stream: true, halves: true},
	{name: "stream pipe", pair: func(testing.TB) (net.Conn, net.Conn) { return net.Pipe() }, stream: true},
	{name: "stream tls", pair: tlsPair, stream: true, halves: true},
}

// overEach runs a test on a loop of its own for each transport of this system.
func overEach(t *testing.T, test func(t *testing.T, l *Loop, kind transportKind)) {
	for _, kind := range transportKinds {
		if !kind.stream && !HasEpoll {
			continue
		}
		t.Run(kind.name, func(t *testing.T) { test(t, started(t), kind) })
	}
}

// connect gives owner a connection and returns the peer's side, closed at the end of the test.
func (kind transportKind) connect(t testing.TB, l *Loop, o *owner) net.Conn {
	t.Helper()
	near, far := kind.pair(t)
	t.Cleanup(func() { far.Close() })
	require.NoError(t, far.SetDeadline(time.Now().Add(patience)))
	onLoop(t, l, func() {
		o.conn = l.NewConn(o, &o.traffic)
		kind.attach(t, o.conn, near)
	})
	return far
}

func (kind transportKind) attach(t testing.TB, c *Conn, near net.Conn) {
	if kind.stream {
		c.Loop().AttachStream(c, near)
		return
	}
	fd, plain, err := TakeDescriptor(near)
	require.NoError(t, err)
	require.True(t, plain)
	require.NoError(t, c.Loop().AttachFD(c, fd))
}

func tcpPair(t testing.TB) (near, far net.Conn) { return listenPair(t, "tcp", "127.0.0.1:0") }

func unixPair(t testing.TB) (near, far net.Conn) {
	return listenPair(t, "unix", t.TempDir()+"/socket")
}

func listenPair(t testing.TB, network, address string) (near, far net.Conn) {
	listener, err := net.Listen(network, address)
	require.NoError(t, err)
	defer listener.Close()
	far, err = net.Dial(network, listener.Addr().String())
	require.NoError(t, err)
	near, err = listener.Accept()
	require.NoError(t, err)
	return near, far
}

func tlsPair(t testing.TB) (near, far net.Conn) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"node"}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	parsed, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	roots := x509.NewCertPool()
	roots.AddCert(parsed)
	plainNear, plainFar := tcpPair(t)
	server := tls.Server(plainNear, &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}})
	client := tls.Client(plainFar, &tls.Config{RootCAs: roots, ServerName: "node"})
	shaken := make(chan error, 1)
	go func() { shaken <- server.Handshake() }()
	require.NoError(t, client.Handshake())
	require.NoError(t, <-shaken)
	return server, client
}

// owner is a Handler made of functions; a nil one does the usual. Its fields belong to the loop.
type owner struct {
	conn    *Conn
	traffic Traffic

	data    func(b []byte) int
	drained func()
	eof     func()
	closed  func(err error)

	drains, ends, closes int
	gone                 chan error // the argument of each Closed
}

func newOwner() *owner { return &owner{gone: make(chan error, 4)} }

// echo makes an owner that sends back what it gets.
func echo() *owner {
	o := newOwner()
	o.data = func(b []byte) int {
		o.conn.Append(b)
		return len(b)
	}
	return o
}

// Data implements Handler.
func (o *owner) Data(b []byte) int {
	if o.closes > 0 {
		panic("Data after Closed")
	}
	if o.data == nil {
		return len(b)
	}
	return o.data(b)
}

// Drained implements Handler.
func (o *owner) Drained() {
	o.drains++
	if o.drained != nil {
		o.drained()
	}
}

// EOF implements Handler.
func (o *owner) EOF() {
	o.ends++
	if o.eof != nil {
		o.eof()
		return
	}
	o.conn.CloseFlushed()
}

// Closed implements Handler.
func (o *owner) Closed(err error) {
	o.closes++
	if o.closed != nil {
		o.closed(err)
	}
	o.gone <- err
}

// closesOnce waits for Closed, returns its argument and sees that no second one came in the same tick or the next.
func (o *owner) closesOnce(t testing.TB, l *Loop) error {
	t.Helper()
	err := arrives(t, o.gone, "Closed")
	for range 2 {
		onLoop(t, l, func() {})
	}
	onLoop(t, l, func() { require.Equal(t, 1, o.closes, "calls of Closed") })
	return err
}
