package tenant

import (
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
)

// ErrWrongPass says that there is no such user with such a password. It does
// not say which of the two is wrong.
var ErrWrongPass = errors.New("invalid username-password pair or user is disabled")

// Registry holds all tenants at one moment. It is immutable: a reload makes
// another and swaps the pointer, so any number of loops read it without a lock.
type Registry struct {
	tenants map[string]*Tenant
	names   []string // of tenants, in order
	users   map[string]claim

	// decoys stand in for users that do not exist. They have the verifiers of
	// those that do, so that a name is not given away by how long its refusal
	// takes: an unknown name is as slow as a real one, which one depends on the
	// name and on seed.
	decoys []*User
	seed   maphash.Seed
}

// claim is what a correct password proves.
type claim struct {
	tenant *Tenant
	user   *User
}

// Option changes how NewRegistry builds.
type Option func(*Registry)

// Adopt keeps from the registry that is being replaced every *Tenant that did
// not change, so that comparing pointers tells whether a session is concerned.
// An old registry that is nil changes nothing.
func Adopt(old *Registry) Option {
	return func(r *Registry) {
		if old == nil {
			return
		}
		r.seed = old.seed // an unknown name stays as slow as it was
		for name, t := range r.tenants {
			if before := old.tenants[name]; before != nil && before.equal(t) {
				r.tenants[name] = before
			}
		}
	}
}

// NewRegistry takes the tenants over; the caller changes nothing in them any
// more. A tenant without databases gets database 0. The error tells all that
// is wrong.
func NewRegistry(tenants []*Tenant, options ...Option) (*Registry, error) {
	r := &Registry{tenants: make(map[string]*Tenant, len(tenants)), users: map[string]claim{}, seed: maphash.MakeSeed()}
	var problems []error
	for _, t := range tenants {
		switch {
		case t.Name == "":
			problems = append(problems, errors.New("cannot take a tenant without a name"))
		case r.tenants[t.Name] != nil:
			problems = append(problems, fmt.Errorf("cannot have two tenants named %q", t.Name))
		}
		if len(t.Databases) == 0 {
			t.Databases = []int{0}
		}
		r.tenants[t.Name] = t
	}
	for _, option := range options {
		option(r)
	}
	r.names = slices.Sorted(maps.Keys(r.tenants))
	for _, name := range r.names {
		problems = append(problems, r.claimUsers(r.tenants[name])...)
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	r.placeDecoys()
	return r, nil
}

// claimUsers notes whose the tenant's users are.
func (r *Registry) claimUsers(t *Tenant) (problems []error) {
	for _, name := range slices.Sorted(maps.Keys(t.Users)) {
		user := t.Users[name]
		if other, taken := r.users[name]; taken {
			problems = append(problems, fmt.Errorf("cannot give user %q to tenant %q: it is a user of tenant %q", name, t.Name, other.tenant.Name))
			continue
		}
		if name == "" || user == nil || user.Name != name {
			problems = append(problems, fmt.Errorf("cannot take user %q of tenant %q: its name is not its own", name, t.Name))
			continue
		}
		r.users[name] = claim{tenant: t, user: user}
	}
	return problems
}

func (r *Registry) placeDecoys() {
	for _, name := range slices.Sorted(maps.Keys(r.users)) {
		r.decoys = append(r.decoys, r.users[name].user)
	}
	if len(r.decoys) == 0 {
		r.decoys = []*User{NewUser("", VerifierOf(""))}
	}
}

// Authenticate finds whose the user is and checks the password; the user of
// AUTH with a password alone is DefaultUser. The only error is ErrWrongPass,
// after the same work whether the user exists or not. When Slow(user) it must
// not run on a loop.
func (r *Registry) Authenticate(user string, password []byte) (*Tenant, *User, error) {
	return r.AuthenticateFor(nil, user, password)
}

// AuthenticateFor is Authenticate for a client that came to a listener of one
// tenant: other tenants' users are refused, and when the tenant is open its
// DefaultUser is taken with any password, as Redis does with a user that needs
// none; *User is nil then. A nil tenant is any.
func (r *Registry) AuthenticateFor(bound *Tenant, user string, password []byte) (*Tenant, *User, error) {
	if bound != nil && bound.Open() && user == DefaultUser {
		return bound, nil, nil
	}
	who, known := r.find(user)
	right := who.user.Verify(password)
	if !known || !right || bound != nil && bound.Name != who.tenant.Name {
		return nil, nil, ErrWrongPass
	}
	return who.tenant, who.user, nil
}

// Slow says that checking a password of this user, who may not exist, must be
// done off the loop.
func (r *Registry) Slow(user string) bool {
	who, _ := r.find(user)
	return who.user.Slow()
}

// find gives the user, or one whose password takes as long to refuse.
func (r *Registry) find(user string) (who claim, known bool) {
	decoy := r.decoys[maphash.String(r.seed, user)%uint64(len(r.decoys))]
	if who, known = r.users[user]; !known {
		who.user = decoy
	}
	return who, known
}

// Tenant is the tenant of that name, or nil.
func (r *Registry) Tenant(name string) *Tenant { return r.tenants[name] }

// ForListener is the tenant that clients of a listener belong to: the one it is
// bound to by name, or the only tenant when that is open and name is "", or nil
// when clients must say by AUTH whose they are. A bound client must still
// authenticate unless the tenant is Open.
func (r *Registry) ForListener(name string) *Tenant {
	if name != "" {
		return r.tenants[name]
	}
	if len(r.names) == 1 && r.tenants[r.names[0]].Open() {
		return r.tenants[r.names[0]]
	}
	return nil
}

// All lists the tenants in the order of their names.
func (r *Registry) All() []*Tenant {
	all := make([]*Tenant, len(r.names))
	for i, name := range r.names {
		all[i] = r.tenants[name]
	}
	return all
}
