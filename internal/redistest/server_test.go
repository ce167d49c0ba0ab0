package redistest

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestStandaloneAnswersAndEndsWithTheTest(t *testing.T) {
	LeakCheck(t)
	var server *Server
	t.Run("inner", func(t *testing.T) {
		server = Standalone(t)
		c := server.Dial()
		require.Equal(t, "+OK\r\n", string(c.Do("SET", "k", "v")))
		require.Equal(t, "$1\r\nv\r\n", string(c.Do("GET", "k")))
		require.Contains(t, string(c.Do("CONFIG", "GET", "save")), "$0\r\n")
	})
	require.False(t, server.Running())
	_, err := TryDial(t, server.Addr())
	require.Error(t, err)
}

func TestServersGetPortsOfTheirOwn(t *testing.T) {
	seen := map[string]bool{}
	for range 4 {
		s := Standalone(t)
		require.False(t, seen[s.Addr()])
		seen[s.Addr()] = true
	}
}

func TestTakenPortIsToldFromOtherFailures(t *testing.T) {
	occupant := Standalone(t)
	s := newServer(t, options{}, false)
	s.port = &portLease{number: occupant.Port()}
	require.ErrorIs(t, s.launchOnTakenPort(), errAddressInUse)
}

// launchOnTakenPort skips the wait for an open port, which the occupant has.
func (s *Server) launchOnTakenPort() error {
	require.NoError(s.t, os.WriteFile(s.dir+"/redis.conf", []byte(s.config()), 0o600))
	p, err := startProcess(s.binary, s.logPath(), s.dir+"/redis.conf")
	require.NoError(s.t, err)
	<-p.exited
	s.port = nil
	return s.startFailure(os.ErrExist, 0)
}

func TestKillAndRestartKeepPortAndPersistedData(t *testing.T) {
	s := Standalone(t, WithConfig("appendonly yes", "appendfsync always"))
	addr, pid := s.Addr(), s.PID()
	c := s.Dial()
	c.Do("SET", "k", "v")
	s.Kill()
	c.RequireClosed()
	require.False(t, s.Running())
	s.Restart()
	require.Equal(t, addr, s.Addr())
	require.NotEqual(t, pid, s.PID())
	require.Equal(t, "$1\r\nv\r\n", string(s.Do("GET", "k")))
}

func TestStoppedServerIsSilentUntilItContinues(t *testing.T) {
	s := Standalone(t)
	c := s.Dial()
	c.Do("PING")
	s.Stop()
	c.SendCommand("PING")
	require.NoError(t, c.NetConn().SetReadDeadline(time.Now().Add(50*time.Millisecond)))
	_, err := c.replies.Peek(1)
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	s.Continue()
	c.RequireReply("+PONG\r\n")
}

func TestPasswordUsersAndSocket(t *testing.T) {
	s := Standalone(t, WithPassword("secret"), WithUnixSocket(),
		WithUser("reader", "pass", "~* +get"), WithArgs("--maxclients", "77"))
	bare := Dial(t, s.SocketPath())
	require.True(t, strings.HasPrefix(string(bare.Do("GET", "k")), "-NOAUTH"))
	require.Equal(t, "+OK\r\n", string(bare.Do("AUTH", "reader", "pass")))
	require.Equal(t, "$-1\r\n", string(bare.Do("GET", "k")))
	require.True(t, strings.HasPrefix(string(bare.Do("SET", "k", "v")), "-NOPERM"))
	require.Contains(t, string(s.Do("CONFIG", "GET", "maxclients")), "$2\r\n77\r\n")
}

func TestTLSServer(t *testing.T) {
	files := NewTLSFiles(t)
	s := Standalone(t, WithTLS(files), WithConfig("tls-auth-clients yes"))
	require.Equal(t, "+PONG\r\n", string(s.Dial().Do("PING")))
	config := files.ClientConfig(t)
	config.Certificates = nil
	stranger, err := dial(t, s.Addr(), config)
	if err == nil { // TLS 1.3 tells of the missing certificate on the first read
		_, err = stranger.TryDo("PING")
		stranger.Close()
	}
	require.Error(t, err)
	plain := Dial(t, s.Addr())
	_, err = plain.TryDo("PING")
	require.Error(t, err)
}

func TestMissingBinaryNamesTheMend(t *testing.T) {
	t.Setenv(BinaryVariable, "/nowhere/redis-server")
	recorder := &fatalRecorder{TB: t}
	func() {
		defer func() { _ = recover() }()
		findBinary(recorder)
	}()
	require.Contains(t, recorder.text, "make test")
	require.Contains(t, recorder.text, BinaryVariable)
}
