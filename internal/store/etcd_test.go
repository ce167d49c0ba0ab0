package store

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/sluiceproxy/sluice/internal/redistest"
)

func openEtcd(t *testing.T, cfg EtcdConfig) *Etcd {
	t.Helper()
	e, err := OpenEtcd(cfg)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return e.Status().Available }, eventually, tick)
	return e
}

func TestEtcd(t *testing.T) {
	server := redistest.Etcd(t, nil)
	n := 0
	suite(t, func(t *testing.T) Store {
		n++
		return openEtcd(t, EtcdConfig{Endpoints: []string{server.Endpoint()}, Prefix: fmt.Sprintf("/sluice/%d/", n)})
	})
}

func TestEtcdOverTLS(t *testing.T) {
	t.Parallel()
	files := redistest.NewTLSFiles(t)
	server := redistest.Etcd(t, files)
	s := openEtcd(t, EtcdConfig{Endpoints: []string{server.Endpoint()}, Prefix: "/sluice/", TLS: files.ClientConfig(t)})
	defer func() { _ = s.Close() }()
	put(t, s, "a", "1", Absent)

	strange := files.ClientConfig(t)
	strange.Certificates = nil
	refused, err := OpenEtcd(EtcdConfig{Endpoints: []string{server.Endpoint()}, Prefix: "/sluice/", TLS: strange})
	require.NoError(t, err)
	defer func() { _ = refused.Close() }()
	_, err = refused.Get(t.Context(), "a")
	require.ErrorIs(t, err, ErrUnavailable)
	require.NotContains(t, err.Error(), server.Addr())
}

func TestEtcdWithUser(t *testing.T) {
	t.Parallel()
	server := redistest.Etcd(t, nil)
	root, err := clientv3.New(clientv3.Config{Endpoints: []string{server.Endpoint()}, Logger: zap.NewNop()})
	require.NoError(t, err)
	defer func() { _ = root.Close() }()
	for _, name := range []string{"root", "sluice"} {
		_, err = root.UserAdd(t.Context(), name, "secret-of-"+name)
		require.NoError(t, err)
	}
	_, err = root.UserGrantRole(t.Context(), "root", "root")
	require.NoError(t, err)
	_, err = root.RoleAdd(t.Context(), "proxies")
	require.NoError(t, err)
	_, err = root.RoleGrantPermission(t.Context(), "proxies", "/sluice/", clientv3.GetPrefixRangeEnd("/sluice/"), clientv3.PermissionType(clientv3.PermReadWrite))
	require.NoError(t, err)
	_, err = root.UserGrantRole(t.Context(), "sluice", "proxies")
	require.NoError(t, err)
	_, err = root.AuthEnable(t.Context())
	require.NoError(t, err)

	cfg := EtcdConfig{Endpoints: []string{server.Endpoint()}, Prefix: "/sluice/", Username: "sluice", Password: "secret-of-sluice"}
	s := openEtcd(t, cfg)
	defer func() { _ = s.Close() }()
	w := s.Watch(t.Context(), "", s.Status().Revision)
	revision := put(t, s, "a", "1", Absent)
	require.Equal(t, revision, next(t, w).Revision)

	cfg.Password = "wrong"
	refused, err := OpenEtcd(cfg)
	require.NoError(t, err)
	defer func() { _ = refused.Close() }()
	require.Eventually(t, func() bool {
		status := refused.Status()
		return !status.Available && status.Reason == "the store cannot be reached: etcd: it refuses the user, password or certificate"
	}, eventually, tick, "%v", refused.Status)
}

