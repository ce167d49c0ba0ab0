package redistest

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestProxyPassesCommandsAndHalfClose(t *testing.T) {
	LeakCheck(t)
	node := NewScripted(t)
	node.Handle(func([][]byte) []byte { return []byte("+x\r\n") })
	p := NewFaultyProxy(t, node.Addr())
	c := Dial(t, p.Addr())
	require.Equal(t, "+x\r\n", string(c.Do("GET", "k")))
	require.Equal(t, 1, p.Open())
	c.Close()
	node.AwaitOpen(0)
	eventually(t, "link is gone", func() bool { return p.Open() == 0 })
	require.Equal(t, 1, p.Accepted())
}

func TestSmallWritesArriveWhole(t *testing.T) {
	node := NewScripted(t)
	value := strings.Repeat("v", 500)
	node.Handle(func([][]byte) []byte { return []byte("$500\r\n" + value + "\r\n") })
	p := NewFaultyProxy(t, node.Addr())
	p.Both(Faults{MaxWrite: 1})
	require.Equal(t, "$500\r\n"+value+"\r\n", string(Dial(t, p.Addr()).Do("GET", value)))
	require.Equal(t, []string{"GET " + value}, node.Commands())
}

func TestCutAfterEndsInMidReplyOnce(t *testing.T) {
	node := NewScripted(t)
	node.Handle(func([][]byte) []byte { return []byte("$5\r\nabcde\r\n") })
	p := NewFaultyProxy(t, node.Addr())
	p.ToClient(Faults{CutAfter: 6})
	got, err := Dial(t, p.Addr()).TryDo("GET", "k")
	require.Error(t, err)
	require.Equal(t, "$5\r\nab", string(got))
	require.Equal(t, "$5\r\nabcde\r\n", string(Dial(t, p.Addr()).Do("GET", "k")))
}

func TestBlackHoleHoldsUntilHealed(t *testing.T) {
	node := NewScripted(t)
	node.Handle(func([][]byte) []byte { return []byte("+x\r\n") })
	p := NewFaultyProxy(t, node.Addr())
	c := Dial(t, p.Addr())
	c.Do("GET", "k")
	p.ToClient(Faults{BlackHole: true})
	c.SendCommand("GET", "k")
	node.AwaitCommands(2)
	require.NoError(t, c.NetConn().SetReadDeadline(time.Now().Add(30*time.Millisecond)))
	_, err := c.replies.Peek(1)
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	p.Heal()
	c.RequireReply("+x\r\n")
}

func TestDelayCutAndRefuse(t *testing.T) {
	LeakCheck(t)
	node := NewScripted(t)
	node.Handle(func([][]byte) []byte { return []byte("+x\r\n") })
	p := NewFaultyProxy(t, node.Addr())
	c := Dial(t, p.Addr())
	p.ToServer(Faults{Delay: 40 * time.Millisecond})
	start := time.Now()
	c.Do("GET", "k")
	require.GreaterOrEqual(t, time.Since(start), 40*time.Millisecond)

	p.RefuseNew()
	_, err := TryDial(t, p.Addr())
	require.Error(t, err)
	p.Heal()
	require.Equal(t, "+x\r\n", string(c.Do("GET", "k")), "refusing new connections leaves open ones")
	p.Cut()
	c.RequireClosed()
	require.Equal(t, "+x\r\n", string(Dial(t, p.Addr()).Do("GET", "k")))
}

func TestDeadTargetResetsTheClient(t *testing.T) {
	server := Standalone(t)
	p := NewFaultyProxy(t, server.Addr())
	server.Kill()
	c, err := TryDial(t, p.Addr())
	if err == nil { // the reset may come before or after connect returns
		c.RequireClosed()
		c.Close()
	}
	require.Zero(t, p.Open())
}
