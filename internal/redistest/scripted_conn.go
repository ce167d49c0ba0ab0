package redistest

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"strings"
	"time"
)

// ScriptedConn is one client's connection to a ScriptedNode; only its own
// goroutine, on which handlers run, uses it.
type ScriptedConn struct {
	// ID counts from 1 in the order of acceptance.
	ID int

	node *ScriptedNode
	conn net.Conn
	in   *bufio.Reader
}

// Write sends raw bytes in one write.
func (c *ScriptedConn) Write(raw string) { _, _ = io.WriteString(c.conn, raw) }

// Close ends the connection in order.
func (c *ScriptedConn) Close() { _ = c.conn.Close() }

// Reset ends the connection as a crashed machine would: the peer sees a reset.
func (c *ScriptedConn) Reset() { reset(c.conn) }

// Delay waits, at most until the node ends.
func (c *ScriptedConn) Delay(d time.Duration) { c.node.pause(d) }

func reset(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

func (c *ScriptedConn) serve() {
	defer c.node.forget(c)
	defer c.Close()
	for {
		args, err := readCommand(c.in)
		if err != nil {
			return
		}
		if len(args) > 0 {
			c.node.answer(c, args)
		}
	}
}

func (n *ScriptedNode) answer(c *ScriptedConn, args [][]byte) {
	command := string(bytes.Join(args, []byte(" ")))
	step, handler, handshake := n.decide(command, args)
	switch {
	case step != nil:
		step.play(c)
	case handshake != "":
		c.Write(handshake)
	case handler != nil:
		handler(c, args)
	default:
		n.t.Errorf("scripted node got %q, which nothing expects", command)
		c.Write("-ERR not in the script\r\n")
	}
}

// decide finds who answers and takes the script's step if it is that.
func (n *ScriptedNode) decide(command string, args [][]byte) (*Step, func(*ScriptedConn, [][]byte), string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.mu.script) > 0 && n.mu.script[0].command == command {
		step := n.mu.script[0]
		n.mu.script = n.mu.script[1:]
		n.mu.commands = append(n.mu.commands, command)
		return step, nil, ""
	}
	if !n.mu.noHandshake {
		if reply := handshakeReply(args, n.mu.refuseHello); reply != "" {
			return nil, nil, reply
		}
	}
	n.mu.commands = append(n.mu.commands, command)
	return nil, n.mu.handler, ""
}

// handshakeReply is what Redis 7.0 answers to a command that clients send at
// connect; empty for every other command.
func handshakeReply(args [][]byte, refuseHello bool) string {
	switch strings.ToUpper(string(args[0])) {
	case "HELLO":
		if refuseHello {
			return "-ERR unknown command 'HELLO', with args beginning with: \r\n"
		}
		return helloReply(len(args) > 1 && string(args[1]) == "3")
	case "AUTH", "SELECT", "READONLY":
		return "+OK\r\n"
	case "PING":
		return "+PONG\r\n"
	case "CLIENT":
		return clientReply(args)
	}
	return ""
}

func clientReply(args [][]byte) string {
	if len(args) < 2 {
		return "-ERR wrong number of arguments for 'client' command\r\n"
	}
	switch strings.ToUpper(string(args[1])) {
	case "SETNAME", "SETINFO":
		return "+OK\r\n"
	case "ID":
		return ":1\r\n"
	}
	return fmt.Sprintf("-ERR unknown subcommand '%s'. Try CLIENT HELP.\r\n", args[1])
}

func helloReply(resp3 bool) string {
	header, proto := "*14\r\n", 2
	if resp3 {
		header, proto = "%7\r\n", 3
	}
	return header + "$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$6\r\n7.0.15\r\n" +
		fmt.Sprintf("$5\r\nproto\r\n:%d\r\n$2\r\nid\r\n:1\r\n", proto) +
		"$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n$7\r\nmodules\r\n*0\r\n"
}
