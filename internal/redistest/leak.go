package redistest

import (
	"testing"

	"go.uber.org/goleak"
)

// LeakCheck fails the test if goroutines that it started are left when it and
// its cleanups are done. It is called first in the test, so that its check is
// the last cleanup, and not in a test that is parallel to others.
func LeakCheck(t testing.TB, opts ...goleak.Option) {
	t.Helper()
	opts = append(opts, goleak.IgnoreCurrent())
	t.Cleanup(func() { goleak.VerifyNone(t, opts...) })
}
