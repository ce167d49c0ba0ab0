package control

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/sluiceproxy/sluice/internal/config"
	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/store"
	"github.com/sluiceproxy/sluice/pkg/api"
)

const (
	eventually = 10 * time.Second
	tick       = 5 * time.Millisecond
)

var ann = Actor{Name: "ann", Address: "127.0.0.1:5", Reason: "because", Role: api.RoleAdmin} //nolint:gochecknoglobals // constant

func write() Write { return Write{Actor: ann, Version: AnyVersion} }

func fileOf(t *testing.T) *File {
	t.Helper()
	return NewFile(&config.Config{
		Clusters: []config.Cluster{{Name: "filed", Kind: config.Standalone, Addresses: []string{"127.0.0.1:1"}}},
		Tenants:  []config.Tenant{{Name: "fixed", Cluster: "filed", Databases: []int{0}, CrossSlot: "split"}},
	}, nil)
}

// start makes the desired state over a store and follows it until the test ends.
func start(t *testing.T, s store.Store) *Control {
	t.Helper()
	sealer, err := NewSealer(testKey)
	require.NoError(t, err)
	c := New(s, sealer, fileOf(t), zap.NewNop())
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { c.Follow(ctx); close(done) }()
	t.Cleanup(func() { cancel(); <-done })
	require.Eventually(t, c.Synced, eventually, tick)
	return c
}

var testKey = NewKey() //nolint:gochecknoglobals // one for all tests

func single(name string) api.Cluster {
	return api.Cluster{Name: name, Addresses: []string{"127.0.0.1:7001"}}
}

func TestVersionsOfACluster(t *testing.T) {
	redistest.LeakCheck(t)
	c := start(t, store.NewMemory())
	created, err := c.Clusters().Create(t.Context(), write(), single("c1"))
	require.NoError(t, err)
	require.Equal(t, "standalone", created.Entity.ClusterKind)
	require.Equal(t, api.Duration(2*time.Second), created.Entity.ConnectTimeout, "defaults are filled in")
	require.Equal(t, 1, created.Entity.Meta.Version)
	require.Equal(t, api.SourceStore, created.Entity.Meta.Source)
	require.Equal(t, "ann", created.Entity.Meta.UpdatedBy)
	_, err = c.Clusters().Create(t.Context(), write(), single("c1"))
	require.ErrorContains(t, err, `Cluster "c1" exists already`)

	changed, err := c.Clusters().Patch(t.Context(), write(), "c1", []byte(`{"addresses": ["127.0.0.1:7002"], "connect_timeout": "5s"}`))
	require.NoError(t, err)
	require.Equal(t, 2, changed.Entity.Meta.Version)
	require.Equal(t, []api.Edit{
		{Field: "addresses", Old: []any{"127.0.0.1:7001"}, New: []any{"127.0.0.1:7002"}},
		{Field: "connect_timeout", Old: "2s", New: "5s"},
	}, changed.Plan.Diff)
	same, err := c.Clusters().Replace(t.Context(), write(), "c1", changed.Entity)
	require.NoError(t, err)
	require.Equal(t, "none", same.Plan.Action)
	require.Equal(t, 2, same.Entity.Meta.Version, "what changes nothing makes no version")

	stale := write()
	stale.Version = 1
	_, err = c.Clusters().Replace(t.Context(), stale, "c1", single("c1"))
	require.EqualError(t, err, `Cluster "c1" has version 2, not 1: it was changed meanwhile; read it again`)
	dry := write()
	dry.DryRun = true
	planned, err := c.Clusters().Replace(t.Context(), dry, "c1", single("c1"))
	require.NoError(t, err)
	require.Len(t, planned.Plan.Diff, 2)
	now, err := c.Clusters().Get(t.Context(), "c1")
	require.NoError(t, err)
	require.Equal(t, changed.Entity, now, "a dry run changes nothing")

	back, err := c.Clusters().Rollback(t.Context(), write(), "c1", 0)
	require.NoError(t, err)
	require.Equal(t, []string{"127.0.0.1:7001"}, back.Entity.Addresses)
	require.Equal(t, 3, back.Entity.Meta.Version)
	_, err = c.Clusters().Delete(t.Context(), write(), "c1")
	require.NoError(t, err)
	_, err = c.Clusters().Get(t.Context(), "c1")
	require.ErrorIs(t, err, ErrNotFound)
	back, err = c.Clusters().Rollback(t.Context(), write(), "c1", 2)
	require.NoError(t, err)
	require.Equal(t, []string{"127.0.0.1:7002"}, back.Entity.Addresses, "a deleted entity comes back")
	require.Equal(t, 5, back.Entity.Meta.Version)
	_, err = c.Clusters().Rollback(t.Context(), write(), "c1", 4)
	require.ErrorContains(t, err, "is not a version that is kept")

	history, err := c.Clusters().History(t.Context(), "c1")
	require.NoError(t, err)
	var told []string
	for _, change := range history {
		told = append(told, fmt.Sprint(change.Version, change.Action, change.By, change.From, change.Reason))
	}
	require.Equal(t, []string{
		"5rollbackann127.0.0.1:5because", "4deleteann127.0.0.1:5because", "3rollbackann127.0.0.1:5because",
		"2updateann127.0.0.1:5because", "1createann127.0.0.1:5because",
	}, told)
}

