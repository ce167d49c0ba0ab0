// Package redistest gives tests real servers and faulty ones: redis-server
// processes alone or as a cluster, a node that follows a script, a relay that
// damages a connection, and a raw client that sees every byte.
//
// It reads and writes RESP with its own few lines, on purpose: what checks the
// proxy must not share the proxy's code.
//
// All of it listens on 127.0.0.1 only and ends with the test that started it.
// Methods fail the test themselves, so they are called from the test's own
// goroutine unless their comment says otherwise.
package redistest
