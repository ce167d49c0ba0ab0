package scenario

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/sluiceproxy/sluice/bench/load"
	"github.com/sluiceproxy/sluice/bench/measure"
	"github.com/sluiceproxy/sluice/bench/report"
)

const (
	pubsubRate    = 50e6 // bytes per second
	pubsubMessage = 16 << 10
	pubsubReaders = 4

	pubsubRateFact   = "published"
	pubsubAloneFact  = "p99 of messages"
	pubsubStuckFact  = "p99 of messages beside a subscriber that does not read"
	pubsubRatioFact  = "p99 of messages beside a subscriber that does not read against without"
	pubsubMemoryFact = "growth of resident memory with a subscriber that does not read"
	pubsubClosedFact = "subscribers disconnected because they did not read, per round"

	outputLimit = `sluice_clients_disconnected_total{reason="output_buffer"}`
)

// fillsBuffers is how long it takes at the rate until a subscriber that does not read is at its bound, 32 MiB and what the
// kernel holds.
const fillsBuffers = 1200 * time.Millisecond

// pubsub publishes at a fixed rate to subscribers that read, with and without one that never does.
func pubsub(ctx context.Context, l *Lab) error {
	if l.Subject != "sluiced" {
		return errors.New("only sluiced counts the clients that it disconnects")
	}
	backend, err := l.standalone(ctx)
	if err != nil {
		return err
	}
	targets, err := l.targets(ctx, backend, l.Subject)
	if err != nil {
		return err
	}
	proxy := targets[1].proxy
	for _, t := range targets {
		if _, err := publishRound(ctx, t.addr, l.Warmup+500*time.Millisecond, false); err != nil {
			return err
		}
	}
	before, err := scrape(ctx, proxy.Admin, outputLimit)
	if err != nil {
		return err
	}
	seen := map[string]*publishing{}
	rounds, duration := l.Rounds, l.Duration
	if rounds > 1 { // the median of many ratios of p99 is closer than that of few
		rounds, duration = max(rounds, 8), max(min(duration, 1500*time.Millisecond), fillsBuffers)
	}
	for round := range rounds {
		for _, t := range inTurns(targets, round) {
			if seen[t.name] == nil {
				seen[t.name] = &publishing{}
			}
			if err := seen[t.name].round(ctx, t, duration, round); err != nil {
				return fmt.Errorf("%s: %w", t.name, err)
			}
		}
	}
	after, err := scrape(ctx, proxy.Admin, outputLimit)
	if err != nil {
		return err
	}
	for _, t := range targets {
		seen[t.name].tell(l, t)
	}
	l.fact("pubsub", l.Subject, pubsubClosedFact, "clients", (after-before)/float64(rounds))
	return nil
}

// publishing is what was seen of a target, round by round.
type publishing struct {
	rates, alone, stuck, ratios []float64
	proxyCPU, serverCPU, ownCPU []float64 // in processors
	growth                      int64     // the most of all rounds
}

// round measures once without and once with a subscriber that does not read.
func (p *publishing) round(ctx context.Context, t target, duration time.Duration, round int) error {
	var results [2]published
	for i := range results {
		withStuck := (i+round)%2 == 1
		watched := t.proxy
		if watched == nil {
			watched = t.backends[0]
		}
		grown, err := whileWatching(watched, func() (err error) {
			results[b2i(withStuck)], err = p.measured(ctx, t, duration, withStuck)
			return err
		})
		if err != nil {
			return err
		}
		if withStuck {
			p.growth = max(p.growth, grown)
		}
	}
	p.rates = append(p.rates, results[1].bytesPerSecond/1e6)
	p.alone, p.stuck = append(p.alone, micros(results[0].p99)), append(p.stuck, micros(results[1].p99))
	p.ratios = append(p.ratios, float64(results[1].p99)/float64(results[0].p99))
	return nil
}

// measured is publishRound with a look at who consumes CPU time meanwhile.
func (p *publishing) measured(ctx context.Context, t target, duration time.Duration, withStuck bool) (published, error) {
	var readings [2][3]measure.CPUReading
	var failures []error
	look := func(i int) {
		for j, pids := range [][]int{t.proxyPIDs(), t.backendPIDs(), {os.Getpid()}} {
			reading, err := measure.DefaultProc.CPU(pids...)
			readings[i][j], failures = reading, append(failures, err)
		}
	}
	look(0)
	began := time.Now()
	result, err := publishRound(ctx, t.addr, duration, withStuck)
	took := time.Since(began)
	look(1)
	for j, to := range []*[]float64{&p.proxyCPU, &p.serverCPU, &p.ownCPU} {
		*to = append(*to, readings[1][j].Since(readings[0][j]).Seconds()/took.Seconds())
	}
	return result, errors.Join(append(failures, err)...)
}

