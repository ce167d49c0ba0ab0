package scenario

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sluiceproxy/sluice/bench/load"
	"github.com/sluiceproxy/sluice/bench/measure"
	"github.com/sluiceproxy/sluice/bench/report"
)

const (
	transactionRate    = 3000 // a second
	transactionClients = 200

	transactionsBefore = "backend connections before transactions"
	transactionsAfter  = "backend connections after transactions"
	firstConnections   = "backend connections at the start"
	mostConnections    = "most backend connections"
	openedConnections  = "backend connections opened"
)

// step is what a client sends in one packet, and the whole answer that it waits for.
type step struct{ send, answer string }

// transactionKinds are the ways in which clients send a transaction of SET and GET.
func transactionKinds() []string { return []string{"in one packet", "in steps", "with WATCH"} }

// transactionOf is one transaction on a key of the client's own.
func transactionOf(kind string, client int) []step {
	key, value := load.KeyName(client), string(load.Value(32))
	command := func(args ...string) string {
		raw := make([][]byte, len(args))
		for i, arg := range args {
			raw[i] = []byte(arg)
		}
		return string(load.AppendCommand(nil, raw...))
	}
	const ok, queued = "+OK\r\n", "+QUEUED\r\n"
	bulk := "$32\r\n" + value + "\r\n"
	steps := []step{
		{command("MULTI"), ok}, {command("SET", key, value), queued}, {command("GET", key), queued}, {command("EXEC"), "*2\r\n" + ok + bulk},
	}
	switch kind {
	case "in one packet":
		whole := step{}
		for _, s := range steps {
			whole.send += s.send
			whole.answer += s.answer
		}
		return []step{whole}
	case "with WATCH":
		return append([]step{{command("WATCH", key), ok}, {command("GET", key), bulk}}, steps...)
	}
	return steps
}

// transactions runs transactions at a fixed rate and watches how many connections the backend has meanwhile.
func transactions(ctx context.Context, l *Lab) error {
	if l.Subject != "sluiced" {
		return errors.New("only sluiced is known to serve WATCH")
	}
	backend, err := l.standalone(ctx)
	if err != nil {
		return err
	}
	targets, err := l.targets(ctx, backend, l.Subject)
	if err != nil {
		return err
	}
	redis, err := openServerInfo(ctx, backend.Nodes[0].Addr)
	if err != nil {
		return err
	}
	defer redis.conn.Close()
	if err := warmUp(ctx, targets[1]); err != nil {
		return err
	}
	before, _, err := redis.connections()
	if err != nil {
		return err
	}
	l.fact("transactions", l.Subject, transactionsBefore, "connections", before)
	for _, kind := range transactionKinds() {
		for _, t := range targets {
			if err := l.transactionsOnce(ctx, t, kind, redis); err != nil {
				return fmt.Errorf("%s %s: %w", t.name, kind, err)
			}
		}
	}
	after, err := awaitConnections(ctx, redis, before)
	l.fact("transactions", l.Subject, transactionsAfter, "connections", after)
	return err
}

// warmUp lets the proxy make the connections that it shares.
func warmUp(ctx context.Context, t target) error {
	crowd, err := dialCrowd(ctx, t.addr, transactionKinds()[0], time.Now().Add(30*time.Second))
	defer crowd.close()
	if err != nil {
		return err
	}
	return crowd.run(ctx, 0, 500*time.Millisecond)
}

// awaitConnections waits until the backend has no more connections than before, as idle ones end after a while.
func awaitConnections(ctx context.Context, redis *serverInfo, before float64) (now float64, err error) {
	for range 60 {
		if now, _, err = redis.connections(); err != nil || now <= before {
			return now, err
		}
		if err := wait(ctx, 250*time.Millisecond); err != nil {
			return now, err
		}
	}
	return now, nil
}

