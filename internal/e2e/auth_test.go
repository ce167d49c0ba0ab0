package e2e

import (
	"encoding/base64"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/argon2"

	"github.com/sluiceproxy/sluice/internal/redistest"
)

// argon2idHash makes a hash in PHC form that takes the given number of passes over memory.
func argon2idHash(password string, memoryKiB, passes uint32) string {
	salt := []byte("0123456789abcdef")
	hash := argon2.IDKey([]byte(password), salt, passes, memoryKiB, 1, 32)
	encode := base64.RawStdEncoding.EncodeToString
	return fmt.Sprintf("$argon2id$v=19$m=%d,t=%d,p=1$%s$%s", memoryKiB, passes, encode(salt), encode(hash))
}

const wrongPass = "-WRONGPASS invalid username-password pair or user is disabled.\r\n"

func TestAuthenticationAnswersAsServer(t *testing.T) {
	t.Parallel()
	backend := redistest.Standalone(t)
	direct := redistest.Standalone(t, redistest.WithPassword("secret"), redistest.WithUser("ann", "pw-ann", "~* +@all"),
		redistest.WithUser("bob", "pw-bob", "~* +@all"))
	p := startProxy(t, usersYAML(backend.Addr(), fmt.Sprintf(`[{name: default, sha256: %q}, {name: ann, sha256: %q}, {name: bob, argon2id: %q}]`,
		sha256Hex("secret"), sha256Hex("pw-ann"), argon2idHash("pw-bob", 64, 1))))
	p.awaitReady(t)
	for _, dialogue := range []string{
		"GET k|AUTH secret|GET k",
		"AUTH wrong|GET k|AUTH secret|GET k",
		"AUTH default secret|GET k",
		"AUTH default wrong|AUTH ann secret|AUTH nosuch x|GET k",
		"AUTH ann pw-ann|SET k v|AUTH ann wrong|GET k|AUTH bob wrong|GET k",
		"AUTH bob pw-bob|GET k|AUTH secret|GET k",
		"AUTH bob wrong|GET k|AUTH bob pw-bob|GET k",
		`AUTH ""|AUTH "" ""|AUTH ann ""|GET k`,
		"AUTH a b c|AUTH|GET k",
		"HELLO|HELLO 3|HELLO 2|GET k",
		"HELLO 3 AUTH ann wrong|GET k|PING",
		"HELLO 3 AUTH nosuch x SETNAME n|GET k",
		"HELLO 4 AUTH ann pw-ann|GET k",
		"HELLO 3 SETNAME n|GET k",
		"? HELLO 3 AUTH ann pw-ann SETNAME n|CLIENT GETNAME|GET nosuch|RESET|GET k|CLIENT GETNAME",
		"? HELLO 2 AUTH bob pw-bob|GET nosuch|? HELLO 3|GET nosuch|RESET|GET k",
		"? HELLO 3 AUTH default secret|GET nosuch|AUTH ann wrong|GET nosuch|HELLO 2 AUTH ann wrong|GET nosuch",
		"AUTH secret|SELECT 1|SET in one|AUTH ann pw-ann|GET in|SELECT 0|GET in",
		"AUTH secret|CLIENT SETNAME n|AUTH ann pw-ann|CLIENT GETNAME",
		"PING|ECHO x|SELECT 0|CLIENT ID|COMMAND COUNT|TIME|INFO|RESET|NOSUCH|GET|QUIT",
	} {
		for _, pipelined := range []bool{false, true} {
			through, server := redistest.Dial(t, p.Addr), redistest.Dial(t, direct.Addr())
			backend.Do("FLUSHALL")
			direct.Do("FLUSHALL")
			var lines []example
			var batch strings.Builder
			for text := range strings.SplitSeq(dialogue, "|") {
				e := example{text: text}
				if rest, found := strings.CutPrefix(text, "? "); found {
					e.as, text = shape, rest
				}
				e.args = words(t, text)
				lines = append(lines, e)
				batch.WriteString(redistest.Command(e.args...))
			}
			if pipelined {
				through.Send(batch.String())
				server.Send(batch.String())
			}
			for i := range lines {
				e := &lines[i]
				if !pipelined {
					through.SendCommand(e.args...)
					server.SendCommand(e.args...)
				}
				e.requireSame(t, server.ReadReply(), through.ReadReply())
			}
		}
	}
	require.Positive(t, p.metric(t, "sluice_auth_failures_total"))
}

