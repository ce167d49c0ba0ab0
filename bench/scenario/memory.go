package scenario

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/sluiceproxy/sluice/bench/load"
	"github.com/sluiceproxy/sluice/bench/measure"
	"github.com/sluiceproxy/sluice/bench/report"
	"github.com/sluiceproxy/sluice/bench/rig"
)

const idleFact = "resident memory per idle connection"

// idle opens many connections, sends one command over each and looks at what the proxy's memory grew by.
func idle(ctx context.Context, l *Lab) error {
	backend, err := l.standalone(ctx)
	if err != nil {
		return err
	}
	for _, name := range l.proxies() {
		p, err := l.rig.Proxy(ctx, name, backend, l.Sluiced)
		if errors.Is(err, rig.ErrNotPossible) {
			l.Report.Note("%v", err)
			continue
		}
		if err != nil {
			return err
		}
		perConnection, err := idleMemory(ctx, p, l.IdleConnections, l.IdleSettle)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		l.fact("idle", name, idleFact, "KiB", perConnection/1024)
		p.Stop()
	}
	return nil
}

// idleMemory returns the bytes that each of the connections costs. The start is the process after one command over one
// connection, so what the first command makes once and for all does not count, but all that grows with connections does.
func idleMemory(ctx context.Context, p *rig.Process, connections int, settle time.Duration) (float64, error) {
	first, err := dialAndGet(ctx, p.Addr, 0)
	if err != nil {
		return 0, err
	}
	_ = first.Close()
	if err := wait(ctx, settle); err != nil {
		return 0, err
	}
	before, err := measure.DefaultProc.Resident(p.PID())
	if err != nil {
		return 0, err
	}
	open := make([]net.Conn, 0, connections)
	defer func() {
		for _, conn := range open {
			_ = conn.Close()
		}
	}()
	for i := range connections {
		conn, err := dialAndGet(ctx, p.Addr, i)
		if err != nil {
			return 0, fmt.Errorf("cannot open connection %d: %w", i+1, err)
		}
		open = append(open, conn)
	}
	if err := wait(ctx, settle); err != nil {
		return 0, err
	}
	after, err := measure.DefaultProc.Resident(p.PID())
	return float64(after-before) / float64(connections), err
}

// connectionsPerSource keeps one source address from running out of ports.
const connectionsPerSource = 8000

func dialAndGet(ctx context.Context, addr string, number int) (net.Conn, error) {
	var dialer net.Dialer
	if source := number / connectionsPerSource; source > 0 {
		// Linux owns all of 127.0.0.0/8; elsewhere there are enough ports for the default number.
		dialer.LocalAddr = &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(1+source))}
	}
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil && dialer.LocalAddr != nil {
		dialer.LocalAddr = nil
		conn, err = dialer.DialContext(ctx, "tcp", addr)
	}
	if err != nil {
		return nil, err
	}
	if err := getOnce(conn); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

// getOnce asks for a key of 32 bytes and reads the reply.
func getOnce(conn net.Conn) error {
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return err
	}
	if _, err := conn.Write(load.AppendCommand(nil, []byte("GET"), []byte(load.KeyName(0)))); err != nil {
		return err
	}
	want := "$32\r\n" + string(load.Value(32)) + "\r\n"
	reply := make([]byte, len(want))
	n, err := io.ReadFull(conn, reply)
	if err != nil {
		return fmt.Errorf("cannot read the reply (%q so far): %w", reply[:n], err)
	}
	if string(reply) != want {
		return fmt.Errorf("the reply to GET is %q", reply)
	}
	return nil
}

func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func judgeIdle(l *Lab) {
	value, err := l.factOf("idle", idleFact)
	what := fmt.Sprintf("resident memory per connection, %d idle ones after one command each", l.IdleConnections)
	l.Report.Judge(report.AtMost("idle", what, 2, "KiB", value, err))
}

const largeFact = "resident memory after large values against before"

// large measures values of 1 MiB, with haproxy as the measure of what copying costs.
func large(ctx context.Context, l *Lab) error {
	const valueSize, keys = 1 << 20, 32
	redis, err := l.rig.Redis(ctx)
	if err != nil {
		return err
	}
	backend := rig.Backend{Nodes: []*rig.Process{redis}}
	if err := rig.Fill(ctx, backend.Nodes, keys, valueSize); err != nil {
		return err
	}
	names := []string{l.Subject}
	if l.Subject != "haproxy" {
		names = append(names, "haproxy")
	}
	targets, err := l.targets(ctx, backend, names...)
	if err != nil {
		return err
	}
	get := load.Workload{
		Operation: load.Get, ValueSize: valueSize, KeySpace: keys, Threads: 2, Clients: 25, Pipeline: 1,
		Warmup: l.Warmup, Duration: l.Duration,
	}
	set := get
	set.Operation = load.Set
	before, err := residentOfSubject(l, targets)
	if err != nil {
		return err
	}
	if err := l.rounds(ctx, "large", l.Driver, targets, get, set); err != nil {
		return err
	}
	l.progress("  waiting %s to see whether memory is given back", l.LargeSettle)
	if err := wait(ctx, l.LargeSettle); err != nil {
		return err
	}
	after, err := residentOfSubject(l, targets)
	if err != nil {
		return err
	}
	l.fact("large", l.Subject, "resident memory before", "MiB", mebibytes(before))
	l.fact("large", l.Subject, "resident memory after", "MiB", mebibytes(after))
	l.fact("large", l.Subject, largeFact, "×", float64(after)/float64(before))
	return nil
}

func residentOfSubject(l *Lab, targets []target) (int64, error) {
	for _, t := range targets {
		if t.name == l.Subject {
			return measure.DefaultProc.Resident(t.proxy.PID())
		}
	}
	return 0, fmt.Errorf("%s does not run", l.Subject)
}

func judgeLarge(l *Lab) {
	for _, operation := range []string{"GET", "SET"} {
		value, err := l.ratio("large", operation, "haproxy", report.Throughput)
		l.Report.Judge(report.AtLeast("large", operation+" throughput of 1 MiB values against haproxy", 0.9, "×", value, err))
	}
	value, err := l.factOf("large", largeFact)
	what := fmt.Sprintf("resident memory %s after 1 MiB values against before", l.LargeSettle)
	l.Report.Judge(report.AtMost("large", what, 1.2, "×", value, err))
}
