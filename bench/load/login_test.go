package load

import (
	"bufio"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// loginServer counts the lines by which clients log in and answers every GET behind it.
func loginServer(t *testing.T) (addr string, logins func() map[string]int) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	var mu sync.Mutex
	seen := map[string]int{}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				in := bufio.NewReader(conn)
				line, err := in.ReadString('\n')
				if err != nil {
					return
				}
				mu.Lock()
				seen[strings.TrimSpace(line)]++
				mu.Unlock()
				answer := accepted
				if strings.Contains(line, "wrong") {
					answer = "-WRONGPASS\r\n"
				}
				_, _ = conn.Write([]byte(answer))
				for {
					line, err := in.ReadString('\n')
					if err != nil {
						return
					}
					if strings.HasPrefix(line, "*") {
						_, _ = conn.Write([]byte("$1\r\nx\r\n"))
					}
				}
			}()
		}
	}()
	return listener.Addr().String(), func() map[string]int {
		mu.Lock()
		defer mu.Unlock()
		return seen
	}
}

func TestConnectionsLogInByTurns(t *testing.T) {
	for _, goroutines := range []bool{false, true} {
		addr, logins := loginServer(t)
		w := Workload{Operation: Get, KeySpace: 10, Threads: 2, Clients: 3, Pipeline: 1, Duration: 20 * time.Millisecond}
		w.Login = [][]byte{[]byte("AUTH a\r\n"), []byte("AUTH b\r\n"), []byte("AUTH c\r\n")}
		result, err := Generator{Goroutines: goroutines}.Run(t.Context(), addr, w, Hooks{})
		require.NoError(t, err)
		require.Zero(t, result.Errors, result.FirstError)
		require.Positive(t, result.Commands)
		require.Equal(t, map[string]int{"AUTH a": 2, "AUTH b": 2, "AUTH c": 2}, logins())

		w.Login = [][]byte{[]byte("AUTH wrong\r\n")}
		_, err = Generator{Goroutines: goroutines}.Run(t.Context(), addr, w, Hooks{})
		require.ErrorContains(t, err, "cannot log in")
	}
}
