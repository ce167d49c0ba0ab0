package daemon

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/sluiceproxy/sluice/internal/config"
	"github.com/sluiceproxy/sluice/internal/facade"
	"github.com/sluiceproxy/sluice/internal/server"
	"github.com/sluiceproxy/sluice/internal/tenant"
	"github.com/sluiceproxy/sluice/internal/upstream"
)

// embedded is the backend inside the daemon, for trying. Its data is in memory only.
type embedded struct{ redis *miniredis.Miniredis }

func (e *embedded) close() {
	if e != nil {
		e.redis.Close()
	}
}

// cluster makes a cluster. What is remembered of the scripts of the one that it replaces, nil for none, is its own too.
func (d *Daemon) cluster(cfg *config.Config, c *config.Cluster, replaces *liveCluster) (*upstream.Cluster, error) {
	if c.Kind == config.EmbeddedKind {
		if err := d.startEmbedded(); err != nil {
			return nil, err
		}
	}
	made, err := upstreamConfig(c)
	if err != nil {
		return nil, err
	}
	if c.Kind == config.EmbeddedKind {
		made.Addresses = []string{d.embedded.redis.Addr()}
	}
	made.Pipes = upstream.PipesConfig{
		Max: cfg.Pipes.Max, GrowDelay: cfg.Pipes.GrowDelay, IdleTimeout: cfg.Pipes.IdleTimeout, MaxInflight: cfg.Pipes.MaxInflight,
		Window: cfg.Pipes.Window, Limit: cfg.Pipes.Limit,
	}
	made.Dedicated = upstream.DedicatedConfig{
		Min: cfg.Dedicated.Min, Max: cfg.Dedicated.Max, Wait: cfg.Dedicated.Wait, IdleTimeout: cfg.Dedicated.IdleTimeout,
	}
	made.StreamThreshold = int64(cfg.StreamThreshold)
	if replaces != nil {
		made.Scripts = replaces.cluster.Scripts()
	}
	return upstream.NewCluster(made, d.loops, d.log.Logger), nil
}

// upstreamConfig is what a cluster's nodes are reached by.
func upstreamConfig(c *config.Cluster) (upstream.Config, error) {
	kind := upstream.Standalone
	if c.Kind == config.RedisCluster {
		kind = upstream.Sharded
	}
	secure, err := clusterTLS(c.TLS)
	if err != nil {
		return upstream.Config{}, fmt.Errorf("cluster %q: %w", c.Name, err)
	}
	return upstream.Config{
		Name: c.Name, Kind: kind, Addresses: c.Addresses,
		Username: c.Auth.Username, Password: c.Auth.Password.Reveal(), TLS: secure,
		ConnectTimeout: c.ConnectTimeout, RefreshInterval: c.RefreshInterval,
	}, nil
}

func (d *Daemon) startEmbedded() error {
	if d.embedded != nil {
		return nil
	}
	redis := miniredis.NewMiniRedis()
	if err := redis.StartAddr("127.0.0.1:0"); err != nil {
		return fmt.Errorf("cannot start the embedded backend: %w", err)
	}
	d.embedded = &embedded{redis: redis}
	return nil
}

func registryOf(wanted []config.Tenant, options ...tenant.Option) (*tenant.Registry, error) {
	tenants := make([]*tenant.Tenant, 0, len(wanted))
	for i := range wanted {
		t, err := tenantOf(&wanted[i])
		if err != nil {
			return nil, err
		}
		tenants = append(tenants, t)
	}
	return tenant.NewRegistry(tenants, options...)
}

func tenantOf(t *config.Tenant) (*tenant.Tenant, error) {
	mode, ok := tenant.ParseCrossSlot(t.CrossSlot)
	if !ok {
		return nil, fmt.Errorf("tenant %q: cross_slot %q is neither split nor error", t.Name, t.CrossSlot)
	}
	front, ok := tenant.ParseFrontend(t.Frontend)
	if !ok {
		return nil, fmt.Errorf("tenant %q: frontend %q is neither standalone nor cluster", t.Name, t.Frontend)
	}
	if front == tenant.FrontCluster {
		mode = tenant.Error // clients in cluster mode split by themselves
	}
	users := make(map[string]*tenant.User, len(t.Users))
	for i := range t.Users {
		verifier, err := verifierOf(&t.Users[i])
		if err != nil {
			return nil, fmt.Errorf("tenant %q: user %q: %w", t.Name, t.Users[i].Name, err)
		}
		users[t.Users[i].Name] = tenant.NewUser(t.Users[i].Name, verifier)
	}
	return &tenant.Tenant{
		Name: t.Name, Cluster: t.Cluster, Databases: t.Databases, Users: users, CrossSlot: mode, Frontend: front,
		Closed: t.Closed, Trusted: t.Trusted, AdminModules: t.AdminModules, NoScripts: t.NoScripts,
		ConnectTimeout: t.ConnectTimeout, CommandTimeout: t.CommandTimeout,
	}, nil
}