// transactionsOnce measures one kind at one target.
func (l *Lab) transactionsOnce(ctx context.Context, t target, kind string, redis *serverInfo) error {
	crowd, err := dialCrowd(ctx, t.addr, kind, time.Now().Add(l.Warmup+l.Duration+30*time.Second))
	defer crowd.close()
	if err != nil {
		return err
	}
	warmup := max(l.Warmup, time.Second) // for connections to be made
	done := make(chan error, 1)
	go func() { done <- crowd.run(ctx, warmup, l.Duration) }()
	if err := wait(ctx, warmup); err != nil {
		return errors.Join(err, <-done)
	}
	window, err := watchWindow(ctx, t, redis, l.Duration)
	if err := errors.Join(err, <-done); err != nil {
		return err
	}
	delays := crowd.delays()
	fact := func(name, unit string, value float64) {
		l.fact("transactions", t.name, "transactions "+kind+": "+name, unit, value)
	}
	fact("rate", "a second", float64(len(delays))/l.Duration.Seconds())
	fact("p99", "µs", micros(delays[len(delays)*99/100]))
	fact("CPU of the server per transaction", "µs", micros(window.backend)/float64(len(delays)))
	if t.proxy == nil {
		return nil
	}
	fact("CPU of the proxy per transaction", "µs", micros(window.proxy)/float64(len(delays)))
	fact(firstConnections, "connections", window.first)
	fact(mostConnections, "connections", window.most)
	fact(openedConnections, "connections", window.opened)
	return nil
}

// windowOf is what was seen of a target while transactions ran.
type windowOf struct {
	first, most, opened float64
	proxy, backend      time.Duration
}

func watchWindow(ctx context.Context, t target, redis *serverInfo, duration time.Duration) (w windowOf, err error) {
	cpu := func() (backend, proxy measure.CPUReading, err error) {
		backend, err = measure.DefaultProc.CPU(t.backendPIDs()...)
		if err == nil && t.proxy != nil {
			proxy, err = measure.DefaultProc.CPU(t.proxy.PID())
		}
		return backend, proxy, err
	}
	backend, proxy, err := cpu()
	if err != nil {
		return w, err
	}
	first, total, err := redis.connections()
	if err != nil {
		return w, err
	}
	w.first, w.most = first, first
	for end := time.Now().Add(duration); time.Now().Before(end); {
		if err := wait(ctx, 20*time.Millisecond); err != nil {
			return w, err
		}
		now, totalNow, err := redis.connections()
		if err != nil {
			return w, err
		}
		w.most, w.opened = max(w.most, now), totalNow-total
	}
	backendNow, proxyNow, err := cpu()
	w.backend, w.proxy = backendNow.Since(backend), proxyNow.Since(proxy)
	return w, err
}

// judgeTransactions: the number of backend connections is flat when there are no more than at the start and none is made
// in the place of another.
func judgeTransactions(l *Lab) {
	for _, kind := range transactionKinds() {
		of := func(name string) (float64, error) { return l.factOf("transactions", "transactions "+kind+": "+name) }
		rate, err := of("rate")
		l.Report.Judge(report.AtLeast("transactions", "transactions "+kind, 0.95*transactionRate, "a second", rate, err))
		first, _ := of(firstConnections)
		most, _ := of(mostConnections)
		opened, err := of(openedConnections)
		l.Report.Judge(
			report.AtMost("transactions", "growth of backend connections, "+kind, transactionClients/10, "connections", most-first, err),
			report.AtMost("transactions", "backend connections made in the place of others, "+kind, 5, "connections", max(0, opened-(most-first)), err))
	}
	before, _ := l.factOf("transactions", transactionsBefore)
	after, err := l.factOf("transactions", transactionsAfter)
	// The shared ones are more or fewer as the load wants it.
	l.Report.Judge(report.AtMost("transactions", "more backend connections after transactions than before", 4, "connections", after-before, err))
}

// crowd is clients that run transactions by turns.
type crowd struct{ members []*member }

// member is one client; its delays are those of transactions within the measured window.
type member struct {
	conn   net.Conn
	in     *bufio.Reader
	steps  []step
	answer []byte
	delays []time.Duration
}

