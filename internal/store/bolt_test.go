package store

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestBolt(t *testing.T) {
	suite(t, func(t *testing.T) Store {
		s, err := OpenBolt(filepath.Join(t.TempDir(), "folder", "store.db"))
		require.NoError(t, err)
		return s
	})
}

func TestBoltKeepsWhatItHas(t *testing.T) {
	file := filepath.Join(t.TempDir(), "store.db")
	s, err := OpenBolt(file)
	require.NoError(t, err)
	put(t, s, "a", "1", Any)
	revision := put(t, s, "b", "2", Any)
	_, err = OpenBolt(file)
	require.ErrorContains(t, err, "another process has it open")
	require.NoError(t, s.Close())

	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	s, err = OpenBolt(file)
	require.NoError(t, err)
	defer func() { _ = s.Close() }()
	all, at, err := s.List(t.Context(), "")
	require.NoError(t, err)
	require.Equal(t, revision, at)
	require.Equal(t, []Entry{{"a", []byte("1"), revision - 1}, {"b", []byte("2"), revision}}, all)
	w := s.Watch(t.Context(), "", revision-1)
	_, more := <-w.Events
	require.False(t, more)
	require.ErrorIs(t, w.Err(), ErrCompacted, "changes before the start are not kept")
}

func TestBoltOfDamagedFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "store.db")
	require.NoError(t, os.WriteFile(file, []byte("this is no store, however long it may be"), 0o600))
	_, err := OpenBolt(file)
	require.ErrorContains(t, err, "cannot open the store "+file)
	require.ErrorContains(t, err, "backup")
}

const (
	killedFile = "SLUICE_TEST_STORE"
	kills      = 200
)

// TestBoltSurvivesKill kills a process that writes, two hundred times at random moments: the store opens, and what the
// process was told to be written is there.
func TestBoltSurvivesKill(t *testing.T) {
	if file := os.Getenv(killedFile); file != "" {
		writeUntilKilled(file)
		return
	}
	file := filepath.Join(t.TempDir(), "store.db")
	acknowledged := 0
	for range kills {
		acknowledged = max(acknowledged, killWriter(t, file))
		s, err := OpenBolt(file)
		require.NoError(t, err)
		e, err := s.Get(t.Context(), "counter")
		if acknowledged > 0 {
			require.NoError(t, err)
			found, err := strconv.Atoi(string(e.Value))
			require.NoError(t, err)
			require.GreaterOrEqual(t, found, acknowledged, "an acknowledged write is lost")
			require.Equal(t, e.Revision, s.Status().Revision)
		}
		require.NoError(t, s.Close())
	}
	require.Positive(t, acknowledged)
}

// killWriter lets another process write for a moment and returns the last number that it said to have written.
func killWriter(t *testing.T, file string) (acknowledged int) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestBoltSurvivesKill$")
	cmd.Env = append(os.Environ(), killedFile+"="+file)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	time.AfterFunc(time.Duration(5+rand.IntN(40))*time.Millisecond, func() { _ = cmd.Process.Kill() })
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if n, err := strconv.Atoi(lines.Text()); err == nil {
			acknowledged = n
		}
	}
	_ = cmd.Wait()
	return acknowledged
}

func writeUntilKilled(file string) {
	s, err := OpenBolt(file)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	n := 0
	if e, err := s.Get(nil, "counter"); err == nil { //nolint:staticcheck // bbolt needs no context
		n, _ = strconv.Atoi(string(e.Value))
	}
	for {
		n++
		if _, err := s.Put(nil, "counter", []byte(strconv.Itoa(n)), Any); err != nil { //nolint:staticcheck // bbolt needs no context
			os.Exit(1)
		}
		fmt.Println(n)
	}
}
