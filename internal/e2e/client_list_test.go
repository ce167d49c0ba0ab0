package e2e

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/redistest"
)

// comparable leaves of a line in CLIENT LIST what does not differ between two servers, or is about a server's memory.
func comparableLine(line string) string {
	line, _, _ = strings.Cut(line, " lib-name=") // fields of newer servers
	line = regexp.MustCompile(`\b(id|addr|laddr|fd|qbuf|qbuf-free|argv-mem|multi-mem|rbs|rbp|tot-mem)=\S*`).ReplaceAllString(line, "$1=")
	return regexp.MustCompile(`\b(age|idle)=\d+`).ReplaceAllString(line, "$1=")
}

// TestClientListAnswersAsServer brings a client into a state and has another look at it.
func TestClientListAnswersAsServer(t *testing.T) {
	t.Parallel()
	p := startPair(t)
	for _, protocol := range []int{2, 3} {
		for _, state := range []string{
			"PING", "CLIENT SETNAME me|SELECT 1", "SUBSCRIBE a b|PSUBSCRIBE c*|SSUBSCRIBE d", "SUBSCRIBE a|UNSUBSCRIBE a", "MULTI", "MULTI|GET k|SET k 1", "MULTI|GET k|EXEC",
			"MULTI|NOSUCH", "WATCH k|GET k", "CLIENT NO-EVICT on", "CLIENT NO-EVICT on|CLIENT NO-EVICT off", "CLIENT NO-EVICT on|RESET",
			"GET|GET a", "GET", "GET k|NOSUCH", "CLIENT SETNAME x|RESET", "CLIENT WHAT", "CLIENT GETNAME", "MULTI|RESET",
		} {
			through, direct := p.dial(t, protocol)
			watcher, watcherDirect := p.dial(t, 2)
			id, idDirect := clientID(t, through), clientID(t, direct)
			for text := range strings.SplitSeq(state, "|") {
				e := example{text: text, args: words(t, text)}
				for i := range max(1, strings.Count(text, " ")) {
					if i == 0 {
						e.requireSame(t, direct.Do(e.args...), through.Do(e.args...))
					} else if strings.HasSuffix(e.args[0], "SUBSCRIBE") {
						e.requireSame(t, direct.ReadReply(), through.ReadReply())
					}
				}
			}
			require.Equal(t, comparableLine(lineOf(watcherDirect, idDirect)), comparableLine(lineOf(watcher, id)), state)
		}
		through, direct := p.dial(t, protocol)
		line := regexp.MustCompile(`id=.*`)
		require.Equal(t, comparableLine(line.FindString(string(direct.Do("CLIENT", "INFO")))), comparableLine(line.FindString(string(through.Do("CLIENT", "INFO")))))
	}
}

func TestClientListFilters(t *testing.T) {
	t.Parallel()
	p := twoTenants(t)
	ann, bob, eve := login(t, p, "ann", 2), login(t, p, "bob", 3), login(t, p, "eve", 2)
	spread(t, p, ann, bob, eve)
	ann.Do("CLIENT", "SETNAME", "ann")
	bob.Do("CLIENT", "SETNAME", "bob")
	eve.Do("CLIENT", "SETNAME", "eve")
	bob.Do("SUBSCRIBE", "news")
	list := func(text string) string {
		reply := string(ann.Do(append([]string{"CLIENT", "LIST"}, words(t, text)...)...))
		return strings.Join(regexp.MustCompile(`name=(ann|bob|eve)`).FindAllString(reply, -1), " ")
	}
	a, b, e := clientID(t, ann), clientID(t, bob), clientID(t, eve)
	for options, want := range map[string]string{
		"": "ann bob", "TYPE normal": "ann", "TYPE pubsub": "bob", "TYPE replica": "", "USER bob": "bob", "user ann type pubsub": "",
		"SKIPME yes": "bob", "SKIPME no": "ann bob", "MAXAGE 1000": "", "ADDR " + localAddr(bob): "bob", "ADDR " + localAddr(eve): "",
		"LADDR " + p.Addr: "ann bob", "LADDR 1:1": "",
		fmt.Sprintf("ID %d %d %d", e, b, a): "ann bob", fmt.Sprintf("ID %d", e): "", fmt.Sprintf("ID %d %d USER bob", a, b): "bob",
	} {
		require.Equal(t, want, strings.ReplaceAll(list(options), "name=", ""), options)
	}
	for options, want := range map[string]string{
		"USER eve": "-ERR No such user 'eve'\r\n", "MAXAGE x": "-ERR maxage is not an integer or out of range\r\n", "SKIPME": "-ERR syntax error\r\n", "ID 1 USER": "-ERR syntax error\r\n",
	} {
		require.Equal(t, want, string(ann.Do(append([]string{"CLIENT", "LIST"}, words(t, options)...)...)), options)
	}
	listeners := redistest.Dial(t, p.Addr)
	require.Equal(t, "-NOAUTH Authentication required.\r\n", string(listeners.Do("CLIENT", "LIST")))
}
