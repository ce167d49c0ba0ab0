// Package measure reads what processes consume: CPU time and resident memory, from Linux's /proc.
package measure

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Proc is where the kernel shows its processes; tests put another folder there.
type Proc string

// DefaultProc is the usual place.
const DefaultProc Proc = "/proc"

// CPUReading is the CPU time that the threads of some processes have consumed at one moment.
type CPUReading struct {
	threads map[string]time.Duration
	source  string
}

// Source names the files that the reading came from.
func (c CPUReading) Source() string { return c.source }

// Since is the CPU time consumed after an earlier reading. Threads that began in between count whole; what a thread
// consumed that ended in between is lost.
func (c CPUReading) Since(earlier CPUReading) time.Duration {
	var total time.Duration
	for id, now := range c.threads {
		total += now - earlier.threads[id]
	}
	return total
}

// CPU reads the CPU time of the processes: to the nanosecond from the schedstat of every thread, or in clock ticks from
// stat where the kernel keeps no schedstat.
func (p Proc) CPU(pids ...int) (CPUReading, error) {
	reading := CPUReading{threads: map[string]time.Duration{}, source: "schedstat"}
	for _, pid := range pids {
		if err := p.addSchedstat(pid, reading.threads); err == nil {
			continue
		}
		reading.source = "stat"
		consumed, err := p.stat(pid)
		if err != nil {
			return CPUReading{}, fmt.Errorf("cannot read the CPU time of process %d: %w", pid, err)
		}
		reading.threads[strconv.Itoa(pid)] = consumed
	}
	return reading, nil
}

func (p Proc) addSchedstat(pid int, threads map[string]time.Duration) error {
	files, err := filepath.Glob(filepath.Join(string(p), strconv.Itoa(pid), "task", "*", "schedstat"))
	if err != nil || len(files) == 0 {
		return fmt.Errorf("process %d has no schedstat", pid)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if os.IsNotExist(err) {
			continue // the thread has ended
		}
		if err != nil {
			return err
		}
		consumed, err := parseSchedstat(string(data))
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		threads[filepath.Dir(file)] = consumed
	}
	return nil
}

// parseSchedstat reads "nanoseconds on a CPU, nanoseconds waiting, time slices".
func parseSchedstat(line string) (time.Duration, error) {
	fields := strings.Fields(line)
	if len(fields) != 3 {
		return 0, fmt.Errorf("%q is not a line of schedstat", line)
	}
	nanoseconds, err := strconv.ParseInt(fields[0], 10, 64)
	return time.Duration(nanoseconds), err
}

// clockTick is the unit of /proc/PID/stat: USER_HZ, 100 on every platform that Go runs on.
const clockTick = 10 * time.Millisecond

func (p Proc) stat(pid int) (time.Duration, error) {
	data, err := os.ReadFile(filepath.Join(string(p), strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0, err
	}
	return parseStat(string(data))
}

// parseStat adds up utime and stime, the 14th and 15th field. The second one, the program's name, may hold anything,
// so counting begins behind its closing bracket.
func parseStat(line string) (time.Duration, error) {
	fields := strings.Fields(line[strings.LastIndexByte(line, ')')+1:])
	if len(fields) < 13 {
		return 0, fmt.Errorf("%q is not a line of stat", line)
	}
	var ticks int64
	for _, field := range fields[11:13] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%q is not a line of stat: %w", line, err)
		}
		ticks += n
	}
	return time.Duration(ticks) * clockTick, nil
}
