//go:build linux

package server

import (
	"bytes"
	"os"
	"strconv"
)

// idleMeter reads how many of the machine's processors were idle since the last reading (proc_stat(5)).
type idleMeter struct{ idle, total uint64 }

func (m *idleMeter) read() (processors float64, known bool) {
	data, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, false
	}
	line, rest, _ := bytes.Cut(data, []byte("\n"))
	fields := bytes.Fields(line)
	if len(fields) < 6 {
		return 0, false
	}
	var now idleMeter
	for i, field := range fields[1:min(len(fields), 9)] { // guest time is part of user time
		v, err := strconv.ParseUint(string(field), 10, 64)
		if err != nil {
			return 0, false
		}
		now.total += v
		if i == 3 || i == 4 { // idle, iowait
			now.idle += v
		}
	}
	before := *m
	*m = now
	if before.total == 0 || now.total <= before.total {
		return 0, false
	}
	count := bytes.Count(rest, []byte("cpu"))
	return float64(count) * float64(now.idle-min(now.idle, before.idle)) / float64(now.total-before.total), true
}
