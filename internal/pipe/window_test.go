package pipe

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/loop"
)

// deaf is a receiver and an owner that only counts.
type deaf struct{ replies int }

func (d *deaf) Reply(*Call, []byte, bool)            { d.replies++ }
func (d *deaf) Failed(*Call, Failure)                {}
func (d *deaf) WaitAlone(*Call) bool                 { return false }
func (d *deaf) Free(*Call)                           {}
func (d *deaf) ErrorReply(*Pipe, *Call, []byte) bool { return false }
func (d *deaf) LargeReply(*Pipe)                     {}
func (d *deaf) Lost(*Pipe, []LostCall, error)        {}
func (d *deaf) Idle(*Pipe)                           {}
func (d *deaf) Drained(*Pipe)                        {}

func TestWindowCollectsCommands(t *testing.T) {
	m := loop.NewManual()
	d := &deaf{}
	var lossID, late uint64
	p := New(m.Loop, d, Config{StreamThreshold: 1 << 20, LossID: &lossID, Traffic: &loop.Traffic{}, Late: &late, Window: 5 * time.Millisecond, Limit: 3})
	wire := m.AttachFake(p.Conn())
	send := func() { p.Send(&Call{Receiver: d}, []byte("*1\r\n$4\r\nPING\r\n")) }
	m.Tick()
	send()
	m.Tick()
	send()
	m.Tick()
	require.Empty(t, wire.Sent, "the window has begun")
	m.Advance(5 * time.Millisecond)
	m.Tick()
	require.Len(t, wire.Sent, 2*14, "the window is over")
	for range 3 {
		send()
	}
	m.Tick()
	require.Len(t, wire.Sent, 5*14, "the limit ends the window")
	send()
	m.Tick()
	require.Len(t, wire.Sent, 5*14)
	m.Advance(5 * time.Millisecond)
	m.Tick()
	require.Len(t, wire.Sent, 6*14)
	wire.Receive([]byte("+PONG\r\n+PONG\r\n+PONG\r\n+PONG\r\n+PONG\r\n+PONG\r\n"))
	require.Equal(t, 6, d.replies)
}
