package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/redistest"
)

// hastyAndPatient is two tenants on one cluster, whose clients come to the first and the second listener.
func hastyAndPatient(addr, hasty, patient, cluster string) string {
	return fmt.Sprintf(`
listeners: [{address: "127.0.0.1:0", tenant: hasty}, {address: "127.0.0.1:0", tenant: patient}]
admin: {address: "127.0.0.1:0"}
loops: 1
pipes: {max: 1}
clusters: [{name: main, kind: standalone, addresses: ["%s"]%s}]
tenants: [{name: hasty, cluster: main, %s}, {name: patient, cluster: main, %s}]`, addr, cluster, hasty, patient)
}

// TestCommandTimeoutIsTheTenants: over the same connection one tenant waits long enough for a late reply and the other
// does not; the late reply reaches nobody.
func TestCommandTimeoutIsTheTenants(t *testing.T) {
	redistest.LeakCheck(t)
	node := redistest.NewScripted(t)
	const slow = 600 * time.Millisecond
	node.HandleConn(func(c *redistest.ScriptedConn, args [][]byte) {
		if strings.HasPrefix(string(args[1]), "slow") {
			c.Delay(slow)
		}
		c.Write(bulk(string(args[1])))
	})
	p := startProxy(t, hastyAndPatient(node.Addr(), "command_timeout: 200ms", "command_timeout: 5s", ""))
	p.awaitReady(t)
	hasty, patient := hello(t, p.Addresses()[0].String(), 2), hello(t, p.Addresses()[1].String(), 2)
	require.Equal(t, bulk("first"), string(patient.Do("GET", "first")))

	patient.SendCommand("GET", "slow one") // the node is busy with it; what follows waits
	node.AwaitCommands(2)
	start := time.Now()
	require.Equal(t, "-ERR upstream timeout: no reply within 200ms; the command may have been executed, its outcome is unknown\r\n", string(hasty.Do("INCR", "x")))
	require.InDelta(t, 0.25, time.Since(start).Seconds(), 0.2)
	require.Equal(t, bulk("slow one"), string(patient.ReadReply()))
	require.Equal(t, bulk("second"), string(hasty.Do("GET", "second")))
	require.Equal(t, bulk("third"), string(patient.Do("GET", "third")))
	require.InDelta(t, 1, p.metric(t, "sluice_upstream_late_replies_total"), 0)
	require.InDelta(t, 1, p.metric(t, "sluice_command_errors_total", `reason="timeout"`, `tenant="hasty"`), 0)
	require.InDelta(t, 0, p.metric(t, "sluice_command_errors_total", `reason="timeout"`, `tenant="patient"`), 0)
}

// TestConnectTimeoutIsTheTenants: a node that accepts and says nothing holds each tenant's commands as long as the tenant
// wants to wait for a connection. What was given up is never sent, since its client was told that it was not executed.
func TestConnectTimeoutIsTheTenants(t *testing.T) {
	redistest.LeakCheck(t)
	node := redistest.NewScripted(t)
	node.NoHandshake()
	gate := make(chan struct{})
	node.HandleConn(func(c *redistest.ScriptedConn, args [][]byte) {
		<-gate
		switch strings.ToUpper(string(args[0])) {
		case "GET", "SET":
			c.Write(bulk(string(args[1])))
		case "PING":
			c.Write("+PONG\r\n")
		case "HELLO":
			c.Write("-ERR unknown command 'HELLO'\r\n")
		default:
			c.Write("+OK\r\n")
		}
	})
	p := startProxy(t, hastyAndPatient(node.Addr(), "connect_timeout: 200ms", "command_timeout: 10s", ", connect_timeout: 10s"))
	hasty, patient := hello(t, p.Addresses()[0].String(), 2), hello(t, p.Addresses()[1].String(), 2)
	patient.SendCommand("SET", "patient", "v")
	start := time.Now()
	reply := string(hasty.Do("SET", "hasty", "v"))
	require.InDelta(t, 0.25, time.Since(start).Seconds(), 0.2)
	require.Equal(t, "-ERR upstream timeout: the node of this key could not be connected in time; the command was not executed\r\n", reply)
	patient.SendCommand("SET", "patient too", "v")
	close(gate)
	require.Equal(t, bulk("patient"), string(patient.ReadReply()))
	require.Equal(t, bulk("patient too"), string(patient.ReadReply()))
	require.Equal(t, bulk("hasty again"), string(hasty.Do("GET", "hasty again")))
	for _, command := range node.Commands() {
		require.NotEqual(t, "SET hasty v", command, "the client was told that this was not executed")
	}
}

// TestConnectTimeoutIsNotTheCommands: the time for the connection does not count against the reply.
func TestConnectTimeoutIsNotTheCommands(t *testing.T) {
	redistest.LeakCheck(t)
	node := redistest.NewScripted(t)
	node.HandleConn(func(c *redistest.ScriptedConn, args [][]byte) {
		c.Delay(600 * time.Millisecond)
		c.Write(bulk(string(args[1])))
	})
	p := startProxy(t, tenantYAML("standalone", []string{node.Addr()}, "connect_timeout: 400ms, command_timeout: 5s"))
	require.Equal(t, bulk("k"), string(hello(t, p.Addr, 2).Do("GET", "k")))
}

// TestCallsBeforeTheFirstConnectionKeepTheirOrder: what waits for a connection is sent in the order in which it came.
func TestCallsBeforeTheFirstConnectionKeepTheirOrder(t *testing.T) {
	redistest.LeakCheck(t)
	server := redistest.Standalone(t)
	relay := redistest.NewFaultyProxy(t, server.Addr())
	relay.ToClient(redistest.Faults{BlackHole: true})
	p := startProxy(t, tenantYAML("standalone", []string{relay.Addr()}, "command_timeout: 10s", "cluster: connect_timeout: 10s"))
	c := hello(t, p.Addr, 3)
	var packet strings.Builder
	for i := range 300 {
		packet.WriteString(redistest.Command("APPEND", "log", fmt.Sprint(i, ",")) + redistest.Command("STRLEN", "log"))
	}
	c.Send(packet.String())
	require.Eventually(t, func() bool { return relay.Accepted() > 0 }, eventually, tick)
	relay.Heal()
	length := 0
	for i := range 300 {
		length += len(fmt.Sprint(i, ","))
		c.RequireReply(fmt.Sprintf(":%d\r\n", length))
		c.RequireReply(fmt.Sprintf(":%d\r\n", length))
	}
}
