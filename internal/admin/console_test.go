package admin

import (
	"encoding/json"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/redistest"
)

// withConsole starts a port with a console and what furnish registers.
func withConsole(t *testing.T, options ...func(*Options)) *stack {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := start(t, append(options, func(o *Options) { o.Consoles, o.Version = []Console{{Listener: ln}}, "test" })...)
	s.furnish()
	return s
}

func (s *stack) stranger() *redistest.Conn {
	s.t.Helper()
	return redistest.Dial(s.t, s.server.Consoles()[0].String())
}

// operator is a console that the token of that name is logged in to.
func (s *stack) operator(token string) *redistest.Conn {
	s.t.Helper()
	c := s.stranger()
	require.Equal(s.t, "+OK\r\n", string(c.Do("AUTH", s.tokens[token])))
	return c
}

// say sends a line and returns the reply.
func say(c *redistest.Conn, line string) string {
	c.Send(line + "\r\n")
	return string(c.ReadReply())
}

// TestConsoleTellsWhatTheAPITells compares every read with the API's answer, name by name and value by value.
func TestConsoleTellsWhatTheAPITells(t *testing.T) {
	s := withConsole(t)
	for _, token := range []string{"viewer", "operator", "admin", "acme-viewer", "acme-admin"} {
		c := s.operator(token)
		for line, path := range map[string]string{
			"PROXY STATUS": "/status", "PROXY WHOAMI": "/whoami", "PROXY TENANTS": "/tenants", "PROXY CLUSTERS LIMIT 1": "/clusters?limit=1",
			"PROXY TENANTS FILTER cluster=c1": "/tenants?filter=cluster=c1", "PROXY SESSIONS": "/sessions",
			"PROXY SESSIONS USER web COMMAND SET TENANT globex": "/sessions?user=web&command=SET&tenant=globex",
			"PROXY NODES": "/nodes", "PROXY TOPOLOGY c1": "/topology/c1",
		} {
			require.Equal(t, flat(t, s.must(200, token, "GET", path, nil).body), say(c, line), "%s as %s", line, token)
		}
		explained := s.must(200, token, "POST", "/explain", map[string]any{"tenant": "acme", "args": []string{"GET", "k"}}).body
		require.Equal(t, flat(t, explained), say(c, "PROXY EXPLAIN acme GET k"))
	}
}

// flat is JSON as RESP2 has it, written apart from the code under test.
func flat(t *testing.T, body []byte) string {
	decoder := json.NewDecoder(strings.NewReader(string(body)))
	decoder.UseNumber()
	var value func() (string, bool)
	value = func() (string, bool) {
		token, err := decoder.Token()
		require.NoError(t, err)
		switch x := token.(type) {
		case json.Delim:
			if x == '}' || x == ']' {
				return "", false
			}
			var items []string
			for item, more := value(); more; item, more = value() {
				items = append(items, item)
			}
			return "*" + json.Number(itoa(len(items))).String() + "\r\n" + strings.Join(items, ""), true
		case json.Number:
			return ":" + x.String() + "\r\n", true
		case bool:
			return map[bool]string{true: ":1\r\n", false: ":0\r\n"}[x], true
		case string:
			return "$" + itoa(len(x)) + "\r\n" + x + "\r\n", true
		}
		return "$-1\r\n", true
	}
	text, _ := value()
	return text
}

func itoa(n int) string { b, _ := json.Marshal(n); return string(b) }

func TestConsolePools(t *testing.T) {
	s := withConsole(t)
	c := s.operator("viewer")
	require.Contains(t, say(c, "PROXY POOLS"), "$2\r\nc2\r\n")
	require.NotContains(t, say(c, "PROXY POOLS c1"), "$2\r\nc2\r\n")
	require.Equal(t, "-ERR Cluster \"nosuch\": there is no such entity; PROXY CLUSTERS lists them\r\n", say(c, "PROXY POOLS nosuch"))
	c = s.operator("acme-admin")
	require.NotContains(t, say(c, "PROXY POOLS"), "$2\r\nc2\r\n")
	require.Contains(t, say(c, "PROXY POOLS c2"), "-ERR Cluster \"c2\"")
}

