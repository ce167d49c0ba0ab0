package e2e

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// heapInUse is what the process holds after a collection. Tests that compare it run alone.
func heapInUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse
}

func sha256Hex(password string) string {
	digest := sha256.Sum256([]byte(password))
	return hex.EncodeToString(digest[:])
}

// usersYAML is one tenant with users on one server.
func usersYAML(addr, users string, extra ...string) string {
	return fmt.Sprintf(`
listeners: [{address: "127.0.0.1:0"}]
admin: {address: "127.0.0.1:0"}
clusters: [{name: main, kind: standalone, addresses: ["%s"]}]
tenants: [{name: acme, cluster: main, databases: [0, 1], users: %s}]
%s`, addr, users, strings.Join(extra, "\n"))
}

// errDeadline is what a read returns that waited too long.
var errDeadline = os.ErrDeadlineExceeded

// watchHeap samples the heap until the returned function is called, which gives the highest value.
func watchHeap(t *testing.T) (peak func() uint64) {
	t.Helper()
	var highest atomic.Uint64
	stop := make(chan struct{})
	var sampling sync.WaitGroup
	sampling.Go(func() {
		var m runtime.MemStats
		for {
			runtime.ReadMemStats(&m)
			highest.Store(max(highest.Load(), m.HeapInuse))
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	})
	return func() uint64 {
		close(stop)
		sampling.Wait()
		return highest.Load()
	}
}
