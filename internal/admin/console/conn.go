package console

import (
	"crypto/tls"
	"errors"
	"net"
	"time"

	"github.com/tidwall/redcon"

	"github.com/sluiceproxy/sluice/pkg/resp"
)

const (
	// A command of an operator has at most argsMax arguments and commandMax bytes.
	argsMax, commandMax = 1100, 1 << 20
	readSize            = 16 << 10
	// replyBuffer is how much is gathered of the replies to a pipeline before it is written.
	replyBuffer = 64 << 10
)

// conn is one operator. Only its goroutine touches it, but for raw, which others may close.
type conn struct {
	server   *Server
	raw      net.Conn // as accepted
	net      net.Conn // raw, or TLS over it
	id       int64
	since    time.Time // that nobody is logged in
	address  string
	protocol int
	name     string
	secret   string // the token that was given and was valid; empty: none

	scanner resp.CommandScanner
	in      []byte // read and not yet answered
	out     []byte // replies not yet written
	ending  bool   // after what is in out
}

func newConn(s *Server, nc net.Conn) *conn {
	return &conn{
		server: s, raw: nc, net: nc, id: s.lastID.Add(1), since: time.Now(), address: nc.RemoteAddr().String(), protocol: 2,
	}
}

// serve answers commands one after the other until the connection ends.
func (c *conn) serve() {
	defer c.server.gone(c)
	defer func() { _ = c.net.Close() }()
	_ = c.raw.SetDeadline(c.since.Add(loginTime)) // until the handshake's end for both ways
	if secure := c.server.tls.Load(); secure != nil {
		c.net = tls.Server(c.raw, secure) // the first read makes the handshake
	}
	for !c.ending {
		args, err := c.next()
		var wrong *resp.ProtocolError
		switch {
		case errors.As(err, &wrong):
			c.fail("ERR " + wrong.Text)
			c.ending = true
		case err != nil:
			return
		default:
			c.do(args)
		}
		if len(c.out) >= replyBuffer && c.flush() != nil {
			return
		}
	}
	_ = c.flush()
}

func (c *conn) limits() resp.CommandLimits {
	if c.secret == "" {
		return resp.UnauthenticatedLimits()
	}
	limits := resp.DefaultLimits()
	limits.MaxArgs, limits.MaxBulk = argsMax, commandMax
	return limits
}

// next is the arguments of the next command. Before it waits for bytes it writes the replies to those before.
func (c *conn) next() (args []string, err error) {
	for {
		args, whole, err := c.cut()
		if whole || err != nil {
			return args, err
		}
		if err := c.flush(); err != nil {
			return nil, err
		}
		if err := c.read(); err != nil {
			return nil, err
		}
	}
}

// cut takes a command off what was read. Commands without arguments, as a blank line is, are skipped as Redis does.
func (c *conn) cut() (args []string, whole bool, err error) {
	limits := c.limits()
	for len(c.in) > 0 {
		n, err := c.scanner.Scan(c.in, &limits)
		switch {
		case err != nil:
			return nil, false, err
		case n == 0 && len(c.in) > commandMax:
			return nil, false, &resp.ProtocolError{Text: "Protocol error: too long a command"}
		case n == 0:
			return nil, false, nil
		}
		for _, arg := range resp.AppendArgs(nil, c.in[:n]) {
			args = append(args, string(arg))
		}
		if c.in = c.in[n:]; len(args) > 0 {
			return args, true, nil
		}
	}
	return nil, false, nil
}

func (c *conn) read() error {
	if cap(c.in)-len(c.in) < readSize {
		larger := make([]byte, len(c.in), 2*len(c.in)+readSize)
		copy(larger, c.in)
		c.in = larger
	}
	deadline := c.since.Add(loginTime)
	if c.secret != "" {
		deadline = time.Now().Add(idleTime)
	}
	_ = c.net.SetReadDeadline(deadline)
	n, err := c.net.Read(c.in[len(c.in):cap(c.in)])
	c.in = c.in[:len(c.in)+n]
	if n > 0 {
		return nil
	}
	return err
}

func (c *conn) flush() error {
	if len(c.out) == 0 {
		return nil
	}
	_ = c.net.SetWriteDeadline(time.Now().Add(writeTime))
	_, err := c.net.Write(c.out)
	c.out = c.out[:0]
	if cap(c.out) > 2*replyBuffer {
		c.out = nil
	}
	return err
}

func (c *conn) fail(text string) { c.out = redcon.AppendError(c.out, oneLine(text)) }
