package daemon

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// memoryInterval is how often the daemon looks for memory that it holds and does not need.
	memoryInterval = 5 * time.Second
	// What is worth a collection: a share of what is in use, and no less than memoryLeast.
	memoryLeast = 1 << 20
	memoryShare = 8
	// quietBytes is what may be allocated between two looks in a process that counts as quiet: load never pays for this.
	quietBytes = 4 << 20
	// settledLooks is how many quiet looks after a burst one collection is due whatever the figures say: what was in use
	// at the last one, connections kept for a while among it, may be gone.
	settledLooks = 4
)

// returnMemory gives memory back to the system after a burst, until ctx ends. The runtime does so by itself over many
// minutes, and only down to what its next collection may need; an operator who watches a burst end expects to see it end.
func returnMemory(ctx context.Context) {
	ticker := time.NewTicker(memoryInterval)
	defer ticker.Stop()
	samples := []metrics.Sample{
		{Name: "/memory/classes/heap/free:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/gc/heap/live:bytes"},
		{Name: "/gc/heap/allocs:bytes"},
	}
	var before uint64
	quietLooks := settledLooks
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		metrics.Read(samples)
		free, objects, live, allocated := samples[0].Value.Uint64(), samples[1].Value.Uint64(), samples[2].Value.Uint64(), samples[3].Value.Uint64()
		quietLooks++
		if allocated-before >= quietBytes {
			quietLooks = 0
		}
		before = allocated
		garbage := objects - min(objects, live)
		if quietLooks == settledLooks || quietLooks > 0 && free+garbage > max(memoryLeast, live/memoryShare) {
			debug.FreeOSMemory()
		}
	}
}
