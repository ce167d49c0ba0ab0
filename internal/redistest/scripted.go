package redistest

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// ScriptedNode is a fake node on a real socket. It says what a test has
// written for it, by a script (Expect … Reply) or by a handler. What clients
// send at connect (HELLO, AUTH, CLIENT, SELECT, PING, READONLY) it answers by
// itself unless the script's next step expects just that.
//
// A step is written before the client sends what it expects. Several
// connections share one script.
type ScriptedNode struct {
	t       testing.TB
	ln      net.Listener
	closing chan struct{}
	wg      sync.WaitGroup // accept loop and connections

	mu struct {
		sync.Mutex
		script      []*Step
		handler     func(c *ScriptedConn, args [][]byte)
		noHandshake bool
		refuseHello bool
		conns       map[*ScriptedConn]struct{}
		accepted    int
		commands    []string
	}
}

// NewScripted starts a node on a free port of 127.0.0.1. At the test's end
// steps that were never taken fail the test.
func NewScripted(t testing.TB) *ScriptedNode {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("cannot listen for scripted node: %v", err)
	}
	n := &ScriptedNode{t: t, ln: ln, closing: make(chan struct{})}
	n.mu.conns = map[*ScriptedConn]struct{}{}
	n.wg.Go(n.accept)
	t.Cleanup(n.dispose)
	return n
}

func (n *ScriptedNode) dispose() {
	close(n.closing)
	_ = n.ln.Close()
	n.CloseConnections()
	n.wg.Wait()
	if left := n.untaken(); len(left) > 0 && !n.t.Failed() {
		n.t.Errorf("scripted node was never asked: %s", strings.Join(left, "; "))
	}
}

// Addr is the node's host:port.
func (n *ScriptedNode) Addr() string { return n.ln.Addr().String() }

// Port is the port of Addr.
func (n *ScriptedNode) Port() int { return n.ln.Addr().(*net.TCPAddr).Port }

// Expect adds a step to the script: the next command must be this one.
func (n *ScriptedNode) Expect(args ...string) *Step {
	step := &Step{node: n, command: strings.Join(args, " ")}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mu.script = append(n.mu.script, step)
	return step
}

// Handle answers what the script does not: with the raw bytes returned, or
// with silence for nil. It runs on the connection's goroutine and may block;
// commands behind wait then.
func (n *ScriptedNode) Handle(answer func(args [][]byte) []byte) {
	n.HandleConn(func(c *ScriptedConn, args [][]byte) {
		if reply := answer(args); reply != nil {
			c.Write(string(reply))
		}
	})
}

// HandleConn is Handle for answers that need the connection: several writes,
// delays, a close in mid-reply, state per connection.
func (n *ScriptedNode) HandleConn(serve func(c *ScriptedConn, args [][]byte)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mu.handler = serve
}

// NoHandshake leaves also the connect handshake to script and handler.
func (n *ScriptedNode) NoHandshake() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mu.noHandshake = true
}

// RefuseHello makes the node answer HELLO as servers older than Redis 6 do.
func (n *ScriptedNode) RefuseHello() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mu.refuseHello = true
}

// Accepted counts all connections so far.
func (n *ScriptedNode) Accepted() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.mu.accepted
}

// Open counts the connections that are open now.
func (n *ScriptedNode) Open() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.mu.conns)
}

// Commands are the commands received, handshake excepted, their arguments
// joined by spaces.
func (n *ScriptedNode) Commands() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]string(nil), n.mu.commands...)
}

// AwaitCommands returns when count commands were received.
func (n *ScriptedNode) AwaitCommands(count int) {
	n.t.Helper()
	eventually(n.t, fmt.Sprintf("scripted node got %d commands", count), func() bool {
		return len(n.Commands()) >= count
	})
}

// AwaitScript returns when every step has been taken.
func (n *ScriptedNode) AwaitScript() {
	n.t.Helper()
	eventually(n.t, "scripted node has played its script", func() bool { return len(n.untaken()) == 0 })
}

// AwaitOpen returns when exactly count connections are open.
func (n *ScriptedNode) AwaitOpen(count int) {
	n.t.Helper()
	eventually(n.t, fmt.Sprintf("scripted node has %d connections", count), func() bool {
		return n.Open() == count
	})
}

// CloseConnections closes all connections; new ones are still accepted.
func (n *ScriptedNode) CloseConnections() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for c := range n.mu.conns {
		_ = c.conn.Close()
	}
}

func (n *ScriptedNode) untaken() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	var left []string
	for _, step := range n.mu.script {
		left = append(left, step.command)
	}
	return left
}

func (n *ScriptedNode) accept() {
	for {
		conn, err := n.ln.Accept()
		if err != nil {
			return
		}
		if c := n.admit(conn); c != nil {
			n.wg.Go(c.serve)
		}
	}
}

// admit returns nil once the node is closing: its connections were closed
// already, and nobody would close this one.
func (n *ScriptedNode) admit(conn net.Conn) *ScriptedConn {
	n.mu.Lock()
	defer n.mu.Unlock()
	select {
	case <-n.closing:
		_ = conn.Close()
		return nil
	default:
	}
	n.mu.accepted++
	c := &ScriptedConn{ID: n.mu.accepted, node: n, conn: conn, in: bufio.NewReader(conn)}
	n.mu.conns[c] = struct{}{}
	return c
}

func (n *ScriptedNode) forget(c *ScriptedConn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.mu.conns, c)
}

// pause waits; false when the node ended meanwhile.
func (n *ScriptedNode) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-n.closing:
		return false
	}
}
