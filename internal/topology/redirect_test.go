package topology

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseRedirect(t *testing.T) {
	cases := []struct {
		line string
		kind RedirectKind
		slot uint16
		addr string
		ok   bool
	}{
		{"-MOVED 3999 127.0.0.1:6381\r\n", RedirectMoved, 3999, "127.0.0.1:6381", true},
		{"-ASK 0 127.0.0.1:6381\r\n", RedirectAsk, 0, "127.0.0.1:6381", true},
		{"MOVED 16383 :6381", RedirectMoved, 16383, ":6381", true},
		{"-MOVED 1 2001:db8::1:6381\r\n", RedirectMoved, 1, "2001:db8::1:6381", true},
		{"-MOVED 1 node-1.example:6381\r\n", RedirectMoved, 1, "node-1.example:6381", true},
		{"-MOVED 16384 h:1\r\n", RedirectMoved, 0, "", false},
		{"-MOVED 99999 h:1\r\n", RedirectMoved, 0, "", false},
		{"-MOVED -1 h:1\r\n", RedirectMoved, 0, "", false},
		{"-MOVED  h:1\r\n", RedirectMoved, 0, "", false},
		{"-MOVED 1\r\n", RedirectMoved, 0, "", false},
		{"-MOVED 1 h\r\n", RedirectMoved, 0, "", false},
		{"-ASK 1 h:1 more\r\n", RedirectAsk, 0, "", false},
		{"-MOVED\r\n", RedirectNone, 0, "", false},
		{"-MOVEDX 1 h:1\r\n", RedirectNone, 0, "", false},
		{"-ERR MOVED 1 h:1\r\n", RedirectNone, 0, "", false},
		{"-TRYAGAIN Multiple keys request\r\n", RedirectNone, 0, "", false},
		{"", RedirectNone, 0, "", false},
	}
	for _, c := range cases {
		kind, slot, addr, ok := ParseRedirect([]byte(c.line))
		require.Equal(t, c.kind, kind, c.line)
		require.Equal(t, c.slot, slot, c.line)
		require.Equal(t, c.addr, string(addr), c.line)
		require.Equal(t, c.ok, ok, c.line)
	}
}

func TestParseRedirectDoesNotAllocate(t *testing.T) {
	line := []byte("-MOVED 3999 127.0.0.1:6381\r\n")
	require.Zero(t, testing.AllocsPerRun(100, func() { ParseRedirect(line) }))
}

func TestResolve(t *testing.T) {
	cases := []struct {
		addr, want string
	}{
		{"127.0.0.1:6381", "127.0.0.1:6381"},
		{":6381", "10.0.0.9:6381"},
		{"2001:db8::1:6381", "[2001:db8::1]:6381"},
		{"[2001:db8::1]:6381", "[2001:db8::1]:6381"},
		{"node-1.example:6381", "node-1.example:6381"},
		{"?:6381", ""},
		{"h:0", ""},
		{"h:65536", ""},
		{"h:+1", ""},
		{"h:", ""},
		{"h", ""},
		{"a/b:1", ""},
	}
	for _, c := range cases {
		got, ok := asked.Resolve([]byte(c.addr))
		require.Equal(t, c.want, got, c.addr)
		require.Equal(t, c.want != "", ok, c.addr)
	}
	_, ok := Endpoint{}.Resolve([]byte(":6381"))
	require.False(t, ok)
}

func TestEndpointAt(t *testing.T) {
	e, ok := EndpointAt("[::1]:7000", true)
	require.True(t, ok)
	require.Equal(t, Endpoint{Host: "::1", Port: 7000, TLS: true}, e)
	require.Equal(t, "[::1]:7000", e.Addr())
	_, ok = EndpointAt(":7000", false)
	require.False(t, ok)
}

func BenchmarkPrimary(b *testing.B) {
	m := Standalone("h:1")
	sum, slot := 0, uint16(0)
	for b.Loop() {
		sum += m.Primary(slot)
		slot += 7919
	}
	if sum != 0 {
		b.Fatal(sum)
	}
}
