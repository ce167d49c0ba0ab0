package scenario

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"

	"github.com/sluiceproxy/sluice/bench/load"
	"github.com/sluiceproxy/sluice/bench/measure"
	"github.com/sluiceproxy/sluice/bench/report"
	"github.com/sluiceproxy/sluice/bench/rig"
)

const (
	hugeSetFact = "growth of resident memory while setting"
	hugeGetFact = "growth of resident memory while getting"
	hugeTimeout = 2 * time.Minute
	hugeKey     = "huge"
)

// huge sends one huge value through the subject and reads it back, byte for byte.
func huge(ctx context.Context, l *Lab) error {
	redis, err := l.rig.Redis(ctx)
	if err != nil {
		return err
	}
	p, err := l.rig.Proxy(ctx, l.Subject, rig.Backend{Nodes: []*rig.Process{redis}}, l.Sluiced)
	if err != nil {
		return err
	}
	growth, err := whileWatching(p, func() error { return setHuge(ctx, p.Addr, l.HugeBytes) })
	if err != nil {
		return fmt.Errorf("cannot set the value: %w", err)
	}
	l.fact("huge", l.Subject, hugeSetFact, "MiB", mebibytes(growth))
	growth, err = whileWatching(p, func() error { return getHuge(ctx, p.Addr, l.HugeBytes) })
	if err != nil {
		return fmt.Errorf("cannot get the value: %w", err)
	}
	l.fact("huge", l.Subject, hugeGetFact, "MiB", mebibytes(growth))
	return nil
}

// whileWatching returns by how much the process grew at most while do ran.
func whileWatching(p *rig.Process, do func() error) (growth int64, err error) {
	watch, err := measure.DefaultProc.WatchPeak(p.PID())
	if err != nil {
		return 0, err
	}
	err = do()
	start, highest, watchErr := watch.Stop()
	return highest - start, errors.Join(err, watchErr)
}

func judgeHuge(l *Lab) {
	for _, fact := range []string{hugeSetFact, hugeGetFact} {
		value, err := l.factOf("huge", fact)
		what := fmt.Sprintf("%s %.0f MiB", fact, mebibytes(l.HugeBytes))
		l.Report.Judge(report.AtMost("huge", what, 64, "MiB", value, err))
	}
}

// hugeBlock is what the huge value repeats. Its length is no power of two, so that a part that is lost or doubled shows.
func hugeBlock() []byte { return load.Value(1_000_003) }

func setHuge(ctx context.Context, addr string, size int64) error {
	conn, err := dialHuge(ctx, addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	header := "*3\r\n$3\r\nSET\r\n$" + strconv.Itoa(len(hugeKey)) + "\r\n" + hugeKey + "\r\n$" + strconv.FormatInt(size, 10) + "\r\n"
	if _, err := io.WriteString(conn, header); err != nil {
		return err
	}
	block := hugeBlock()
	for left := size; left > 0; {
		n, err := conn.Write(block[:min(left, int64(len(block)))])
		if err != nil {
			return fmt.Errorf("after %d bytes: %w", size-left, err)
		}
		left -= int64(n)
	}
	if _, err := io.WriteString(conn, "\r\n"); err != nil {
		return err
	}
	return expectLine(bufio.NewReader(conn), "+OK")
}

func getHuge(ctx context.Context, addr string, size int64) error {
	conn, err := dialHuge(ctx, addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.Write(load.AppendCommand(nil, []byte("GET"), []byte(hugeKey))); err != nil {
		return err
	}
	reader := bufio.NewReaderSize(conn, 256<<10)
	if err := expectLine(reader, "$"+strconv.FormatInt(size, 10)); err != nil {
		return err
	}
	block := hugeBlock()
	got := make([]byte, len(block))
	for left := size; left > 0; {
		part := got[:min(left, int64(len(got)))]
		if _, err := io.ReadFull(reader, part); err != nil {
			return fmt.Errorf("after %d bytes: %w", size-left, err)
		}
		if !bytes.Equal(part, block[:len(part)]) {
			return fmt.Errorf("the value differs within the bytes from %d on", size-left)
		}
		left -= int64(len(part))
	}
	return expectLine(reader, "")
}

func dialHuge(ctx context.Context, addr string) (net.Conn, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	if err := conn.SetDeadline(time.Now().Add(hugeTimeout)); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

func expectLine(r *bufio.Reader, want string) error {
	line, err := r.ReadString('\n')
	if err != nil {
		return fmt.Errorf("cannot read the reply (%q so far): %w", line, err)
	}
	if line != want+"\r\n" {
		return fmt.Errorf("the reply is %q, not %q", line, want)
	}
	return nil
}
