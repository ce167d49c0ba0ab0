package loop

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

// faked returns a connection on a loop that the test drives.
func faked(t testing.TB) (*Manual, *owner, *Fake) {
	t.Helper()
	m := NewManual()
	o := newOwner()
	o.conn = m.NewConn(o, &o.traffic)
	f := m.AttachFake(o.conn)
	return m, o, f
}

func TestReferencedChunksAreNotUsedAgain(t *testing.T) {
	m, o, f := faked(t)
	type kept struct {
		chunk  *Chunk
		offset int
		want   []byte
	}
	var references []kept
	for i, size := range []int{1, 100, 20_000, 5, mediumChunk, largeChunk, largeChunk + 1, 0, 300, smallChunk} {
		want := bytes.Repeat([]byte{byte('a' + i)}, size)
		k, off := o.conn.AppendRef(want)
		references = append(references, kept{k, off, want})
		m.Tick()
		for range 20 { // what is not referenced comes and goes
			o.conn.Append(noise(50_000))
			m.Tick()
		}
	}
	require.Zero(t, o.conn.Pending())
	for _, r := range references {
		require.True(t, bytes.Equal(r.want, r.chunk.Bytes(r.offset, len(r.want))), "%d bytes were overwritten", len(r.want))
	}
	f.Break(nil)
	m.Tick()
	for _, r := range references {
		require.True(t, bytes.Equal(r.want, r.chunk.Bytes(r.offset, len(r.want))), "after the end of the connection")
		m.Release(r.chunk)
	}
	requireAllFree(t, m, references[0].chunk)
}

// requireAllFree checks that a chunk is back in the pool and that none is there twice.
func requireAllFree(t testing.TB, m *Manual, k *Chunk) {
	t.Helper()
	seen := map[*Chunk]bool{}
	for class, free := range m.chunks.free {
		count := 0
		for ; free != nil; free = free.next {
			require.False(t, seen[free], "free twice")
			require.Zero(t, free.refs)
			require.False(t, free.queued)
			seen[free] = true
			count++
		}
		require.Equal(t, count, m.chunks.n[class])
	}
	require.True(t, seen[k], "not given back")
}

// TestRequestsOfSeveralTicksShareAChunk: a request that waits long for its reply must not keep 16 KiB for itself.
func TestRequestsOfSeveralTicksShareAChunk(t *testing.T) {
	m, o, f := faked(t)
	chunks := map[*Chunk]int{}
	var want []byte
	for i := range 2000 {
		request := bytes.Repeat([]byte{byte(i)}, 40)
		want = append(want, request...)
		k, _ := o.conn.AppendRef(request)
		chunks[k]++
		m.Tick()
	}
	require.True(t, bytes.Equal(want, f.Sent))
	require.LessOrEqual(t, len(chunks), 2000*40/mediumChunk+1)
	for k, references := range chunks {
		for range references {
			o.conn.Release(k)
		}
	}
	// When all are answered, one chunk serves again and again from its beginning.
	for range 1000 {
		k, off := o.conn.AppendRef([]byte("request"))
		require.Zero(t, off)
		m.Tick()
		o.conn.Release(k)
	}
	o.conn.Close(nil)
	m.Tick()
	requireAllFree(t, m, m.chunks.free[1])
}

func TestMisuseOfAChunkIsNoticed(t *testing.T) {
	var p chunkPool
	for _, k := range []*Chunk{{refs: 1}, {refs: -1}, {queued: true}} {
		require.PanicsWithValue(t, "BUG: chunk recycled while in use", func() { p.put(k) })
	}
}

func TestFreeChunksAreBounded(t *testing.T) {
	m, o, f := faked(t)
	f.Room = 0
	o.conn.Append(make([]byte, 4*freeBytesMax))
	m.Tick()
	f.Allow(-1)
	m.Tick()
	require.Zero(t, o.conn.Pending())
	require.LessOrEqual(t, m.chunks.held(), freeBytesMax+mediumChunk+smallChunk)
	require.Greater(t, m.chunks.held(), freeBytesMax/2)
	require.Equal(t, m.chunks.held()+scratchSize, m.FreeBytes())
}

// TestFreeChunksAreGivenBack after the peak, and also on a loop that nothing wakes.
func TestFreeChunksAreGivenBack(t *testing.T) {
	m, o, _ := faked(t)
	require.Negative(t, m.timeout(), "an idle loop without free chunks sleeps")
	o.conn.Append(make([]byte, 2<<20))
	m.Tick()
	held := m.chunks.held()
	require.Greater(t, held, 1<<20)
	for range 20 {
		wait := m.timeout()
		require.LessOrEqual(t, wait, housekeeping)
		if wait < 0 {
			break
		}
		m.Advance(wait)
		m.Tick()
		require.LessOrEqual(t, m.chunks.held(), held)
		held = m.chunks.held()
	}
	require.Zero(t, held)
	require.Negative(t, m.timeout())
}

// TestTrimKeepsWhatIsUsed: what was needed since the last trim stays, so that a steady load allocates nothing.
func TestTrimKeepsWhatIsUsed(t *testing.T) {
	m, o, _ := faked(t)
	var steady, spiked int
	for second := range 30 {
		m.Advance(housekeeping)
		size := 400 << 10
		if second == 5 {
			size = 4 << 20
		}
		o.conn.Append(make([]byte, size))
		m.Tick()
		switch second {
		case 4:
			steady = m.chunks.held()
		case 5:
			spiked = m.chunks.held()
		}
	}
	require.Greater(t, spiked, 4*steady)
	require.Equal(t, steady, m.chunks.held())
	require.Zero(t, testing.AllocsPerRun(50, func() {
		m.Advance(housekeeping / 10)
		o.conn.Append(o.conn.loop.scratch[:400])
		m.Tick()
	}))
}