func TestHistoryIsBounded(t *testing.T) {
	c := start(t, store.NewMemory())
	_, err := c.Clusters().Create(t.Context(), write(), single("c1"))
	require.NoError(t, err)
	for i := range 2 * versionsMax {
		_, err := c.Clusters().Patch(t.Context(), write(), "c1", fmt.Appendf(nil, `{"addresses": ["127.0.0.1:%d"]}`, 8000+i))
		require.NoError(t, err)
	}
	history, err := c.Clusters().History(t.Context(), "c1")
	require.NoError(t, err)
	require.Len(t, history, versionsMax)
	require.Equal(t, 2*versionsMax+1, history[0].Version)
}

func TestSecretsNeverComeBack(t *testing.T) {
	s := store.NewMemory()
	c := start(t, s)
	cluster := single("c1")
	cluster.Auth = &api.ClusterAuth{Username: "proxy", Password: "cluster-secret"}
	made, err := c.Clusters().Create(t.Context(), write(), cluster)
	require.NoError(t, err)
	require.True(t, made.Entity.Auth.HasPassword)
	patched, err := c.Clusters().Patch(t.Context(), write(), "c1", []byte(`{"auth": {"username": "other"}}`))
	require.NoError(t, err)
	require.Equal(t, []api.Edit{{Field: "auth.username", Old: "proxy", New: "other"}}, patched.Plan.Diff, "the password stays")
	again, err := c.Clusters().Patch(t.Context(), write(), "c1", []byte(`{"auth": {"password": "cluster-secret"}}`))
	require.NoError(t, err)
	require.Equal(t, "none", again.Plan.Action, "the same password is no change")
	changed, err := c.Clusters().Patch(t.Context(), write(), "c1", []byte(`{"auth": {"password": "cluster-secret-2"}}`))
	require.NoError(t, err)
	require.Equal(t, []api.Edit{{Field: "auth.password", Old: notShown, New: notShown}}, changed.Plan.Diff)

	_, err = c.Tenants().Create(t.Context(), write(), api.Tenant{Name: "acme", Cluster: "c1"})
	require.NoError(t, err)
	user, err := c.Users().Create(t.Context(), write(), api.User{Tenant: "acme", Name: "app", Password: "user-secret"})
	require.NoError(t, err)
	token, err := c.Tokens().Create(t.Context(), write(), api.Token{Name: "ci", Role: api.RoleViewer})
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(token.Entity.Secret, "slt_"), "once")
	found, ok := c.Authenticate(token.Entity.Secret)
	require.True(t, ok)
	require.Equal(t, "ci", found.Name)
	require.Empty(t, found.Secret)
	_, ok = c.Authenticate(token.Entity.Secret + "x")
	require.False(t, ok)

	state, problems := c.State()
	require.Empty(t, problems)
	require.Equal(t, "cluster-secret-2", state.Clusters[1].Auth.Password.Reveal())
	require.NotEmpty(t, state.Tenants[1].Users[0].Argon2id.Reveal())

	all, _, err := s.List(t.Context(), "")
	require.NoError(t, err)
	var shown []any
	for _, e := range all {
		shown = append(shown, string(e.Value))
	}
	for _, h := range []func(context.Context, string) ([]api.Change, error){c.Clusters().History, c.Users().History, c.Tokens().History} {
		for _, name := range []string{"c1", "acme/app", "ci"} {
			changes, _ := h(t.Context(), name)
			shown = append(shown, changes)
		}
	}
	shown = append(shown, made, patched, changed, user)
	text, err := json.Marshal(shown)
	require.NoError(t, err)
	for _, secret := range []string{"cluster-secret", "user-secret", token.Entity.Secret} {
		require.NotContains(t, string(text), secret)
	}
}