func verifierOf(u *config.User) (tenant.Verifier, error) {
	switch {
	case !u.SHA256.Empty():
		return tenant.ParseSHA256(u.SHA256.Reveal())
	case !u.Argon2id.Empty():
		return tenant.ParseArgon2id(u.Argon2id.Reveal())
	default:
		return tenant.VerifierOf(u.Password.Reveal()), nil
	}
}

func listenersOf(wanted []config.Listener) ([]server.Listener, error) {
	var all []server.Listener
	for _, l := range wanted {
		network, address := l.Network()
		secure, err := listenerTLS(l.TLS)
		if err != nil {
			return nil, fmt.Errorf("listener %s: %w", l.Address, err)
		}
		all = append(all, server.Listener{Network: network, Address: address, Tenant: l.Tenant, TLS: secure, Mode: os.FileMode(l.Mode)})
	}
	return all, nil
}

// fleetsOf is what the listeners tell clients in cluster mode.
func fleetsOf(listeners []config.Listener) []facade.Fleet {
	fleets := make([]facade.Fleet, len(listeners))
	for i, l := range listeners {
		fleets[i].TLS = l.TLS != nil
		fleets[i].Self, _ = facade.ParseEndpoint(l.AdvertiseSelf)
		for _, address := range l.Advertise {
			if e, ok := facade.ParseEndpoint(address); ok { // validated
				fleets[i].Endpoints = append(fleets[i].Endpoints, e)
			}
		}
	}
	return fleets
}

func listenerTLS(l *config.ListenerTLS) (*tls.Config, error) {
	if l == nil {
		return nil, nil
	}
	certificate, err := tls.LoadX509KeyPair(l.Cert, l.Key)
	if err != nil {
		return nil, fmt.Errorf("cannot load the certificate: %w", err)
	}
	secure := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{certificate}}
	if l.ClientCA != "" {
		if secure.ClientCAs, err = pool(l.ClientCA); err != nil {
			return nil, err
		}
		secure.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return secure, nil
}

func clusterTLS(c *config.ClusterTLS) (*tls.Config, error) {
	if c == nil || !c.Enabled {
		return nil, nil
	}
	secure := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: c.ServerName, InsecureSkipVerify: c.InsecureSkipVerify} //nolint:gosec // the operator's choice, off by default
	var err error
	if c.CA != "" {
		if secure.RootCAs, err = pool(c.CA); err != nil {
			return nil, err
		}
	}
	if c.Cert != "" {
		certificate, err := tls.LoadX509KeyPair(c.Cert, c.Key)
		if err != nil {
			return nil, fmt.Errorf("cannot load the client certificate: %w", err)
		}
		secure.Certificates = []tls.Certificate{certificate}
	}
	return secure, nil
}

func pool(file string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(file) //nolint:gosec // the operator's file
	if err != nil {
		return nil, fmt.Errorf("cannot read the certificate authority: %w", err)
	}
	authorities := x509.NewCertPool()
	if !authorities.AppendCertsFromPEM(pem) {
		return nil, errors.New("cannot read the certificate authority: no certificate in " + file)
	}
	return authorities, nil
}

// awaitReady gives new clusters a moment to connect before sessions are sent to them.
func awaitReady(ctx context.Context, clusters []*upstream.Cluster, limit time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for _, c := range clusters {
		for {
			if ready, _ := c.Ready(); ready {
				break
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
	}
}

// Check builds what Load does not: certificates, users and routes. It opens nothing.
func Check(cfg *config.Config) error {
	if _, err := registryOf(cfg.Tenants); err != nil {
		return err
	}
	if _, err := listenersOf(cfg.Listeners); err != nil {
		return err
	}
	for i := range cfg.Clusters {
		if _, err := clusterTLS(cfg.Clusters[i].TLS); err != nil {
			return fmt.Errorf("cluster %q: %w", cfg.Clusters[i].Name, err)
		}
	}
	return nil
}
