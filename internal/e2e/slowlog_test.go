package e2e

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/redistest"
)

// comparableSlowlog leaves out what differs between two servers: times and the address. Numbers of entries stay.
func comparableSlowlog(reply []byte) string {
	text := regexp.MustCompile(`(\*6\r\n:\d+\r\n):\d+\r\n:\d+\r\n`).ReplaceAllString(string(reply), "$1")
	return regexp.MustCompile(`\$\d+\r\n127\.0\.0\.1:\d+\r\n`).ReplaceAllString(text, "")
}

// TestSlowlogAnswersAsServer keeps every command on both sides.
func TestSlowlogAnswersAsServer(t *testing.T) {
	t.Parallel()
	p := startPair(t, "slowlog: {threshold: 0s, max_len: 20}")
	for _, protocol := range []int{2, 3} {
		through, direct := p.dial(t, protocol)
		p.direct.Do("CONFIG", "SET", "slowlog-max-len", "20", "slowlog-log-slower-than", "-1")
		both := func(text string) {
			e := example{text: text, args: words(t, text)}
			e.requireSame(t, direct.Do(e.args...), through.Do(e.args...))
		}
		for _, text := range []string{"SLOWLOG RESET", "SLOWLOG LEN", "SLOWLOG", "SLOWLOG GET x", "SLOWLOG GET -2", "SLOWLOG GET 1 2", "SLOWLOG LEN x", "SLOWLOG RESET x", "SLOWLOG WHAT", "SLOWLOG HELP", "SLOWLOG GET", "SLOWLOG GET 0"} {
			both(text)
		}
		p.direct.Do("CONFIG", "SET", "slowlog-log-slower-than", "0")
		var many, long strings.Builder
		for i := range 40 {
			fmt.Fprintf(&many, " %d", i)
		}
		long.WriteString(strings.Repeat("x", 200))
		for _, text := range []string{
			"CLIENT SETNAME me", "SET k " + long.String(), "DEL l", "RPUSH l" + many.String(), "GET nosuch", "PING", "auth secret", "AUTH nosuch secret", "HELLO 2 AUTH nosuch secret SETNAME z",
			"MGET a b c", "EVAL \"return 1\" 0", "INCR k", "ECHO \"\"", "TIME x", "GET", "NOSUCH",
		} {
			both(text)
		}
		p.direct.Do("CONFIG", "SET", "slowlog-log-slower-than", "-1")
		first := regexp.MustCompile(`(?m)\*6\r\n:\d+\r\n`)
		var replies []string
		for _, c := range []*redistest.Conn{through, direct} {
			text := comparableSlowlog(c.Do("SLOWLOG", "GET", "13"))
			replies = append(replies, first.ReplaceAllString(text, "*6\r\n"))
		}
		// The server also keeps the CONFIG SET that the test sends, as its newest and its oldest.
		entries := func(text string) []string { return strings.Split(text, "*6\r\n")[1:] }
		server := entries(replies[1])
		for len(server) > 0 && strings.Contains(server[0], "CONFIG") {
			server = server[1:]
		}
		require.Equal(t, server[:11], entries(replies[0])[:11])
		require.Equal(t, "*1\r\n", string(through.Do("SLOWLOG", "GET", "1")[:4]))
	}
}

func TestSlowlogIsTheTenantsOwn(t *testing.T) {
	t.Parallel()
	p := twoTenants(t, "slowlog: {threshold: 100ms, max_len: 3}")
	ann, bob, eve := login(t, p, "ann", 2), login(t, p, "bob", 2), login(t, p, "eve", 2)
	spread(t, p, ann, bob, eve)
	busy := "local t = redis.call('TIME') local start = t[1] * 1000000 + t[2] repeat t = redis.call('TIME') until t[1] * 1000000 + t[2] - start > 150000 return ARGV[1]"
	slow := func(c *redistest.Conn, what string) { require.NotEmpty(t, c.Do("EVAL", busy, "0", what)) }
	ann.Do("GET", "fast")
	bob.Do("BLPOP", "nosuch", "0.3")
	require.Equal(t, ":0\r\n", string(ann.Do("SLOWLOG", "LEN")), "the time that a command is blocked does not count")
	slow(ann, "one")
	slow(bob, "two")
	slow(eve, "of-globex")
	bob.Do("MULTI")
	bob.Do("SET", "k", "1")
	bob.Do("EVAL", busy, "0", "three")
	bob.Do("EXEC")
	require.Equal(t, ":3\r\n", string(ann.Do("SLOWLOG", "LEN")))
	all := string(ann.Do("SLOWLOG", "GET"))
	require.NotContains(t, all, "globex")
	require.Regexp(t, `(?s)^\*3\r\n\*6\r\n:2\r\n.*EXEC\r\n\$7\r\nSET k 1\r\n\$.*EVAL .*:1\r\n.*two.*:0\r\n.*one`, all)
	require.Contains(t, string(eve.Do("SLOWLOG", "GET")), "of-globex")
	slow(bob, "four")
	require.Equal(t, ":3\r\n", string(ann.Do("SLOWLOG", "LEN")), "max_len")
	require.Regexp(t, `(?s)^\*3\r\n\*6\r\n:3\r\n.*four`, string(ann.Do("SLOWLOG", "GET")))
	require.Equal(t, "+OK\r\n", string(ann.Do("SLOWLOG", "RESET")))
	require.Equal(t, "*0\r\n", string(bob.Do("SLOWLOG", "GET")))
	require.Equal(t, ":1\r\n", string(eve.Do("SLOWLOG", "LEN")))
	slow(ann, "five")
	require.Regexp(t, `(?s)^\*1\r\n\*6\r\n:4\r\n`, string(ann.Do("SLOWLOG", "GET")), "numbers go on")
}
