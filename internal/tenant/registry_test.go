package tenant

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const cheapArgon2id = "$argon2id$v=19$m=64,t=1,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc"

func users(all ...*User) map[string]*User {
	named := map[string]*User{}
	for _, u := range all {
		named[u.Name] = u
	}
	return named
}

func plainUser(name, password string) *User { return NewUser(name, VerifierOf(password)) }

func slowUser(t *testing.T, name string) *User {
	t.Helper()
	verifier, err := ParseArgon2id(cheapArgon2id)
	require.NoError(t, err)
	return NewUser(name, verifier)
}

func registry(t *testing.T, tenants []*Tenant, options ...Option) *Registry {
	t.Helper()
	r, err := NewRegistry(tenants, options...)
	require.NoError(t, err)
	return r
}

func TestAuthenticateFindsTheTenant(t *testing.T) {
	acme := &Tenant{Name: "acme", Users: users(plainUser("alice", "a"), plainUser(DefaultUser, "d"))}
	umbrella := &Tenant{Name: "umbrella", Users: users(plainUser("bob", "b"))}
	r := registry(t, []*Tenant{umbrella, acme})

	for _, c := range []struct {
		user, password string
		tenant         *Tenant
	}{
		{"alice", "a", acme},
		{DefaultUser, "d", acme},
		{"bob", "b", umbrella},
		{"alice", "b", nil}, // another's password
		{"bob", "", nil},
		{"Alice", "a", nil},
		{"carol", "a", nil},
		{"", "a", nil},
	} {
		tenant, user, err := r.Authenticate(c.user, []byte(c.password))
		if c.tenant == nil {
			require.ErrorIs(t, err, ErrWrongPass, c.user)
			require.Nil(t, tenant)
			require.Nil(t, user)
			continue
		}
		require.NoError(t, err, c.user)
		require.Same(t, c.tenant, tenant)
		require.Same(t, c.tenant.Users[c.user], user)
	}
	require.Equal(t, []*Tenant{acme, umbrella}, r.All())
	require.Same(t, acme, r.Tenant("acme"))
	require.Nil(t, r.Tenant("nobody"))
	require.Equal(t, []int{0}, acme.Databases)
}

func TestNobodyCanAuthenticateWithoutUsers(t *testing.T) {
	r := registry(t, []*Tenant{{Name: "open"}})
	for _, user := range []string{"", DefaultUser, "x"} {
		_, _, err := r.Authenticate(user, nil)
		require.ErrorIs(t, err, ErrWrongPass)
		require.False(t, r.Slow(user))
	}
}

func TestBoundListenerTakesOnlyItsTenantsUsers(t *testing.T) {
	acme := &Tenant{Name: "acme", Users: users(plainUser("alice", "a"))}
	open := &Tenant{Name: "open"}
	r := registry(t, []*Tenant{acme, open})

	tenant, user, err := r.AuthenticateFor(acme, "alice", []byte("a"))
	require.NoError(t, err)
	require.Same(t, acme, tenant)
	require.Equal(t, "alice", user.Name)

	_, _, err = r.AuthenticateFor(open, "alice", []byte("a"))
	require.ErrorIs(t, err, ErrWrongPass)
	_, _, err = r.AuthenticateFor(acme, DefaultUser, []byte("a"))
	require.ErrorIs(t, err, ErrWrongPass)

	tenant, user, err = r.AuthenticateFor(open, DefaultUser, []byte("anything"))
	require.NoError(t, err)
	require.Same(t, open, tenant)
	require.Nil(t, user)
}

func TestForListener(t *testing.T) {
	open, acme := &Tenant{Name: "open"}, &Tenant{Name: "acme", Users: users(plainUser("alice", "a"))}

	alone := registry(t, []*Tenant{open})
	require.Same(t, open, alone.ForListener(""))
	require.Same(t, open, alone.ForListener("open"))

	require.Nil(t, registry(t, []*Tenant{acme}).ForListener(""), "a tenant with users asks for a password")

	both := registry(t, []*Tenant{open, acme})
	require.Nil(t, both.ForListener(""))
	require.Same(t, acme, both.ForListener("acme"))
	require.Nil(t, both.ForListener("nobody"))
}

