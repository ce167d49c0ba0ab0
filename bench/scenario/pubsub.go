package scenario

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/sluiceproxy/sluice/bench/load"
	"github.com/sluiceproxy/sluice/bench/report"
	"github.com/sluiceproxy/sluice/bench/rig"
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

// pubsub publishes at a fixed rate to subscribers that read, with and without one that never does.
func pubsub(ctx context.Context, l *Lab) error {
	if l.Subject != "sluiced" {
		return errors.New("only sluiced counts the clients that it disconnects")
	}
	backend, err := l.standalone(ctx)
	if err != nil {
		return err
	}
	p, err := l.rig.Sluiced(ctx, backend, l.Sluiced)
	if err != nil {
		return err
	}
	if _, err := publishRound(ctx, p, l.Warmup+500*time.Millisecond, false); err != nil {
		return err
	}
	before, err := scrape(ctx, p.Admin, outputLimit)
	if err != nil {
		return err
	}
	var rates, alone, stuck, ratios []float64
	var growth int64
	for round := range l.Rounds {
		var results [2]published
		for i := range results {
			withStuck := (i+round)%2 == 1
			grown, err := whileWatching(p, func() (err error) {
				results[b2i(withStuck)], err = publishRound(ctx, p, l.Duration, withStuck)
				return err
			})
			if err != nil {
				return err
			}
			if withStuck {
				growth = max(growth, grown)
			}
		}
		rates = append(rates, results[1].bytesPerSecond/1e6)
		alone, stuck = append(alone, micros(results[0].p99)), append(stuck, micros(results[1].p99))
		ratios = append(ratios, float64(results[1].p99)/float64(results[0].p99))
	}
	after, err := scrape(ctx, p.Admin, outputLimit)
	if err != nil {
		return err
	}
	l.fact("pubsub", l.Subject, pubsubRateFact, "MB/s", report.Median(rates))
	l.fact("pubsub", l.Subject, pubsubAloneFact, "µs", report.Median(alone))
	l.fact("pubsub", l.Subject, pubsubStuckFact, "µs", report.Median(stuck))
	l.fact("pubsub", l.Subject, pubsubRatioFact, "×", report.Median(ratios))
	l.fact("pubsub", l.Subject, pubsubMemoryFact, "MiB", mebibytes(growth))
	l.fact("pubsub", l.Subject, pubsubClosedFact, "clients", (after-before)/float64(l.Rounds))
	return nil
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
func publishRound(ctx context.Context, p *rig.Process, duration time.Duration, withStuck bool) (published, error) {
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
		r, err := subscribeTo(ctx, p.Addr, deadline)
		if err != nil {
			return published{}, err
		}
		readers[i] = r
	}
	if withStuck {
		r, err := subscribeTo(ctx, p.Addr, deadline)
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
	failures[len(readers)] = publishAll(ctx, p.Addr, began, deadline, messages)
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
	for i := range messages {
		if early := time.Until(meantAt(began, i)); early > 0 {
			time.Sleep(early)
		}
		binary.BigEndian.PutUint64(payload, uint64(i))
		if _, err := conn.Write(load.AppendCommand(nil, []byte("PUBLISH"), []byte("bench"), payload)); err != nil {
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
