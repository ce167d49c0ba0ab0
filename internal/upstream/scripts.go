package upstream

import (
	"container/list"
	"crypto/sha1" //nolint:gosec // what Redis names scripts by; nothing is kept secret or proved with it
	"encoding/hex"
	"sync"
	"sync/atomic"
)

const (
	// scriptsMax bounds the bytes of the scripts that are remembered for one cluster.
	scriptsMax = 16 << 20
	// scriptOverhead is what a remembered script takes beside its body, about.
	scriptOverhead = 256
)

// Script is a Lua script that went through the proxy. It is immutable.
type Script struct {
	// SHA is its name: the SHA1 of the body in lower-case hex.
	SHA string
	// Body is the text.
	Body string

	id uint64 // no other script has or had it
}

// Scripts remembers the scripts that went through the proxy to one cluster, so that a node which lacks one can be given
// it. Each tenant has a memory of its own: none can run or detect another's scripts by it. All together hold at most
// scriptsMax bytes. When that is too little, the tenant that holds the most forgets the one that it has not used for the
// longest time: one that sends another script each time pushes out nobody else's. For any goroutine.
type Scripts struct {
	lastID  atomic.Uint64
	flushes atomic.Uint64

	mu struct {
		sync.Mutex
		tenants map[string]*TenantScripts
		bytes   int
	}
}

// TenantScripts is what is remembered of one tenant's scripts.
type TenantScripts struct {
	scripts *Scripts
	changes atomic.Uint64 // see Changes

	// Under the lock of scripts.
	bySHA map[string]*list.Element
	order list.List // of *Script, the one used last in front
	bytes int
	gone  bool // the tenant is not served any more: nothing is added
}

// Scripts is what is remembered of the scripts that went to the cluster.
func (c *Cluster) Scripts() *Scripts { return c.scripts }

// Of is the memory of one tenant.
func (m *Scripts) Of(tenant string) *TenantScripts {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.mu.tenants[tenant]
	if t == nil {
		t = &TenantScripts{scripts: m, bySHA: make(map[string]*list.Element)}
		if m.mu.tenants == nil {
			m.mu.tenants = make(map[string]*TenantScripts)
		}
		m.mu.tenants[tenant] = t
	}
	return t
}

// Keep forgets the tenants that are not served any more.
func (m *Scripts) Keep(served func(tenant string) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, t := range m.mu.tenants {
		if !served(name) {
			t.forget()
			t.gone = true
			delete(m.mu.tenants, name)
		}
	}
}

// Bytes is how much is remembered.
func (m *Scripts) Bytes() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mu.bytes
}

// Flushed tells that the nodes' own caches have been emptied: every script must be given to them again.
func (m *Scripts) Flushed() { m.flushes.Add(1) }

// Changes counts how often something was forgotten. Who keeps what Learn or Find returned must let go of it when that
// number changes.
func (t *TenantScripts) Changes() uint64 { return t.changes.Load() }

// Learn remembers a script.
func (t *TenantScripts) Learn(body []byte) *Script {
	sum := sha1.Sum(body) //nolint:gosec // see the import
	sha := hex.EncodeToString(sum[:])
	t.scripts.mu.Lock()
	defer t.scripts.mu.Unlock()
	if e := t.bySHA[sha]; e != nil {
		t.order.MoveToFront(e)
		return e.Value.(*Script)
	}
	s := &Script{SHA: sha, Body: string(body), id: t.scripts.lastID.Add(1)}
	if t.gone {
		return s
	}
	t.bySHA[sha] = t.order.PushFront(s)
	t.grow(s.size())
	t.scripts.shrink()
	return s
}

// Find is the script with that name, in lower case; nil: it is not remembered.
func (t *TenantScripts) Find(sha string) *Script {
	t.scripts.mu.Lock()
	defer t.scripts.mu.Unlock()
	e := t.bySHA[sha]
	if e == nil {
		return nil
	}
	t.order.MoveToFront(e)
	return e.Value.(*Script)
}

// Forget forgets all of the tenant's scripts.
func (t *TenantScripts) Forget() {
	t.scripts.mu.Lock()
	defer t.scripts.mu.Unlock()
	t.forget()
}

func (t *TenantScripts) forget() {
	clear(t.bySHA)
	t.order.Init()
	t.grow(-t.bytes)
	t.changes.Add(1)
}

func (t *TenantScripts) grow(n int) {
	t.bytes += n
	t.scripts.mu.bytes += n
}

// shrink forgets until the bound is kept.
func (m *Scripts) shrink() {
	for m.mu.bytes > scriptsMax {
		var most *TenantScripts
		for _, t := range m.mu.tenants {
			if most == nil || t.bytes > most.bytes {
				most = t
			}
		}
		oldest := most.order.Remove(most.order.Back()).(*Script)
		delete(most.bySHA, oldest.SHA)
		most.grow(-oldest.size())
		most.changes.Add(1)
	}
}

func (s *Script) size() int { return len(s.Body) + scriptOverhead }
