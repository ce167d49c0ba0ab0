package measure

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func fakeProc(t *testing.T, files map[string]string) Proc {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	return Proc(dir)
}

func TestCPUTimeIsSummedOverThreads(t *testing.T) {
	before, err := fakeProc(t, map[string]string{
		"7/task/7/schedstat": "1000 5 1\n", "7/task/8/schedstat": "200 5 1\n",
	}).CPU(7)
	require.NoError(t, err)
	require.Equal(t, "schedstat", before.Source())

	proc := fakeProc(t, map[string]string{
		"7/task/7/schedstat": "1500 5 1\n", "7/task/9/schedstat": "50 5 1\n",
	})
	after, err := proc.CPU(7)
	require.NoError(t, err)
	require.EqualValues(t, 1550, after.Since(CPUReading{}))
	require.Zero(t, after.Since(after))
}

func TestThreadsAreToldApartBetweenReadings(t *testing.T) {
	before := CPUReading{threads: map[string]time.Duration{"7": 100, "8": 900}}
	after := CPUReading{threads: map[string]time.Duration{"7": 150, "9": 30}}
	require.EqualValues(t, 80, after.Since(before), "a thread that ended takes nothing away")
}

func TestCPUTimeComesFromStatWithoutSchedstat(t *testing.T) {
	reading, err := fakeProc(t, map[string]string{
		"7/stat": "7 (a (b) c) S 1 7 7 0 -1 4194560 1 2 3 4 150 50 0 0 20 0 1 0 100 1 2\n",
	}).CPU(7)
	require.NoError(t, err)
	require.Equal(t, "stat", reading.Source())
	require.Equal(t, 2*time.Second, reading.Since(CPUReading{}))

	_, err = fakeProc(t, nil).CPU(7)
	require.ErrorContains(t, err, "process 7")
}

func TestMalformedStatFilesAreRefused(t *testing.T) {
	for _, line := range []string{"", "1 2", "x 2 3"} {
		_, err := parseSchedstat(line)
		require.Error(t, err, "%q", line)
	}
	_, err := parseStat("7 (x) S 1 2")
	require.Error(t, err)
}

func TestResidentMemory(t *testing.T) {
	proc := fakeProc(t, map[string]string{"7/status": "Name:\tx\nVmHWM:\t  900 kB\nVmRSS:\t  800 kB\n"})
	bytes, err := proc.Resident(7)
	require.NoError(t, err)
	require.EqualValues(t, 800<<10, bytes)

	proc = fakeProc(t, map[string]string{"7/smaps_rollup": "1-2 ---p [rollup]\nRss:    640 kB\nPss: 1 kB\n"})
	bytes, err = proc.Resident(7)
	require.NoError(t, err)
	require.EqualValues(t, 640<<10, bytes)
}

func TestOwnProcessIsMeasured(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("there is no /proc")
	}
	before, err := DefaultProc.CPU(os.Getpid())
	require.NoError(t, err)
	watch, err := DefaultProc.WatchPeak(os.Getpid())
	require.NoError(t, err)
	block := make([]byte, 64<<20)
	for i := 0; i < len(block); i += 4096 {
		block[i] = 1
	}
	start, highest, err := watch.Stop()
	require.NoError(t, err)
	require.Greater(t, highest-start, int64(32<<20))
	after, err := DefaultProc.CPU(os.Getpid())
	require.NoError(t, err)
	require.Positive(t, after.Since(before))
	runtime.KeepAlive(block)
}

func TestMachineIsDescribed(t *testing.T) {
	m := fakeProc(t, map[string]string{
		"cpuinfo": "processor : 0\nmodel name\t: Fast One\n", "meminfo": "MemTotal:  1024 kB\n",
		"sys/kernel/osrelease": "6.1\n",
	}).Machine()
	require.Equal(t, "Fast One", m.CPU)
	require.Equal(t, "1024 kB", m.Memory)
	require.Equal(t, "6.1", m.Kernel)
	require.Equal(t, "unknown", Proc("/nowhere").Machine().Kernel)
}
