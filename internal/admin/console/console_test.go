package console

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/sluiceproxy/sluice/internal/redistest"
)

const (
	eventually = 10 * time.Second
	tick       = 5 * time.Millisecond
)

// fakeService knows the token "good" until it is revoked.
type fakeService struct {
	mu      sync.Mutex
	revoked bool
	asked   [][]string
}

func (f *fakeService) Login(_, secret string) error {
	if secret != "good" {
		return Error("WRONGPASS no")
	}
	return nil
}

func (f *fakeService) Proxy(_ context.Context, _, secret string, args []string) (any, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, args)
	switch {
	case secret != "good" || f.revoked:
		return nil, NoAuth
	case args[0] == "HELP":
		return Help{"PROXY", "    text"}, nil
	case args[0] == "OK":
		return nil, nil
	case args[0] == "FAIL":
		return nil, Error("ERR two\r\n+lines")
	case args[0] == "LARGE":
		return strings.Repeat("x", 1<<20), nil
	}
	return struct {
		Name  string   `json:"name"`
		Count int      `json:"count"`
		Rate  float64  `json:"rate"`
		Ready bool     `json:"ready"`
		Left  string   `json:"left,omitempty"`
		None  *int     `json:"none"`
		Items []string `json:"items"`
		Store struct {
			Kind string `json:"kind"`
			Away bool   `json:"away"`
		} `json:"store"`
	}{Name: "a\r\nb", Count: 3, Rate: 0.5, Ready: true, Items: []string{"x", "y"}}, nil
}

