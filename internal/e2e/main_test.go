package e2e

import (
	"flag"
	"runtime"
	"strconv"
	"testing"

	"go.uber.org/goleak"
)

// TestMain runs more tests at once than there are processors, because most of them wait: a Redis Cluster alone takes two
// seconds from its start until it serves. What a parallel test leaves behind is found at the end; tests that measure the
// process run alone and look for themselves.
func TestMain(m *testing.M) {
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		_ = flag.Set(f.Name, strconv.Itoa(2*runtime.GOMAXPROCS(0)))
	}
	goleak.VerifyTestMain(m)
}
