package measure

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Resident is the resident memory of a process in bytes.
func (p Proc) Resident(pid int) (int64, error) {
	// smaps_rollup is exact; status is summed up lazily per processor.
	if bytes, err := p.kilobytes(pid, "smaps_rollup", "Rss:"); err == nil {
		return bytes, nil
	}
	return p.kilobytes(pid, "status", "VmRSS:")
}

// kilobytes reads a line such as "VmRSS:   1234 kB" and returns bytes.
func (p Proc) kilobytes(pid int, file, label string) (int64, error) {
	data, err := os.ReadFile(filepath.Join(string(p), strconv.Itoa(pid), file))
	if err != nil {
		return 0, fmt.Errorf("cannot read the memory of process %d: %w", pid, err)
	}
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		if len(fields) == 3 && fields[0] == label && fields[2] == "kB" {
			n, err := strconv.ParseInt(fields[1], 10, 64)
			return n << 10, err
		}
	}
	return 0, fmt.Errorf("cannot read the memory of process %d: %s has no line %s", pid, file, label)
}

// sampleEvery is how often a PeakWatch looks where the kernel does not keep the peak itself.
const sampleEvery = 20 * time.Millisecond

// PeakWatch follows the resident memory of a process.
type PeakWatch struct {
	proc      Proc
	pid       int
	start     int64
	keptByOS  bool // the kernel's own high-water mark was reset at the start
	stop      chan struct{}
	sampling  sync.WaitGroup
	highest   int64 // owned by the sampling goroutine until it ended
	lastError error // likewise
}

// WatchPeak begins to follow the resident memory of a process; Stop must be called.
func (p Proc) WatchPeak(pid int) (*PeakWatch, error) {
	start, err := p.Resident(pid)
	if err != nil {
		return nil, err
	}
	w := &PeakWatch{proc: p, pid: pid, start: start, highest: start, stop: make(chan struct{})}
	w.keptByOS = os.WriteFile(filepath.Join(string(p), strconv.Itoa(pid), "clear_refs"), []byte("5"), 0) == nil
	w.sampling.Go(w.sample)
	return w, nil
}

func (w *PeakWatch) sample() {
	ticker := time.NewTicker(sampleEvery)
	defer ticker.Stop()
	for {
		select {
		case <-w.stop:
			return
		case <-ticker.C:
		}
		now, err := w.proc.kilobytes(w.pid, "status", "VmRSS:")
		if err != nil {
			w.lastError = err
			return
		}
		w.highest = max(w.highest, now)
	}
}

// Stop ends the watch and returns the memory at its start and the highest seen since.
func (w *PeakWatch) Stop() (start, highest int64, err error) {
	close(w.stop)
	w.sampling.Wait()
	if w.keptByOS {
		mark, err := w.proc.kilobytes(w.pid, "status", "VmHWM:")
		w.highest = max(w.highest, mark)
		w.lastError = errors.Join(w.lastError, err)
	}
	return w.start, w.highest, w.lastError
}