func TestConsoleRefuses(t *testing.T) {
	s := withConsole(t)
	for _, step := range []struct{ token, line, want string }{
		{"viewer", "PROXY PAUSE acme", "-NOPERM this needs a token of role operator; token viewer is viewer\r\n"},
		{"viewer", "PROXY PAUSE acme nonsense", "-NOPERM this needs a token of role operator; token viewer is viewer\r\n"},
		{"viewer", "PROXY RESUME acme", "-NOPERM this needs"},
		{"viewer", "PROXY DRAIN", "-NOPERM this needs a token of role operator"},
		{"acme-viewer", "PROXY PAUSE acme", "-NOPERM this needs"},
		{"acme-operator", "PROXY DRAIN", "-NOPERM this needs a token that is not bound to tenants; token acme-operator is\r\n"},
		{"acme-operator", "PROXY UNDRAIN", "-NOPERM this needs a token that is not bound"},
		{"acme-operator", "PROXY PAUSE globex", "-ERR Tenant \"globex\": there is no such entity; PROXY TENANTS lists them\r\n"},
		{"acme-operator", "PROXY RESUME globex", "-ERR Tenant \"globex\": there is no such entity"},
		{"acme-operator", "PROXY TOPOLOGY c2", "-ERR Cluster \"c2\": there is no such entity; PROXY CLUSTERS lists them\r\n"},
		{"admin", "PROXY PAUSE nosuch", "-ERR Tenant \"nosuch\": there is no such entity"},
		{"admin", "PROXY PAUSE acme 30", "-ERR syntax error: '30' is neither HOLD nor REFUSE nor a duration such as 30s. Try PROXY HELP.\r\n"},
		{"admin", "PROXY PAUSE acme -30s", "-ERR syntax error: '-30s'"},
		{"admin", "PROXY PAUSE acme hold hold", "-ERR syntax error: 'hold'"},
		{"admin", "PROXY PAUSE acme 1s 2s", "-ERR syntax error: '2s'"},
		{"admin", "PROXY PAUSE", "-ERR wrong number of arguments for 'proxy|pause' command. Try PROXY HELP.\r\n"},
		{"admin", "PROXY STATUS now", "-ERR wrong number of arguments for 'proxy|status' command"},
		{"admin", "PROXY NOSUCH", "-ERR unknown subcommand 'NOSUCH'. Try PROXY HELP.\r\n"},
		{"admin", "PROXY TENANTS FILTER nosuch=1", "-ERR what was sent is not valid; FILTER names \"nosuch\", which is not a field"},
		{"admin", "PROXY TENANTS PAGE x", "-ERR what was sent is not valid; PAGE is not the next"},
		{"admin", "PROXY TENANTS LIMIT 0", "-ERR LIMIT \"0\" is not a number from 1 to 1000\r\n"},
		{"admin", "PROXY TENANTS LIMIT", "-ERR syntax error: LIMIT has no value"},
		{"admin", "PROXY SESSIONS NAME x", "-ERR syntax error: 'NAME' is not an option of PROXY SESSIONS"},
		{"admin", "PROXY SESSIONS USER " + strings.Repeat("x", 501), "-ERR USER is longer than 500 bytes\r\n"},
		{"admin", "PROXY EXPLAIN acme", "-ERR there is no command to explain"},
		{"admin", "PROXY EXPLAIN GET k", "-ERR Tenant \"GET\": there is no such entity; the tenant comes first"},
	} {
		reply := say(s.operator(step.token), step.line)
		require.True(t, strings.HasPrefix(reply, step.want), "%s as %s: %q", step.line, step.token, reply)
	}
	require.Empty(t, s.runtime.calls)
	require.NotContains(t, s.runtime.paused, "acme")
	// Who sees one tenant alone need not name it.
	require.Contains(t, say(s.operator("acme-viewer"), "PROXY EXPLAIN GET k"), "$6\r\ntenant\r\n$4\r\nacme\r\n")
}

