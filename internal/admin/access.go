package admin

import (
	"container/list"
	"crypto/sha256"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/sluiceproxy/sluice/internal/control"
	"github.com/sluiceproxy/sluice/pkg/api"
)

const (
	// failuresMax addresses are remembered; the one that was not heard of for longest is forgotten.
	failuresMax = 4096
	// failuresBurst failures are answered at once, one more in each failuresEvery.
	failuresBurst = 20
	failuresEvery = time.Second
	// goodMax tokens of an address are remembered.
	goodMax = 64
	// tokenMax bounds what is hashed.
	tokenMax = 512
)

// rank orders the roles.
func rank(r api.Role) int {
	return slices.Index([]api.Role{api.RoleViewer, api.RoleOperator, api.RoleAdmin}, r)
}

// authenticate finds out whose the request is. A missing token, an unknown one and one that has expired get the same
// answer.
func (s *service) authenticate(w http.ResponseWriter, r *http.Request, req *request) *api.Problem {
	scheme, secret, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		secret = ""
	}
	token, wait, found := s.identify(r.RemoteAddr, secret)
	if wait > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(1+int(wait/time.Second)))
		return &api.Problem{Status: http.StatusTooManyRequests, Detail: "too many requests without a valid token came from this address"}
	}
	if !found {
		w.Header().Set("WWW-Authenticate", `Bearer realm="sluice"`)
		return &api.Problem{Status: http.StatusUnauthorized, Detail: "a valid token is needed: Authorization: Bearer TOKEN"}
	}
	req.is(&token, secret)
	return nil
}

// identify finds whose the secret is that came from an address. An address with too many failures has to wait.
func (s *service) identify(address, secret string) (token api.Token, wait time.Duration, found bool) {
	from := s.failed.of(address)
	if wait = from.wait(secret); wait > 0 {
		return token, wait, false
	}
	if secret != "" && len(secret) <= tokenMax {
		token, found = s.control.Authenticate(secret)
	}
	if !found {
		from.failure()
		return token, 0, false
	}
	from.success(secret)
	return token, 0, true
}

// is notes whose the request is.
func (r *request) is(token *api.Token, secret string) {
	r.secret = secret
	r.actor = control.Actor{Name: token.Name, Address: r.line.Address, Role: token.Role}
	if len(token.Tenants) > 0 {
		r.actor.Tenants = token.Tenants
	}
	r.line.Token, r.line.Role = token.Name, token.Role
}

// failures counts failed authentications by address.
type failures struct {
	mu struct {
		sync.Mutex
		entries map[netip.Prefix]*list.Element // of *failing
		order   *list.List                     // the one heard of last comes first
	}
}

// failing is one address that requests came from.
type failing struct {
	address netip.Prefix
	limiter *rate.Limiter
	mu      sync.Mutex
	good    map[[sha256.Size]byte]bool // hashes of tokens that were valid: others' failures do not lock them out
}

func newFailures() *failures {
	f := &failures{}
	f.mu.entries, f.mu.order = make(map[netip.Prefix]*list.Element), list.New()
	return f
}

func (f *failures) of(remote string) *failing {
	address := origin(remote)
	f.mu.Lock()
	defer f.mu.Unlock()
	if e, ok := f.mu.entries[address]; ok {
		f.mu.order.MoveToFront(e)
		return e.Value.(*failing) //nolint:forcetypeassert // nothing else is in it
	}
	entry := &failing{address: address, limiter: rate.NewLimiter(rate.Every(failuresEvery), failuresBurst), good: make(map[[sha256.Size]byte]bool)}
	f.mu.entries[address] = f.mu.order.PushFront(entry)
	if f.mu.order.Len() > failuresMax {
		oldest := f.mu.order.Remove(f.mu.order.Back()).(*failing) //nolint:forcetypeassert // nothing else is in it
		delete(f.mu.entries, oldest.address)
	}
	return entry
}

// origin is what counts as one client: an address, or for IPv6 its network of 64 bits.
func origin(remote string) netip.Prefix {
	at, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.Prefix{}
	}
	address := at.Addr().Unmap().WithZone("")
	bits := address.BitLen()
	if address.Is6() {
		bits = 64
	}
	p, _ := address.Prefix(bits)
	return p
}

// wait is how long the address must wait before another failure would be answered.
func (f *failing) wait(secret string) time.Duration {
	f.mu.Lock()
	good := f.good[sha256.Sum256([]byte(secret))]
	f.mu.Unlock()
	if missing := 1 - f.limiter.Tokens(); missing > 0 && !good {
		return time.Duration(missing * float64(failuresEvery))
	}
	return 0
}

func (f *failing) failure() { f.limiter.Allow() }

func (f *failing) success(secret string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.good) >= goodMax {
		clear(f.good)
	}
	f.good[sha256.Sum256([]byte(secret))] = true
}

// bound reports whether the actor's token is for some tenants only.
func bound(a *control.Actor) bool { return a.Tenants != nil }

// seesAddresses reports whether the actor may know where nodes are.
func seesAddresses(a *control.Actor) bool { return !bound(a) && rank(a.Role) >= rank(api.RoleOperator) }