func (p *publishing) tell(l *Lab, t target) {
	l.fact("pubsub", t.name, pubsubRateFact, "MB/s", report.Median(p.rates))
	l.fact("pubsub", t.name, pubsubAloneFact, "µs", report.Median(p.alone))
	l.fact("pubsub", t.name, pubsubStuckFact, "µs", report.Median(p.stuck))
	l.fact("pubsub", t.name, pubsubRatioFact, "×", report.Median(p.ratios))
	l.fact("pubsub", t.name, pubsubMemoryFact, "MiB", mebibytes(p.growth))
	if t.proxy != nil {
		l.fact("pubsub", t.name, "CPU of the proxy", "processors", report.Median(p.proxyCPU))
	}
	l.fact("pubsub", t.name, "CPU of the server", "processors", report.Median(p.serverCPU))
	l.fact("pubsub", t.name, "CPU of the load", "processors", report.Median(p.ownCPU))
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// judgePubsub holds one output bound (32 MiB) and what the collector may leave beside it against the memory.
func judgePubsub(l *Lab) {
	value, err := l.factOf("pubsub", pubsubRateFact)
	l.Report.Judge(report.AtLeast("pubsub", pubsubRateFact, 0.95*pubsubRate/1e6, "MB/s", value, err))
	value, err = l.factOf("pubsub", pubsubRatioFact)
	l.Report.Judge(report.AtMost("pubsub", pubsubRatioFact, 1.25, "×", value, err))
	value, err = l.factOf("pubsub", pubsubMemoryFact)
	l.Report.Judge(report.AtMost("pubsub", pubsubMemoryFact, 128, "MiB", value, err))
	value, err = l.factOf("pubsub", pubsubClosedFact)
	l.Report.Judge(report.AtLeast("pubsub", pubsubClosedFact, 1, "clients", value, err))
}

type published struct {
	bytesPerSecond float64
	p99            time.Duration // from when a message was meant to be sent until a subscriber had it
}

// publishRound publishes for the duration. Every subscriber that reads must get every message, in order.
func publishRound(ctx context.Context, addr string, duration time.Duration, withStuck bool) (published, error) {
	began := time.Now()
	deadline := began.Add(duration + 30*time.Second)
	var readers [pubsubReaders]*subscriber
	defer func() {
		for _, r := range readers {
			if r != nil {
				_ = r.conn.Close()
			}
		}
	}()
	for i := range readers {
		r, err := subscribeTo(ctx, addr, deadline)
		if err != nil {
			return published{}, err
		}
		readers[i] = r
	}
	if withStuck {
		r, err := subscribeTo(ctx, addr, deadline)
		if err != nil {
			return published{}, err
		}
		defer r.conn.Close()
	}
	messages := int(duration.Seconds() * pubsubRate / pubsubMessage)
	began = time.Now()
	var running sync.WaitGroup
	failures := make([]error, len(readers)+1)
	for i, r := range readers {
		running.Go(func() { failures[i] = r.read(began, messages) })
	}
	failures[len(readers)] = publishAll(ctx, addr, began, deadline, messages)
	if failures[len(readers)] != nil {
		for _, r := range readers {
			_ = r.conn.Close()
		}
	}
	took := time.Since(began)
	running.Wait()
	if err := errors.Join(failures...); err != nil {
		return published{}, err
	}
	var all []time.Duration
	for _, r := range readers {
		all = append(all, r.delays...)
	}
	slices.Sort(all)
	return published{float64(messages) * pubsubMessage / took.Seconds(), all[len(all)*99/100]}, nil
}

// publishAll sends the messages at the rate; each tells its number.
func publishAll(ctx context.Context, addr string, began, deadline time.Time, messages int) error {
	conn, err := dialUntil(ctx, addr, deadline)
	if err != nil {
		return err
	}
	defer conn.Close()
	answers := make(chan error, 1)
	go func() { answers <- readNumbers(conn, messages) }()
	payload := load.Value(pubsubMessage)
	var command []byte
	for i := range messages {
		if early := time.Until(meantAt(began, i)); early > 0 {
			time.Sleep(early)
		}
		binary.BigEndian.PutUint64(payload, uint64(i))
		command = load.AppendCommand(command[:0], []byte("PUBLISH"), []byte("bench"), payload)
		if _, err := conn.Write(command); err != nil {
			return fmt.Errorf("cannot publish: %w", errors.Join(err, conn.Close(), <-answers))
		}
	}
	return <-answers
}

func meantAt(began time.Time, message int) time.Time {
	return began.Add(time.Duration(float64(message) * pubsubMessage / pubsubRate * 1e9))
}

func readNumbers(conn net.Conn, count int) error {
	in := bufio.NewReader(conn)
	for range count {
		line, err := in.ReadString('\n')
		if err != nil {
			return err
		}
		if line[0] != ':' {
			return fmt.Errorf("PUBLISH was answered with %q", line)
		}
	}
	return nil
}

type subscriber struct {
	conn   net.Conn
	in     *bufio.Reader
	delays []time.Duration
}

const subscribed = "*3\r\n$9\r\nsubscribe\r\n$5\r\nbench\r\n:1\r\n"

func subscribeTo(ctx context.Context, addr string, deadline time.Time) (*subscriber, error) {
	conn, err := dialUntil(ctx, addr, deadline)
	if err != nil {
		return nil, err
	}
	r := &subscriber{conn: conn, in: bufio.NewReaderSize(conn, 256<<10)}
	_, err = conn.Write(load.AppendCommand(nil, []byte("SUBSCRIBE"), []byte("bench")))
	answer := make([]byte, len(subscribed))
	if err == nil {
		_, err = io.ReadFull(r.in, answer)
	}
	if err == nil && string(answer) != subscribed {
		err = fmt.Errorf("SUBSCRIBE was answered with %q", answer)
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return r, nil
}

func (r *subscriber) read(began time.Time, messages int) error {
	header := "*3\r\n$7\r\nmessage\r\n$5\r\nbench\r\n$" + strconv.Itoa(pubsubMessage) + "\r\n"
	message := make([]byte, len(header)+pubsubMessage+2)
	r.delays = make([]time.Duration, 0, messages)
	for i := range messages {
		if _, err := io.ReadFull(r.in, message); err != nil {
			return fmt.Errorf("after %d messages: %w", i, err)
		}
		if string(message[:len(header)]) != header || binary.BigEndian.Uint64(message[len(header):]) != uint64(i) {
			return fmt.Errorf("message %d is not the next one", i)
		}
		r.delays = append(r.delays, time.Since(meantAt(began, i)))
	}
	return nil
}

func dialUntil(ctx context.Context, addr string, deadline time.Time) (net.Conn, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return conn, conn.SetDeadline(deadline)
}