// tenantsYAML is two tenants with a password each, on a server each or on databases of one.
func tenantsYAML(alpha, beta string, databases [2]string, extra ...string) string {
	return fmt.Sprintf(`
listeners: [{address: "127.0.0.1:0"}, {address: "127.0.0.1:0", tenant: beta}]
admin: {address: "127.0.0.1:0"}
clusters:
  - {name: one, kind: standalone, addresses: [%q]}
  - {name: two, kind: standalone, addresses: [%q]}
tenants:
  - {name: alpha, cluster: one, databases: [%s], users: [{name: default, sha256: %q}, {name: ann, sha256: %q}]}
  - {name: beta, cluster: two, databases: [%s], users: [{name: ben, sha256: %q}]}
%s`, alpha, beta, databases[0], sha256Hex("secret"), sha256Hex("pw-ann"), databases[1], sha256Hex("pw-ben"), strings.Join(extra, "\n"))
}

func TestTenantsOnTwoServersSeeTheirOwn(t *testing.T) {
	t.Parallel()
	one, two := redistest.Standalone(t), redistest.Standalone(t)
	p := startProxy(t, tenantsYAML(one.Addr(), two.Addr(), [2]string{"0, 1", "0"}))
	p.awaitReady(t)
	ann, ben := redistest.Dial(t, p.Addr), redistest.Dial(t, p.Addr)
	require.Equal(t, "+OK\r\n", string(ann.Do("AUTH", "ann", "pw-ann")))
	require.Equal(t, "+OK\r\n", string(ben.Do("AUTH", "ben", "pw-ben")))
	require.Equal(t, "+OK\r\n", string(ann.Do("SET", "who", "alpha")))
	require.Equal(t, "+OK\r\n", string(ben.Do("SET", "who", "beta")))
	require.Equal(t, "$5\r\nalpha\r\n", string(one.Do("GET", "who")))
	require.Equal(t, "$4\r\nbeta\r\n", string(two.Do("GET", "who")))
	require.NotContains(t, string(ann.Do("CLIENT", "LIST")), "user=ben")
	require.NotContains(t, string(ben.Do("CLIENT", "LIST")), "user=ann")
	require.Contains(t, string(ben.Do("INFO")), "tenant:beta\r\n")

	t.Run("one connection changes between them", func(t *testing.T) {
		c := redistest.Dial(t, p.Addr)
		c.Send("AUTH ann pw-ann\r\nSELECT 1\r\nGET who\r\nSELECT 0\r\nGET who\r\nAUTH ben pw-ben\r\nGET who\r\nSELECT 1\r\nAUTH ann wrong\r\nGET who\r\nHELLO 3 AUTH ann pw-ann\r\nGET who\r\nGET nosuch\r\nRESET\r\nGET who\r\n")
		for _, want := range []string{
			"+OK\r\n", "+OK\r\n", "$-1\r\n", "+OK\r\n", "$5\r\nalpha\r\n", "+OK\r\n", "$4\r\nbeta\r\n", "-NOPERM this tenant may not use database 1\r\n",
			wrongPass, "$4\r\nbeta\r\n", "%7\r\n", "$5\r\nalpha\r\n", "_\r\n", "+RESET\r\n", "-NOAUTH Authentication required.\r\n",
		} {
			got := string(c.ReadReply())
			if want[0] == '%' {
				got = got[:4]
			}
			require.Equal(t, want, got)
		}
	})
	t.Run("a listener of one tenant refuses the other's users", func(t *testing.T) {
		c := redistest.Dial(t, p.Addresses()[1].String())
		for _, line := range []string{"AUTH ann pw-ann", "AUTH secret", "AUTH default secret", "HELLO 3 AUTH ann pw-ann"} {
			require.Equal(t, wrongPass, string(c.Do(words(t, line)...)))
			require.Equal(t, "-NOAUTH Authentication required.\r\n", string(c.Do("GET", "who")))
		}
		require.Equal(t, "+OK\r\n", string(c.Do("AUTH", "ben", "pw-ben")))
		require.Equal(t, "$4\r\nbeta\r\n", string(c.Do("GET", "who")))
	})
}