func TestConsoleActsAndIsAudited(t *testing.T) {
	s := withConsole(t)
	c := s.operator("operator")
	before := time.Now()
	require.Equal(t, "+OK\r\n", say(c, "PROXY PAUSE acme 1h REFUSE"))
	require.True(t, s.runtime.paused["acme"].Refuse)
	require.WithinRange(t, s.runtime.paused["acme"].Until, before.Add(time.Hour), time.Now().Add(time.Hour))
	require.Equal(t, "+OK\r\n", say(c, "proxy pause acme hold"))
	require.Equal(t, Pause{}, s.runtime.paused["acme"])
	require.Equal(t, "+OK\r\n", say(c, "PROXY RESUME acme"))
	require.Equal(t, "+OK\r\n", say(c, "PROXY DRAIN"))
	require.Equal(t, "+OK\r\n", say(c, "PROXY UNDRAIN"))
	require.Equal(t, []string{"drain", "undrain"}, s.runtime.calls)
	say(c, "PROXY STATUS")
	say(c, "PROXY EXPLAIN acme GET k")
	say(c, "PROXY PAUSE a/b")
	say(c, "PROXY PAUSE acme x")
	say(s.operator("viewer"), "PROXY DRAIN")
	say(s.stranger(), "PROXY DRAIN")
	say(s.stranger(), "PROXY STATUS")
	say(s.stranger(), "AUTH slt_not-a-token")

	want := []string{
		"operator POST /api/v1/tenants/acme/actions/pause 200", "operator POST /api/v1/tenants/acme/actions/pause 200",
		"operator POST /api/v1/tenants/acme/actions/resume 200", "operator POST /api/v1/proxy/actions/drain 200",
		"operator POST /api/v1/proxy/actions/undrain 200", "operator POST /api/v1/tenants/a%2Fb/actions/pause 404",
		"operator POST /api/v1/tenants/acme/actions/pause 422", "viewer POST /api/v1/proxy/actions/drain 403",
		" POST /api/v1/proxy/actions/drain 401", " AUTH  401",
	}
	content, err := os.ReadFile(s.audit)
	require.NoError(t, err)
	require.NotContains(t, string(content), "slt_")
	var got []string
	for line := range strings.Lines(string(content)) {
		var l auditLine
		require.NoError(t, json.Unmarshal([]byte(line), &l))
		if l.Via != viaRESP {
			continue // furnish's
		}
		require.NotEmpty(t, l.Address)
		require.WithinDuration(t, time.Now(), l.Time, time.Minute)
		got = append(got, l.Token+" "+l.Method+" "+l.Path+" "+itoa(l.Status))
	}
	require.Equal(t, want, got)
}

// TestConsoleSharesTheLimitOfFailures with the API: failures by one door count at the other, and a token that was used from
// the address goes on working.
func TestConsoleSharesTheLimitOfFailures(t *testing.T) {
	s := withConsole(t)
	s.must(200, "operator", "GET", "/status", nil)
	c := s.stranger()
	var reply string
	require.Eventually(t, func() bool {
		reply = say(c, "AUTH wrong")
		return strings.HasPrefix(reply, "-ERR too many attempts")
	}, eventually, time.Microsecond, "%s", reply)
	require.Contains(t, reply, "without a valid token came from this address; try again in 1 s\r\n")
	require.Contains(t, say(c, "HELLO 3 AUTH default wrong"), "-ERR too many attempts")
	require.Equal(t, http.StatusTooManyRequests, s.ask("wrong", "GET", "/status", nil).StatusCode)
	require.Equal(t, "+OK\r\n", string(c.Do("AUTH", s.tokens["operator"])))
}

func TestConsoleForgetsATokenThatIsDeleted(t *testing.T) {
	s := withConsole(t)
	made := decode[map[string]any](t, s.must(201, "admin", "POST", "/tokens", map[string]any{"name": "temp", "role": "operator"}))
	s.tokens["temp"], _ = made["secret"].(string)
	c := s.operator("temp")
	require.Contains(t, say(c, "PROXY WHOAMI"), "temp")
	s.must(204, "admin", "DELETE", "/tokens/temp", nil)
	require.Contains(t, say(c, "PROXY PAUSE acme"), "-NOAUTH")
	require.Contains(t, say(c, "PING"), "-NOAUTH")
	require.NotContains(t, s.runtime.paused, "acme")
}

// TestConsoleHelp lists every subcommand.
func TestConsoleHelp(t *testing.T) {
	s := withConsole(t)
	help := say(s.operator("viewer"), "PROXY HELP")
	require.Contains(t, help, "+PROXY <subcommand> [<arg> [value] [opt] ...]. Subcommands are:\r\n")
	for _, sub := range subcommands() {
		require.Contains(t, help, "\r\n+"+sub.name)
	}
}

// TestConsoleAlone: a port without HTTP.
func TestConsoleAlone(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := start(t, func(o *Options) { o.Address, o.Consoles = "", []Console{{Listener: ln}} })
	require.Empty(t, s.server.Address())
	require.Contains(t, say(s.operator("viewer"), "PROXY STATUS"), "version")
}
