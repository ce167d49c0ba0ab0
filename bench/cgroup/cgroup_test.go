package cgroup

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/bench/measure"
)

const (
	mountsV1 = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\ncgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,relatime,cpuacct,cpu 0 0\n" +
		"cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n"
	mountsV2 = "cgroup2 /sys/fs/cgroup cgroup2 rw,nsdelegate 0 0\n"
)

func fakeRoot(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	return root
}

func TestVersion1IsFoundUnderTheOwnGroup(t *testing.T) {
	root := fakeRoot(t, map[string]string{
		"proc/self/mounts": mountsV1, "proc/self/cgroup": "2:cpuacct,cpu:/job\n0::/other\n",
		"sys/fs/cgroup/cpu,cpuacct/job/cgroup.procs": "",
	})
	l, err := detect(root)
	require.NoError(t, err)
	require.Equal(t, 1, l.Version())
	require.Equal(t, filepath.Join(root, "sys/fs/cgroup/cpu,cpuacct/job"), l.parent)
}

func TestVersion2EnablesTheController(t *testing.T) {
	root := fakeRoot(t, map[string]string{
		"proc/self/mounts": mountsV2, "proc/self/cgroup": "0::/not-visible-here\n",
		"sys/fs/cgroup/cgroup.controllers": "cpuset cpu memory\n", "sys/fs/cgroup/cgroup.subtree_control": "\n",
	})
	l, err := detect(root)
	require.NoError(t, err)
	require.Equal(t, 2, l.Version())
	require.Equal(t, filepath.Join(root, "sys/fs/cgroup"), l.parent, "the mount is the own group in a container")
	enabled, err := os.ReadFile(filepath.Join(root, "sys/fs/cgroup/cgroup.subtree_control"))
	require.NoError(t, err)
	require.Equal(t, "+cpu", string(enabled))
}

func TestItSaysWhyThereIsNoLimit(t *testing.T) {
	_, err := detect(fakeRoot(t, nil))
	require.ErrorContains(t, err, "cannot find control groups")
	_, err = detect(fakeRoot(t, map[string]string{"proc/self/mounts": "tmpfs / tmpfs rw 0 0\n", "proc/self/cgroup": ""}))
	require.ErrorContains(t, err, "no cgroup file system")
	_, err = detect(fakeRoot(t, map[string]string{
		"proc/self/mounts": mountsV2, "proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cgroup.controllers": "memory\n",
	}))
	require.ErrorContains(t, err, "no cpu controller")
}

func TestQuotaIsWrittenInEachVersionsForm(t *testing.T) {
	for version, want := range map[int]map[string]string{
		1: {"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "10000"},
		2: {"cpu.max": "10000 100000"},
	} {
		g := &Group{limiter: &Limiter{version: version}, dir: t.TempDir()}
		for name := range want {
			require.NoError(t, os.WriteFile(filepath.Join(g.dir, name), nil, 0o600))
		}
		require.NoError(t, g.limit(0.1))
		for name, text := range want {
			data, err := os.ReadFile(filepath.Join(g.dir, name))
			require.NoError(t, err)
			require.Equal(t, text, string(data))
		}
	}
	require.Error(t, (&Group{limiter: &Limiter{version: 2}, dir: t.TempDir()}).limit(0.1), "a missing file is not made")
}

func TestARealProcessIsHeldBack(t *testing.T) {
	l, err := Detect()
	if err != nil {
		t.Skip(err)
	}
	busy := exec.CommandContext(t.Context(), "sh", "-c", "while :; do :; done")
	require.NoError(t, busy.Start())
	defer func() {
		_ = busy.Process.Kill()
		_ = busy.Wait()
	}()
	g, err := l.Hold(fmt.Sprintf("sluicebench-test-%d", os.Getpid()), 0.1, busy.Process.Pid)
	if err != nil {
		t.Skip(err) // most users may not make groups
	}
	defer func() { require.NoError(t, g.Remove()) }()
	before, err := measure.DefaultProc.CPU(busy.Process.Pid)
	require.NoError(t, err)
	time.Sleep(400 * time.Millisecond) // what is measured is a rate
	after, err := measure.DefaultProc.CPU(busy.Process.Pid)
	require.NoError(t, err)
	require.Less(t, after.Since(before), 200*time.Millisecond)

	members, err := os.ReadFile(filepath.Join(g.dir, "cgroup.procs"))
	require.NoError(t, err)
	require.Contains(t, strings.Fields(string(members)), fmt.Sprint(busy.Process.Pid))
}
