package daemon

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/sluiceproxy/sluice/internal/config"
	"github.com/sluiceproxy/sluice/internal/control"
	"github.com/sluiceproxy/sluice/internal/store"
	"github.com/sluiceproxy/sluice/pkg/api"
)

const (
	// syncWait is how long a start waits for the store. A proxy that could not read it serves what the file declares, and is
	// not ready.
	syncWait = 5 * time.Second
	// firstToken is the name of the token that the first start makes.
	firstToken = "admin"
	// keyFile and tokenFile are in the data directory, readable by their owner only.
	keyFile, tokenFile = "secret-key", "admin-token"
	ownerOnly          = 0o600
)

// openDesired opens the store and reads the desired state.
func (d *Daemon) openDesired(ctx context.Context) error {
	cfg := d.config
	sealer, err := sealerOf(cfg)
	if err != nil {
		return err
	}
	if d.store, err = openStore(cfg); err != nil {
		d.store = nil // not an interface that holds a nil of the kind's type: abort closes what is not nil
		return err
	}
	d.control = control.New(d.store, sealer, fileOf(cfg), d.log.Named("control")) //nolint:contextcheck // it asks nothing yet
	switch kind := cfg.StoreKind(); {
	case !cfg.Operated() && !cfg.HasStore():
		return nil
	case kind == config.StoreMemory:
		d.log.Warn("what is registered through the admin API is kept in memory only and is gone when the daemon stops; give --data-dir to keep it")
	case kind == config.StoreEtcd && sealer == nil:
		d.log.Warn("there is no secret key: passwords of clusters can neither be registered nor read; give secrets.key_file or secrets.key_env, the same on all proxies")
	}
	limited, cancel := context.WithTimeout(ctx, syncWait)
	defer cancel()
	if err := d.sync(limited); err != nil {
		d.log.Warn("the store cannot be read yet; serving what the configuration declares, and trying on", zap.Error(err))
		return nil
	}
	if !cfg.Operated() {
		return nil
	}
	return d.makeFirstToken(ctx)
}

// sync reads the store, trying until ctx ends.
func (d *Daemon) sync(ctx context.Context) error {
	for {
		_, err := d.control.Sync(ctx)
		if err == nil || !errors.Is(err, store.ErrUnavailable) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func openStore(cfg *config.Config) (store.Store, error) {
	switch cfg.StoreKind() {
	case config.StoreBolt:
		return store.OpenBolt(cfg.StorePath())
	case config.StoreEtcd:
		e := &cfg.Store.Etcd
		secure, err := etcdTLS(e)
		if err != nil {
			return nil, err
		}
		return store.OpenEtcd(store.EtcdConfig{
			Endpoints: e.Endpoints, Prefix: e.Prefix, Username: e.Username, Password: e.Password.Reveal(), TLS: secure,
		})
	default:
		return store.NewMemory(), nil
	}
}

func etcdTLS(e *config.Etcd) (*tls.Config, error) {
	if !slices.ContainsFunc(e.Endpoints, func(endpoint string) bool { return strings.HasPrefix(endpoint, "https://") }) {
		return nil, nil
	}
	files := &config.ClusterTLS{Enabled: true}
	if t := e.TLS; t != nil {
		files.CA, files.Cert, files.Key, files.ServerName = t.CA, t.Cert, t.Key, t.ServerName
	}
	secure, err := clusterTLS(files)
	if err != nil {
		return nil, fmt.Errorf("store.etcd.tls: %w", err)
	}
	return secure, nil
}

// sealerOf is what protects passwords of clusters: the configured key, else one of the data directory, which is made when
// it is not there; nil without either.
func sealerOf(cfg *config.Config) (*control.Sealer, error) {
	key := cfg.Secrets.Key.Reveal()
	if key == "" && cfg.DataDir != "" && cfg.StoreKind() != config.StoreEtcd {
		var err error
		if key, err = keyIn(cfg.DataDir); err != nil {
			return nil, err
		}
	}
	if key == "" && cfg.StoreKind() == config.StoreMemory {
		key = control.NewKey() // for as long as the store lives
	}
	if key == "" {
		return nil, nil
	}
	return control.NewSealer(key)
}

func keyIn(dir string) (string, error) {
	path := filepath.Join(dir, keyFile)
	b, err := os.ReadFile(path) //nolint:gosec // the operator's folder
	switch {
	case err == nil:
		return strings.TrimSpace(string(b)), nil
	case !errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("cannot read the secret key: %w", err)
	}
	key := control.NewKey()
	if err := writeOwnerOnly(path, key+"\n"); err != nil {
		return "", fmt.Errorf("cannot write the secret key: %w", err)
	}
	return key, nil
}

// writeOwnerOnly writes a file that is there whole or not at all, whenever the machine stops.
func writeOwnerOnly(path, text string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*") // readable by the owner only
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	err = errors.Join(err, f.Chmod(ownerOnly), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return err
	}
	folder, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

// fileOf is what the configuration declares.
func fileOf(cfg *config.Config) *control.File { return control.NewFile(cfg, control.FileTokens(cfg)) }

// makeFirstToken makes a token when there is none, so that somebody can use the admin API.
func (d *Daemon) makeFirstToken(ctx context.Context) error {
	tokens, err := d.control.Tokens().List(ctx, nil)
	if err != nil || len(tokens) > 0 {
		return err
	}
	w := control.Write{
		Actor:   control.Actor{Name: "sluiced", Role: api.RoleAdmin, Reason: "first start"},
		Version: control.AnyVersion,
	}
	made, err := d.control.Tokens().Create(ctx, w, api.Token{Name: firstToken, Role: api.RoleAdmin})
	if refused := (*control.RefusedError)(nil); errors.As(err, &refused) {
		return nil // another proxy was faster
	}
	if changed := (*control.VersionError)(nil); errors.As(err, &changed) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot make the first token of the admin API: %w", err)
	}
	d.firstToken = made.Entity.Secret
	if d.config.DataDir == "" {
		return nil
	}
	if err := writeOwnerOnly(filepath.Join(d.config.DataDir, tokenFile), d.firstToken+"\n"); err != nil {
		return fmt.Errorf("cannot write the first token of the admin API: %w", err)
	}
	return nil
}

// closeStore ends the store when nothing uses it any more.
func (d *Daemon) closeStore() {
	if d.store != nil {
		_ = d.store.Close()
	}
}