// A watch goes on where it was when etcd comes back, whether it was killed or only silent; meanwhile the status says so.
func TestEtcdAway(t *testing.T) {
	t.Parallel()
	server := redistest.Etcd(t, nil)
	s := openEtcd(t, EtcdConfig{Endpoints: []string{server.Endpoint()}, Prefix: "/sluice/"})
	defer func() { _ = s.Close() }()
	other := openEtcd(t, EtcdConfig{Endpoints: []string{server.Endpoint()}, Prefix: "/sluice/"})
	defer func() { _ = other.Close() }()
	w := s.Watch(t.Context(), "", s.Status().Revision)
	put(t, other, "a", "before", Any)
	require.Equal(t, "before", string(next(t, w).Value))

	for name, outage := range map[string]struct{ begin, end func() }{
		"killed": {server.Kill, server.Start},
		"silent": {server.Freeze, server.Thaw},
	} {
		outage.begin()
		_, err := s.Put(t.Context(), "a", []byte("lost"), Any)
		require.ErrorIs(t, err, ErrUnavailable, name)
		require.Eventually(t, func() bool { return !s.Status().Available }, eventually, tick, name)
		outage.end()
		require.Eventually(t, func() bool {
			_, err := other.Put(t.Context(), "a", []byte(name), Any)
			return err == nil
		}, eventually, tick, name)
		for e := next(t, w); string(e.Value) != name; e = next(t, w) {
			require.Equal(t, "lost", string(e.Value), "a write whose answer was lost may have been made")
		}
		require.Eventually(t, func() bool { return s.Status().Available }, eventually, tick, name)
	}
}

func TestEtcdCompacted(t *testing.T) {
	t.Parallel()
	server := redistest.Etcd(t, nil)
	s := openEtcd(t, EtcdConfig{Endpoints: []string{server.Endpoint()}, Prefix: "/sluice/"})
	defer func() { _ = s.Close() }()
	first := put(t, s, "a", "1", Any)
	last := put(t, s, "a", "2", Any)
	_, err := s.client.Load().Compact(t.Context(), last)
	require.NoError(t, err)
	w := s.Watch(t.Context(), "", first-1)
	for range w.Events {
	}
	require.ErrorIs(t, w.Err(), ErrCompacted)
}

// A restored snapshot is older than what is known: every watch begins again, from what is there now.
func TestEtcdRestoredFromSnapshot(t *testing.T) {
	t.Parallel()
	server := redistest.Etcd(t, nil)
	s := openEtcd(t, EtcdConfig{Endpoints: []string{server.Endpoint()}, Prefix: "/sluice/"})
	defer func() { _ = s.Close() }()
	put(t, s, "a", "kept", Any)
	server.Kill()
	backup := server.Backup()
	server.Start()
	var revision int64
	require.Eventually(t, func() (done bool) {
		var err error
		for range 20 {
			if revision, err = s.Put(t.Context(), "a", []byte("forgotten"), Any); err != nil {
				return false
			}
		}
		return true
	}, eventually, tick)
	w := s.Watch(t.Context(), "", revision)

	server.Kill()
	server.Restore(backup)
	server.Start()
	select {
	case _, more := <-w.Events:
		require.False(t, more)
		require.ErrorIs(t, w.Err(), ErrCompacted)
	case <-time.After(eventually):
		require.FailNow(t, "the watch waits for a revision that may never come")
	}
	late := s.Watch(t.Context(), "", revision)
	_, more := <-late.Events
	require.False(t, more)
	require.ErrorIs(t, late.Err(), ErrCompacted)
	all, now, err := s.List(t.Context(), "")
	require.NoError(t, err)
	require.Equal(t, "kept", string(all[0].Value))
	w = s.Watch(t.Context(), "", now)
	put(t, s, "a", "new", Any)
	require.Equal(t, "new", string(next(t, w).Value))
}

func TestEtcdThatIsNotThere(t *testing.T) {
	t.Parallel()
	s, err := OpenEtcd(EtcdConfig{Endpoints: []string{"http://127.0.0.1:1"}, Prefix: "/sluice/"})
	require.NoError(t, err, "it may come later")
	_, _, err = s.List(t.Context(), "")
	require.ErrorIs(t, err, ErrUnavailable)
	require.NotContains(t, err.Error(), "127.0.0.1")
	require.False(t, s.Status().Available)
	require.NoError(t, s.Close())
	require.False(t, errors.Is(err, ErrNotFound))
}