func TestTenantsOnDatabasesOfOneServer(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	p := startProxy(t, fmt.Sprintf(`
listeners: [{address: "127.0.0.1:0"}]
admin: {address: "127.0.0.1:0"}
clusters: [{name: shared, kind: standalone, addresses: [%q]}]
tenants:
  - {name: alpha, cluster: shared, databases: [3, 4], users: [{name: ann, sha256: %q}]}
  - {name: beta, cluster: shared, databases: [5], users: [{name: ben, sha256: %q}]}
`, server.Addr(), sha256Hex("pw-ann"), sha256Hex("pw-ben")))
	p.awaitReady(t)
	ann, ben := redistest.Dial(t, p.Addr), redistest.Dial(t, p.Addr)
	require.Equal(t, "+OK\r\n", string(ann.Do("AUTH", "ann", "pw-ann")))
	require.Equal(t, "+OK\r\n", string(ben.Do("AUTH", "ben", "pw-ben")))
	require.Equal(t, "+OK\r\n", string(ann.Do("SET", "k", "in-3")))
	require.Equal(t, "+OK\r\n", string(ben.Do("SET", "k", "in-5")))
	require.Equal(t, "$4\r\nin-3\r\n", string(ann.Do("GET", "k")))
	require.Equal(t, "$4\r\nin-5\r\n", string(ben.Do("GET", "k")))

	for _, database := range []string{"0", "5", "15", "16", "1000000"} {
		require.Equal(t, "-NOPERM this tenant may not use database "+database+"\r\n", string(ann.Do("SELECT", database)))
	}
	require.Equal(t, "$4\r\nin-3\r\n", string(ann.Do("GET", "k")), "a refused SELECT changes nothing")
	require.Equal(t, "+OK\r\n", string(ann.Do("SELECT", "4")))
	require.Equal(t, "$-1\r\n", string(ann.Do("GET", "k")))
	require.Equal(t, "+OK\r\n", string(ann.Do("SELECT", "3")))

	t.Run("commands that name a database", func(t *testing.T) {
		require.Equal(t, ":1\r\n", string(ann.Do("COPY", "k", "k", "DB", "4")))
		require.Equal(t, ":0\r\n", string(ann.Do("MOVE", "k", "4")), "the key is there")
		for _, line := range []string{"COPY k stolen DB 5", "COPY k stolen REPLACE db 5", "COPY k stolen DB 4 DB 5", "MOVE k 5", "move k 0"} {
			require.Regexp(t, `^-NOPERM this tenant may not use database [05]\r\n$`, string(ann.Do(words(t, line)...)), line)
		}
		for _, line := range []string{"COPY k k DB", "COPY k k DB x", "MOVE k x", "MOVE k -1"} {
			require.Equal(t, string(server.Do(words(t, line)...)), string(ann.Do(words(t, line)...)), line)
		}
	})
	t.Run("commands that empty everything", func(t *testing.T) {
		require.Equal(t, "-NOPERM 'flushall' would empty other tenants' databases too; use FLUSHDB\r\n", string(ann.Do("FLUSHALL")))
		require.Equal(t, "+OK\r\n", string(ann.Do("FLUSHDB")))
		require.Equal(t, "$-1\r\n", string(ann.Do("GET", "k")))
		require.Equal(t, "$4\r\nin-5\r\n", string(ben.Do("GET", "k")))
	})
}