func TestSealedSecretIsOfItsEntityAndKey(t *testing.T) {
	sealer, err := NewSealer(testKey)
	require.NoError(t, err)
	sealed, err := sealer.Seal("clusters/a", "secret")
	require.NoError(t, err)
	opened, err := sealer.Open("clusters/a", sealed)
	require.NoError(t, err)
	require.Equal(t, "secret", opened)
	_, err = sealer.Open("clusters/b", sealed)
	require.ErrorContains(t, err, "damaged")
	other, err := NewSealer(NewKey())
	require.NoError(t, err)
	_, err = other.Open("clusters/a", sealed)
	require.ErrorContains(t, err, "sealed with another key")
	_, err = (*Sealer)(nil).Open("clusters/a", sealed)
	require.ErrorIs(t, err, errNoKey)
	_, err = NewSealer("short")
	require.ErrorContains(t, err, "base64")
}

func TestWhatIsInvalidIsNamed(t *testing.T) {
	c := start(t, store.NewMemory())
	requireField := func(err error, location, message string) {
		t.Helper()
		var invalid *InvalidError
		require.ErrorAs(t, err, &invalid)
		require.Equal(t, location, invalid.Fields[0].Location)
		require.Contains(t, invalid.Fields[0].Message, message)
	}
	_, err := c.Clusters().Create(t.Context(), write(), api.Cluster{Name: "c1", Addresses: []string{"127.0.0.1"}})
	requireField(err, "body.addresses[0]", "has no port; write host:port")
	_, err = c.Clusters().Create(t.Context(), write(), api.Cluster{Name: "c 1", Addresses: []string{"127.0.0.1:1"}})
	requireField(err, "body.name", "is not a valid name")
	require.Equal(t, "c 1", err.(*InvalidError).Fields[0].Value, "JSON quotes it by itself") //nolint:errorlint // as it is
	_, err = c.Clusters().Create(t.Context(), write(), api.Cluster{Name: "c1"})
	requireField(err, "body.addresses", "")
	_, err = c.Tenants().Create(t.Context(), write(), api.Tenant{Name: "acme", Cluster: "file"})
	requireField(err, "body.cluster", "is not a configured cluster; did you mean filed?")
	_, err = c.Tenants().Create(t.Context(), write(), api.Tenant{Name: "acme", Cluster: "filed", Databases: []int{3, 3}})
	requireField(err, "body.databases[1]", "is there twice")
	_, err = c.Users().Create(t.Context(), write(), api.User{Tenant: "acme", Name: "app", Password: "x"})
	requireField(err, "path.tenant", "is not a tenant")
	_, err = c.Users().Create(t.Context(), write(), api.User{Tenant: "fixed", Name: "app", Password: "x"})
	requireField(err, "path.tenant", "is declared in the configuration file")
	_, err = c.Tenants().Create(t.Context(), write(), api.Tenant{Name: "acme", Cluster: "filed"})
	require.NoError(t, err)
	_, err = c.Users().Create(t.Context(), write(), api.User{Tenant: "acme", Name: "app"})
	requireField(err, "body.password", "is needed")
	_, err = c.Users().Create(t.Context(), write(), api.User{Tenant: "acme", Name: "app", Argon2id: "nonsense"})
	requireField(err, "body.argon2id", "")
	_, err = c.Tokens().Create(t.Context(), write(), api.Token{Name: "x", Role: "king"})
	requireField(err, "body.role", "viewer, operator or admin")
	_, err = c.Tenants().Patch(t.Context(), write(), "acme", []byte(`{"databses": [1]}`))
	requireField(err, "body", "databses")
	_, err = c.Tenants().Patch(t.Context(), write(), "acme", []byte(`[1]`))
	requireField(err, "body", "")
	_, err = c.Tenants().Patch(t.Context(), write(), "acme", []byte(`{"name": "b"}`))
	requireField(err, "body.name", "cannot be changed")
}

func TestFileEntitiesAreShownAndFixed(t *testing.T) {
	c := start(t, store.NewMemory())
	cluster, err := c.Clusters().Get(t.Context(), "filed")
	require.NoError(t, err)
	require.Equal(t, api.SourceFile, cluster.Meta.Source)
	for _, err := range []error{
		second(c.Clusters().Create(t.Context(), write(), single("filed"))), second(c.Clusters().Delete(t.Context(), write(), "filed")),
		second(c.Tenants().Patch(t.Context(), write(), "fixed", []byte(`{}`))), second(c.Tenants().Rollback(t.Context(), write(), "fixed", 0)),
	} {
		var refused *RefusedError
		require.ErrorAs(t, err, &refused)
		require.Contains(t, refused.Text, "is declared in the configuration file; change it there")
	}
	all, err := c.Tenants().List(t.Context(), nil)
	require.NoError(t, err)
	require.Len(t, all, 1)
}

func second[T any](_ T, err error) error { return err }