func dialCrowd(ctx context.Context, addr, kind string, deadline time.Time) (*crowd, error) {
	c := &crowd{}
	for i := range transactionClients {
		conn, err := dialUntil(ctx, addr, deadline)
		if err != nil {
			return c, err
		}
		c.members = append(c.members, &member{conn: conn, in: bufio.NewReader(conn), steps: transactionOf(kind, i)})
	}
	return c, nil
}

func (c *crowd) close() {
	for _, m := range c.members {
		_ = m.conn.Close()
	}
}

// run runs transactions at the rate and counts those that were meant to begin within the measured window.
func (c *crowd) run(ctx context.Context, warmup, duration time.Duration) error {
	began := time.Now()
	failures := make([]error, len(c.members))
	var running sync.WaitGroup
	for i, m := range c.members {
		running.Go(func() {
			for n := i; ctx.Err() == nil; n += len(c.members) {
				meant := time.Duration(n) * time.Second / transactionRate
				if meant >= warmup+duration || time.Since(began) >= warmup+duration {
					return
				}
				time.Sleep(meant - time.Since(began))
				if failures[i] = m.transact(); failures[i] != nil {
					return
				}
				if ended := time.Since(began); meant >= warmup && ended < warmup+duration {
					m.delays = append(m.delays, ended-meant)
				}
			}
		})
	}
	running.Wait()
	return errors.Join(append(failures, ctx.Err())...)
}

func (m *member) transact() error {
	for _, s := range m.steps {
		if _, err := io.WriteString(m.conn, s.send); err != nil {
			return err
		}
		m.answer = slices.Grow(m.answer[:0], len(s.answer))[:len(s.answer)]
		if n, err := io.ReadFull(m.in, m.answer); err != nil {
			return fmt.Errorf("%q was answered with %q: %w", s.send, m.answer[:n], err)
		}
		if string(m.answer) != s.answer {
			return fmt.Errorf("%q was answered with %q", s.send, m.answer)
		}
	}
	return nil
}

// delays are all members', sorted; there is at least one.
func (c *crowd) delays() []time.Duration {
	var all []time.Duration
	for _, m := range c.members {
		all = append(all, m.delays...)
	}
	slices.Sort(all)
	if len(all) == 0 {
		return []time.Duration{0}
	}
	return all
}

// serverInfo asks a redis-server how many connections it has, over one of its own.
type serverInfo struct {
	conn net.Conn
	in   *bufio.Reader
}

func openServerInfo(ctx context.Context, addr string) (*serverInfo, error) {
	conn, err := dialUntil(ctx, addr, time.Time{})
	if err != nil {
		return nil, err
	}
	return &serverInfo{conn, bufio.NewReader(conn)}, nil
}

// connections are those that clients have now, but for this one, and all that they have ever opened.
func (s *serverInfo) connections() (now, ever float64, err error) {
	if err := s.conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return 0, 0, err
	}
	if _, err := io.WriteString(s.conn, "INFO clients stats\r\n"); err != nil {
		return 0, 0, err
	}
	header, err := s.in.ReadString('\n')
	if err != nil || header[0] != '$' {
		return 0, 0, fmt.Errorf("INFO was answered with %q: %w", header, errors.Join(err, os.ErrInvalid))
	}
	length, err := strconv.Atoi(strings.TrimSpace(header[1:]))
	if err != nil {
		return 0, 0, err
	}
	text := make([]byte, length+2)
	if _, err := io.ReadFull(s.in, text); err != nil {
		return 0, 0, err
	}
	now, err = infoField(string(text), "connected_clients")
	if err != nil {
		return 0, 0, err
	}
	ever, err = infoField(string(text), "total_connections_received")
	return now - 1, ever, err
}

func infoField(text, name string) (float64, error) {
	for line := range strings.Lines(text) {
		if value, found := strings.CutPrefix(line, name+":"); found {
			return strconv.ParseFloat(strings.TrimSpace(value), 64)
		}
	}
	return 0, fmt.Errorf("INFO has no %s", name)
}