func start(t *testing.T) (*Server, *fakeService) {
	t.Helper()
	redistest.LeakCheck(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	service := &fakeService{}
	s := New(ln, nil, Options{Service: service, Version: "1.2.3", Log: zap.NewNop()})
	s.Serve()
	t.Cleanup(s.Close)
	return s, service
}

func dial(t *testing.T, s *Server) *redistest.Conn {
	t.Helper()
	return redistest.Dial(t, s.Addr().String())
}

func login(t *testing.T, s *Server) *redistest.Conn {
	t.Helper()
	c := dial(t, s)
	require.Equal(t, "+OK\r\n", string(c.Do("AUTH", "good")))
	return c
}

const noAuth = "-NOAUTH Authentication required: AUTH with a token of the admin API\r\n"

// TestDialogue is what clients send to get to know a server, without a token and with one.
func TestDialogue(t *testing.T) {
	s, _ := start(t)
	c := dial(t, s)
	for _, step := range []struct{ send, want string }{
		{"PING", noAuth},
		{"SET k v", noAuth},
		{"COMMAND DOCS", noAuth},
		{"PROXY STATUS", noAuth},
		{"AUTH wrong", "-WRONGPASS no\r\n"},
		{"AUTH default wrong", "-WRONGPASS no\r\n"},
		{"HELLO 3 AUTH default wrong", "-WRONGPASS no\r\n"},
		{"HELLO 3", "-NOAUTH HELLO must"},
		{"HELLO 4", "-NOPROTO unsupported protocol version\r\n"},
		{"HELLO x", "-ERR Protocol version is not an integer"},
		{"AUTH", "-ERR wrong number of arguments for 'auth' command\r\n"},
		{"AUTH default good", "+OK\r\n"},
		{"AUTH wrong", "-WRONGPASS no\r\n"},
		{"PING", "+PONG\r\n"}, // as before
		{"ping hello", "$5\r\nhello\r\n"},
		{"ECHO 'a b'", "$3\r\na b\r\n"},
		{"SELECT 0", "+OK\r\n"},
		{"SELECT 1", "-ERR DB index is out of range"},
		{"SELECT x", "-ERR invalid DB index\r\n"},
		{"CLIENT SETINFO LIB-NAME x", "+OK\r\n"},
		{"CLIENT GETNAME", "$-1\r\n"},
		{"CLIENT SETNAME ops", "+OK\r\n"},
		{"CLIENT SETNAME 'o ps'", "-ERR Client names cannot"},
		{"CLIENT GETNAME", "$3\r\nops\r\n"},
		{"CLIENT ID", ":1\r\n"},
		{"CLIENT KILL x", "-ERR unknown subcommand 'kill'"},
		{"CLIENT SETNAME", "-ERR wrong number of arguments for 'client|setname' command\r\n"},
		{"COMMAND", "*0\r\n"},
		{"COMMAND COUNT", ":0\r\n"},
		{"COMMAND DOCS", "*0\r\n"},
		{"GET k v", "-ERR unknown command 'GET', with args beginning with: 'k' 'v' \r\n"},
		{"PROXY", "-ERR wrong number of arguments for 'proxy' command\r\n"},
		{"PROXY HELP", "*2\r\n+PROXY\r\n+    text\r\n"},
		{"PROXY OK", "+OK\r\n"},
		{"PROXY FAIL", "-ERR two  +lines\r\n"},
		{"HELLO", "*14\r\n$6\r\nserver\r\n$6\r\nsluice\r\n$7\r\nversion\r\n$5\r\n1.2.3\r\n"},
		{"HELLO 3 SETNAME", "-ERR Syntax error in HELLO option 'SETNAME'\r\n"},
		{"HELLO 3 SETNAME me", "%7\r\n$6\r\nserver\r\n"},
		{"CLIENT GETNAME", "$2\r\nme\r\n"},
		{"COMMAND DOCS", "%0\r\n"},
		{"INFO", ""},
		{"RESET", "+RESET\r\n"},
		{"PING", noAuth},
		{"HELLO 2 AUTH any good", "*14\r\n"},
		{"QUIT", "+OK\r\n"},
	} {
		c.Send(step.send + "\r\n")
		reply := string(c.ReadReply())
		require.True(t, strings.HasPrefix(reply, step.want), "%s: %q", step.send, reply)
	}
	c.RequireClosed()
}

func TestAnswersInBothProtocols(t *testing.T) {
	s, service := start(t)
	c := login(t, s)
	name := "$4\r\nname\r\n$4\r\na\r\nb\r\n$5\r\ncount\r\n:3\r\n$4\r\nrate\r\n"
	require.Equal(t, "*14\r\n"+name+"$3\r\n0.5\r\n$5\r\nready\r\n:1\r\n$4\r\nnone\r\n$-1\r\n$5\r\nitems\r\n*2\r\n$1\r\nx\r\n$1\r\ny\r\n"+
		"$5\r\nstore\r\n*4\r\n$4\r\nkind\r\n$0\r\n\r\n$4\r\naway\r\n:0\r\n", string(c.Do("PROXY", "STATUS")))
	require.Contains(t, string(c.Do("INFO")), "\r\nname:a  b\r\ncount:3\r\nrate:0.5\r\nready:1\r\nitems:2\r\nstore_kind:\r\nstore_away:0\r\n")
	c.Do("HELLO", "3")
	require.Equal(t, "%7\r\n"+name+",0.5\r\n$5\r\nready\r\n#t\r\n$4\r\nnone\r\n_\r\n$5\r\nitems\r\n*2\r\n$1\r\nx\r\n$1\r\ny\r\n"+
		"$5\r\nstore\r\n%2\r\n$4\r\nkind\r\n$0\r\n\r\n$4\r\naway\r\n#f\r\n", string(c.Do("PROXY", "status", "a b")))
	require.Equal(t, []string{"status", "a b"}, service.asked[len(service.asked)-1])
}

// TestATokenThatIsTakenAway ends the login.
func TestATokenThatIsTakenAway(t *testing.T) {
	s, service := start(t)
	c := login(t, s)
	service.mu.Lock()
	service.revoked = true
	service.mu.Unlock()
	require.Equal(t, noAuth, string(c.Do("PROXY", "STATUS")))
	require.Equal(t, noAuth, string(c.Do("PING")))
}

// TestHostileBytes: what cannot be a command gets Redis's error, and the connection is closed; the console lives on.
func TestHostileBytes(t *testing.T) {
	s, _ := start(t)
	other := login(t, s)
	long := strings.Repeat("x", 70<<10)
	for _, c := range []struct {
		login       bool
		bytes, want string
	}{
		{false, "*1\r\n$9223372036854775807\r\n", "invalid bulk length"},
		{true, "*1\r\n$9223372036854775807\r\n", "invalid bulk length"},
		{false, "*9000000000000000000\r\n", "invalid multibulk length"},
		{true, "*9000000000000000000\r\n", "invalid multibulk length"},
		{false, "*11\r\n", "unauthenticated multibulk length"},
		{true, "*1101\r\n", "invalid multibulk length"},
		{false, "*1\r\n$16385\r\n", "unauthenticated bulk length"},
		{true, "*1\r\n$1048577\r\n", "invalid bulk length"},
		{true, "*1\r\n:1\r\n", "expected '$', got ':'"},
		{true, "*1\r\n$-1\r\n", "invalid bulk length"},
		{false, long, "too big inline request"},
		{true, "SET 'k\r\n", "unbalanced quotes in request"},
		{true, "*3\r\n" + strings.Repeat("$600000\r\n"+strings.Repeat("y", 600000)+"\r\n", 2), "too long a command"},
	} {
		conn := dial(t, s)
		if c.login {
			require.Equal(t, "+OK\r\n", string(conn.Do("AUTH", "good")))
		}
		conn.Send(c.bytes)
		require.Equal(t, "-ERR Protocol error: "+c.want+"\r\n", string(conn.ReadReply()), "%.40q", c.bytes)
		conn.RequireClosed()
		require.Equal(t, "+PONG\r\n", string(other.Do("PING")))
	}
	// What Redis skips is skipped, and a leading $ is no other protocol.
	other.Send("*-1\r\n*0\r\n\r\n$4\r\nPING\r\n")
	require.Contains(t, string(other.ReadReply()), "unknown command '$4'")
	other.RequireReply("+PONG\r\n")
}

// TestManyConnections: strangers make room for one another, those who have logged in stay, and there is an end.
func TestManyConnections(t *testing.T) {
	s, _ := start(t)
	known := []*redistest.Conn{login(t, s)}
	var strangers []*redistest.Conn
	for range strangersMax {
		strangers = append(strangers, dial(t, s))
	}
	require.Equal(t, noAuth, string(strangers[strangersMax-1].Do("PING")))
	require.Equal(t, noAuth, string(strangers[0].Do("PING")))
	strangers = append(strangers, dial(t, s))
	strangers[0].RequireClosed()
	require.Equal(t, noAuth, string(strangers[strangersMax].Do("PING")))
	for _, c := range strangers[1:] {
		c.Close()
	}
	count := func() (all, unknown int) {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.mu.conns), len(s.mu.stranger)
	}
	require.Eventually(t, func() bool { all, unknown := count(); return all == 1 && unknown == 0 }, eventually, tick)
	for range connectionsMax - 1 {
		known = append(known, login(t, s))
	}
	late := dial(t, s)
	late.RequireReply("-ERR max number of clients reached\r\n")
	late.RequireClosed()
	for _, c := range known {
		require.Equal(t, "+PONG\r\n", string(c.Do("PING")))
	}
	known[0].Close()
	require.Eventually(t, func() bool { all, _ := count(); return all < connectionsMax }, eventually, tick)
	login(t, s)
}

// TestPipelines: replies come in order however commands are cut, and an operator who does not read holds up nobody else.
func TestPipelines(t *testing.T) {
	s, _ := start(t)
	c := dial(t, s)
	batch := "AUTH good\r\n" + redistest.Command("ECHO", "one") + redistest.Command("PROXY", "OK") + "ECHO two\r\n"
	for i := range batch {
		c.Send(batch[i : i+1])
	}
	for _, want := range []string{"+OK\r\n", "$3\r\none\r\n", "+OK\r\n", "$3\r\ntwo\r\n"} {
		c.RequireReply(want)
	}
	deaf, err := net.Dial("tcp", s.Addr().String())
	require.NoError(t, err)
	defer deaf.Close()
	_, err = io.WriteString(deaf, "AUTH good\r\n"+strings.Repeat("PROXY LARGE\r\n", 64))
	require.NoError(t, err)
	for i := range 100 {
		require.Equal(t, fmt.Sprintf("$%d\r\n%d\r\n", len(fmt.Sprint(i)), i), string(c.Do("ECHO", fmt.Sprint(i))))
	}
}