func TestWhatIsUsedIsNotDeleted(t *testing.T) {
	c := start(t, store.NewMemory())
	for _, name := range []string{"c1"} {
		_, err := c.Clusters().Create(t.Context(), write(), single(name))
		require.NoError(t, err)
	}
	for _, name := range []string{"b", "a"} {
		_, err := c.Tenants().Create(t.Context(), write(), api.Tenant{Name: name, Cluster: "c1"})
		require.NoError(t, err)
	}
	_, err := c.Clusters().Delete(t.Context(), write(), "c1")
	var refused *RefusedError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, []string{"a", "b"}, refused.By)
}

// A token that is bound to tenants changes their users and nothing else.
func TestBoundTokens(t *testing.T) {
	c := start(t, store.NewMemory())
	for _, name := range []string{"mine", "theirs"} {
		_, err := c.Tenants().Create(t.Context(), write(), api.Tenant{Name: name, Cluster: "filed"})
		require.NoError(t, err)
	}
	bound := write()
	bound.Actor.Tenants = []string{"mine"}
	_, err := c.Users().Create(t.Context(), bound, api.User{Tenant: "mine", Name: "app", Password: "x"})
	require.NoError(t, err)
	for _, err := range []error{
		second(c.Users().Create(t.Context(), bound, api.User{Tenant: "theirs", Name: "b", Password: "x"})),
		second(c.Clusters().Create(t.Context(), bound, single("c1"))), second(c.Tenants().Delete(t.Context(), bound, "theirs")),
		second(c.Tenants().Patch(t.Context(), bound, "mine", []byte(`{"trusted": true}`))), second(c.Tokens().Create(t.Context(), bound, api.Token{Name: "x", Role: api.RoleAdmin})),
	} {
		require.ErrorIs(t, err, ErrForbidden)
	}
}

// Two proxies over one store see each other's changes, and one of two changes at the same moment loses.
func TestFleet(t *testing.T) {
	redistest.LeakCheck(t)
	s := store.NewMemory()
	one, two := start(t, s), start(t, s)
	events := two.Events(t.Context())
	_, err := one.Clusters().Create(t.Context(), write(), single("c1"))
	require.NoError(t, err)
	require.Eventually(t, func() bool { _, err := two.Clusters().Get(t.Context(), "c1"); return err == nil }, eventually, tick)
	e := <-events
	require.Equal(t, []any{api.KindCluster, "c1", "create"}, []any{e.Kind, e.Name, e.Change.Action})
	stale := write()
	stale.Version = 1
	_, err = two.Clusters().Patch(t.Context(), stale, "c1", []byte(`{"addresses": ["127.0.0.1:2"]}`))
	require.NoError(t, err)
	_, err = one.Clusters().Patch(t.Context(), stale, "c1", []byte(`{"addresses": ["127.0.0.1:3"]}`))
	var conflict *VersionError
	require.ErrorAs(t, err, &conflict)
}

// What contradicts in the store, because two proxies wrote at the same moment, is left out and told.
func TestContradictionsAreLeftOut(t *testing.T) {
	s := store.NewMemory()
	c := start(t, s)
	keep := func(key, entity string) {
		_, err := s.Put(t.Context(), key, fmt.Appendf(nil, `{"versions": [{"version": 1, "entity": %s}]}`, entity), store.Any)
		require.NoError(t, err)
	}
	keep("tenants/a", `{"name": "a", "cluster": "filed"}`)
	keep("tenants/b", `{"name": "b", "cluster": "filed"}`)
	keep("tenants/lost", `{"name": "lost", "cluster": "gone"}`)
	keep("users/a/app", `{"tenant": "a", "name": "app", "argon2id": "x"}`)
	keep("users/b/app", `{"tenant": "b", "name": "app", "argon2id": "x"}`)
	keep("clusters/filed", `{"name": "filed"}`)
	keep("clusters/odd", `{"name": 7}`)
	_, err := s.Put(t.Context(), "clusters/broken", []byte("{"), store.Any)
	require.NoError(t, err)
	_, err = c.Sync(t.Context())
	require.NoError(t, err)
	state, problems := c.State()
	require.Len(t, state.Clusters, 1)
	require.Len(t, state.Tenants, 3)
	require.Len(t, problems, 4, "%v", problems)
	require.Contains(t, strings.Join(problems, "\n"), "user app of tenant b is left out: it is a user of tenant a")
}

func TestTombstonesAreBounded(t *testing.T) {
	s := store.NewMemory()
	c := start(t, s)
	for i := range tombstonesMax + 5 {
		name := fmt.Sprint("c", i)
		_, err := c.Clusters().Create(t.Context(), write(), single(name))
		require.NoError(t, err)
		_, err = c.Clusters().Delete(t.Context(), write(), name)
		require.NoError(t, err)
	}
	all, _, err := s.List(t.Context(), "clusters/")
	require.NoError(t, err)
	require.Len(t, all, tombstonesMax)
}
