package redistest

import (
	"net"
	"sync"
	"testing"
	"time"
)

// Faults is what a FaultyProxy does to one direction; the zero value is a
// sound connection.
type Faults struct {
	// Delay holds each piece back; a piece is what has come together by then.
	Delay time.Duration
	// MaxWrite bounds the bytes of one write; 1 sends byte by byte.
	MaxWrite int
	// BlackHole lets nothing pass while connections stay open. As with lost
	// packets, what was sent meanwhile arrives once the fault is healed.
	BlackHole bool
	// CutAfter, if not 0, lets this many more bytes through, counted over all
	// connections, and then ends the one that carried the last. It does so once.
	CutAfter int
}

// FaultyProxy is a TCP relay in front of a server. Its methods may be called
// from any goroutine, and a change applies to open connections at once.
type FaultyProxy struct {
	t      testing.TB
	target string
	lease  *portLease
	wg     sync.WaitGroup // accept loops and pumps

	toServer, toClient direction

	mu struct {
		sync.Mutex
		ln       net.Listener // nil while new connections are refused
		links    map[*link]struct{}
		accepted int
		disposed bool
	}
}

// NewFaultyProxy relays to target, a host:port, from a free port of 127.0.0.1.
func NewFaultyProxy(t testing.TB, target string) *FaultyProxy {
	t.Helper()
	lease, err := leasePort()
	if err != nil {
		t.Fatal(err)
	}
	p := &FaultyProxy{t: t, target: target, lease: lease}
	p.mu.links = map[*link]struct{}{}
	p.toServer.set(Faults{})
	p.toClient.set(Faults{})
	p.AcceptNew()
	t.Cleanup(p.dispose)
	return p
}

// Addr is the proxy's host:port.
func (p *FaultyProxy) Addr() string { return loopback(p.lease.number) }

// ToServer sets the faults of what clients send.
func (p *FaultyProxy) ToServer(f Faults) { p.toServer.set(f) }

// ToClient sets the faults of what the server sends.
func (p *FaultyProxy) ToClient(f Faults) { p.toClient.set(f) }

// Both sets the faults of both directions.
func (p *FaultyProxy) Both(f Faults) { p.ToServer(f); p.ToClient(f) }

// Heal takes all faults away and accepts new connections.
func (p *FaultyProxy) Heal() { p.Both(Faults{}); p.AcceptNew() }

// Cut resets all open connections, on both sides.
func (p *FaultyProxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.mu.links {
		l.cut()
	}
}

// RefuseNew closes the listening socket: dialling fails, open connections stay.
func (p *FaultyProxy) RefuseNew() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.ln != nil {
		_ = p.mu.ln.Close()
		p.mu.ln = nil
	}
}

// AcceptNew ends RefuseNew.
func (p *FaultyProxy) AcceptNew() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.ln != nil || p.mu.disposed {
		return
	}
	ln, err := net.Listen("tcp4", p.Addr())
	if err != nil {
		p.t.Errorf("cannot listen for faulty proxy: %v", err)
		return
	}
	p.mu.ln = ln
	p.wg.Go(func() { p.accept(ln) })
}

// Accepted counts all connections so far.
func (p *FaultyProxy) Accepted() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.accepted
}

// Open counts the connections that are open now.
func (p *FaultyProxy) Open() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.mu.links)
}

func (p *FaultyProxy) dispose() {
	p.RefuseNew()
	p.mu.Lock()
	p.mu.disposed = true
	p.mu.Unlock()
	p.Cut()
	p.wg.Wait()
	p.lease.release()
}

func (p *FaultyProxy) accept(ln net.Listener) {
	for {
		client, err := ln.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		p.mu.accepted++
		p.mu.Unlock()
		p.wg.Go(func() { p.connect(client) })
	}
}

// connect relays one connection until it ends.
func (p *FaultyProxy) connect(client net.Conn) {
	server, err := net.DialTimeout("tcp", p.target, ConnTimeout)
	if err != nil {
		reset(client)
		return
	}
	l := newLink(client, server)
	if !p.register(l) {
		l.cut()
		return
	}
	l.relay(&p.toServer, &p.toClient)
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.mu.links, l)
}

func (p *FaultyProxy) register(l *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.disposed {
		return false
	}
	p.mu.links[l] = struct{}{}
	return true
}
