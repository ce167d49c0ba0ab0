package sim

import (
	"bytes"
	"flag"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var ( //nolint:gochecknoglobals // flags of the test binary
	seedFlag  = flag.Int64("seed", -1, "play this seed alone and print what happens")
	seedsFlag = flag.Int("seeds", 0, "play this many seeds, however long it takes; 0: some thousands, as the time allows")
	firstFlag = flag.Uint64("first", 0, "the first seed")
)

const (
	seedsMax  = 5000
	timeMax   = 10 * time.Second
	timeShort = 2 * time.Second
	failMax   = 5
)

// Every seed is a world of its own in which everything that is promised must hold; package sim tells what.
func TestSeeds(t *testing.T) {
	if *seedFlag >= 0 {
		_, err := Run(uint64(*seedFlag), os.Stdout)
		require.NoError(t, err)
		return
	}
	run := newSeeds()
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() { run.play(t) })
	}
	workers.Wait()
	t.Logf("%d seeds: %+v", run.played, run.sum)
	require.NotZero(t, run.sum.Answered)
}

// seeds hands the seeds to the workers and sums up.
type seeds struct {
	mu       sync.Mutex
	next     uint64
	end      uint64
	deadline time.Time
	played   int
	failed   int
	sum      Stats
}

func newSeeds() *seeds {
	s := &seeds{next: *firstFlag, end: *firstFlag + seedsMax, deadline: time.Now().Add(timeMax)}
	if testing.Short() {
		s.deadline = time.Now().Add(timeShort)
	}
	if *seedsFlag > 0 {
		s.end, s.deadline = *firstFlag+uint64(*seedsFlag), time.Now().Add(24*time.Hour)
	}
	return s
}

func (s *seeds) play(t *testing.T) {
	for {
		seed, ok := s.take()
		if !ok {
			return
		}
		stats, err := Run(seed, nil)
		s.note(t, seed, &stats, err)
	}
}

func (s *seeds) take() (seed uint64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next == s.end || s.failed >= failMax || time.Now().After(s.deadline) {
		return 0, false
	}
	s.next++
	return s.next - 1, true
}

func (s *seeds) note(t *testing.T, seed uint64, stats *Stats, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.played++
	s.sum.Add(stats)
	if err != nil {
		s.failed++
		t.Errorf("seed %d: %v\nplay it again with: go test ./internal/sim -run TestSeeds -seed %d", seed, err, seed)
	}
}

// A seed says everything: playing it again does the same again. Only the order in which subscriptions end or are made anew
// together is left to chance, because the hub keeps them in maps.
func TestSeedPlaysTheSameAgain(t *testing.T) {
	for seed := range uint64(54) {
		if profile := newProfile(newRandom(seed)); profile.pubsub {
			continue
		}
		var first, second bytes.Buffer
		_, _ = Run(seed, &first)
		_, _ = Run(seed, &second)
		require.True(t, bytes.Equal(first.Bytes(), second.Bytes()), "seed %d", seed)
	}
}

// What the simulation is for must happen in it: else a law that is never tried would hold for ever.
func TestSeedsMeetEverything(t *testing.T) {
	var sum Stats
	for seed := range uint64(200) {
		stats, err := Run(seed, nil)
		require.NoError(t, err, "seed %d", seed)
		sum.Add(&stats)
	}
	require.Greater(t, sum.Answered, sum.Commands/2)
	require.Greater(t, sum.Clients, 500)
	for what, n := range map[string]int{
		"errors": sum.Errors, "moves": sum.Moves, "maps": sum.Maps, "replaced nodes": sum.Replaced, "MOVED": int(sum.Redirected),
		"ASK": int(sum.Asked), "sent again": int(sum.Retried), "timeouts": int(sum.TimedOut), "late replies": int(sum.Late),
		"transactions": sum.Executed, "transactions that a watched key ends": sum.Aborted, "elements popped": sum.Popped, "messages": sum.Messages,
	} {
		require.Greater(t, n, 10, what)
	}
}