func TestUnknownUsersCostWhatRealOnesDo(t *testing.T) {
	r := registry(t, []*Tenant{{Name: "acme", Users: users(slowUser(t, "slow"), plainUser("quick", "q"))}})
	require.True(t, r.Slow("slow"))
	require.False(t, r.Slow("quick"))

	slow := 0
	const names = 2000
	for i := range names {
		name := fmt.Sprintf("unknown-%d", i)
		if r.Slow(name) {
			slow++
		}
		require.Equal(t, r.Slow(name), r.Slow(name), "an unknown name is always as slow")
	}
	require.InDelta(t, names/2, slow, names/10, "half of the real users are slow")

	// The password of the user whose verifier the decoy has opens nothing.
	for i := range 50 {
		_, _, err := r.Authenticate(fmt.Sprintf("unknown-%d", i), []byte("q"))
		require.ErrorIs(t, err, ErrWrongPass)
	}
}

func TestUnknownNamesStayAsSlowOverAReload(t *testing.T) {
	tenants := func() []*Tenant {
		return []*Tenant{{Name: "acme", Users: users(slowUser(t, "slow"), plainUser("quick", "q"))}}
	}
	before := registry(t, tenants())
	after := registry(t, tenants(), Adopt(before))
	for i := range 200 {
		name := fmt.Sprintf("unknown-%d", i)
		require.Equal(t, before.Slow(name), after.Slow(name))
	}
}

func TestAdoptKeepsUnchangedTenants(t *testing.T) {
	make3 := func() []*Tenant {
		return []*Tenant{
			{Name: "a", Cluster: "c", Databases: []int{0, 1}, CommandTimeout: time.Second, Users: users(plainUser("ua", "p"), slowUser(t, "sa"))},
			{Name: "b", Cluster: "c"},
			{Name: "gone", Cluster: "c"},
		}
	}
	old := registry(t, make3())
	require.Same(t, old.Tenant("a"), registry(t, make3(), Adopt(old)).Tenant("a"))
	require.NotSame(t, old.Tenant("a"), registry(t, make3()).Tenant("a"))
	require.NotNil(t, registry(t, make3(), Adopt(nil)).Tenant("a"))

	for name, change := range map[string]func(*Tenant){
		"cluster":         func(a *Tenant) { a.Cluster = "other" },
		"databases":       func(a *Tenant) { a.Databases = []int{1, 0} },
		"cross slot":      func(a *Tenant) { a.CrossSlot = Error },
		"connect timeout": func(a *Tenant) { a.ConnectTimeout = time.Second },
		"command timeout": func(a *Tenant) { a.CommandTimeout = time.Minute },
		"user added":      func(a *Tenant) { a.Users["more"] = plainUser("more", "p") },
		"user gone":       func(a *Tenant) { delete(a.Users, "ua") },
		"password":        func(a *Tenant) { a.Users["ua"] = plainUser("ua", "q") },
	} {
		t.Run(name, func(t *testing.T) {
			tenants := make3()[:2]
			change(tenants[0])
			r := registry(t, tenants, Adopt(old))
			require.Same(t, tenants[0], r.Tenant("a"))
			require.Same(t, old.Tenant("b"), r.Tenant("b"))
			require.Nil(t, r.Tenant("gone"))
		})
	}

	r := registry(t, make3(), Adopt(old))
	tenant, _, err := r.Authenticate("ua", []byte("p"))
	require.NoError(t, err)
	require.Same(t, old.Tenant("a"), tenant, "users lead to the kept tenant")
}

func TestContradictionsAreTold(t *testing.T) {
	_, err := NewRegistry([]*Tenant{
		{Name: "acme", Users: users(plainUser("alice", "a"))},
		{Name: "umbrella", Users: map[string]*User{"alice": plainUser("alice", "b"), "bob": plainUser("robert", "b")}},
		{Name: "acme"},
		{},
	})
	require.ErrorContains(t, err, `cannot have two tenants named "acme"`)
	require.ErrorContains(t, err, `cannot take a tenant without a name`)
	require.ErrorContains(t, err, `cannot take user "bob" of tenant "umbrella"`)

	_, err = NewRegistry([]*Tenant{
		{Name: "umbrella", Users: users(plainUser("alice", "b"))},
		{Name: "acme", Users: users(plainUser("alice", "a"))},
	})
	require.EqualError(t, err, `cannot give user "alice" to tenant "umbrella": it is a user of tenant "acme"`)
}

func TestCrossSlotText(t *testing.T) {
	for _, mode := range []CrossSlot{Split, Error} {
		parsed, ok := ParseCrossSlot(mode.String())
		require.True(t, ok)
		require.Equal(t, mode, parsed)
	}
	_, ok := ParseCrossSlot("merge")
	require.False(t, ok)
}

func TestAllowedDatabases(t *testing.T) {
	tenant := &Tenant{Databases: []int{3, 0}}
	require.True(t, tenant.Allows(0))
	require.True(t, tenant.Allows(3))
	require.False(t, tenant.Allows(1))
	require.False(t, tenant.Allows(-1))
}
