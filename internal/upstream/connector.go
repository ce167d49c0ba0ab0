package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/sluiceproxy/sluice/internal/loop"
)

// handshakeBuffer is go-redis's buffer in each direction of each connection, in bytes.
const handshakeBuffer = 4 << 10

// poolSize is more than the pipes and dedicated connections that one node can have; those bounds hold, not the pool's.
// After as many failed dials go-redis would stop dialling by itself and leave that to a goroutine of its own.
const poolSize = 1 << 14

// connector makes connections to one node for one target. go-redis owns them: it dials, runs TLS, HELLO, AUTH, SELECT and
// CLIENT SETNAME, counts them in its pool and closes them. The loop borrows the descriptor in between.
type connector struct {
	client *redis.Client
	target Target

	// mu serialises handshakes, so that lastUsed is the connection which the handshake under way speaks over. It guards
	// lastFailure, too.
	mu          sync.Mutex
	lastUsed    *borrowed
	lastFailure error
	failures    atomic.Int64 // of handshakes
}

func newConnector(cfg *Config, addr string, target Target) *connector {
	k := &connector{target: target}
	options := nodeOptions(cfg, addr)
	options.Dialer = k.dialer(cfg)
	options.Protocol, options.DB = target.Protocol(), target.Database()
	k.client = redis.NewClient(options)
	return k
}

// nodeOptions is what every client of a node has in common.
func nodeOptions(cfg *Config, addr string) *redis.Options {
	network, address := splitNetwork(addr)
	return &redis.Options{
		Network:                  network,
		Addr:                     address,
		Username:                 cfg.Username,
		Password:                 cfg.Password,
		ClientName:               "sluice",
		MaxRetries:               -1,
		DialerRetries:            1,
		DialTimeout:              cfg.ConnectTimeout,
		ReadTimeout:              cfg.ConnectTimeout,
		WriteTimeout:             cfg.ConnectTimeout,
		PoolSize:                 poolSize,
		ReadBufferSize:           handshakeBuffer, // go-redis speaks no more over a connection than the handshake
		WriteBufferSize:          handshakeBuffer,
		ConnMaxIdleTime:          -1,
		ContextTimeoutEnabled:    true,
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
}

func splitNetwork(addr string) (network, address string) {
	if path, isUnix := strings.CutPrefix(addr, "unix://"); isUnix {
		return "unix", path
	}
	return "tcp", addr
}

func (k *connector) dialer(cfg *Config) func(ctx context.Context, network, addr string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		nc, err := dialNode(ctx, cfg, network, addr)
		if err != nil {
			return nil, err
		}
		return &borrowed{Conn: nc, connector: k}, nil
	}
}

// dialNode opens a connection, with TLS when the cluster asks for it.
func dialNode(ctx context.Context, cfg *Config, network, addr string) (net.Conn, error) {
	dialer := &net.Dialer{Timeout: cfg.ConnectTimeout, KeepAlive: 30 * time.Second}
	if cfg.TLS == nil {
		return dialer.DialContext(ctx, network, addr)
	}
	secure := cfg.TLS.Clone()
	if secure.ServerName == "" {
		secure.ServerName, _, _ = net.SplitHostPort(addr)
	}
	return (&tls.Dialer{NetDialer: dialer, Config: secure}).DialContext(ctx, network, addr)
}

// borrowed is the net.Conn that go-redis holds for a connection which the loop may have taken over.
type borrowed struct {
	net.Conn
	connector *connector
	once      sync.Once
	taken     bool
}

// Write notes that the handshake under way speaks over this connection. The connector's lock is held by the handshake.
func (b *borrowed) Write(p []byte) (int, error) {
	b.connector.lastUsed = b
	return b.Conn.Write(p)
}

// Close closes the connection unless a loop owns it.
func (b *borrowed) Close() (err error) {
	b.once.Do(func() {
		if !b.taken {
			err = b.Conn.Close()
		}
	})
	return err
}

// lease is a connection taken out of go-redis's pool for a loop. It is the Link of a poolDialer.
type lease struct {
	cluster *Cluster
	conn    *redis.Conn
	nc      *borrowed
	fd      int // of a plain connection where there is epoll; else -1
}

// errNoRESP3 is what a cluster that cannot speak RESP3 answers to.
var errNoRESP3 = errors.New("the node does not speak RESP3")

// checkout makes a connection whose handshake is done within the timeout. It blocks; never on a loop. The wait for its turn
// does not count: with many at once a busy node would be taken for one that cannot be reached. But those that wait while a
// handshake fails fail with it, so that a silent node does not cost each of them a timeout.
func (k *connector) checkout(ctx context.Context, timeout time.Duration) (*lease, error) {
	failures := k.failures.Load()
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err // it has waited for its turn; go-redis would dial all the same and keep the connection idle
	}
	if k.failures.Load() != failures {
		return nil, k.lastFailure
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	conn := k.client.EphemeralConn()
	if err := k.handshake(ctx, conn); err != nil {
		_ = conn.Close()
		k.lastFailure = err
		k.failures.Add(1)
		return nil, err
	}
	b := k.lastUsed
	k.lastUsed = nil
	fd, plain, err := -1, false, error(nil)
	if loop.HasEpoll {
		fd, plain, err = loop.TakeDescriptor(b.Conn)
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	if !plain {
		_ = b.SetDeadline(time.Time{})
	}
	b.taken = true
	return &lease{conn: conn, nc: b, fd: fd}, nil
}

// handshake makes go-redis dial and set the connection up, and asks for proof that it did.
func (k *connector) handshake(ctx context.Context, conn *redis.Conn) error {
	if k.target.Protocol() == 2 {
		return conn.Ping(ctx).Err()
	}
	if err := conn.Ping(ctx).Err(); err != nil {
		return err
	}
	// go-redis goes on in RESP2 when HELLO 3 is refused; a RESP3 session must not get RESP2 replies.
	if err := conn.Hello(ctx, 3, "", "", "").Err(); err != nil {
		return fmt.Errorf("%w: %w", errNoRESP3, err)
	}
	return nil
}

// Attach implements Link.
func (le *lease) Attach(c *loop.Conn) error {
	if le.fd >= 0 {
		return c.Loop().AttachFD(c, le.fd)
	}
	c.Loop().AttachStream(c, le.nc.Conn)
	return nil
}

// Drop implements Link. Closing may block, so it is done off the loop.
func (le *lease) Drop() {
	le.cluster.spawn(func() {
		closeDescriptor(le.fd)
		if le.fd < 0 {
			_ = le.nc.Conn.Close()
		}
		_ = le.conn.Close()
	})
}

// Release implements Link: go-redis takes the connection off its books.
func (le *lease) Release() {
	le.cluster.spawn(func() { _ = le.conn.Close() })
}