func TestListenerOfAnOpenTenantNeedsNoPassword(t *testing.T) {
	t.Parallel()
	one, two := redistest.Standalone(t), redistest.Standalone(t)
	p := startProxy(t, fmt.Sprintf(`
listeners: [{address: "127.0.0.1:0", tenant: open}, {address: "127.0.0.1:0"}]
admin: {address: "127.0.0.1:0"}
clusters: [{name: one, kind: standalone, addresses: [%q]}, {name: two, kind: standalone, addresses: [%q]}]
tenants: [{name: open, cluster: one}, {name: closed, cluster: two, users: [{name: ann, sha256: %q}]}]
`, one.Addr(), two.Addr(), sha256Hex("pw-ann")))
	p.awaitReady(t)
	c := redistest.Dial(t, p.Addr)
	require.Equal(t, "+OK\r\n", string(c.Do("SET", "k", "v")))
	require.Equal(t, wrongPass, string(c.Do("AUTH", "ann", "pw-ann")))
	require.Equal(t, "$1\r\nv\r\n", string(c.Do("GET", "k")))
	require.Equal(t, "+OK\r\n", string(c.Do("AUTH", "default", "anything")))
	require.Equal(t, "+RESET\r\n", string(c.Do("RESET")))
	require.Equal(t, "$1\r\nv\r\n", string(c.Do("GET", "k")), "RESET returns to what the listener gives")

	other := redistest.Dial(t, p.Addresses()[1].String())
	require.Equal(t, "-NOAUTH Authentication required.\r\n", string(other.Do("GET", "k")))
	require.Equal(t, wrongPass, string(other.Do("AUTH", "default", "anything")))
	require.Equal(t, "+OK\r\n", string(other.Do("AUTH", "ann", "pw-ann")))
	require.Equal(t, "$-1\r\n", string(other.Do("GET", "k")))
}

// TestSlowPasswordCheckBlocksNobody: while one client's password takes long to check, others on the same loop are
// served.
func TestSlowPasswordCheckBlocksNobody(t *testing.T) {
	server := redistest.Standalone(t)
	p := startProxy(t, usersYAML(server.Addr(), fmt.Sprintf(`[{name: slow, argon2id: %q}, {name: fast, sha256: %q}]`,
		argon2idHash("right", 64<<10, 12), sha256Hex("pw")), "loops: 1"))
	p.awaitReady(t)
	fast, slow := redistest.Dial(t, p.Addr), redistest.Dial(t, p.Addr)
	require.Equal(t, "+OK\r\n", string(fast.Do("AUTH", "fast", "pw")))

	start := time.Now()
	slow.Send("AUTH slow right\r\nSET after auth\r\n")
	var answered time.Duration
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = slow.TryRead()
		answered = time.Since(start)
	}()
	var longest time.Duration
	served := 0
	for open := true; open; {
		select {
		case <-done:
			open = false
		default:
			sent := time.Now()
			require.Equal(t, "$-1\r\n", string(fast.Do("GET", "k")))
			longest = max(longest, time.Since(sent))
			served++
		}
	}
	slow.RequireReply("+OK\r\n")
	require.Greater(t, served, 10)
	require.Less(t, longest, answered/2, "%d commands served in %s", served, answered)
}

// TestManyPasswordChecksAtOnce: a pool of connections that log in together is served, one after the other, in bounded
// memory; a flood beyond that is refused.
func TestManyPasswordChecksAtOnce(t *testing.T) {
	server := redistest.Standalone(t)
	p := startProxy(t, usersYAML(server.Addr(), fmt.Sprintf(`[{name: slow, argon2id: %q}, {name: fast, sha256: %q}]`,
		argon2idHash("right", 8<<10, 1), sha256Hex("pw"))))
	p.awaitReady(t)
	const pool = 64
	before := heapInUse()
	var conns []*redistest.Conn
	for i := range pool {
		c := redistest.Dial(t, p.Addr)
		password := "right"
		if i%4 == 3 {
			password = "wrong"
		}
		c.Send("AUTH slow " + password + "\r\nGET k\r\n")
		conns = append(conns, c)
	}
	fast := redistest.Dial(t, p.Addr)
	require.Equal(t, "+OK\r\n", string(fast.Do("AUTH", "fast", "pw")))
	for i, c := range conns {
		if i%4 == 3 {
			c.RequireReply(wrongPass)
			c.RequireReply("-NOAUTH Authentication required.\r\n")
			continue
		}
		c.RequireReply("+OK\r\n")
		c.RequireReply("$-1\r\n")
	}
	require.Less(t, heapInUse(), before+(100<<20))
}

