// Package load drives a RESP server with a bounded load and measures it from the client's side.
//
// The generator shares its processor cores with what it measures, so it is made to cost little: requests are laid out
// before the start, a few threads with one event loop each hold all connections, and a reply is counted, not decoded.
package load

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"
)

// Operation is the command that a workload sends.
type Operation string

// The operations.
const (
	Get Operation = "GET"
	Set Operation = "SET"
)

// Keys are named KeyPrefix and a number from firstKey on, so that all names have one length.
const (
	KeyPrefix = "key:"
	firstKey  = 10_000_000
)

// Workload says what is sent, over how many connections and for how long.
type Workload struct {
	Operation Operation
	ValueSize int
	KeySpace  int // distinct keys
	Threads   int
	Clients   int // connections of one thread
	Pipeline  int // commands in flight per connection
	Warmup    time.Duration
	Duration  time.Duration // the measured part, after the warm-up
	Rate      float64       // commands per second of an open loop; 0: closed loop
	Login     [][]byte      // what connections send before their first command, to be answered by OK; they take turns
}

// Connections is the number of connections of all threads.
func (w Workload) Connections() int { return w.Threads * w.Clients }

// login is what a connection sends first.
func (w Workload) login(connection int) []byte {
	if len(w.Login) == 0 {
		return nil
	}
	return w.Login[connection%len(w.Login)]
}

// Validate tells what is wrong with the workload.
func (w Workload) Validate() error {
	var problems []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			problems = append(problems, fmt.Errorf(format, args...))
		}
	}
	check(w.Operation == Get || w.Operation == Set, "operation %q is neither GET nor SET", w.Operation)
	check(w.ValueSize >= 0 && w.ValueSize <= 64<<20, "value size %d is not within 0 and 64 MiB", w.ValueSize)
	check(w.KeySpace >= 1 && w.KeySpace < firstKey, "key space %d is not within 1 and %d", w.KeySpace, firstKey-1)
	check(w.Threads >= 1, "threads: %d is less than 1", w.Threads)
	check(w.Clients >= 1, "clients per thread: %d is less than 1", w.Clients)
	check(w.Pipeline >= 1 && w.Pipeline <= 1024, "pipeline %d is not within 1 and 1024", w.Pipeline)
	check(w.Duration > 0 && w.Duration <= time.Hour, "duration %s is not within 0 and one hour", w.Duration)
	check(w.Warmup >= 0, "warm-up %s is negative", w.Warmup)
	check(w.Rate >= 0, "rate %g is negative", w.Rate)
	return errors.Join(problems...)
}

// KeyName is the name of the i-th key.
func KeyName(i int) string { return KeyPrefix + strconv.Itoa(firstKey+i) }

// Value is the value that every key holds: printable, of the workload's size.
func Value(size int) []byte {
	value := make([]byte, size)
	for i := range value {
		value[i] = 'a' + byte(i%26)
	}
	return value
}

// Bounds of the laid out requests: enough to spread over the keys, small enough not to empty the processor's caches.
const (
	maxRequests     = 8192
	maxRequestBytes = 32 << 20
)

// requests holds encoded commands of equal length one after the other, so that any number of consecutive ones up to the
// pipeline's depth is one slice of it. It is written once and then only read, by all threads.
type requests struct {
	bytes []byte
	size  int // bytes of one request
	count int // requests to start from; the first ones follow again behind the last
}

func newRequests(w Workload) *requests {
	value := Value(w.ValueSize)
	size := len(appendRequest(nil, w.Operation, 0, value))
	count := max(1, min(maxRequests, maxRequestBytes/size))
	r := &requests{size: size, count: count, bytes: make([]byte, 0, (count+w.Pipeline)*size)}
	random := rand.New(rand.NewPCG(1, 2)) // the same keys in every run
	for range count {
		r.bytes = appendRequest(r.bytes, w.Operation, random.IntN(w.KeySpace), value)
	}
	for i := 0; i < w.Pipeline; i++ {
		from := i % count * size
		r.bytes = append(r.bytes, r.bytes[from:from+size]...)
	}
	return r
}

// take returns n requests beginning with the one at position, and the position after them.
func (r *requests) take(position, n int) (request []byte, next int) {
	from := position * r.size
	return r.bytes[from : from+n*r.size], (position + n) % r.count
}

func appendRequest(b []byte, operation Operation, key int, value []byte) []byte {
	args := [][]byte{[]byte(operation), []byte(KeyName(key))}
	if operation == Set {
		args = append(args, value)
	}
	return AppendCommand(b, args...)
}

// AppendCommand appends a command as clients send it, an array of bulk strings.
func AppendCommand(b []byte, args ...[]byte) []byte {
	b = append(b, '*')
	b = strconv.AppendInt(b, int64(len(args)), 10)
	b = append(b, "\r\n"...)
	for _, arg := range args {
		b = append(b, '$')
		b = strconv.AppendInt(b, int64(len(arg)), 10)
		b = append(b, "\r\n"...)
		b = append(b, arg...)
		b = append(b, "\r\n"...)
	}
	return b
}
