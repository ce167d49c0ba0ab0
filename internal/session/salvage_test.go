package session

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/redistest"
)

func TestRestoring(t *testing.T) {
	for _, c := range []struct {
		command []string
		reply   string
		want    string
	}{
		{[]string{"BLPOP", "k", "0"}, "*2\r\n$1\r\nk\r\n$1\r\na\r\n", "LPUSH k a"},
		{[]string{"brpop", "j", "k", "0"}, "*2\r\n$1\r\nk\r\n$0\r\n\r\n", "RPUSH k "},
		{[]string{"BLMPOP", "0", "2", "j", "right", "LEFT", "COUNT", "9"}, "*2\r\n$5\r\nright\r\n*2\r\n$1\r\na\r\n$1\r\nb\r\n", "LPUSH right b a"},
		{[]string{"BLMPOP", "0", "1", "k", "Right"}, "*2\r\n$1\r\nk\r\n*2\r\n$1\r\na\r\n$1\r\nb\r\n", "RPUSH k b a"},
		{[]string{"BZPOPMIN", "z", "0"}, "*3\r\n$1\r\nz\r\n$1\r\nm\r\n$3\r\n1.5\r\n", "ZADD z NX 1.5 m"},
		{[]string{"BZPOPMAX", "z", "0"}, "*3\r\n$1\r\nz\r\n$1\r\nm\r\n,1.5\r\n", "ZADD z NX 1.5 m"},
		{[]string{"BZMPOP", "0", "1", "z", "MIN"}, "*2\r\n$1\r\nz\r\n*2\r\n*2\r\n$1\r\nm\r\n,1\r\n*2\r\n$1\r\nn\r\n,2\r\n", "ZADD z NX 1 m 2 n"},
		{[]string{"BLPOP", "k", "0"}, "*-1\r\n", ""},
		{[]string{"BLPOP", "k", "0"}, "_\r\n", ""},
		{[]string{"BLPOP", "k", "0"}, "-UNBLOCKED client unblocked via CLIENT UNBLOCK\r\n", ""},
	} {
		request := append(bytes.Clone(clientIDCommand), redistest.Command(c.command...)...)
		require.Equal(t, c.want, string(bytes.Join(restoring(request, []byte(c.reply)), []byte(" "))), "%v", c.command)
		request = append([]byte(redistest.Command("CLIENT", "CACHING", "YES")), request...)
		require.Equal(t, c.want, string(bytes.Join(restoring(request, []byte(c.reply)), []byte(" "))), "%v behind CLIENT CACHING", c.command)
	}
}