func TestFloodOfPasswordChecksIsBounded(t *testing.T) {
	server := redistest.Standalone(t)
	p := startProxy(t, usersYAML(server.Addr(), fmt.Sprintf(`[{name: slow, argon2id: %q}, {name: fast, sha256: %q}]`,
		argon2idHash("right", 64<<10, 4), sha256Hex("pw"))))
	p.awaitReady(t)
	var conns []*redistest.Conn
	for range 1500 {
		c, err := redistest.TryDial(t, p.Addr)
		require.NoError(t, err)
		conns = append(conns, c)
		require.NoError(t, c.TrySend("AUTH slow guess\r\n"))
	}
	fast := redistest.Dial(t, p.Addr)
	require.Equal(t, "+OK\r\n", string(fast.Do("AUTH", "fast", "pw")), "a quick check does not wait in the queue of slow ones")
	require.Equal(t, "-ERR too many passwords are being checked; try again\r\n", string(conns[len(conns)-1].ReadReply()))
	for _, c := range conns {
		require.NoError(t, c.NetConn().(*net.TCPConn).SetLinger(0)) // a client that only ends its output waits for the answer
		c.Close()
	}
	// The checks of clients that are gone are not made: the next one is answered soon.
	start := time.Now()
	slow := redistest.Dial(t, p.Addr)
	require.Eventually(t, func() bool { return string(slow.Do("AUTH", "slow", "right")) == "+OK\r\n" }, eventually, tick)
	require.Less(t, time.Since(start), 5*time.Second)
}

func TestSecretsAreNowhereToBeSeen(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t, redistest.WithPassword("backend-password"))
	argon := argon2idHash("argon-password", 64, 1)
	p := startProxy(t, fmt.Sprintf(`
listeners: [{address: "127.0.0.1:0"}]
admin: {address: "127.0.0.1:0"}
log: {level: debug}
clusters: [{name: main, kind: standalone, addresses: [%q], auth: {password: backend-password}}]
tenants: [{name: acme, cluster: main, users: [{name: ann, sha256: %q}, {name: bob, argon2id: %q}]}]
`, server.Addr(), sha256Hex("ann-password"), argon))
	p.awaitReady(t)
	c := redistest.Dial(t, p.Addr)
	seen := string(c.Do("AUTH", "ann", "tried-password"))
	seen += string(c.Do("AUTH", "bob", "argon-password"))
	seen += string(c.Do("AUTH", "ann", "ann-password"))
	seen += string(c.Do("HELLO", "3", "AUTH", "ann", "tried-password"))
	seen += string(c.Do("CLIENT", "LIST")) + string(c.Do("INFO")) + string(c.Do("NOSUCH"))
	server.Kill()
	seen += string(c.Do("GET", "k"))
	server.Restart()
	require.Eventually(t, func() bool { return string(c.Do("GET", "k"))[0] == '_' || string(c.Do("GET", "k")) == "$-1\r\n" }, eventually, tick)
	for _, path := range []string{"/metrics", "/readyz", "/"} {
		_, body, _ := p.get(t, path)
		seen += body
	}
	p.reload <- struct{}{}
	require.NoError(t, p.stop())
	for _, entry := range p.Logs.All() {
		seen += fmt.Sprintln(entry.Message, entry.ContextMap())
	}
	require.NotEmpty(t, p.Logs.All())
	for _, secret := range []string{"backend-password", "ann-password", "tried-password", "argon-password", sha256Hex("ann-password"), argon, argon[len(argon)-20:]} {
		require.NotContains(t, seen, secret)
	}
	require.NotContains(t, seen, server.Addr(), "no backend address either")
}
