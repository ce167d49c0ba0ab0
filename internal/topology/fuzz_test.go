package topology

import (
	"bytes"
	"encoding/json"
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// treeOf turns JSON into what go-redis would have decoded: whole numbers are
// int64, objects are maps of any to any. Corpus files stay readable that way.
func treeOf(v any) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = treeOf(v[i])
		}
	case map[string]any:
		m := make(map[any]any, len(v))
		for key, value := range v {
			m[key] = treeOf(value)
		}
		return m
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		f, _ := v.Float64()
		return f
	}
	return v
}

func decodeTree(text []byte) (any, bool) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var v any
	if decoder.Decode(&v) != nil {
		return nil, false
	}
	return treeOf(v), true
}

// requireUsable checks what a parser returned: a sound map or an error, and
// that the map stands the operations that a refresh does.
func requireUsable(t *testing.T, m *Map, err error) {
	if err != nil {
		require.Nil(t, m)
		return
	}
	require.NoError(t, m.Validate())
	requireSound(t, m)
	old := Standalone("10.9.9.9:1")
	requireSound(t, m.WithAliasesOf(old))
	requireSound(t, m.WithSlotMoved(42, "10.9.9.9:1"))
	requireSound(t, m.WithSlotMoved(0, m.Nodes[len(m.Nodes)-1].Addr))
	require.True(t, m.Supersedes(m))
	for i := range m.Nodes {
		again, ok := asked.Resolve([]byte(m.Nodes[i].Addr))
		require.True(t, ok)
		require.Equal(t, m.Nodes[i].Addr, again, "a redirect to a known node is recognised")
	}
}

func FuzzParseShards(f *testing.F) {
	f.Add([]byte(`[{"slots":[0,16383],"nodes":[{"id":"a","port":7001,"endpoint":"h","role":"master","health":"online"}]}]`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if tree, ok := decodeTree(text); ok {
			m, err := ParseShards(tree, asked)
			requireUsable(t, m, err)
		}
	})
}

func FuzzParseSlots(f *testing.F) {
	f.Add([]byte(`[[0,100,["h",7001,"a",["ip","10.0.0.1"]],["h",7002,"b"]]]`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if tree, ok := decodeTree(text); ok {
			m, err := ParseSlots(tree, asked)
			requireUsable(t, m, err)
		}
	})
}

func FuzzParseNodes(f *testing.F) {
	f.Add(nodesReply)
	f.Fuzz(func(t *testing.T, reply string) {
		m, err := ParseNodes(reply, asked)
		requireUsable(t, m, err)
	})
}

func FuzzParseInfo(f *testing.F) {
	f.Add("cluster_state:ok\r\ncluster_current_epoch:7\r\n")
	f.Fuzz(func(t *testing.T, reply string) {
		if _, ok := ParseInfo(reply); ok {
			require.Contains(t, reply, "cluster_state")
		}
	})
}

func FuzzParseRedirect(f *testing.F) {
	f.Add([]byte("-MOVED 3999 127.0.0.1:6381\r\n"))
	f.Fuzz(func(t *testing.T, line []byte) {
		kind, slot, addr, ok := ParseRedirect(line)
		wantSlot, wantAddr, wantOK := naiveRedirect(string(line))
		require.Equal(t, wantOK, ok)
		if !ok {
			require.Nil(t, addr)
			return
		}
		require.NotEqual(t, RedirectNone, kind)
		require.Equal(t, wantSlot, slot)
		require.Equal(t, wantAddr, string(addr))
		if resolved, ok := asked.Resolve(addr); ok {
			host, port, err := net.SplitHostPort(resolved)
			require.NoError(t, err)
			require.NotEmpty(t, host)
			_, err = strconv.ParseUint(port, 10, 16)
			require.NoError(t, err)
		}
	})
}

// naiveRedirect reads a redirect the plain way.
func naiveRedirect(line string) (slot uint16, addr string, ok bool) {
	parts := strings.Split(strings.TrimPrefix(strings.TrimSuffix(line, "\r\n"), "-"), " ")
	if len(parts) != 3 || parts[0] != "MOVED" && parts[0] != "ASK" {
		return 0, "", false
	}
	n, err := strconv.ParseUint(parts[1], 10, 16)
	if err != nil || n >= SlotCount || len(parts[1]) > 5 {
		return 0, "", false
	}
	blank := func(r rune) bool { return r <= ' ' || r == 0x7f }
	if !strings.Contains(parts[2], ":") || strings.ContainsFunc(parts[2], blank) || len(parts[2]) > 259 {
		return 0, "", false
	}
	return uint16(n), parts[2], true
}
