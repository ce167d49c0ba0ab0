package console

import (
	"bytes"
	"io"
	"net"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/sluiceproxy/sluice/pkg/resp"
)

// playedConn gives bytes in pieces and gathers what is written.
type playedConn struct {
	net.Conn
	in    []byte
	piece int
	out   bytes.Buffer
}

func (p *playedConn) Read(b []byte) (int, error) {
	if len(p.in) == 0 {
		return 0, io.EOF
	}
	n := copy(b[:min(len(b), p.piece)], p.in)
	p.in = p.in[n:]
	return n, nil
}

func (p *playedConn) Write(b []byte) (int, error)      { return p.out.Write(b) }
func (p *playedConn) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (p *playedConn) SetDeadline(time.Time) error      { return nil }
func (p *playedConn) SetReadDeadline(time.Time) error  { return nil }
func (p *playedConn) SetWriteDeadline(time.Time) error { return nil }
func (p *playedConn) Close() error                     { return nil }

// FuzzConn demands of any bytes that they are answered to their end with whole replies, the same however they are cut.
func FuzzConn(f *testing.F) {
	for _, bytes := range []string{
		"*1\r\n$9223372036854775807\r\n", "*9000000000000000000\r\n", "*-1\r\n*1\r\n$4\r\nPING\r\n", "$4\r\nPING\r\n",
		"AUTH good\r\nPROXY HELP\r\nPROXY STATUS\r\nPROXY FAIL\r\nINFO\r\nQUIT\r\nPING\r\n",
		"*6\r\n$5\r\nHELLO\r\n$1\r\n3\r\n$4\r\nAUTH\r\n$0\r\n\r\n$4\r\ngood\r\n$7\r\nSETNAME\r\n",
		"HELLO 3 AUTH x good SETNAME y\r\nPROXY STATUS\r\nCLIENT SETNAME \"a\\x00\"\r\nNOSUCH '\r\n",
		"AUTH good\r\nCOMMAND DOCS\r\nSELECT 1\r\nRESET\r\nPING\r\n",
	} {
		f.Add([]byte(bytes), uint16(3))
	}
	f.Fuzz(func(t *testing.T, b []byte, piece uint16) {
		whole, cut := play(b, len(b)+1), play(b, int(piece)+1)
		if !bytes.Equal(whole, cut) {
			t.Fatalf("%q is answered with %q, and with %q in pieces", b, whole, cut)
		}
		for rest := whole; len(rest) > 0; {
			n, err := resp.ReplyLen(rest)
			if err != nil || n == 0 {
				t.Fatalf("%q is answered with %q: %v", b, whole, err)
			}
			rest = rest[n:]
		}
	})
}

func play(b []byte, piece int) []byte {
	played := &playedConn{in: b, piece: piece}
	c := newConn(New(nil, nil, Options{Service: &fakeService{}, Log: zap.NewNop()}), played)
	c.serve()
	return played.out.Bytes()
}
