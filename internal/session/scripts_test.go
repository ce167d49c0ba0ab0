package session

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/upstream"
)

func newScriptView() (*upstream.Scripts, *scriptView) {
	all := &upstream.Scripts{}
	v := &scriptView{memory: all.Of("acme")}
	v.renew()
	return all, v
}

// TestScriptViewForgets: what the memory has forgotten, no loop keeps.
func TestScriptViewForgets(t *testing.T) {
	_, v := newScriptView()
	s := v.learn([]byte("return 1"))
	require.Same(t, s, v.find([]byte(strings.ToUpper(s.SHA))))
	require.Same(t, s, v.learn([]byte("return 1")))
	require.Nil(t, v.find([]byte("return 1")))
	require.Nil(t, v.find([]byte(strings.Repeat("0", 40))))
	v.memory.Forget()
	v.renew()
	require.Nil(t, v.find([]byte(s.SHA)))
	require.Empty(t, v.byBody)
}

// TestKnownScriptsAllocateNothing: a script that was seen before costs a look at a map.
func TestKnownScriptsAllocateNothing(t *testing.T) {
	_, v := newScriptView()
	body := []byte("return redis.call('GET', KEYS[1])")
	sha := []byte(v.learn(body).SHA)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		v.renew()
		v.learn(body)
		v.find(sha)
	}))
}

func BenchmarkScriptView(b *testing.B) {
	for _, size := range []int{100, 1 << 10, 10 << 10, learnMax} {
		body := []byte(strings.Repeat("-", size))
		b.Run(fmt.Sprintf("eval known/%d", size), func(b *testing.B) {
			_, v := newScriptView()
			b.SetBytes(int64(size))
			for b.Loop() {
				v.renew()
				v.learn(body)
			}
		})
		b.Run(fmt.Sprintf("eval new/%d", size), func(b *testing.B) {
			_, v := newScriptView()
			b.SetBytes(int64(size))
			i := 0
			for b.Loop() {
				i++
				copy(body, fmt.Appendf(nil, "%020d", i))
				v.renew()
				v.learn(body)
			}
		})
	}
	b.Run("evalsha known", func(b *testing.B) {
		_, v := newScriptView()
		sha := []byte(v.learn([]byte("return 1")).SHA)
		for b.Loop() {
			v.renew()
			v.find(sha)
		}
	})
	b.Run("evalsha unknown", func(b *testing.B) {
		_, v := newScriptView()
		sha := []byte(strings.Repeat("0", 40))
		for b.Loop() {
			v.renew()
			v.find(sha)
		}
	})
}

func TestMergeKill(t *testing.T) {
	const none, killed, stuck, away = "-NOTBUSY No scripts\r\n", "+OK\r\n", "-UNKILLABLE Sorry\r\n", "-ERR upstream unavailable\r\n"
	for _, c := range []struct {
		replies []string
		want    string
	}{
		{[]string{none, none}, none},
		{[]string{none, killed, none}, killed},
		{[]string{stuck, killed}, killed},
		{[]string{none, stuck, none}, stuck},
		{[]string{none, none, away}, away},
	} {
		require.Equal(t, c.want, string(mergeKill(nil, replies(c.replies))), c.replies)
	}
}

func TestMergeDone(t *testing.T) {
	const ok, exists, absent = "+OK\r\n", "-ERR Library 'l' already exists\r\n", "-ERR Library not found\r\n"
	for _, c := range []struct {
		name    string
		replies []string
		want    string
	}{
		{"function|load", []string{"$1\r\nl\r\n", "$1\r\nl\r\n"}, "$1\r\nl\r\n"},
		{"function|load", []string{exists, exists}, exists},
		{"function|load", []string{"$1\r\nl\r\n", exists, "$1\r\nl\r\n"},
			"-ERR 'function|load' was done on 2 of 3 primaries only, so they differ now; another said: ERR Library 'l' already exists\r\n"},
		{"function|delete", []string{absent, absent}, absent},
		{"function|delete", []string{absent, ok}, ok},
		{"function|delete", []string{absent, ok, "-OOM no\r\n"},
			"-ERR 'function|delete' was done on 1 of 3 primaries only, so they differ now; another said: ERR Library not found\r\n"},
	} {
		require.Equal(t, c.want, string(mergeDone(nil, c.name, replies(c.replies))), c.replies)
	}
}

func TestMergeExists(t *testing.T) {
	all := replies([]string{"*3\r\n:1\r\n:1\r\n:0\r\n", "*3\r\n:1\r\n:0\r\n:0\r\n"})
	require.Equal(t, "*3\r\n:1\r\n:0\r\n:0\r\n", string(mergeExists(nil, []bool{false, false, false}, all)))
	require.Equal(t, "*3\r\n:1\r\n:1\r\n:0\r\n", string(mergeExists(nil, []bool{true, true, true}, all)))
	require.Contains(t, string(mergeExists(nil, []bool{true}, all)), "-ERR")
	require.Contains(t, string(mergeExists(nil, []bool{true, true, true}, replies([]string{"*3\r\n:1\r\n:1\r\n", "+OK\r\n"}))), "-ERR")
	require.Equal(t, "-LOADING\r\n", string(mergeExists(nil, []bool{true}, replies([]string{"*1\r\n:1\r\n", "-LOADING\r\n"}))))
}

func TestMergeLibraries(t *testing.T) {
	one, two, changed := "*4\r\n$12\r\nlibrary_name\r\n$1\r\na\r\n$6\r\nengine\r\n$3\r\nLUA\r\n", "%1\r\n$12\r\nlibrary_name\r\n$1\r\nb\r\n", "*2\r\n$12\r\nlibrary_name\r\n$1\r\na\r\n"
	require.Equal(t, "*2\r\n"+one+two, string(mergeLibraries(nil, replies([]string{"*1\r\n" + one, "*2\r\n" + two + changed, "*0\r\n"}))))
	require.Equal(t, "*0\r\n", string(mergeLibraries(nil, replies([]string{"*0\r\n", "*0\r\n"}))))
	require.Equal(t, "-ERR x\r\n", string(mergeLibraries(nil, replies([]string{"*0\r\n", "-ERR x\r\n"}))))
}

func replies(texts []string) (all [][]byte) {
	for _, text := range texts {
		all = append(all, []byte(text))
	}
	return all
}
