package server

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/redistest"
)

// TestACommandWithoutEndIsCutOff sends a command of which every argument is small and the whole is not.
func TestACommandWithoutEndIsCutOff(t *testing.T) {
	redistest.LeakCheck(t)
	f := startFront(t, 1<<20)
	c := redistest.Dial(t, f.addr)
	require.Equal(t, "+OK\r\n", string(c.Do("MSET", "k", strings.Repeat("v", 200<<10), "l", strings.Repeat("v", 200<<10))))
	c.Send("*1000000\r\n$4\r\nMSET\r\n")
	argument := fmt.Sprintf("$%d\r\n%s\r\n", 100<<10, strings.Repeat("v", 100<<10))
	sent := 0
	for sent < 200 && c.TrySend(argument) == nil {
		sent++
	}
	require.Less(t, sent, 200, "20 MiB were taken")
	require.Equal(t, "+PONG\r\n", string(redistest.Dial(t, f.addr).Do("PING")), "others are served")
}
