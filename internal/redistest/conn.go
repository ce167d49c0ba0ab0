package redistest

import (
	"bufio"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"
)

// ConnTimeout bounds each read and write of a Conn, so that a missing reply
// fails a test instead of hanging it.
const ConnTimeout = 20 * time.Second

// Conn is a client connection that shows raw bytes. It is used by one
// goroutine at a time; the Try methods never fail the test and may be used
// outside the test's goroutine.
type Conn struct {
	t       testing.TB
	conn    net.Conn
	replies *bufio.Reader
}

// Dial connects to host:port or, when addr is a path or starts with unix://,
// to a unix socket.
func Dial(t testing.TB, addr string) *Conn {
	t.Helper()
	return DialTLS(t, addr, nil)
}

// DialTLS connects with TLS; a nil config means without.
func DialTLS(t testing.TB, addr string, config *tls.Config) *Conn {
	t.Helper()
	c, err := dial(t, addr, config)
	if err != nil {
		t.Fatalf("cannot dial %s: %v", addr, err)
	}
	t.Cleanup(c.Close)
	return c
}

// TryDial connects without TLS and leaves closing to the caller.
func TryDial(t testing.TB, addr string) (*Conn, error) { return dial(t, addr, nil) }

func dial(t testing.TB, addr string, config *tls.Config) (*Conn, error) {
	network, address := "tcp", addr
	if path, ok := strings.CutPrefix(addr, "unix://"); ok || strings.HasPrefix(addr, "/") {
		network, address = "unix", path
	}
	dialer := &net.Dialer{Timeout: ConnTimeout}
	var conn net.Conn
	var err error
	if config == nil {
		conn, err = dialer.Dial(network, address)
	} else {
		conn, err = tls.DialWithDialer(dialer, network, address, config)
	}
	if err != nil {
		return nil, err
	}
	return &Conn{t: t, conn: conn, replies: bufio.NewReader(conn)}, nil
}

// NetConn is the connection underneath, for half-closing or odd writes. What
// ReadReply has buffered is not seen through it.
func (c *Conn) NetConn() net.Conn { return c.conn }

// Close ends the connection; it may be called twice.
func (c *Conn) Close() { _ = c.conn.Close() }

// Send writes raw bytes in one write.
func (c *Conn) Send(raw string) {
	c.t.Helper()
	if err := c.TrySend(raw); err != nil {
		c.t.Fatalf("cannot send: %v", err)
	}
}

// SendCommand writes one command as an array of bulk strings.
func (c *Conn) SendCommand(args ...string) {
	c.t.Helper()
	c.Send(Command(args...))
}

// ReadReply returns the raw bytes of exactly one reply or push message.
func (c *Conn) ReadReply() []byte {
	c.t.Helper()
	reply, err := c.TryRead()
	if err != nil {
		c.t.Fatalf("cannot read reply: %v (got %q)", err, reply)
	}
	return reply
}

// Do sends one command and returns its raw reply.
func (c *Conn) Do(args ...string) []byte {
	c.t.Helper()
	c.SendCommand(args...)
	return c.ReadReply()
}

// RequireReply fails the test unless the next reply is exactly want.
func (c *Conn) RequireReply(want string) {
	c.t.Helper()
	if got := c.ReadReply(); string(got) != want {
		c.t.Fatalf("reply is %q, want %q", got, want)
	}
}

// RequireClosed fails the test unless the peer closes without sending more.
func (c *Conn) RequireClosed() {
	c.t.Helper()
	_ = c.conn.SetReadDeadline(time.Now().Add(ConnTimeout))
	b, err := c.replies.ReadByte()
	var timeout net.Error
	switch {
	case err == nil:
		c.t.Fatalf("connection is open and sent %q", b)
	case errors.As(err, &timeout) && timeout.Timeout():
		c.t.Fatal("connection is still open")
	}
}

// TrySend is Send with an error.
func (c *Conn) TrySend(raw string) error {
	_ = c.conn.SetWriteDeadline(time.Now().Add(ConnTimeout))
	_, err := io.WriteString(c.conn, raw)
	return err
}

// TryRead is ReadReply with an error; the bytes of an unfinished reply come with it.
func (c *Conn) TryRead() ([]byte, error) {
	_ = c.conn.SetReadDeadline(time.Now().Add(ConnTimeout))
	r := replyReader{in: c.replies}
	err := r.readReply()
	return r.raw, err
}

// TryDo is Do with an error.
func (c *Conn) TryDo(args ...string) ([]byte, error) {
	if err := c.TrySend(Command(args...)); err != nil {
		return nil, err
	}
	return c.TryRead()
}

// Command encodes one command as an array of bulk strings.
func Command(args ...string) string {
	var b strings.Builder
	b.WriteString("*" + strconv.Itoa(len(args)) + "\r\n")
	for _, arg := range args {
		b.WriteString("$" + strconv.Itoa(len(arg)) + "\r\n" + arg + "\r\n")
	}
	return b.String()
}
